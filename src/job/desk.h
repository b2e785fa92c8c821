/*
 * The sockets between an agent and the ranks of its host, and their queues. Received messages go to
 * a hub, whose messages to ranks are sent here. There is one desk per process.
 */
#ifndef AQI_DESK_H
#define AQI_DESK_H

#include "job/hub/hub.h"

#include <sys/types.h>

/* Create the queues for `ranks` ranks, and the page that counts the messages sent to each, which
 * is passed to the hub. Fails if memory or shared memory runs out. */
aq_status aqi_desk_open(uint32_t ranks, struct aqi_parcel **page);
/* All messages go to this hub; call before any of the following. */
void aqi_desk_serve(struct aqi_hub *hub);
void aqi_desk_close(void);

/*
 * Create the socket of a rank's place, for a process that will be forked. Returns the process's
 * end, which the caller closes, or -1 with errno. Report the `pid` by aqi_desk_forked.
 */
int aqi_desk_place(uint32_t rank);
void aqi_desk_forked(uint32_t rank, pid_t pid);

/*
 * Accept ranks over this listening packet socket: a process of the same user that knows the secret
 * may claim a place. Takes ownership of the descriptor. From then on, the desk itself detects the
 * ends of ranks.
 */
aq_status aqi_desk_listen(int fd, const uint8_t secret[AQI_JOB_KEY_BYTES]);
/* The number of places claimed. */
uint32_t aqi_desk_claimed(void);

/* The rank has ended. */
void aqi_desk_leave(uint32_t rank);

/* Hooks of the hub. aqi_desk_kill sends the signal to the process that has claimed the place;
 * aqi_desk_drain processes the unread messages of a rank, which may have died. */
void aqi_desk_kill(void *arg, uint32_t rank, int number);
void aqi_desk_to_rank(void *arg, uint32_t rank, const struct aqi_control *message,
                      struct aqi_parcel *parcel);
void aqi_desk_drain(void *arg, uint32_t rank);
aq_status aqi_desk_freeze(void *arg, const void *bytes, size_t len, struct aqi_parcel **parcel);
aq_status aqi_desk_share(void *arg, const char *name, size_t bytes, struct aqi_parcel **parcel);

#endif
