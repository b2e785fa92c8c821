/*
 * Operations that a transport lacks, built from its am_send: put, get, atomics, Longs, reserve,
 * registration.
 */
#ifndef AQI_FALLBACK_H
#define AQI_FALLBACK_H

#include "transport/transport.h"

struct aqi_fallback;

/*
 * In two steps around a transport's open: create the layer and `inner`, the params to open the
 * transport with, whose hooks are those of the layer; then complete the operations of the open
 * transport. `credits`: put the gate of AQI_CAP_CREDITS below the layer.
 */
aq_status aqi_fallback_create(const struct aqi_tp_params *params, bool credits,
                              struct aqi_tp_params *inner, struct aqi_fallback **fallback);
void aqi_fallback_complete(struct aqi_fallback *fallback, struct aqi_tp *tp);
void aqi_fallback_destroy(struct aqi_fallback *fallback);
/* Whether an operation waits for room in the transport. */
bool aqi_fallback_waits(const struct aqi_fallback *fallback);
/* aqi_tp_ping, aqi_tp_region */
aq_status aqi_fallback_ping(struct aqi_fallback *fallback, struct aqi_peer *peer,
                            struct aqi_comp *comp);
aq_status aqi_fallback_region(struct aqi_fallback *fallback, struct aqi_peer *peer, bool get,
                              const uint32_t ticket[AQI_TICKET], uint64_t offset, void *local,
                              size_t len, struct aqi_comp *comp);
void aqi_fallback_peer_down(struct aqi_fallback *fallback, uint32_t id);

#endif
