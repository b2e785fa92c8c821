/*
 * Proofs that a process knows a secret, keys derived from secrets, and tags of packets: keyed
 * hashes of 16 bytes by OpenSSL's libcrypto, which is loaded when the first one is opened, so the
 * library starts without it. Not thread-safe.
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
#define AQI_MAC_USE   16 /* maximum length of the name of a use */

struct aqi_mac;

/* Returns NULL if libcrypto is usable; otherwise why not and what to do. */
const char *aqi_mac_missing(void);

aq_status aqi_mac_open(enum aqi_mac_kind kind, struct aqi_mac **mac);
void aqi_mac_close(struct aqi_mac *mac);

/*
 * Hash the concatenated pieces. If memory runs out, the result is random and so never matches.
 * `use` separates several uses of one secret, with HMAC: the hash, which may be a proof or a key
 * for that use, is not valid for any other. It is a name of at most AQI_MAC_USE characters; NULL:
 * the key has only one use.
 */
void aqi_mac_for(struct aqi_mac *mac, const char *use, const uint8_t secret[AQI_MAC_BYTES],
                 const struct iovec *iov, unsigned niov, uint8_t tag[AQI_MAC_BYTES]);

static inline void aqi_mac_of(struct aqi_mac *mac, const uint8_t key[AQI_MAC_BYTES],
                              const struct iovec *iov, unsigned niov, uint8_t tag[AQI_MAC_BYTES])
{
    aqi_mac_for(mac, NULL, key, iov, niov, tag);
}

/* Hash one piece. */
static inline void aqi_mac_bytes(struct aqi_mac *mac, const char *use,
                                 const uint8_t key[AQI_MAC_BYTES], const void *bytes, size_t len,
                                 uint8_t tag[AQI_MAC_BYTES])
{
    const struct iovec piece = {(void *)(uintptr_t)bytes, len};
    aqi_mac_for(mac, use, key, &piece, 1, tag);
}

/* For protocols that prove a secret, then send packets with a key derived from it. */
struct aqi_macs {
    struct aqi_mac *proofs;  /* HMAC */
    struct aqi_mac *packets; /* SipHash */
};
aq_status aqi_macs_open(struct aqi_macs *macs);
void aqi_macs_close(struct aqi_macs *macs);
/* Hash as aqi_mac_for: for a `use` by HMAC; NULL: the tag of a packet, by SipHash. */
static inline void aqi_macs_of(const struct aqi_macs *macs, const char *use,
                               const uint8_t key[AQI_MAC_BYTES], const struct iovec *iov,
                               unsigned niov, uint8_t tag[AQI_MAC_BYTES])
{
    aqi_mac_for(use != NULL ? macs->proofs : macs->packets, use, key, iov, niov, tag);
}

/* Compare in constant time: a peer must not find a hash or secret byte by byte. */
static inline bool aqi_secret_same(const void *a, const void *b, size_t len)
{
    uint8_t differ = 0;
    for (size_t i = 0; i < len; i++)
        differ |= ((const uint8_t *)a)[i] ^ ((const uint8_t *)b)[i];
    return differ == 0;
}

static inline bool aqi_mac_same(const uint8_t a[AQI_MAC_BYTES], const uint8_t b[AQI_MAC_BYTES])
{
    return aqi_secret_same(a, b, AQI_MAC_BYTES);
}

#endif
