/*
 * toy: a network inside one process, for the contract suite alone. It has properties that real
 * networks have and loop and shm lack: packets are lost, duplicated, delayed and reordered;
 * connecting takes four packets; timers retransmit, and acknowledge late; queues are short and fill
 * up; peers differ in the sizes that they take; memory is accessed by keys, one for each of two
 * rails, and few regions can be registered; all peers share a pool of receive room. Thus there is a
 * transport that needs each clause of transport.h.
 */
#ifndef AQT_CONTRACT_TOY_H
#define AQT_CONTRACT_TOY_H

#include "transport/transport.h"

/*
 * How the network treats packets, in 1/1000; random from `seed`. Set before the transport is
 * opened.
 */
struct toy_weather {
    unsigned loss, duplication, overtaking;
    uint64_t seed;
};
extern struct toy_weather toy_weather;
extern const struct aqi_transport toy_transport;

#endif
