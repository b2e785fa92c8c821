/* For tests: a keyed hash that detects alterations, though it is not cryptographic. */
#ifndef DGRAM_MAC_TEST_H
#define DGRAM_MAC_TEST_H

#include "base/base.h"

#include <string.h>
#include <sys/uio.h>

/* As aqi_dgram_hooks.mac. */
static inline void test_mac(void *arg, const char *use, const uint8_t key[16],
                            const struct iovec *iov, unsigned niov, uint8_t tag[16])
{
    uint64_t hash[2];
    (void)arg;
    memcpy(hash, key, 16);
    for (; use != NULL && *use != 0; use++)
        hash[1] = (hash[1] + (unsigned char)*use) * 0x9e3779b97f4a7c15u;
    for (unsigned i = 0; i < niov; i++)
        for (size_t at = 0; at < iov[i].iov_len; at++) {
            hash[0] = (hash[0] ^ ((unsigned char *)iov[i].iov_base)[at]) * 1099511628211u;
            hash[1] = (hash[1] + hash[0]) * 0x9e3779b97f4a7c15u;
        }
    memcpy(tag, hash, 16);
}

#endif
