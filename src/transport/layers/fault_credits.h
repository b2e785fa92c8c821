/* Part of the fault decorator: checks that requests and replies stay within posted buffers. */
#ifndef AQI_FAULT_CREDITS_H
#define AQI_FAULT_CREDITS_H

#include "transport/transport.h"

struct fault_credits;

/* Replaces hooks of `inner`, the params to open the transport with. Freed with free. */
aq_status fault_credits_new(const struct aqi_tp_params *params, struct aqi_tp_params *inner,
                            struct fault_credits **credits);
/* Set the limits to enforce, once the transport is open. */
void fault_credits_limit(struct fault_credits *c, const struct aqi_tp_limits *limits);

/* A message is about to be sent (`sent`), or was refused (not `sent`). `c` may be NULL. */
void fault_credits_sent(struct fault_credits *c, uint32_t to, const struct aqi_am *am, bool sent);
/* The peer is dead: stop counting for it. */
void fault_credits_forget(struct fault_credits *c, uint32_t id);

#endif
