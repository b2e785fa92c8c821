/* Joining a job, leaving it, and asking who is in it. */
#ifndef AQUEDUCT_JOB_H
#define AQUEDUCT_JOB_H

#include <aqueduct/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A process of a team, counted from 0. */
typedef uint32_t aq_rank;

/** No rank: greater than every rank there can be. */
#define AQ_RANK_NONE UINT32_MAX

/** An ordered set of processes; ranks in calls are positions in it. */
typedef struct aq_team aq_team;

/** Where messages arrive in this process: a handler table and, once attached, a segment. */
typedef struct aq_ep aq_ep;

/** How the threads of this process use the library; fixed at aq_init. */
typedef enum aq_thread_mode {
    /** That of aq_init makes all calls: no lock, no atomic read-modify-write; AQ_CHECK_THREADS=yes
     * finds others. */
    AQ_THREAD_SINGLE = 0,
    AQ_THREAD_SERIALIZED = 1, /**< several threads make calls, never two at once */
    AQ_THREAD_MULTIPLE = 2    /**< any thread at any time */
} aq_thread_mode;

/** Do not block: a call that would have to wait for resources returns AQ_AGAIN and does nothing. */
#define AQ_IMMEDIATE 0x1u

/** Options of aq_init; zero-initialise, set `struct_size`, then what differs from the default. */
typedef struct aq_init_params {
    size_t struct_size; /**< sizeof(aq_init_params): lets a newer library run older programs */
    aq_thread_mode thread_mode; /**< default AQ_THREAD_SINGLE */
    const char *client_name;    /**< shown in messages; NULL: the program's name */
    uint64_t exit_wait_ns;      /**< exit() and a return from main do aq_exit_together with this */
    /** The segment modes that the program works with, AQ_SEGMENT_BIT of each or-ed together; 0:
     * fast and large. AQ_SEGMENT_MODE chooses among them, else the first is in force. */
    unsigned segment_modes;
    /** For programs that make the calls of another interface: what messages call aq_am_register and
     * aq_ep_create; NULL: that. */
    const char *register_call, *create_call;
} aq_init_params;

/**
 * Join the job that aqrun started, or become a job of one process when nobody did.
 *
 * `params` may be NULL for the defaults. On return all processes of the job are running, every
 * peer can be reached, and `*world` is the team of all of them, owned by the library.
 *
 * Blocking    Until every process of the job has called it; bounded by AQ_START_TIMEOUT.
 * Threads     Once per process, by one thread, before any other call.
 *
 * @return AQ_OK        `*world` is valid until aq_finalize.
 * @return AQ_ESTATE    Called a second time.
 * @return AQ_EINVAL    `world` is NULL, or something in `params` is not legal.
 * @return AQ_ESETTING  An AQ_ variable is not legal, or AQ_SEGMENT_MODE is none of
 *                      `segment_modes`; the message says which and what is.
 * @return AQ_ETIMEOUT  Some process of the job did not come.
 * @return AQ_ELIMIT, AQ_ENOMEM, AQ_ESYS, AQ_EPROTO, AQ_EPEER  As the message says.
 */
AQ_API AQ_MUST_USE aq_status aq_init(const aq_init_params *params, aq_team **world);

/**
 * Leave the job together with all other processes and release everything.
 *
 * Includes a barrier, so that nobody's messages are lost: what was sent before is handled by the
 * time it returns. All explicit events must have been waited for. A process that ends without it
 * ends the whole job, unless AQ_SURVIVE is set: then the others leave without the dead. However it
 * ends, unless by a signal that cannot be caught, its counters (AQ_STATS, AQ_STATS_FILE) and its
 * trace (AQ_TRACE, AQ_TRACE_FILE) are written.
 *
 * Blocking    Until every process has called it.
 * Threads     One thread, no other call in progress; not from inside a handler.
 *
 * @return AQ_OK        The library may not be used any more by this process.
 * @return AQ_ESTATE    Not initialised, or between aq_barrier_notify of all and its wait: then this
 *                      process is still in the job.
 * @return AQ_ECONTEXT  Called from a handler.
 * @return AQ_EPEER     A peer died instead of coming; everything is released all the same. Not
 *                      with AQ_SURVIVE.
 */
AQ_API aq_status aq_finalize(void);

