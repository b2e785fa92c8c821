/*
 * Keyed hashes of 16 bytes, by OpenSSL's libcrypto, which is loaded when the first one is opened:
 * the library starts without it. One is used by one thread at a time.
 */
#ifndef AQI_MAC_H
#define AQI_MAC_H

#include "base/base.h"

#include <sys/uio.h>

enum aqi_mac_kind {
    AQI_MAC_HMAC,   /* HMAC-SHA256, truncated: for secrets that live long */
    AQI_MAC_SIPHASH /* SipHash-2-4 of 128 bits: needs no nonce, and is the fastest of libcrypto's
                       where packets are short and each peer has a key of its own */
};
#define AQI_MAC_BYTES 16 /* of a key and of a tag */

struct aqi_mac;

/* NULL: libcrypto is here; else why not and what to do. */
const char *aqi_mac_missing(void);

aq_status aqi_mac_open(enum aqi_mac_kind kind, struct aqi_mac **mac);
void aqi_mac_close(struct aqi_mac *mac);

/* The hash of the pieces, one after the other. If it fails, for want of memory, it is a random one,
 * which is that of nothing. */
void aqi_mac_of(struct aqi_mac *mac, const uint8_t key[AQI_MAC_BYTES], const struct iovec *iov,
                unsigned niov, uint8_t tag[AQI_MAC_BYTES]);

/* Are two hashes the same? It takes as long where they differ early as where they differ late. */
static inline bool aqi_mac_same(const uint8_t a[AQI_MAC_BYTES], const uint8_t b[AQI_MAC_BYTES])
{
    uint8_t differ = 0;
    for (unsigned i = 0; i < AQI_MAC_BYTES; i++)
        differ |= (uint8_t)(a[i] ^ b[i]);
    return differ == 0;
}

#endif
