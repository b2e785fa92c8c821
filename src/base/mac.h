/*
 * Keyed hashes of 16 bytes by OpenSSL's libcrypto, which is loaded when the first one is opened, so
 * the library starts without it. Not thread-safe.
 */
#ifndef AQI_MAC_H
#define AQI_MAC_H

#include "base/base.h"

#include <sys/uio.h>

enum aqi_mac_kind {
    AQI_MAC_HMAC,   /* truncated HMAC-SHA256, for long-lived secrets */
    AQI_MAC_SIPHASH /* 128-bit SipHash-2-4: needs no nonce, and is the fastest in libcrypto for
                       short packets with one key per peer */
};
#define AQI_MAC_BYTES 16 /* of a key, and of a tag */

struct aqi_mac;

/* Returns NULL if libcrypto is usable; otherwise why not and what to do. */
const char *aqi_mac_missing(void);

aq_status aqi_mac_open(enum aqi_mac_kind kind, struct aqi_mac **mac);
void aqi_mac_close(struct aqi_mac *mac);

/*
 * Hash the concatenated pieces. If that fails for lack of memory, the result is random and so never
 * matches.
 */
void aqi_mac_of(struct aqi_mac *mac, const uint8_t key[AQI_MAC_BYTES], const struct iovec *iov,
                unsigned niov, uint8_t tag[AQI_MAC_BYTES]);

/* Compare two hashes in constant time. */
static inline bool aqi_mac_same(const uint8_t a[AQI_MAC_BYTES], const uint8_t b[AQI_MAC_BYTES])
{
    uint8_t differ = 0;
    for (unsigned i = 0; i < AQI_MAC_BYTES; i++)
        differ |= (uint8_t)(a[i] ^ b[i]);
    return differ == 0;
}

#endif
