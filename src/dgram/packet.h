/*
 * Packets on the wire: a head of 32 bytes, then records, each at a multiple of 16; little-endian.
 * Handshakes have a different head (handshake.h), which begins with DGRAM_HANDSHAKE in place of a
 * cookie.
 */
#ifndef AQI_DGRAM_PACKET_H
#define AQI_DGRAM_PACKET_H

#include "base/wire.h"

#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structs are copied to the wire as is");

#define DGRAM_HANDSHAKE 0x31676d6172676441ull /* "Adgramg1": never a cookie */
#define DGRAM_TAG       16                    /* bytes of the MAC at the end, if there is one */

enum dgram_head_flags {
    DGRAM_NUMBERED = 1, /* has a number, and is kept until it is acknowledged */
    DGRAM_ON_DATA = 2,  /* the number is one of DATA, whichever channel the packet arrived on */
    DGRAM_ASKS = 4,     /* acknowledge at once */
    DGRAM_REQUESTS = 8, /* all its records are requests */
    DGRAM_FLAGGED = 16, /* aqi_dgram_set_flag */
    DGRAM_OLD = 32,     /* acknowledges nothing that the previous packet did not */
    DGRAM_REPEATED = 64 /* a duplicate has arrived since the previous packet */
};

struct dgram_head {
    uint64_t cookie; /* chosen by the receiver */
    uint32_t source; /* id of the sender */
    uint32_t seq;
    uint32_t ack[2]; /* for each channel: all numbers before it have arrived */
    uint16_t room;  /* KB of DATA that may be in flight to the sender of this, see AQI_DGRAM_COST */
    uint16_t delay; /* us from the newest arrival at this host to this packet; UINT16_MAX: more, or
                     * unknown */
    uint16_t order; /* low bits of the number of this transmission on its channel */
    uint8_t flags, version;
};
static_assert(sizeof(struct dgram_head) == 32, "no padding");

enum dgram_record_kind {
    DGRAM_END,      /* padding up to the end */
    DGRAM_MESSAGE,  /* a message, whose first four bytes are those of the record */
    DGRAM_FRAGMENT, /* of message `id`: where = total << 32 | offset, bytes */
    DGRAM_PUT,      /* of operation `id`: where = address, bytes */
    DGRAM_LONG,     /* a message to deliver when all `where` bytes of operation `id` are in place */
    DGRAM_GET,      /* operation `id`: where = address, 8 bytes: length */
    DGRAM_BYTES,    /* of the answer to get `id`: where = offset, bytes */
    DGRAM_REFUSED,  /* operation `id` is refused */
    DGRAM_SACK,     /* of channel `flags`: see DGRAM_SACK_WORDS */
    DGRAM_SLICE,    /* of packet `id` of channel `flags`: where = total << 32 | offset, bytes */
    DGRAM_LOOSE,    /* like MESSAGE, in a packet without a number (aqi_dgram_cast) */
    DGRAM_RECORDS
};

enum dgram_record_flags {
    DGRAM_IS_REQUEST = 1, /* MESSAGE, FRAGMENT, LONG */
    DGRAM_OF_LONG = 2     /* PUT: part of a LONG */
};

struct dgram_record {
    uint16_t len; /* bytes, including this; the next record begins at the next multiple of 16 */
    uint8_t kind, flags;
    uint32_t id;
    uint64_t where;
};
static_assert(sizeof(struct dgram_record) == 16, "no padding");

/* Selective acknowledgement: words follow, in which bit b of word w is number id + 1 + 64 w + b.
 * `where`: the order of the latest transmission received. */
#define DGRAM_SACK_WORDS 64

static inline size_t dgram_round16(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

/* a - b for numbers that wrap. */
static inline int32_t dgram_diff(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

/* A walk over the records of a packet, which begins with DGRAM_WALK. */
struct dgram_walk {
    size_t at;                  /* where the next record begins */
    struct dgram_record record; /* a bare message has `id` and `where` 0 */
    const unsigned char *bytes; /* those of the record, in place */
    size_t nbytes;
};
#define DGRAM_WALK                                                                                 \
    {                                                                                              \
        .at = sizeof(struct dgram_head)                                                            \
    }
/* Read the next record of a packet of `len` bytes. Returns false at the end. */
bool dgram_record_next(const unsigned char *packet, size_t len, struct dgram_walk *walk);

/*
 * Whether all records are well formed, given the flags of the head. Whether the operations that
 * they name exist is checked when they are processed.
 */
bool dgram_records_valid(const unsigned char *packet, size_t len, uint8_t flags);

#endif
