/* Copying large blocks of memory by the method that is fastest here. */
#include "base/copy.h"

#include "base/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

size_t aqi_copy_least = SIZE_MAX;

static enum aqi_copy_method configured = AQI_COPY_MEMCPY;

static void copy_by_memcpy(unsigned char *dst, const unsigned char *src, size_t len)
{
    memcpy(dst, src, len);
}

#if defined(__x86_64__)

static bool copy_has_string_move(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 9) != 0; /* ERMS */
}

static void copy_by_string_move(unsigned char *dst, const unsigned char *src, size_t len)
{
    __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len) : : "memory");
}

enum { AHEAD = 1024 }; /* prefetch distance in bytes */

static inline void copy_stream_line(unsigned char *dst, const unsigned char *src)
{
    const __m128i *from = (const __m128i *)(const void *)src;
    __m128i *to = (__m128i *)(void *)dst;
    __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
}

/* Copy up to the first cache line boundary of `dst`; returns the number of bytes. */
static size_t copy_head(unsigned char *dst, const unsigned char *src, size_t len)
{
    size_t head = aqi_min((0 - (uintptr_t)dst) % AQI_CACHE_LINE, len);
    memcpy(dst, src, head);
    return head;
}

static void copy_by_streaming(unsigned char *dst, const unsigned char *src, size_t len)
{
    size_t at = copy_head(dst, src, len);
    for (; len - at >= AQI_CACHE_LINE; at += AQI_CACHE_LINE) {
        _mm_prefetch((const char *)src + at + AHEAD, _MM_HINT_NTA);
        copy_stream_line(dst + at, src + at);
    }
    memcpy(dst + at, src + at, len - at);
    _mm_sfence(); /* non-temporal stores are unordered */
}

/*
 * No software prefetch: it halves the speed on some processors. The hardware prefetcher follows all
 * four streams, which use more of the memory bandwidth than one or two.
 */
static void copy_by_pages(unsigned char *dst, const unsigned char *src, size_t len)
{
    enum { PAGE = 4096 };
    size_t at = copy_head(dst, src, len);
    for (; len - at >= 4 * PAGE; at += 4 * PAGE)
        for (size_t i = at; i < at + PAGE; i += AQI_CACHE_LINE) {
            copy_stream_line(dst + i, src + i);
            copy_stream_line(dst + i + PAGE, src + i + PAGE);
            copy_stream_line(dst + i + 2 * PAGE, src + i + 2 * PAGE);
            copy_stream_line(dst + i + 3 * PAGE, src + i + 3 * PAGE);
        }
    memcpy(dst + at, src + at, len - at);
    _mm_sfence();
}

#else

static bool copy_has_string_move(void)
{
    return false;
}
#define copy_by_string_move copy_by_memcpy
#define copy_by_streaming   copy_by_memcpy
#define copy_by_pages       copy_by_memcpy

#endif

static void (*const methods[AQI_COPY_METHODS])(unsigned char *, const unsigned char *, size_t) = {
    [AQI_COPY_MEMCPY] = copy_by_memcpy,
    [AQI_COPY_STRING] = copy_by_string_move,
    [AQI_COPY_STREAM] = copy_by_streaming,
    [AQI_COPY_PAGES] = copy_by_pages,
};

/*
 * Timings of copies of about one size. Each method makes RUN copies in a row, since its own copies
 * leave the caches in the state that suits it, and is judged by its fastest copy: other load on the
 * machine only makes copies slower. The winner then makes ROUND copies before all methods are timed
 * again. Threads that copy at the same time may distort a timing, but never a copy.
 */
enum { RUN = 4, TRIALS = RUN * AQI_COPY_METHODS, ROUND = 500, CLASSES = 8 };

/* Bypassing the caches never pays for data that fits in them. */
#define STREAM_LEAST ((size_t)8 << 20)

struct finding {
    _Atomic uint32_t copies;
    _Atomic uint32_t winner;
    _Atomic uint64_t cost[AQI_COPY_METHODS]; /* ns per MiB */
};
static struct finding findings[CLASSES];

static bool copy_usable(enum aqi_copy_method method)
{
    static _Atomic int string_move = -1;
    if (method != AQI_COPY_STRING) return true;
    if (atomic_load_explicit(&string_move, memory_order_relaxed) < 0)
        atomic_store_explicit(&string_move, copy_has_string_move(), memory_order_relaxed);
    return atomic_load_explicit(&string_move, memory_order_relaxed) != 0;
}

