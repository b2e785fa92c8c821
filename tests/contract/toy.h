/*
 * toy: a network inside one process, for the contract suite alone. It has what real ones have and
 * loop and shm have not: packets are lost, repeated, delayed and overtaken; connections take four
 * of them; timers send again and acknowledge late; queues are short and fill; peers differ in what
 * they take; memory is reached by keys, one for each of two rails, and few regions can be
 * registered; all peers share a pool of receive room. So each clause of transport.h has somebody
 * who needs it.
 */
#ifndef AQT_CONTRACT_TOY_H
#define AQT_CONTRACT_TOY_H

#include "transport/transport.h"

/* What the network does to packets, in 1/1000; from `seed`. Set before the transport is opened. */
struct toy_weather {
    unsigned loss, duplication, overtaking;
    uint64_t seed;
};
extern struct toy_weather toy_weather;
extern const struct aqi_transport toy_transport;

#endif
