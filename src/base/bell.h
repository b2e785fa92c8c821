/*
 * A bell, which peers ring to announce arrivals to a process: one word, which the owner checks in
 * each poll regardless of the number of ringers, and a bit per ringer. It may be in memory that
 * other processes map.
 *
 * Ringing sets the bit, then the word; the owner takes the word, then the bits. Both steps are
 * read-modify-writes with release and acquire order: either the owner takes the word that a ringer
 * set, and so sees its bit and its earlier writes, or the word is still set at the owner's next
 * poll. A bit without the word (its ringer died in between) is taken with the next ring.
 *
 * The contents of the memory are not trusted. A process that maps a bell can ring for others, which
 * costs the owner a check, and clear their rings, so the owner must occasionally check without
 * being rung. Hence each user gets a separate bell, so it cannot affect other users.
 */
#ifndef AQI_BELL_H
#define AQI_BELL_H

#include "base/base.h"

#include <stdatomic.h>
#include <sys/un.h>

enum { AQI_BELL_BITS = 65536 };

struct aqi_bell_memory {
    uint64_t network; /* namespace in which the name below is valid; 0: unknown */
    struct sockaddr_un wake;
    uint32_t wake_len;
    alignas(AQI_CACHE_LINE) _Atomic uint32_t rung;
    alignas(AQI_CACHE_LINE) _Atomic uint32_t asleep; /* a ring also wakes the owner */
    alignas(AQI_CACHE_LINE) _Atomic uint64_t bits[AQI_BELL_BITS / 64];
};
static_assert(sizeof(struct aqi_bell_memory) % AQI_CACHE_LINE == 0, "processes agree about it");

/* The owner's side. */
struct aqi_bell {
    struct aqi_bell_memory *memory;
    int fd;     /* of the memory, for others to map */
    int socket; /* readable after a ring that woke us; and for waking others */
};

/* The ringer's side. A transport is given two: its peer's bell, and that of its own process. */
struct aqi_bell_rope {
    struct aqi_bell_memory *memory; /* NULL: none */
    uint32_t bit;
    int socket; /* the ringer's, to wake the owner with */
    bool wakes; /* the owner can be woken from here: it is in this network namespace */
};

/* @return AQ_ELIMIT, AQ_ENOMEM, AQ_ESYS, AQ_EACCESS */
aq_status aqi_bell_open(struct aqi_bell *bell);
void aqi_bell_close(struct aqi_bell *bell);
/* Map the bell of another process. @return AQ_EPROTO  It is not a bell. */
aq_status aqi_bell_map(int fd, struct aqi_bell_memory **memory);
void aqi_bell_unmap(struct aqi_bell_memory *memory);

/* Returns false if the process that should have been woken has ended. */
bool aqi_bell_ring(const struct aqi_bell_rope *rope);

static inline bool aqi_bell_is_rung(const struct aqi_bell *bell)
{
    return atomic_load_explicit(&bell->memory->rung, memory_order_relaxed) != 0;
}
/* Call `fn` for each bit below `count` that was set. */
void aqi_bell_take(struct aqi_bell *bell, uint32_t count, void (*fn)(uint32_t bit));

/*
 * Prepare to sleep on the socket: from now on, a ring makes it readable. Returns false if the bell
 * has already been rung.
 */
bool aqi_bell_arm(struct aqi_bell *bell);
void aqi_bell_disarm(struct aqi_bell *bell);

/*
 * Send a byte to the datagram socket that a process has named in shared memory, to wake it. Returns
 * false if the process has ended.
 */
bool aqi_wake_send(int socket, const struct sockaddr_un *to, uint32_t len);
/* Create a socket with an unused abstract name, freed with it; `*network` is 0 if unknown. */
aq_status aqi_wake_open(int *socket, struct sockaddr_un *name, uint32_t *len, uint64_t *network);
void aqi_wake_drain(int socket);

#endif
