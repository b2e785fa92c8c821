/* Active messages in memory, remote atomics as data, and their wire format. */
#ifndef AQI_TRANSPORT_AM_H
#define AQI_TRANSPORT_AM_H

#include "base/base.h"

#include <string.h>

#define AQI_AM_MAX_ARGS  16
#define AQI_AM_WIRE_ARGS (AQI_AM_MAX_ARGS + 2) /* with AQI_AM_CREDITS, and a number: order.h */

enum aqi_am_kind {
    AQI_AM_NONE = 0,
    AQI_AM_SHORT = 1,
    AQI_AM_MEDIUM = 2,
    AQI_AM_LONG = 3, /* to a transport: only with AQI_CAP_LONG. To the core: the data is in place */
    AQI_AM_LONG_PACKED =
        4, /* payload in the message; fallback.c copies it out, then it is a Long */
    AQI_AM_LONG_HEADER =
        5, /* `nbytes` at `addr` were put before; fallback.c checks, then it is a Long */
    AQI_AM_INTERNAL = 6, /* fallback.c's, in the form of a Medium; never reaches the core */
    AQI_AM_LONG_LATE = 7 /* a Long header that the handler sees as a reply, but that travels as a
                          * request: the request that it answers has already returned its credit */
};

/* Whether the payload travels in the message: not for a Short, or for a Long put before. */
static inline bool aqi_am_has_payload(uint8_t kind)
{
    return kind == AQI_AM_MEDIUM || kind == AQI_AM_LONG_PACKED || kind == AQI_AM_INTERNAL;
}

/* The AQI_AM_INTERNAL of credit_gate.c: it carries credits and nothing else. */
#define AQI_AM_INTERNAL_CREDITS 0
/* An AQI_AM_INTERNAL that every receiver drops after counting its credits. */
#define AQI_AM_INTERNAL_VOID 255

/*
 * Bits of `flags`. With AQI_AM_CREDITS the last argument is not the handler's: it is a word that
 * returns request credits, added and removed by credit_gate.c. It may be the 18th argument, after
 * the number of an ordered message; frames need no more room for these two, since the payload after
 * 16 arguments begins no earlier. fallback.c drops messages with more. (It is an argument, not the
 * unused `addr` of a Short or Medium, because replies of every kind carry it, and a Long has an
 * address.)
 *
 * The other bits are the indices of the endpoints that the message goes to and comes from, which
 * arrive as they were sent. Usually all are 0: the first endpoints.
 */
#define AQI_AM_IS_REPLY 0x1u
#define AQI_AM_CREDITS  0x2u
#define AQI_AM_EPS      0xfcu
#define AQI_AM_MAX_EPS  8

static inline uint8_t aqi_am_to(unsigned ep)
{
    return (uint8_t)(ep << 2);
}

static inline uint8_t aqi_am_from(unsigned ep)
{
    return (uint8_t)(ep << 5);
}

static inline unsigned aqi_am_to_ep(uint8_t flags)
{
    return flags >> 2 & (AQI_AM_MAX_EPS - 1);
}

static inline unsigned aqi_am_from_ep(uint8_t flags)
{
    return flags >> 5;
}

struct aqi_am {
    union {
        struct {
            uint8_t kind;
            uint8_t handler;
            uint8_t nargs;
            uint8_t flags;
        };
        uint32_t head; /* all four, in one store: see aqi_am_head */
    };
    uint32_t nbytes; /* of payload */
    uint64_t addr;   /* Long: its destination in the receiver */
    const int32_t *args;
    const void *payload; /* outgoing: the source; incoming: a buffer, or a Long's destination */
};

/* Bytes of payload that travel with the message; most messages have none. */
static inline size_t aqi_am_payload(const struct aqi_am *am)
{
    return am->nbytes != 0 && aqi_am_has_payload(am->kind) ? am->nbytes : 0;
}

/* Make a copy that outlives the call, with its arguments in `args`, its payload in `payload`. */
static inline void aqi_am_keep(struct aqi_am *copy, const struct aqi_am *am, int32_t *args,
                               void *payload)
{
    size_t nbytes = aqi_am_payload(am);
    *copy = *am;
    if (am->nargs != 0) memcpy(args, am->args, am->nargs * sizeof(*args));
    copy->args = args;
    if (nbytes == 0) return;
    memcpy(payload, am->payload, nbytes);
    copy->payload = payload;
}

/*
 * The first four fields as one word. It is written by one store because it is soon loaded to be
 * copied to the wire: a processor cannot forward a load from four single-byte stores that are still
 * queued behind those of the previous message. It would stall until all of them are in the cache,
 * for as long as a cache line takes from one core to another.
 */
static inline uint32_t aqi_am_head(unsigned kind, unsigned handler, unsigned nargs, unsigned flags)
{
    return kind | handler << 8 | nargs << 16 | flags << 24;
}
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "kind is the first byte");

static inline void aqi_am_set_kind(struct aqi_am *am, unsigned kind)
{
    am->head = (am->head & ~0xffu) | kind;
}

/*
 * The wire header: 24 bytes, little-endian, followed by the arguments and, at the next multiple of
 * 16, the payload if it is inline. `stamp` and `source` belong to the transport.
 */
