/*
 * fi: the messages between two endpoints. Each is a Medium that begins with `struct afi_wire`; the
 * rest depends on its kind. Messages of a connection are numbered and handled in this order, even
 * if the network reorders them.
 */
#ifndef AFI_WIRE_H
#define AFI_WIRE_H

#include "front/fi/fi.h"

enum afi_kind {
    AFI_NONE,
    AFI_MESSAGE, /* a message of the program; with AFI_REMOTE, pieces of its source follow */
    AFI_DONE,    /* the receiver's operation `op` has ended with the error `tag` */
    AFI_PUT,     /* a write: followed by the places, and the bytes or the pieces of the source */
    AFI_GET,     /* a read: followed by the places */
    AFI_BYTES,   /* the result of the receiver's operation `op` */
    AFI_GRANT,   /* or the pieces of memory from which to fetch it */
    AFI_ATOMIC_REQUEST, /* followed by the places and the operands */
    AFI_CREDIT,         /* only returns credit, as every message does */
    AFI_LEAVE,          /* close this connection? The sender sends nothing until the answer: */
    AFI_AGREE,          /* yes: nothing more is sent, and the asking end closes it */
    AFI_STAY,           /* no */
    AFI_BRIEF           /* AFI_MESSAGE with its bytes and a shorter head */
};

enum {
    AFI_TAGGED_FLAG = 1,
    AFI_DATA_FLAG = 2,     /* `data` is for the program */
    AFI_ACK_ARRIVED = 4,   /* answer once it is in the memory of a receive, or kept for one, ... */
    AFI_ACK_DELIVERED = 8, /* ... or once a receive has got it */
    AFI_REMOTE = 16
};

static inline uint8_t afi_wire_flags(bool tagged, bool has_data)
{
    return (uint8_t)((tagged ? AFI_TAGGED_FLAG : 0) | (has_data ? AFI_DATA_FLAG : 0));
}

struct afi_wire {
    uint8_t kind, flags;
    uint8_t count;  /* number of places at the target */
    uint8_t pieces; /* number of pieces of memory at the sender */
    uint32_t number;
    uint32_t credit; /* bytes returned */
    uint32_t op;     /* the sender's handle, to be answered; or the receiver's */
    uint64_t tag;    /* or an error; or datatype and operation of an atomic */
    uint64_t data;
    uint64_t len; /* of the message, or of the data of an operation */
};
static_assert(sizeof(struct afi_wire) == 40, "as peers of this version expect");

/* The head of short messages: with 8 bytes of payload and the head of a Medium they fill one cache
 * line. */
struct afi_brief {
    uint8_t kind, flags;
    uint16_t unused;
    uint32_t number;
    uint64_t tag, data;
};
static_assert(sizeof(struct afi_brief) == 24, "as peers of this version expect");
enum { AFI_BRIEF_MAX = 256 - sizeof(struct afi_brief) }; /* maximum payload */
static_assert(offsetof(struct afi_brief, number) == offsetof(struct afi_wire, number),
              "messages are put in order by it");

struct afi_place {
    uint64_t addr, len, key;
};

/* rma.c: requests of peers, with the bytes that follow the head. Return false if malformed. */
bool afi_target_put(struct afi_peer *peer, const struct afi_wire *head, const unsigned char *bytes,
                    size_t len);
bool afi_target_get(struct afi_peer *peer, const struct afi_wire *head, const unsigned char *bytes,
                    size_t len);
bool afi_target_atomic(struct afi_peer *peer, const struct afi_wire *head,
                       const unsigned char *bytes, size_t len);
/* Whether a valid list of pieces follows, with as many bytes as the head says. */
bool afi_wire_has_pieces(const struct afi_wire *head, const unsigned char *bytes, size_t len);
/* Send a protocol message now, or queue it. */
void afi_wire_note(struct afi_peer *peer, const struct afi_wire *head, const struct iovec *iov,
                   unsigned count);

#endif
