/* The control protocol on aqrun's side: who joins, what each rank is told, what it says. */
#ifndef AQRUN_HUB_H
#define AQRUN_HUB_H

#include "base/base.h"
#include "job/control.h"
#include "loop.h"

struct rank;
struct outgoing;

/* Bytes and a descriptor that messages to many ranks share; freed with the last of them. */
struct parcel {
    size_t refs;
    size_t len;
    int fd; /* -1: none */
    uint8_t bytes[];
};

/* The sockets of a rank, and what waits to be sent. */
struct link {
    struct source place;   /* our end of AQ_BOOT_FD: HELLO comes here */
    struct source control; /* the socket that came with HELLO */
    struct outgoing *first;
    struct outgoing **last;
    bool garbage_said;
};

/* A rank's share in the collective call that is going on. */
struct part {
    uint32_t calls; /* calls completed */
    bool inside;    /* the first piece of the next has come */
    bool whole;     /* and the last */
    uint64_t got;
};

/* Make the job page; every rank's word in it counts the events sent to it. */
void hub_open(void);

/* Make the socket of a rank's place; returns the rank's end, which the caller closes. */
int hub_place(struct rank *rank);

/* A rank sent `len` bytes that make no sense: say so, the first time. */
void hub_garbage(struct rank *rank, size_t len);

/* Handle what a process has said before it died. */
void hub_drain(struct rank *rank);
void hub_close(struct rank *rank);

/* One reference, for the caller; `bytes` may be NULL (zeroed). NULL: no memory. */
struct parcel *parcel_new(const void *bytes, size_t len);
void parcel_release(struct parcel *parcel);

/*
 * Queue `message` with the parcel's bytes as its data and its descriptor. Takes a reference of its
 * own. Ranks that are not there are passed over.
 */
void hub_send(struct rank *rank, const struct aqi_control *message, struct parcel *parcel);

/*
 * Tell all ranks that joined, but not rank `but`, of an event: that the job ends, or that `rank`
 * died and the job goes on.
 */
void hub_tell(uint32_t but, enum aqi_boot_event_type event, uint32_t rank, int code,
              const char *why);

#endif
