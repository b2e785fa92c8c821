/* Joining and leaving a job, and its processes. */
#ifndef AQUEDUCT_JOB_H
#define AQUEDUCT_JOB_H

#include <aqueduct/status.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The number of a process in a team, from 0. */
typedef uint32_t aq_rank;

/** No rank: greater than every possible rank. */
#define AQ_RANK_NONE UINT32_MAX

/** An ordered set of processes; a rank is a position in it. */
typedef struct aq_team aq_team;

/** An endpoint of this process: a handler table and, once attached, a segment. */
typedef struct aq_ep aq_ep;

/** How the threads of this process use the library; fixed at aq_init. */
typedef enum aq_thread_mode {
    /** Only the thread that called aq_init makes calls: no locks, no atomic read-modify-write.
     * AQ_CHECK_THREADS=yes detects calls from other threads. */
    AQ_THREAD_SINGLE = 0,
    AQ_THREAD_SERIALIZED = 1, /**< several threads make calls, never two at once */
    AQ_THREAD_MULTIPLE = 2    /**< any thread at any time */
} aq_thread_mode;

/** A timeout that never expires. */
#define AQ_FOREVER UINT64_MAX

/**
 * Do not block: a call that would wait for resources returns AQ_AGAIN and does nothing.
 *
 * Flags of different families of calls have different bits, and a call rejects (AQ_EINVAL) flags of
 * another family.
 */
#define AQ_IMMEDIATE 0x1u

/** Options of aq_init. Begin with aq_init_defaults(), then set what should differ. */
typedef struct aq_init_params {
    size_t struct_size; /**< sizeof(aq_init_params), so that a newer library runs older programs */
    aq_thread_mode thread_mode; /**< default AQ_THREAD_SINGLE */
    const char *client_name;    /**< shown in messages; NULL: the program's name */
    uint64_t exit_wait_ns;      /**< for aq_exit_together at exit() or return from main; 0: none */
    /** Segment modes that the program supports, as the OR of AQ_SEGMENT_BIT values; 0: fast and
     * large. AQ_SEGMENT_MODE selects one of them; the default is the lowest. */
    unsigned segment_modes;
    /** For layers on top of this interface: their own names for aq_am_register and aq_ep_create,
     * printed in messages; NULL: these two. */
    const char *register_call, *create_call;
} aq_init_params;

/**
 * Return the default options of aq_init.
 *
 * Blocking    Never.
 * Threads     Any.
 */
static inline aq_init_params aq_init_defaults(void)
{
    aq_init_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    return params;
}

/**
 * Join the job that aqrun started, or become a job of one process if there is no launcher.
 *
 * `params` may be NULL for the defaults. On return all processes of the job are running, every peer
 * can be reached, and `*world` is the team of all processes, owned by the library.
 *
 * Several libraries of one program may each call aq_init and aq_finalize: the process joins with
 * the first call, and leaves with the aq_finalize that matches the last one. Later calls get the
 * same `*world` and never wait. The choices of the first call stay in effect: a later call fails if
 * it asks for a higher threading mode or does not support the segment mode in effect. The longest
 * `exit_wait_ns` applies; client_name and the names of calls are those of the first call. The
 * libraries share the handler table of the first endpoint, where AQ_HANDLER_AUTO avoids clashes; an
 * endpoint of its own (aq_ep_create) gives a library its own table and segment. A team of its own
 * (aq_team_split) keeps its collectives apart from those of others.
 *
 * Blocking    Until every process of the job has called it; at most for AQ_START_TIMEOUT.
 * Threads     Once per process, by one thread, before any other call.
 *
 * @return AQ_OK        `*world` is valid until aq_finalize.
 * @return AQ_ESTATE    The process has left its job, is a forked child of a process in a job, or a
 *                      later call conflicts with the first (see above).
 * @return AQ_EINVAL    `world` is NULL, or a field of `params` is invalid.
 * @return AQ_ESETTING  An AQ_ variable is invalid, or AQ_SEGMENT_MODE is not in `segment_modes`;
 *                      the message names the variable and its valid values.
 * @return AQ_ETIMEOUT  A process of the job did not call aq_init in time.
 * @return AQ_ELIMIT, AQ_ENOMEM, AQ_ESYS, AQ_EPROTO, AQ_EPEER  See aq_error_message().
 */
AQ_API AQ_MUST_USE aq_status aq_init(const aq_init_params *params, aq_team **world);

