/*
 * Operations that each fabric implements for its limits: limits_fabric.c has the loops and a table
 * of the implementations.
 */
#ifndef AQPERF_LIMITS_FABRIC_H
#define AQPERF_LIMITS_FABRIC_H

#include "perf.h"

enum fabric_op { FABRIC_SEND, FABRIC_RECEIVE, FABRIC_PUT, FABRIC_GET, FABRIC_OPS };
enum { FABRIC_IN_FLIGHT = 64 /* operations */, FABRIC_WHY = 200 };

/* Buffers for sending, and for receives, puts and gets, of `len` bytes each. */
struct fabric_memory {
    unsigned char *outgoing, *incoming;
    size_t len;
};

struct fabric {
    const char *transport; /* the library's transport with which it is compared */
    enum limit_id first;   /* the first of its limits */
    /*
     * Returns the maximum size of a transfer, and in `card` the data that the peer needs; 0 on
     * failure, with the reason in `why`.
     */
    size_t (*open)(unsigned rank, const struct fabric_memory *memory,
                   uint64_t card[FABRIC_CARD_WORDS], char why[FABRIC_WHY]);
    bool (*connect)(const uint64_t card[FABRIC_CARD_WORDS], char why[FABRIC_WHY]);
    /* Returns false if there is no room now. A put is complete when it is visible. */
    bool (*post)(enum fabric_op op, size_t size);
    /* Returns 1 and the completed operation, 0 if there is none, or -1 and the reason. */
    int (*poll)(enum fabric_op *completed, char why[FABRIC_WHY]);
    void (*close)(void);
};
extern const struct fabric fabric_ofi, fabric_ibv;

/* The `index`-th usable device for a transport of the library; "": none. */
const char *fabric_device(const char *transport, unsigned index);

#endif
