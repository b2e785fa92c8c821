/* The result of every call that can fail, and how to ask what a failure meant. */
#ifndef AQUEDUCT_STATUS_H
#define AQUEDUCT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define AQ_API      __attribute__((visibility("default")))
#define AQ_MUST_USE __attribute__((warn_unused_result))
#else
#define AQ_API
#define AQ_MUST_USE
#endif

/**
 * What a call reports: 0 done, positive not now, negative failed.
 *
 * Outputs of a call are written only when it returns AQ_OK, unless it says otherwise.
 * A failed call has logged its exact cause; aq_error_message() repeats it.
 */
typedef enum aq_status {
    AQ_OK = 0,      /**< done */
    AQ_AGAIN = 1,   /**< not now: resources are short or the thing is not complete; nothing began */
    AQ_EINVAL = -1, /**< an argument is outside what the call accepts */
    AQ_ERANK = -2,  /**< the rank is not a member of the team */
    AQ_ERANGE = -3, /**< an address range is not inside the segment it names */
    AQ_ESIZE = -4,  /**< a size is above the limit that the library reports for it */
    AQ_EHANDLER = -5, /**< handler index reserved, taken or not registered */
    AQ_ESTATE = -6,   /**< called before aq_init, after aq_finalize, twice, or out of order */
    AQ_ECONTEXT = -7, /**< not allowed from inside a handler, or only allowed there */
    AQ_ENOMEM = -8,   /**< memory is short */
    AQ_ELIMIT = -9, /**< a limit of the system or of a setting is reached (files, locked memory) */
    AQ_ENOTSUP = -10,   /**< this build, machine or transport does not have it */
    AQ_ESYS = -11,      /**< a system call failed; the message has its name and errno */
    AQ_EPEER = -12,     /**< the peer is dead or unreachable */
    AQ_ETIMEOUT = -13,  /**< a bounded wait ran out */
    AQ_EPROTO = -14,    /**< the other side speaks another version, or sent what makes no sense */
    AQ_EMISMATCH = -15, /**< the ranks of a collective call disagree */
    AQ_ESETTING = -16,  /**< an environment variable has a value that is not legal */
    AQ_EACCESS = -17,   /**< the system forbids it (permissions, seccomp, ptrace scope) */
    AQ_EREFUSED = -18   /**< nobody listens at that address, or the server said no */
} aq_status;

/**
 * The identifier of a status, such as "AQ_ERANGE".
 *
 * Threads     Any, at any time, also inside handlers.
 *
 * @return     Static text, never NULL; "AQ_UNKNOWN" for a number that is no status.
 */
AQ_API const char *aq_status_name(aq_status status);

/**
 * One sentence that says what a status means.
 *
 * Threads     Any, at any time, also inside handlers.
 *
 * @return     Static text, never NULL.
 */
AQ_API const char *aq_status_text(aq_status status);

/**
 * The exact cause of the last failure on the calling thread: what happened, to what, what to do.
 *
 * Threads     Any, also inside handlers; each thread has its own message.
 *
 * @return     Text valid until the next failing call on this thread; "" when nothing failed.
 */
AQ_API const char *aq_error_message(void);

/**
 * Should calls that fail say why on standard error, too, as they do unless this is called with 0?
 *
 * For all threads. What the library has to say of itself (AQ_LOG) is not touched, nor is the reason
 * for which it ends a job.
 *
 * Threads     Any, at any time, also inside handlers.
 */
AQ_API void aq_error_log(int on);

#ifdef __cplusplus
}
#endif
#endif
