/* Status codes of calls that can fail, and their description. */
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
 * The status of a call: 0 is success, a positive value means "not now", a negative one is a
 * failure.
 *
 * Output arguments are written only if the call returns AQ_OK, unless stated otherwise.
 * aq_error_message() returns the exact cause of a failure.
 */
typedef enum aq_status {
    AQ_OK = 0,      /**< success */
    AQ_AGAIN = 1,   /**< not now: not enough resources, or not complete yet; nothing was started */
    AQ_EINVAL = -1, /**< an argument is invalid */
    AQ_ERANK = -2,  /**< the rank is not a member of the team */
    AQ_ERANGE = -3, /**< an address range is not inside its segment */
    AQ_ESIZE = -4,  /**< a size exceeds the limit that the library reports */
    AQ_EHANDLER = -5, /**< the handler index is reserved, taken or not registered */
    AQ_ESTATE = -6,   /**< called before aq_init, after aq_finalize, twice, or out of order */
    AQ_ECONTEXT = -7, /**< not allowed inside a handler, or only allowed there */
    AQ_ENOMEM = -8,   /**< out of memory */
    AQ_ELIMIT = -9, /**< a limit of the system or of a setting was reached (files, locked memory) */
    AQ_ENOTSUP = -10,   /**< not supported by this build, machine or transport */
    AQ_ESYS = -11,      /**< a system call failed; the message has its name and errno */
    AQ_EPEER = -12,     /**< the peer is dead or unreachable */
    AQ_ETIMEOUT = -13,  /**< timed out */
    AQ_EPROTO = -14,    /**< the peer uses another version, or sent malformed data */
    AQ_EMISMATCH = -15, /**< the ranks of a collective call disagree */
    AQ_ESETTING = -16,  /**< an environment variable has an invalid value */
    AQ_EACCESS = -17, /**< denied by the system (permissions, seccomp, ptrace scope) or by a peer */
    AQ_EREFUSED = -18 /**< nothing listens at that address, or the server rejected the request */
} aq_status;

/**
 * Return the identifier of a status, such as "AQ_ERANGE".
 *
 * Threads     Any, at any time; may be called from a handler.
 *
 * @return     A static string, never NULL; "AQ_UNKNOWN" if `status` is not a status code.
 */
AQ_API const char *aq_status_name(aq_status status);

/**
 * Return a short description of a status.
 *
 * Threads     Any, at any time; may be called from a handler.
 *
 * @return     A static string, never NULL.
 */
AQ_API const char *aq_status_text(aq_status status);

/**
 * Return the exact cause of the last failure on the calling thread: what happened, to what, and
 * what to do.
 *
 * Threads     Any; may be called from a handler; each thread has its own message.
 *
 * @return     Text that is valid until the next failing call on this thread; "" if nothing failed.
 */
AQ_API const char *aq_error_message(void);

/**
 * Enable (the default) or disable printing of failures to stderr.
 *
 * Applies to all threads. Log messages of the library itself (AQ_LOG) and the reason why it ends
 * a job are printed regardless. Failures that a program may expect are not printed: a lost peer
 * (AQ_EPEER), a connection that is refused or times out, and a barrier whose names differ.
 *
 * Threads     Any, at any time; may be called from a handler.
 */
AQ_API void aq_error_log(int on);

#ifdef __cplusplus
}
#endif
#endif
