/*
 * The interface below the limits of a fabric: limits_fabric.c has the loops and a row of its table
 * for each implementation.
 */
#ifndef AQPERF_LIMITS_FABRIC_H
#define AQPERF_LIMITS_FABRIC_H

#include "perf.h"

enum fabric_op { FABRIC_SEND, FABRIC_RECEIVE, FABRIC_PUT, FABRIC_GET, FABRIC_OPS };
enum { FABRIC_UNDER_WAY = 64 /* operations */, FABRIC_WHY = 200 };

/* Buffers to send from, and to receive, put or get into; `len` bytes each. */
struct fabric_memory {
    unsigned char *outgoing, *incoming;
    size_t len;
};

struct fabric {
    const char *transport; /* transport of the library that it is compared with */
    enum limit_id first;   /* of its limits */
    /*
     * Returns the largest size that can be transferred at once, with `card` set to the data that
     * the peer needs; 0: failed, for the reason `why`.
     */
    size_t (*open)(unsigned rank, const struct fabric_memory *memory,
                   uint64_t card[FABRIC_CARD_WORDS], char why[FABRIC_WHY]);
    bool (*meet)(const uint64_t card[FABRIC_CARD_WORDS], char why[FABRIC_WHY]);
    /* Returns false if there is no room now. A put is complete when it is visible. */
    bool (*post)(enum fabric_op op, size_t size);
    /* Returns 1 with the completed operation, 0 if there is none, or -1 with the reason. */
    int (*poll)(enum fabric_op *over, char why[FABRIC_WHY]);
    void (*close)(void);
};
extern const struct fabric fabric_ofi, fabric_ibv;

/* The device that the library would use for a transport: the `index`-th usable one; "": none. */
const char *fabric_device(const char *transport, unsigned index);

#endif
