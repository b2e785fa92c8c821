/*
 * Shared by the programs of this folder: checks that end the job, joining with a segment in every
 * rank, data that identifies its origin, and random numbers from a printed seed.
 */
#ifndef AQT_CORE_SUPPORT_H
#define AQT_CORE_SUPPORT_H

#include "../common/check.h"
#include "../common/data.h"

#include <aqueduct/aqueduct.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* This process in the job. Set by job_open. */
struct job {
    aq_team *team;
    aq_ep *ep;
    aq_rank self, size;
    aq_segment *segment;
    unsigned char *base;    /* of this rank's segment; in mode everything, of its own memory */
    unsigned char **bases;  /* in mode everything: those of all ranks */
    size_t len;             /* of every rank's segment */
    uint64_t seed;          /* the same in all ranks; TEST_SEED sets it */
    uint64_t random;        /* state of job_random */
    unsigned segment_modes; /* for aq_init_params; set before job_open */
};
extern struct job job;

/* For a program that accesses no address outside of its memory. */
#define ALL_SEGMENT_MODES                                                                          \
    (AQ_SEGMENT_BIT(AQ_SEGMENT_FAST) | AQ_SEGMENT_BIT(AQ_SEGMENT_LARGE) |                          \
     AQ_SEGMENT_BIT(AQ_SEGMENT_EVERYTHING))

_Noreturn void check_failed(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define CHECK_STATUS(call, want)                                                                   \
    do {                                                                                           \
        aq_status check_got = (call), check_want = (want);                                         \
        if (check_got != check_want)                                                               \
            check_failed(__FILE__, __LINE__, "%s is %s, expected %s (%s)", #call,                  \
                         aq_status_name(check_got), aq_status_name(check_want),                    \
                         aq_error_message());                                                      \
    } while (0)

#define CHECK_OK(call) CHECK_STATUS(call, AQ_OK)

/*
 * Check that a call with an invalid argument fails with this status and records a message.
 */
#define CHECK_REFUSED(call, want)                                                                  \
    do {                                                                                           \
        CHECK_STATUS(call, want);                                                                  \
        CHECK(aq_error_message()[0] != '\0');                                                      \
    } while (0)

/*
 * Join, attach `segment` bytes in every rank (0: none), and print the seed. job_close leaves the
 * job, with checks.
 */
void job_open(aq_thread_mode mode, size_t segment);
void job_close(void);
/* Like job_open for `segment`, but leaves job.len alone. */
void job_attach(size_t size);
/* Register the handlers of a program; a barrier follows, so that peers may send to them. */
void job_handlers(aq_handler_entry *table, size_t count);
void job_barrier(void);

/* job_at: an address in the segment of `rank`. job_next, job_previous: this rank's neighbors in the
 * ring. */
void *job_at(aq_rank rank, size_t offset);
aq_rank job_next(void);
aq_rank job_previous(void);

/* The value of a counter of the library, in this process. */
uint64_t job_counter(const char *name);

/* Poll until *counter >= value. */
void job_await(const _Atomic uint32_t *counter, uint32_t value);

uint64_t job_random(void);
bool all_bytes(const void *buf, size_t len, unsigned char byte);
/* Fill a table of arguments from a number, with all bits and both signs; and compare a table with
 * it. */
void fill_args(aq_arg *args, unsigned nargs, uint64_t seed);
bool filled_args(const aq_arg *args, unsigned nargs, uint64_t seed);

#endif