/**
 * End the whole job now with this exit code; the other processes are told and end too.
 *
 * The first code given in the job is the one that aqrun returns (a non-zero one wins over 0). The
 * first given in a process is, by the same rule, the one that this process ends with, whatever its
 * other threads and its handlers of signals and of atexit say after that.
 * Standard output is flushed. Functions registered with atexit() are not run.
 *
 * Blocking    Never returns; bounded by AQ_EXIT_TIMEOUT.
 * Threads     Any, at any time, also inside a handler and before aq_init.
 */
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
AQ_API void
aq_exit(int code);

/**
 * Wait at the end of this process until all others have come to theirs, or `wait_ns` are over.
 *
 * Then the job ends: call aq_exit or exit with the same code next. So a job whose processes end one
 * after the other loses nothing that the later ones still write, and one in which only some end is
 * ended by them, after the wait of the first. Who still makes progress in the library when none has
 * come for 0.6 s is not waited for. The first non-zero code counts, as in aq_exit.
 *
 * Blocking    At most for `wait_ns`, of which no more than AQ_EXIT_TIMEOUT counts, and then until
 *             the others have been told. Runs handlers of replies only.
 * Threads     Any, also inside a handler. Of several threads that call it one returns; the others
 *             stay in it until the process ends.
 *
 * @return AQ_OK       The job is ending: end, too.
 * @return AQ_ESTATE   Not initialised, or finalized.
 */
AQ_API aq_status aq_exit_together(int code, uint64_t wait_ns);

/**
 * What aq_on_peer_lost calls: the process with this job rank died; `why` says of what and is valid
 * during the call.
 */
typedef void aq_peer_lost_fn(void *context, aq_rank job_rank, const char *why);

/**
 * Be told of the deaths of other processes, in a job that goes on without them (aqrun --survive, or
 * AQ_SURVIVE=yes; else a death ends the job).
 *
 * In such a job calls that fail with AQ_EPEER do not print why.
 *
 * When `fn` is called the library knows the process as dead: operations under way to it fail with
 * AQ_EPEER, so do messages to it, and collectives and barriers of teams with it. Teams without it
 * go on; aq_team_shrink makes one of the living. Memory of the dead that is mapped stays readable
 * and writable. A process that ends without aq_finalize is dead, too, whatever its exit code.
 *
 * `fn` runs inside calls that make progress, on the thread of the program that makes them, never on
 * the progress thread, never inside a handler; one call at a time, one for each death, also for
 * deaths from before aq_on_peer_lost. It may call what handlers may call, but not reply. A second
 * call replaces the first; NULL: tell of nothing.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK        From now on.
 * @return AQ_ESTATE    Not initialised.
 * @return AQ_ECONTEXT  Called from a handler.
 */
AQ_API aq_status aq_on_peer_lost(aq_peer_lost_fn *fn, void *context);

/**
 * Is this member of `team` known to be dead or out of reach? It stays so.
 *
 * Threads     Any, also inside handlers.
 *
 * @return 1 or 0; 0 for a rank that is not in the team, and before aq_init.
 */
AQ_API int aq_peer_lost(const aq_team *team, aq_rank rank);

/**
 * Did a launcher start this process as one of a job: aqrun, or srun, mpirun or mpiexec.hydra; or
 * does AQ_BOOT say what it is? For programs that otherwise start one themselves. Works before
 * aq_init.
 *
 * Blocking    Never.
 * Threads     Any; not from inside a handler.
 *
 * @return 1, also where that cannot be found out, which aq_init then says; or 0.
 */
AQ_API int aq_job_launched(void);

/**
 * This process's rank in the job; 0 before aq_init, and after one that failed as far as it was
 * known by then.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API aq_rank aq_job_rank(void);

/**
 * The number of processes in the job; 1 before aq_init.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API aq_rank aq_job_size(void);

/**
 * The threading mode chosen at aq_init.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API aq_thread_mode aq_job_thread_mode(void);

/**
 * Does a progress thread of the library run (AQ_PROGRESS_THREAD=yes)? Then handlers run on it, too,
 * at the same time as the program and whatever its threading mode, so what they share with the
 * program needs atomics or a lock. The threading mode says as before what the program itself may
 * do. The library's thread blocks all signals.
 *
 * Threads     Any, also inside handlers.
 *
 * @return 1 or 0.
 */
AQ_API int aq_job_progress_thread(void);

/**
 * For the program's handler of a signal that ends it: write what it has printed and stdio still
 * has. The program may be inside stdio itself, so a stream that another thread holds is left out.
 * The signal's action must not be this handler any more.
 *
 * Blocking    For half of AQ_EXIT_TIMEOUT; then `signal` is raised again.
 * Threads     Any, in a signal handler.
 */
AQ_API void aq_job_flush(int signal);