struct aqi_am_wire {
    uint32_t stamp;
    union {
        struct {
            uint8_t kind, handler, nargs, flags;
        };
        uint32_t head; /* all four, as in struct aqi_am */
    };
    uint32_t source;
    uint32_t nbytes;
    uint64_t addr;
};
static_assert(sizeof(struct aqi_am_wire) == 24, "the wire header has no padding");
/* The wire is little-endian, as are all supported machines; a byte swap would go here. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "wire structs are read in place");
static_assert(offsetof(struct aqi_am_wire, addr) == 16, "wire layout");

/* Bytes from the start of the header to the payload. */
static inline size_t aqi_am_payload_offset(unsigned nargs)
{
    return (sizeof(struct aqi_am_wire) + 4u * nargs + 15) & ~(size_t)15;
}
static_assert(((sizeof(struct aqi_am_wire) + 4 * AQI_AM_MAX_ARGS + 15) & ~(size_t)15) ==
                  ((sizeof(struct aqi_am_wire) + 4 * AQI_AM_WIRE_ARGS + 15) & ~(size_t)15),
              "what layers add fits where 16 arguments do");

/*
 * Decode a header and its arguments from `len` bytes that a peer wrote, trusting nothing: the
 * header is copied first, then kind, argument count and sizes are checked. `am->args` points into
 * `frame`, `am->payload` is left NULL. `max_payload` limits the payload that travels in the
 * message.
 *
 * @return AQ_EPROTO  Malformed; `am` is untouched. Not logged: a peer could flood the log.
 */
aq_status aqi_am_decode(const void *frame, size_t len, size_t max_payload, struct aqi_am *am,
                        uint32_t *source);

/* Write header and arguments (not stamp, not payload) to `frame`, which has room for them. */
void aqi_am_encode(void *frame, const struct aqi_am *am, uint32_t source);

/* Inline versions of these two, for fast paths. */
static AQI_INLINE aq_status aqi_am_decode_here(const void *frame, size_t len, size_t max_payload,
                                               struct aqi_am *am, uint32_t *source)
{
    struct aqi_am_wire wire;
    if (len < sizeof(wire)) return AQ_EPROTO;
    /* Check a copy: in shared memory the peer could change the original in between. */
    memcpy(&wire, frame, sizeof(wire));
    if (wire.kind == AQI_AM_NONE || wire.kind > AQI_AM_LONG_LATE || wire.kind == AQI_AM_LONG)
        return AQ_EPROTO;
    bool credits = (wire.flags & AQI_AM_CREDITS) != 0;
    if (wire.nargs > AQI_AM_WIRE_ARGS || wire.nargs < credits) return AQ_EPROTO;
    if (len < sizeof(wire) + 4u * wire.nargs) return AQ_EPROTO;
    if (wire.kind == AQI_AM_SHORT && wire.nbytes != 0) return AQ_EPROTO;
    if (aqi_am_has_payload(wire.kind) && wire.nbytes > max_payload) return AQ_EPROTO;
    if (wire.kind == AQI_AM_LONG_LATE && (wire.flags & AQI_AM_IS_REPLY)) return AQ_EPROTO;
    am->head = wire.head;
    am->nbytes = wire.nbytes;
    am->addr = wire.addr;
    am->args = (const int32_t *)(const void *)((const char *)frame + sizeof(wire));
    am->payload = NULL;
    *source = wire.source;
    return AQ_OK;
}

static inline void aqi_am_encode_here(void *frame, const struct aqi_am *am, uint32_t source)
{
    struct aqi_am_wire *wire = frame;
    wire->head = am->head;
    wire->source = source;
    wire->nbytes = am->nbytes;
    wire->addr = am->addr;
    unsigned char *to = (unsigned char *)(wire + 1);
    const unsigned char *from = (const unsigned char *)am->args;
    /* At most 18, copied by the bits of their count, which is faster than a loop. */
    for (unsigned n = 16, count = am->nargs; n != 0; n >>= 1) {
        if ((count & n) == 0) continue;
        memcpy(to, from, 4u * n);
        to += 4u * n;
        from += 4u * n;
    }
}
static_assert(AQI_AM_WIRE_ARGS < 32, "all bits of a count of arguments");

/* Remote atomics: numbers as in <aqueduct/atomic.h>, which core asserts. */
struct aqi_atomic {
    uint64_t addr;
    uint64_t operand1, operand2; /* the operands' bytes, in the low-order end */
    uint8_t op;
    uint8_t type;
    uint8_t fetch; /* whether the old value is wanted */
};
static inline size_t aqi_atomic_size(uint8_t type)
{
    return type == 0 || type == 1 || type == 4 ? 4 : 8;
}

/*
 * Perform an operation on memory of this process with the processor's atomics (sequentially
 * consistent). fallback.c and all transports without atomics in the network use it, so they are
 * coherent. Returns the bytes of the old value. `req` was checked by aqi_atomic_valid, and `at` is
 * aligned.
 */
uint64_t aqi_atomic_apply(const struct aqi_atomic *req, void *at);
uint64_t aqi_atomic_do(uint8_t op, uint8_t type, void *at, uint64_t operand1, uint64_t operand2);
bool aqi_atomic_valid(uint8_t op, uint8_t type);

#endif
