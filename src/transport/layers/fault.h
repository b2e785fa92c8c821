/*
 * The fault decorator: wraps any transport and makes it misbehave within the contract, from a seed.
 * For tests of the library and of programs. AQ_FAULT is a comma-separated list:
 *
 *   again=P     am_send, put, get and atomic return AQ_AGAIN in P percent of the calls, in bursts
 *   late=N      completions arrive 1 to N progress calls late
 *   swap=P      P percent of the messages are overtaken by later ones
 *   hide=A+B…   the transport appears to lack: reserve put get atomic fill pull long rows map reg
 *               alloc wait
 *   die=ID@N    after N calls to peer ID it is lost
 *   credits=1   the transport needs credits (AQI_CAP_CREDITS), and the process aborts if there are
 *               more requests or replies than buffers could have been posted for
 *   depth=N     with credits: no more than N requests to a peer, regardless of AQ_AM_CREDITS
 *   seed=S      for the random choices; default 1
 */
#ifndef AQI_FAULT_H
#define AQI_FAULT_H

#include "transport/transport.h"

/* Parse a specification; "" turns the decorator off. Returns AQ_ESETTING if it is invalid. */
aq_status aqi_fault_configure(const char *spec);
bool aqi_fault_wanted(void);
/* The capabilities of the decorated transport. */
unsigned aqi_fault_caps(unsigned caps);

aq_status aqi_fault_open(const struct aqi_transport *transport, const struct aqi_tp_params *params,
                         struct aqi_tp **tp);

#endif