/**
 * The caller's rank in `team`.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API aq_rank aq_team_rank(const aq_team *team);

/**
 * The number of members of `team`.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API aq_rank aq_team_size(const aq_team *team);

/**
 * The endpoint of this process through which `team` communicates.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API aq_ep *aq_team_ep(const aq_team *team);

/**
 * Make progress: receive, run the handlers of messages that have arrived, complete operations.
 *
 * Blocking    Never. With more threads than cores it yields once in 64 times that nothing was done.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK        Something was done.
 * @return AQ_AGAIN     Nothing was there to do.
 * @return AQ_ESTATE    Not initialised.
 * @return AQ_ECONTEXT  Called from a handler.
 */
AQ_API aq_status aq_poll(void);

/**
 * Poll until `condition(arg)` is true: spins, then yields, then sleeps, as AQ_WAIT says.
 *
 * The condition is checked after each batch of arrivals and at least every 10 ms, because a remote
 * put can make it true without any message.
 *
 * Blocking    Until the condition holds; runs handlers.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK        The condition holds.
 * @return AQ_ESTATE    Not initialised.
 * @return AQ_ECONTEXT  Called from a handler.
 */
AQ_API AQ_MUST_USE aq_status aq_poll_until(int (*condition)(void *arg), void *arg);

/**
 * Poll; if nothing has happened, wait until something does or the time is over.
 *
 * What happens is what aq_poll reports: messages, completions, the control channel; and what other
 * threads of this process have taken since this thread last called this. For programs that wait for
 * several things, or want to do something now and then; memory that a peer writes with a put makes
 * nothing happen here, so look at it after the time, too.
 *
 * Blocking    For `timeout_ns` at most, as AQ_WAIT says; runs handlers. 0: as aq_poll. UINT64_MAX:
 *             without limit. A busy machine may make it longer.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK        Something may have happened: look at what the program waits for.
 * @return AQ_AGAIN     The time is over, and nothing has.
 * @return AQ_ESTATE    Not initialised.
 * @return AQ_ECONTEXT  Called from a handler.
 */
AQ_API aq_status aq_poll_for(uint64_t timeout_ns);

/**
 * Poll until `condition(arg)` is not 0 or the time is over. Otherwise as aq_poll_until.
 *
 * Blocking    For `timeout_ns` at most, as aq_poll_for; runs handlers.
 *
 * @return AQ_OK        The condition holds.
 * @return AQ_AGAIN     The time is over, and it does not.
 * @return As aq_poll_until.
 */
AQ_API AQ_MUST_USE aq_status aq_poll_until_for(int (*condition)(void *arg), void *arg,
                                               uint64_t timeout_ns);

/** How blocking calls wait. */
typedef enum aq_wait_mode {
    AQ_WAIT_AUTO = 0,  /**< spin, then share; at once where threads exceed cores */
    AQ_WAIT_SPIN = 1,  /**< never sleep; where threads exceed cores: share */
    AQ_WAIT_YIELD = 2, /**< never sleep; yield at once */
    AQ_WAIT_BLOCK = 3, /**< sleep soon */
    AQ_WAIT_SHARE = 4  /**< yield at once, sleep after a millisecond */
} aq_wait_mode;

/**
 * How the waits of this process are to behave from now on; a hint. AQ_WAIT, when it is set, wins.
 *
 * Blocking    Never.
 * Threads     Any, at any time.
 *
 * @return AQ_OK      So it is, or the user wants it otherwise.
 * @return AQ_EINVAL  There is no such mode.
 * @return AQ_ESTATE  Not initialised.
 */
AQ_API aq_status aq_wait_mode_set(aq_wait_mode mode);

/** How long a wait made of aq_poll_wait calls has lasted; begins as all zero bits. */
typedef struct aq_wait {
    uint64_t aqi_state[2];
} aq_wait;

/**
 * One round of a wait that the caller loops over: poll, and when that brought nothing spin, yield
 * or sleep, as AQ_WAIT says and `wait` tells how long it has been. For conditions that are tested
 * inline; otherwise as aq_poll_until, also in that a sleep ends after 10 ms at most.
 *
 * Blocking    Up to a sleep; runs handlers.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK        A round is over: look at the condition.
 * @return AQ_ESTATE    Not initialised.
 * @return AQ_ECONTEXT  Called from a handler.
 * @return AQ_EINVAL    `wait` is NULL.
 */
AQ_API aq_status aq_poll_wait(aq_wait *wait);

#ifdef __cplusplus
}
#endif
#endif
