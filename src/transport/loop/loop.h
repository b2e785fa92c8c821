/* loop: the transport of a process to itself; the smallest one, and the one to copy. */
#ifndef AQI_LOOP_H
#define AQI_LOOP_H

#include "transport/transport.h"

extern const struct aqi_transport aqi_loop_transport;

#endif
