/*
 * The encoding of the handshake messages that connect two processes that were not started together:
 * fixed-width little-endian fields, then an address, a key and data. Their contents are not
 * trusted.
 *
 *   client                      server
 *   CALL    ------------------>           the client's identity, address and data
 *           <------------------  ACCEPT   the server's, and the memory that it exposes
 *   CONFIRM ------------------>           the memory that the client exposes: both are open
 *
 * or REFUSE (with the reason), or BUSY (try again later). BYE announces an orderly close.
 */
#ifndef AQI_HELLO_H
#define AQI_HELLO_H

#include "transport/transport.h"

#define AQI_HELLO_HEADER   64
#define AQI_HELLO_DATA_MAX (32u << 10)
#define AQI_HELLO_MAX      (AQI_HELLO_HEADER + AQI_ADDR_MAX + AQI_KEY_MAX + AQI_HELLO_DATA_MAX)

enum aqi_hello_type {
    AQI_HELLO_CALL = 1,
    AQI_HELLO_ACCEPT,
    AQI_HELLO_CONFIRM,
    AQI_HELLO_REFUSE,
    AQI_HELLO_BUSY,
    AQI_HELLO_BYE,
    AQI_HELLO_END
};

/* Traits of a connection that its caller requests. */
#define AQI_HELLO_ORDERED    0x1u
#define AQI_HELLO_UNRELIABLE 0x2u
#define AQI_HELLO_NUMBERED   0x4u /* ordered by the order layer of both ends */
#define AQI_HELLO_TRAITS     0x7u

struct aqi_hello {
    uint16_t version; /* decode only */
    uint8_t type;
    uint8_t objects;   /* descriptors sent along: objects of the transport … */
    uint8_t memory;    /* … then, 0 or 1: the one that the segment lies in … */
    uint8_t bell;      /* … then, 0 or 1: the sender's bell, to be rung … */
    uint32_t bell_bit; /* … with this bit (base/bell.h) */
    uint8_t traits;    /* CALL: AQI_HELLO_ORDERED, … */
    /* CALL: the caller's versions of the formats "messages" and that of the transport. */
    uint8_t messages, transport;
    uint32_t code;  /* REFUSE: chosen by the program */
    int32_t status; /* REFUSE: an aq_status, below 0 */
    /* CALL, ACCEPT: the largest Medium of the sender, a multiple of 64; both use the smaller
     * one. */
    uint32_t max_medium;
    /* The segment that the sender exposes; size 0: none. */
    uint64_t segment_addr, segment_size;
    uint64_t segment_offset; /* in its descriptor */
    const void *addr;        /* the address at which the sender's transport receives */
    const void *key;         /* of the segment; 0 bytes: it is reached by messages */
    const void *data;        /* the program's; of a REFUSE the reason as text, without NUL */
    uint32_t addr_len, key_len, nbytes;
};

/* `buf` has room for AQI_HELLO_MAX bytes; returns the length. */
size_t aqi_hello_encode(const struct aqi_hello *hello, void *buf);

/*
 * Check and decode. The pointers of the result point into `buf`. Not logged.
 *
 * @return AQ_EMISMATCH  From another version of this library: only `version` is set.
 * @return AQ_EPROTO     Not a message of this library, cut short, or with malformed fields.
 */
aq_status aqi_hello_decode(const void *buf, size_t len, struct aqi_hello *hello);

#endif