static struct finding *copy_finding_of(size_t len)
{
    size_t class = 0;
    for (size_t size = len >> 21; size > 0 && class < CLASSES - 1; size >>= 1)
        class ++;
    return &findings[class];
}

static void copy_judge(struct finding *f)
{
    uint32_t winner = AQI_COPY_MEMCPY;
    for (uint32_t m = 0; m < AQI_COPY_METHODS; m++)
        if (atomic_load_explicit(&f->cost[m], memory_order_relaxed) - 1 <
            atomic_load_explicit(&f->cost[winner], memory_order_relaxed) - 1)
            winner = m; /* an untimed method has cost 0, which the subtraction makes the highest */
    atomic_store_explicit(&f->winner, winner, memory_order_relaxed);
}

static void copy_try_method(struct finding *f, uint32_t trial, void *dst, const void *src,
                            size_t len)
{
    enum aqi_copy_method method = (enum aqi_copy_method)(trial / RUN);
    if (!copy_usable(method) || (method >= AQI_COPY_STREAM && len < STREAM_LEAST))
        method = AQI_COPY_MEMCPY;
    uint64_t begun = aqi_now_ns();
    aqi_copy_by(method, dst, src, len);
    uint64_t cost = (aqi_now_ns() - begun) / ((len >> 20) + 1);
    uint64_t best = atomic_load_explicit(&f->cost[method], memory_order_relaxed);
    if (best == 0 || cost < best)
        atomic_store_explicit(&f->cost[method], cost, memory_order_relaxed);
    if (trial == TRIALS - 1) copy_judge(f);
}

void aqi_copy_by(enum aqi_copy_method method, void *dst, const void *src, size_t len)
{
    methods[copy_usable(method) ? method : AQI_COPY_MEMCPY](dst, src, len);
}

void aqi_copy_large(void *dst, const void *src, size_t len)
{
    if (configured != AQI_COPY_AUTO) {
        aqi_copy_by(configured, dst, src, len);
        return;
    }
    struct finding *f = copy_finding_of(len);
    uint32_t copies = atomic_load_explicit(&f->copies, memory_order_relaxed);
    atomic_store_explicit(&f->copies, copies + 1, memory_order_relaxed);
    uint32_t trial = copies % (TRIALS + ROUND);
    if (trial < TRIALS)
        copy_try_method(f, trial, dst, src, len);
    else
        aqi_copy_by((enum aqi_copy_method)atomic_load_explicit(&f->winner, memory_order_relaxed),
                    dst, src, len);
}

void aqi_copy_configure(enum aqi_copy_method method, size_t least)
{
    configured = method;
    aqi_copy_least = method == AQI_COPY_MEMCPY ? SIZE_MAX : least;
}

/* --- pieces ---------------------------------------------------------------------------------- */

/* Four at a time, to keep the overhead of the loop small. */
#define COPY_FIXED(size)                                                                           \
    case size:                                                                                     \
        for (; count >= 4; count -= 4, dst += 4 * dst_step, src += 4 * src_step) {                 \
            memcpy(dst, src, size);                                                                \
            memcpy(dst + dst_step, src + src_step, size);                                          \
            memcpy(dst + 2 * dst_step, src + 2 * src_step, size);                                  \
            memcpy(dst + 3 * dst_step, src + 3 * src_step, size);                                  \
        }                                                                                          \
        for (; count > 0; count--, dst += dst_step, src += src_step)                               \
            memcpy(dst, src, size);                                                                \
        return

void aqi_copy_pieces(unsigned char *dst, int64_t dst_step, const unsigned char *src,
                     int64_t src_step, size_t len, size_t count)
{
    if (count == 1 || (dst_step == (int64_t)len && src_step == (int64_t)len)) {
        aqi_copy(dst, src, len * count);
        return;
    }
    switch (len) {
        COPY_FIXED(1);
        COPY_FIXED(2);
        COPY_FIXED(4);
        COPY_FIXED(8);
        COPY_FIXED(16);
        COPY_FIXED(32);
        COPY_FIXED(64);
    default:
        for (size_t i = 0; i < count; i++, dst += dst_step, src += src_step)
            aqi_copy(dst, src, len);
    }
}
