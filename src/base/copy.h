/*
 * Copying large blocks of memory by the fastest method, which depends on the processor (by up to a
 * factor of two) and on the size.
 */
#ifndef AQI_COPY_H
#define AQI_COPY_H

#include "base/base.h"

#include <stdatomic.h>
#include <string.h>

enum aqi_copy_method {
    AQI_COPY_MEMCPY, /* memcpy of the C library */
    AQI_COPY_STRING, /* the string move of the processor */
    AQI_COPY_STREAM, /* non-temporal stores */
    AQI_COPY_PAGES,  /* the same, four pages at a time */
    AQI_COPY_METHODS,
    AQI_COPY_AUTO = AQI_COPY_METHODS /* chosen by timing the copies */
};

/* Use `method` for copies of at least `least` bytes; memcpy if the processor lacks it. */
void aqi_copy_configure(enum aqi_copy_method method, size_t least);

/* For tests: use this method regardless of the configuration. */
void aqi_copy_by(enum aqi_copy_method method, void *dst, const void *src, size_t len);

extern size_t aqi_copy_least;
void aqi_copy_large(void *dst, const void *src, size_t len);

/* Like memcpy. The bytes become visible to other processors before later stores of this one. */
static inline void aqi_copy(void *dst, const void *src, size_t len)
{
    if (len == sizeof(uint64_t)) /* one load and one store, neither a call nor a loop over bytes */
        memcpy(dst, src, sizeof(uint64_t));
    else if (len == sizeof(uint32_t))
        memcpy(dst, src, sizeof(uint32_t));
    else if (AQI_LIKELY(len < aqi_copy_least))
        memcpy(dst, src, len);
    else
        aqi_copy_large(dst, src, len);
}

/* Like memcpy for 1 to 8 bytes, without a call. */
static AQI_INLINE void aqi_copy_short(void *dst, const void *src, size_t len)
{
    unsigned char *to = dst;
    const unsigned char *from = src;
    uint64_t word8;
    uint32_t first4, last4; /* the two words may overlap */
    uint16_t first2, last2;
    if (AQI_LIKELY(len == sizeof(word8))) {
        memcpy(&word8, from, sizeof(word8));
        memcpy(to, &word8, sizeof(word8));
    } else if (len == sizeof(first4)) {
        memcpy(&first4, from, sizeof(first4));
        memcpy(to, &first4, sizeof(first4));
    } else if (len > sizeof(first4)) {
        memcpy(&first4, from, sizeof(first4));
        memcpy(&last4, from + len - sizeof(last4), sizeof(last4));
        memcpy(to, &first4, sizeof(first4));
        memcpy(to + len - sizeof(last4), &last4, sizeof(last4));
    } else if (len >= sizeof(first2)) {
        memcpy(&first2, from, sizeof(first2));
        memcpy(&last2, from + len - sizeof(last2), sizeof(last2));
        memcpy(to, &first2, sizeof(first2));
        memcpy(to + len - sizeof(last2), &last2, sizeof(last2));
    } else {
        *to = *from;
    }
}

/*
 * Like memcpy, for up to AQI_COPY_FEW bytes, without a call. A word of 4 or 8 bytes is stored only
 * once, since a thread that waits for it may change it as soon as it arrives. The end is stored
 * first: the caller next writes what precedes the bytes, such as the head of a message, so each of
 * the two cache lines has to be fetched only once from a peer that watches them.
 */
enum { AQI_COPY_FEW = 64 };
static AQI_INLINE void aqi_copy_few(void *dst, const void *src, size_t len)
{
    typedef struct {
        uint64_t words[2];
    } block;
    unsigned char *to = dst;
    const unsigned char *from = src;
    block a, b, c, d; /* those from the end may overlap those from the beginning */
    if (AQI_LIKELY(len <= sizeof(uint64_t))) {
        if (len != 0) aqi_copy_short(to, from, len);
    } else if (len <= sizeof(block)) {
        memcpy(&a.words[0], from, sizeof(uint64_t));
        memcpy(&a.words[1], from + len - sizeof(uint64_t), sizeof(uint64_t));
        memcpy(to, &a.words[0], sizeof(uint64_t));
        memcpy(to + len - sizeof(uint64_t), &a.words[1], sizeof(uint64_t));
    } else {
        memcpy(&a, from, sizeof(block));
        memcpy(&d, from + len - sizeof(block), sizeof(block));
        if (len > 2 * sizeof(block)) {
            memcpy(&b, from + sizeof(block), sizeof(block));
            memcpy(&c, from + len - 2 * sizeof(block), sizeof(block));
        }
        memcpy(to + len - sizeof(block), &d, sizeof(block));
        if (len > 2 * sizeof(block)) {
            memcpy(to + len - 2 * sizeof(block), &c, sizeof(block));
            memcpy(to + sizeof(block), &b, sizeof(block));
        }
        memcpy(to, &a, sizeof(block));
    }
}

/* Like memcpy, without a call if there are few bytes. */
static AQI_INLINE void aqi_copy_mostly_few(void *dst, const void *src, size_t len)
{
    if (AQI_LIKELY(len <= AQI_COPY_FEW))
        aqi_copy_few(dst, src, len);
    else
        memcpy(dst, src, len);
}

/*
 * Write the data of a put to memory that a thread may be polling. Like memcpy, but an aligned word
 * of 4 or 8 bytes is stored atomically, with release order.
 */
static inline void aqi_copy_put(void *dst, const void *src, size_t len)
{
    uint64_t word8;
    uint32_t word4;
    if (len == sizeof(word8) && (uintptr_t)dst % sizeof(word8) == 0) {
        memcpy(&word8, src, sizeof(word8));
        atomic_store_explicit((_Atomic uint64_t *)dst, word8, memory_order_release);
    } else if (len == sizeof(word4) && (uintptr_t)dst % sizeof(word4) == 0) {
        memcpy(&word4, src, sizeof(word4));
        atomic_store_explicit((_Atomic uint32_t *)dst, word4, memory_order_release);
    } else {
        aqi_copy(dst, src, len);
    }
}

/* Copy `count` pieces of `len` bytes; the steps are the distances from one piece to the next. */
void aqi_copy_pieces(unsigned char *dst, int64_t dst_step, const unsigned char *src,
                     int64_t src_step, size_t len, size_t count);

#endif