/**
 * Leave the job together with all other processes and release all resources. If aq_init was called
 * n times, only the n-th aq_finalize does this; the earlier ones return at once.
 *
 * Includes a barrier, so that no message is lost: on return, all messages sent before it have been
 * handled. All explicit events must have been waited for. A process that ends without calling
 * aq_finalize ends the whole job, unless AQ_SURVIVE is set; then the surviving processes leave
 * without it. Counters (AQ_STATS, AQ_STATS_FILE) and traces (AQ_TRACE, AQ_TRACE_FILE) are written
 * however the process ends, except when a signal that cannot be caught kills it.
 *
 * Blocking    Until every process has called it.
 * Threads     One thread, with no other call in progress; not from a handler.
 *
 * @return AQ_OK        This process may no longer use the library.
 * @return AQ_ESTATE    Not initialized, or called between aq_barrier_notify on the team of the job
 *                      and its wait; the process remains in the job.
 * @return AQ_ECONTEXT  Called from a handler.
 * @return AQ_EPEER     A peer died instead of leaving; all resources are released anyway. Not
 *                      returned with AQ_SURVIVE.
 */
AQ_API aq_status aq_finalize(void);

/**
 * End the whole job now with this exit code, including all other processes.
 *
 * aqrun returns the first code that any process passed, except that a non-zero code takes
 * precedence over 0. By the same rule, this process exits with the first code passed in it,
 * whatever its other threads, signal handlers and atexit handlers do afterwards. Standard output is
 * flushed. Functions registered with atexit() are not run.
 *
 * Blocking    Never returns; takes at most AQ_EXIT_TIMEOUT.
 * Threads     Any, at any time, including before aq_init; may be called from a handler.
 */
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
AQ_API void
aq_exit(int code);

/**
 * Wait, at the end of this process, until the others reach theirs, at most `wait_ns` nanoseconds.
 *
 * Then the job ends: call aq_exit or exit with the same code next. Thus processes that end later
 * still write their output, and if only some processes end, the job ends `wait_ns` after the first
 * of them. If no other process arrives for 0.6 s, one that is still making progress in the library
 * is not waited for. The first non-zero code takes precedence, as with aq_exit.
 *
 * Blocking    At most for `wait_ns` (limited to AQ_EXIT_TIMEOUT), and then until the other
 *             processes have been notified. Runs handlers of replies only.
 * Threads     Any; may be called from a handler. If several threads call it, one returns; the
 *             others stay in it until the process ends.
 *
 * @return AQ_OK       The job is ending; this process should exit.
 * @return AQ_ESTATE   Not initialized, or finalized.
 */
AQ_API aq_status aq_exit_together(int code, uint64_t wait_ns);

/**
 * Callback of aq_on_peer_lost. The process with this job rank died; `why` describes the cause and
 * is valid during the call.
 */
typedef void aq_peer_lost_fn(void *context, aq_rank job_rank, const char *why);

/**
 * Register a callback for the death of other processes. Only jobs started with aqrun --survive or
 * AQ_SURVIVE=yes outlive a death; otherwise it ends the job.
 *
 * In such a job, calls that fail with AQ_EPEER do not print the cause.
 *
 * When `fn` is called, the library already treats the process as dead: outstanding operations on
 * it, messages to it, and collectives and barriers of teams that include it fail with AQ_EPEER.
 * Teams without it are not affected; aq_team_shrink makes a team of the survivors. Mapped memory of
 * a dead process remains readable and writable. A process that ends without aq_finalize counts as
 * dead, whatever its exit code.
 *
 * `fn` runs inside calls that make progress, on the thread of the program that makes the call,
 * never on the progress thread and never inside a handler. Calls of `fn` do not overlap. It is
 * called once per death, including deaths before aq_on_peer_lost. It may call what handlers may
 * call, except replies. A second aq_on_peer_lost replaces the first; NULL removes the callback.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        The callback is registered.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_on_peer_lost(aq_peer_lost_fn *fn, void *context);

/**
 * Return whether this member of `team` is known to be dead or unreachable. This never reverts.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return 1 or 0; 0 also if the rank is not in the team, and before aq_init.
 */
AQ_API int aq_peer_lost(const aq_team *team, aq_rank rank);

/**
 * Return whether a launcher (aqrun, srun, mpirun or mpiexec.hydra) or AQ_BOOT made this process
 * part of a job. For programs that start a job themselves if none did. Works before aq_init.
 *
 * Blocking    Never.
 * Threads     Any; not from a handler.
 *
 * @return 1 or 0; 1 also if it cannot be determined, in which case aq_init reports the reason.
 */
AQ_API int aq_job_launched(void);

