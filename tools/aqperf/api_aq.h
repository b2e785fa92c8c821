/* Shared by the files of the back end for Aqueduct's API. */
#ifndef AQPERF_API_AQ_H
#define AQPERF_API_AQ_H

#include "perf.h"
#include <aqueduct/aqueduct.h>

/* End the job with a message if the call failed. */
#define CHECK(call) api_aq_check(call, #call)
void api_aq_check(aq_status status, const char *call);

/* The team of all ranks, and that of the pair patterns: the same one, or a connection's. */
extern aq_team *api_aq_world, *api_aq_team;

/* api_aq.c, for both a job and a connection. Segment modes as in aq_init_params. */
void api_aq_join(struct perf *perf, unsigned segment_modes);
size_t api_aq_max_size(enum carrier carrier);
void api_aq_put_word(unsigned rank, uint64_t *there, uint64_t value);
uint64_t api_aq_get_word(unsigned rank, uint64_t *there);
void api_aq_ask(struct perf *perf, enum command what, size_t size);
void api_aq_until(int (*done)(void *arg), void *arg);
void api_aq_poll(void);
void api_aq_hello(unsigned rank);
void api_aq_barrier(void);
struct shared *api_aq_segment(unsigned rank, struct shared **mapped);

/* In a job, operations that are not measured use these, regardless of the API that is measured. */
#define API_AQ_JOB                                                                                 \
    .quit = aq_exit, .barrier = api_aq_barrier, .segment = api_aq_segment,                         \
    .put_word = api_aq_put_word, .get_word = api_aq_get_word, .ask = api_aq_ask,                   \
    .until = api_aq_until, .poll = api_aq_poll

/* api_aq_connection.c: the team of the i-th connection, cyclically. */
aq_team *api_aq_turn(uint64_t i);
/* api_aq_connection.c: whether the connection has ended. In rank 0, that ends the program. */
bool api_aq_connection_ended(void);

/* api_aq_rma.c: objects that its patterns need besides the segments. */
void api_aq_private_open(struct perf *perf);
void api_aq_atomic_open(void);
void api_aq_atomic_close(void);

#endif
