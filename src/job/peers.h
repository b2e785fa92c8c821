/*
 * The ranks' boards of a host (base/board.h), for `aqinfo --peers`: the agent reads them on
 * request, and sends them up as lines of text in packets. There is one in a process.
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
