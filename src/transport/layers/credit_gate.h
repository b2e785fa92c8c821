/*
 * The gate between all messages and a transport that has posted its receive buffers
 * (AQI_CAP_CREDITS): it limits requests to what the receiver can buffer. It replaces operations of
 * such a transport when that is opened; other transports do not use it.
 *
 * The gate guarantees to the transport:
 *   - At most `depth` requests (of params.credits, lowered by limits.depth), and beyond the first
 *     of them at most `bytes` bytes, are outstanding at a peer, that is, sent and not yet returned;
 *     and at all peers together at most `total`, if that is limited.
 *   - A peer sends at most as many replies as it got requests, so a buffer posted before each
 *     request suffices for the replies.
 * This covers all messages: those of the program, of barriers and collectives, and of the fallback
 * layer, whose puts, gets and atomics are requests and replies like any other. One reply cannot be
 * sent from inside the handler: the header of a Long whose payload goes ahead as a put. It is sent
 * later, as AQI_AM_LONG_LATE, a request with a credit of its own.
 */
#ifndef AQI_CREDIT_GATE_H
#define AQI_CREDIT_GATE_H

#include "transport/layers/credits.h"

struct aqi_credit_gate;

/*
 * The effective limits for those requested in `params`; `limits` are those of the transport
 * (`max_medium`, `depth` and `total`).
 */
struct aqi_credit_limits aqi_credit_gate_limits(const struct aqi_tp_params *params,
                                                const struct aqi_tp_limits *limits);

aq_status aqi_credit_gate_create(const struct aqi_tp_params *params, struct aqi_credit_gate **gate);
/* Put the gate in front of the operations of the open transport; `peers`: by id, set by connect. */
void aqi_credit_gate_complete(struct aqi_credit_gate *gate, struct aqi_peer *const *peers,
                              struct aqi_tp *tp);
void aqi_credit_gate_destroy(struct aqi_credit_gate *gate);

/* Account for a message that has arrived and pass it to `deliver` without its credits. */
void aqi_credit_gate_deliver(struct aqi_credit_gate *gate, uint32_t source, const struct aqi_am *am,
                             void (*deliver)(void *arg, uint32_t source, const struct aqi_am *am),
                             void *arg);

/*
 * The credits that a message returns, and the bytes that a request takes from the byte budget,
 * which are the same at both ends.
 */
struct aqi_credit_note aqi_credit_of(const struct aqi_am *am);
uint64_t aqi_credit_bytes(const struct aqi_am *am);

#endif
