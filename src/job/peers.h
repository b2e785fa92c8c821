/*
 * What the ranks of a host show of their peers (base/board.h), for `aqinfo --peers`: the agent
 * reads it when it is asked for, and it goes up as lines of text, a packet after the other. There
 * is one in a process.
 */
#ifndef AQI_PEERS_H
#define AQI_PEERS_H

#include "job/hub/hub.h"

void aqi_peers_open(struct aqi_hub *hub);
/* It was asked for, for this time. */
void aqi_peers_asked(uint32_t turn);
/* Returns when it wants to be called next, UINT64_MAX for never. */
uint64_t aqi_peers_tick(uint64_t now);
void aqi_peers_close(void);

#endif