/**
 * Return this process's rank in the job: 0 before aq_init; after a failed aq_init, the rank if it
 * was known.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API aq_rank aq_job_rank(void);

/**
 * Return the number of processes in the job; 1 before aq_init.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API aq_rank aq_job_size(void);

/**
 * Return the threading mode chosen at aq_init.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API aq_thread_mode aq_job_thread_mode(void);

/**
 * Return whether the library's progress thread is running (AQ_PROGRESS_THREAD=yes). If so, handlers
 * also run on it, concurrently with the program and regardless of the threading mode, so data that
 * they share with the program needs atomics or a lock. The threading mode still governs what the
 * program itself may do. The progress thread blocks all signals.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return 1 or 0.
 */
AQ_API int aq_job_progress_thread(void);

/**
 * Flush stdout and stderr from the program's handler of a fatal signal. The program may have been
 * interrupted inside stdio, so a stream that another thread has locked is skipped. The signal's
 * action must have been reset to something other than this handler.
 *
 * Blocking    At most half of AQ_EXIT_TIMEOUT; then `signal` is raised again.
 * Threads     Any, in a signal handler.
 */
AQ_API void aq_job_flush(int signal);

/**
 * Return the caller's rank in `team`.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API aq_rank aq_team_rank(const aq_team *team);

/**
 * Return the number of members of `team`.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API aq_rank aq_team_size(const aq_team *team);

/**
 * Return the endpoint of this process through which `team` communicates.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API aq_ep *aq_team_ep(const aq_team *team);

/**
 * Make progress: receive, run the handlers of arrived messages, and complete operations.
 *
 * Blocking    Never. If there are more threads than cores, or AQ_WAIT is yield or share, it yields
 *             once in 64 calls that find nothing to do.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        Progress was made.
 * @return AQ_AGAIN     There was nothing to do.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_poll(void);

/**
 * Poll until `condition(arg)` is true, at most for `timeout_ns`: spin, then yield, then sleep, as
 * set by AQ_WAIT.
 *
 * The condition is checked after each batch of arrivals and at least every 10 ms, because a remote
 * put can make it true without a message.
 *
 * Blocking    Until the condition holds or the time expires, as aq_poll_for; runs handlers.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        The condition holds.
 * @return AQ_AGAIN     Timed out; the condition does not hold.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_poll_until(int (*condition)(void *arg), void *arg,
                                           uint64_t timeout_ns);

/**
 * Poll; if nothing has happened, wait until something does, for at most `timeout_ns`.
 *
 * Everything that aq_poll reports counts (messages, completions, the control channel), including
 * what other threads of this process have handled since this thread last called aq_poll_for. Use it
 * to wait for several conditions, or to act periodically. A put by a peer to local memory does not
 * end the wait, so also check such memory after a timeout.
 *
 * Blocking    At most for `timeout_ns`, as set by AQ_WAIT; runs handlers. 0: does not wait.
 *             AQ_FOREVER: no limit. A busy machine may exceed the time.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        Something may have happened: check what the program waits for.
 * @return AQ_AGAIN     Timed out, and nothing has happened.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API aq_status aq_poll_for(uint64_t timeout_ns);

/** How blocking calls wait. */
typedef enum aq_wait_mode {
    AQ_WAIT_AUTO = 0,  /**< spin, then as SHARE; SHARE at once if threads exceed cores */
    AQ_WAIT_SPIN = 1,  /**< never sleep; as SHARE if threads exceed cores */
    AQ_WAIT_YIELD = 2, /**< yield at once; never sleep */
    AQ_WAIT_BLOCK = 3, /**< sleep soon */
    AQ_WAIT_SHARE = 4  /**< yield at once; sleep after a millisecond */
} aq_wait_mode;

/**
 * Set how this process waits from now on; a hint. AQ_WAIT takes precedence if it is set.
 *
 * Blocking    Never.
 * Threads     Any, at any time.
 *
 * @return AQ_OK      The mode is in effect, or the user has set another one.
 * @return AQ_EINVAL  No such mode.
 * @return AQ_ESTATE  Not initialized.
 */
AQ_API aq_status aq_wait_mode_set(aq_wait_mode mode);

/** State of a wait that consists of aq_poll_wait calls; zero-initialize. */
typedef struct aq_wait {
    uint64_t aqi_state[2];
} aq_wait;

/**
 * Perform one round of a wait that the caller loops over: poll, and if nothing happened spin, yield
 * or sleep, depending on AQ_WAIT and on how long `wait` has lasted. For conditions that are tested
 * inline. A sleep ends after 10 ms at most. Otherwise as aq_poll_until.
 *
 * Blocking    For one sleep at most; runs handlers.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        The round has ended: check the condition.
 * @return AQ_ESTATE, AQ_ECONTEXT
 * @return AQ_EINVAL    `wait` is NULL.
 */
AQ_API aq_status aq_poll_wait(aq_wait *wait);

#ifdef __cplusplus
}
#endif
#endif
