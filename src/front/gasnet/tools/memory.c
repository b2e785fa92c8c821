/* Blocks of memory for gasnet_tools.h: a checksum, and counting zero bytes. */
#include "tools.h"

uint64_t gasnett_checksum(const void *p, int numbytes)
{
    /* FNV-1a, the same on every machine */
    const unsigned char *bytes = p;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < numbytes; i++)
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* Count zero bytes: the expression sets the high bit of each nonzero byte before it is inverted. */
static int memory_zeros(uint64_t x)
{
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    return __builtin_popcountll(~(((x & low) + low) | x | low));
}

AQG_DEFINE(int, gasnett_count0s_uint64_t, (uint64_t x), memory_zeros(x))
AQG_DEFINE(int, gasnett_count0s_uint32_t, (uint32_t x), memory_zeros(x) - 4)
AQG_DEFINE(int, gasnett_count0s_uintptr_t, (uintptr_t x), memory_zeros(x) - (8 - (int)sizeof(x)))

size_t gasnett_count0s(const void *p, size_t n)
{
    const unsigned char *bytes = p;
    size_t zeros = 0;
    for (; n >= sizeof(uint64_t); n -= sizeof(uint64_t), bytes += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, bytes, sizeof(word));
        zeros += (size_t)memory_zeros(word);
    }
    for (; n > 0; n--)
        zeros += *bytes++ == 0;
    return zeros;
}

size_t gasnett_count0s_copy(void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
    return gasnett_count0s(dst, n);
}
