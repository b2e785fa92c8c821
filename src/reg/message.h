/*
 * The messages as bytes: a head of 40, serials of pieces that are given back, then the rest. A
 * serial is the borrower's name of a piece; no two of its pieces of one owner have the same. All is
 * little-endian; what a kind does not use is 0.
 */
#ifndef AQI_REG_MESSAGE_H
#define AQI_REG_MESSAGE_H

#include "base/base.h"

#define REG_MESSAGE_VERSION 1u
#define REG_SERIALS_MAX     8u

enum reg_message_kind {
    REG_MESSAGE_NONE,
    REG_ASK,    /* borrower: lend me this, as `serial`; I give these back; this rides */
    REG_ANSWER, /* owner: `serial` is this, with a key; or (no key) there is no room */
    REG_REVOKE, /* owner: give `serial` back */
    REG_DROP,   /* borrower: I give these back */
    REG_MESSAGE_KINDS
};

struct reg_wire {
    uint8_t kind, version;
    uint8_t serials;
    uint8_t tag;     /* ASK: what rides; ANSWER: 1: for one use */
    int32_t status;  /* ANSWER: of what rode */
    uint32_t quota;  /* ANSWER: pieces that the borrower may hold */
    uint32_t nbytes; /* ASK: what rides; ANSWER: the key */
    uint64_t serial, addr, len;
};
static_assert(sizeof(struct reg_wire) == 40, "no padding");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structs are copied to the wire as is");

struct reg_message {
    struct reg_wire wire;
    uint64_t serials[REG_SERIALS_MAX];
    const void *bytes;
};

/* Into room for AQI_REG_MESSAGE_MAX; returns the length. */
size_t reg_message_encode(const struct reg_message *message, void *bytes);

/* AQ_EPROTO: it makes no sense by itself, as aq_error_message() says; `message` is untouched.
 * `message->bytes` points into `bytes`. */
aq_status reg_message_decode(const void *bytes, size_t len, struct reg_message *message);

#endif
