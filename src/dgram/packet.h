/*
 * Packets as bytes: a head of 32 bytes, then records, each at a multiple of 16; little-endian.
 * Handshakes have a head of their own (connect.c), which begins with DGRAM_HANDSHAKE where others
 * have a cookie.
 */
#ifndef AQI_DGRAM_PACKET_H
#define AQI_DGRAM_PACKET_H

#include "base/wire.h"

#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structs are copied to the wire as is");

#define DGRAM_HANDSHAKE 0x31676d6172676441ull /* "Adgramg1": never a cookie */
#define DGRAM_TAG       16                    /* bytes of a MAC at the end, where there is one */

enum dgram_head_flags {
    DGRAM_NUMBERED = 1, /* has a number and records that are kept until they are acknowledged */
    DGRAM_ON_DATA = 2,  /* the number is one of DATA, whichever way the packet came */
    DGRAM_ASKS = 4,     /* acknowledge at once */
    DGRAM_REQUESTS = 8, /* all its records are requests */
    DGRAM_TOLD = 16,    /* aqi_dgram_tell */
    DGRAM_OLD = 32,     /* acknowledges nothing that the one before does not */
    DGRAM_REPEATED = 64 /* something has come twice since that */
};

struct dgram_head {
    uint64_t cookie; /* chosen by the receiver */
    uint32_t source; /* id of the sender */
    uint32_t seq;
    uint32_t ack[2]; /* of each channel: all before it have come */
    uint16_t room;  /* KB of DATA that may be under way to the sender of this, see AQI_DGRAM_COST */
    uint16_t delay; /* us between the newest arrival at this host and this; UINT16_MAX: more, or
                     * it is not known */
    uint16_t order; /* of transmissions on this channel, the low bits */
    uint8_t flags, version;
};
static_assert(sizeof(struct dgram_head) == 32, "no padding");

enum dgram_record_kind {
    DGRAM_END,      /* nothing more, up to the end: padding */
    DGRAM_MESSAGE,  /* the message; its first four bytes are those of the record */
    DGRAM_FRAGMENT, /* of message `id`: where = total << 32 | offset, bytes */
    DGRAM_PUT,      /* of operation `id`: where = address, bytes */
    DGRAM_LONG,     /* a message to deliver when all `where` bytes of operation `id` are in place */
    DGRAM_GET,      /* operation `id`: where = address, 8 bytes: length */
    DGRAM_BYTES,    /* of the answer to get `id`: where = offset, bytes */
    DGRAM_REFUSED,  /* of operation `id` */
    DGRAM_SACK,     /* of channel `flags`: see DGRAM_SACK_WORDS */
    DGRAM_SLICE,    /* of packet `id` of channel `flags`: where = total << 32 | offset, bytes */
    DGRAM_LOOSE,    /* as MESSAGE, of aqi_dgram_cast: in a packet without a number */
    DGRAM_RECORDS
};

enum dgram_record_flags {
    DGRAM_IS_REQUEST = 1, /* MESSAGE, FRAGMENT, LONG */
    DGRAM_OF_LONG = 2     /* PUT: counts for a LONG */
};

struct dgram_record {
    uint16_t len; /* bytes with this; the next record begins at the next multiple of 16 */
    uint8_t kind, flags;
    uint32_t id;
    uint64_t where;
};
static_assert(sizeof(struct dgram_record) == 16, "no padding");

/* Selective acknowledgement. Words follow: bit b of word w is number id + 1 + 64 w + b. `where`:
 * the order of the latest transmission that has come. */
#define DGRAM_SACK_WORDS 64

static inline size_t dgram_round16(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

/* a - b of numbers that wrap. */
static inline int32_t dgram_diff(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

/*
 * The record at `*at` of a packet of `len` bytes: its head, zeros where it is only a message, and
 * its bytes in place; `*at` moves behind it. False at the end.
 */
bool dgram_record_next(const unsigned char *packet, size_t len, size_t *at,
                       struct dgram_record *record, const unsigned char **bytes, size_t *nbytes);

/*
 * Whether all records are valid by themselves, under a head with these flags. Whether what they
 * name exists is checked where they are served.
 */
bool dgram_records_valid(const unsigned char *packet, size_t len, uint8_t flags);

#endif
