/*
 * The boards of a host's ranks (base/board.h), for `aqinfo --peers`: on request, the agent reads
 * them and sends them up the tree as lines of text in packets. There is one per process.
 */
#ifndef AQI_PEERS_H
#define AQI_PEERS_H

#include "job/hub/hub.h"

void aqi_peers_open(struct aqi_hub *hub);
/* Hook of the hub: the query with this number has arrived. Each is answered once. */
void aqi_peers_report(void *arg, uint32_t turn);
/* Returns the time of the next call, UINT64_MAX for never. */
uint64_t aqi_peers_tick(uint64_t now);
void aqi_peers_close(void);

#endif
