/* Timeouts of open connections: sends that take too long, and silent peers. */
#ifndef AQI_CORE_CONN_ALIVE_H
#define AQI_CORE_CONN_ALIVE_H

#include "core/conn/conn.h"

struct conn_send;

/*
 * A message with a deadline, after which it fails with AQ_ETIMEOUT. Either the transport counts
 * down conn_send_comp, and `op` completes then; or the message waits for its handler.
 */
struct conn_send *conn_send_new(uint64_t deadline); /* for free() unless it was sent */
struct aqi_comp *conn_send_comp(struct conn_send *send);
void conn_send_begun(struct conn_send *send, struct aqi_op *op);
void conn_send_asked(struct conn_send *send, uint64_t token, uint32_t rank);

void conn_alive_forget(aq_connection *conn);
aq_status conn_alive_open(void);
void conn_alive_close(void);

#endif
