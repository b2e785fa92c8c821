/*
 * The sockets over which an agent speaks with the ranks of its host, and the queues before them.
 * What comes goes to a hub, what that wants to be sent is sent here. There is one in a process.
 */
#ifndef AQI_DESK_H
#define AQI_DESK_H

#include "job/hub/hub.h"

#include <sys/types.h>

/* Make the queues for `ranks` ranks, and the page whose words count what each was told: to be given
 * to the hub. Fails as shared memory does. */
aq_status aqi_desk_open(uint32_t ranks, struct aqi_parcel **page);
/* Everything goes to this hub; before any of what follows. */
void aqi_desk_serve(struct aqi_hub *hub);
void aqi_desk_close(void);

/*
 * Make the socket of a rank's place, for a process that will be forked: its end, which the caller
 * closes; -1: errno says why not. `pid` is told when it is known.
 */
int aqi_desk_place(uint32_t rank);
void aqi_desk_forked(uint32_t rank, pid_t pid);

/*
 * Take ranks that come by themselves, over this listening packet socket: a process of the same user
 * that knows the secret may claim a place. Takes the descriptor over. From now on nobody else tells
 * of the ends of ranks.
 */
aq_status aqi_desk_listen(int fd, const uint8_t secret[AQI_JOB_KEY_BYTES]);
/* How many places have been claimed. */
uint32_t aqi_desk_claimed(void);
/* A signal to the process that has claimed a place. */
void aqi_desk_signal(uint32_t rank, int number);

/* Hand over what a rank has said, although it may have died since. */
void aqi_desk_drain(uint32_t rank);
/* It is no more. */
void aqi_desk_leave(uint32_t rank);

/* Hooks of the hub. */
void aqi_desk_to_rank(void *arg, uint32_t rank, const struct aqi_control *message,
                      struct aqi_parcel *parcel);
void aqi_desk_on_drain(void *arg, uint32_t rank);
aq_status aqi_desk_freeze(void *arg, const void *bytes, size_t len, struct aqi_parcel **parcel);
aq_status aqi_desk_share(void *arg, const char *name, size_t bytes, struct aqi_parcel **parcel);

#endif
