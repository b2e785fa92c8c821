/* When and how the job ends: judging the ends of ranks, telling the others, killing who stays. */
#ifndef AQRUN_END_H
#define AQRUN_END_H

#include "base/base.h"

struct rank;

/* End the job with `code`; the text says why, to the user and to the ranks. `by` may be NULL. */
void end_job(int code, const struct rank *by, const char *fmt, ...) AQI_PRINTF(3, 4);

/* A rank ended the job itself (aq_exit): without a word, unless it gave a reason. */
void end_asked(const struct rank *by, int code, const char *why);

/* A rank ends when all others do: the job ends then, or after `wait_ns`. */
void end_wanted(struct rank *by, int code, uint64_t wait_ns);

/* The forked process of a rank has ended with this status of waitpid. */
void end_judge(struct rank *rank, int status);

/* A rank that had come to aq_finalize has left in good order. */
void end_left(const struct rank *rank);

/* At the end: which ranks the job went on without, and of what they died. */
void end_tell_lost(void);

/* The process that joined, started by a shell of the rank, has ended without BYE. */
void end_lost(struct rank *rank);

/* The user or the system wants an end; the second time at once. */
void end_by_signal(int number);

/* The next time it wants to be called, UINT64_MAX for never. */
uint64_t end_tick(uint64_t now);

#endif
