/* Data that identifies its origin: byte i of the stream `seed`. */
#ifndef AQT_DATA_H
#define AQT_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* splitmix64: neighboring inputs give unrelated outputs. */
static inline uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static inline void fill(void *buf, size_t len, uint64_t seed)
{
    unsigned char *bytes = buf;
    for (size_t done = 0; done < len; done += 8) {
        uint64_t word = mix(seed + done);
        if (len - done >= sizeof(word))
            memcpy(bytes + done, &word, sizeof(word));
        else
            memcpy(bytes + done, &word, len - done);
    }
}

static inline bool filled(const void *buf, size_t len, uint64_t seed)
{
    const unsigned char *bytes = buf;
    for (size_t done = 0; done < len; done += 8) {
        uint64_t word = mix(seed + done), seen = word;
        if (len - done >= sizeof(word))
            memcpy(&seen, bytes + done, sizeof(word));
        else
            memcpy(&seen, bytes + done, len - done);
        if (seen != word) return false;
    }
    return true;
}

#endif
