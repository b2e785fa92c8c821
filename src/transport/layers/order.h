/*
 * The order layer: between a transport and the fallback layer, with params.numbered. Messages are
 * numbered, and are passed on in the order in which they were sent, one after the other; requests
 * and replies are ordered separately. A Long takes its place when its header is sent, which is when
 * its payload has arrived. Internal messages (AQI_AM_INTERNAL) have no order. For transports of two
 * ranks, with one peer.
 */
#ifndef AQI_ORDER_H
#define AQI_ORDER_H

#include "transport/transport.h"

/* In two steps around a transport's open, like aqi_fallback_create; replaces hooks of `inner`. */
aq_status aqi_order_create(struct aqi_tp_params *inner, struct aqi_order **order);
void aqi_order_complete(struct aqi_order *order, struct aqi_tp *tp);
void aqi_order_destroy(struct aqi_order *order);

#endif
