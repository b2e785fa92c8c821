/*
 * The encoding of messages: a head of 40 bytes, serials of returned pieces, then the rest. A serial
 * is the borrower's name of a piece; it is unique among its pieces of one owner. All is
 * little-endian; unused fields are 0.
 */
#ifndef AQI_REG_MESSAGE_H
#define AQI_REG_MESSAGE_H

#include "base/wire.h"

#define REG_SERIALS_MAX 8u

enum reg_message_kind {
    REG_MESSAGE_NONE,
    REG_ASK,    /* borrower: lend me this as `serial`; I return these; with data of a put */
    REG_ANSWER, /* owner: `serial` is this, with a key; or (no key) there is no room */
    REG_REVOKE, /* owner: return `serial` */
    REG_DROP,   /* borrower: I return these */
    REG_MESSAGE_KINDS
};

struct reg_wire {
    uint8_t kind, version;
    uint8_t serials;
    uint8_t tag;     /* ASK: size of the data; ANSWER: 1: for one use */
    int32_t status;  /* ANSWER: of the data sent along */
    uint32_t quota;  /* ANSWER: number of pieces that the borrower may hold */
    uint32_t nbytes; /* ASK: the data; ANSWER: the key */
    uint64_t serial, addr, len;
};
static_assert(sizeof(struct reg_wire) == 40, "no padding");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structs are copied to the wire as is");

struct reg_message {
    struct reg_wire wire;
    uint64_t serials[REG_SERIALS_MAX];
    const void *bytes;
};

/* Encode into room for AQI_REG_MESSAGE_MAX bytes; returns the length. */
size_t reg_message_encode(const struct reg_message *message, void *bytes);

/*
 * Returns AQ_EPROTO if it is malformed (see aq_error_message()), with `message` unchanged.
 * `message->bytes` points into `bytes`.
 */
aq_status reg_message_decode(const void *bytes, size_t len, struct reg_message *message);

#endif
