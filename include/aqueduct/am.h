/* Active messages: a message names a handler, which runs in the process that receives it. */
#ifndef AQUEDUCT_AM_H
#define AQUEDUCT_AM_H

#include <aqueduct/args.h>
#include <aqueduct/event.h>
#include <aqueduct/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The index of a handler in the table of an endpoint. */
typedef uint8_t aq_handler;

#define AQ_HANDLER_AUTO 0   /**< in a table for aq_am_register: give me a free index */
#define AQ_HANDLER_BASE 64  /**< programs own the indices from here to 255 */
#define AQ_AM_ANY_ARGS  255 /**< in a table: any number of arguments */

/** Categories of messages, and what a handler accepts. */
#define AQ_AM_SHORT 0x1u /**< arguments only */
#define AQ_AM_MEDIUM                                                                               \
    0x2u /**< and a payload in a buffer of the library, valid until the handler returns */
#define AQ_AM_LONG    0x4u  /**< and a payload written to an address in the receiver's segment */
#define AQ_AM_REQUEST 0x8u  /**< a request: its handler may reply once */
#define AQ_AM_REPLY   0x10u /**< a reply: its handler sends nothing */

/**
 * A message as its handler sees it; valid until the handler returns.
 *
 * `args` and, for a Medium, `payload` lie in the library's own buffers: copy what must last.
 */
typedef struct aq_am {
    const aq_arg *args; /**< `nargs` arguments */
    void *payload; /**< Medium: 16-byte aligned library buffer; Long: the address the sender gave */
    size_t nbytes; /**< bytes of payload */
    void *context; /**< the pointer registered with the handler */
    aq_ep *ep;     /**< the endpoint it came to, whose handler this is */
    aq_rank source; /**< job rank of the sender; 1 if it came by a connection */
    uint8_t nargs;
    aq_handler handler;
    uint8_t category;  /**< AQ_AM_SHORT, AQ_AM_MEDIUM or AQ_AM_LONG */
    uint8_t is_reply;  /**< 1 for a reply */
    uint8_t source_ep; /**< index of the endpoint it came from; a reply goes there */
} aq_am;

/**
 * The arguments `at` and `at` + 1 of a message, sent as AQ_ARG64 (or as such a value of aq_args in
 * C++).
 *
 * Blocking    Never.
 * Threads     The one that runs the handler.
 *
 * @return The integer, as it was; one that was signed converts back to int64_t.
 */
static inline uint64_t aq_arg_u64(const aq_am *am, unsigned at)
{
    return (uint32_t)am->args[at] | (uint64_t)(uint32_t)am->args[at + 1] << 32;
}

/**
 * The pointer in the arguments `at` and `at` + 1 of a message, sent as AQ_ARG_PTR: an address of
 * whichever process its sender meant.
 *
 * Blocking    Never.
 * Threads     The one that runs the handler.
 *
 * @return The pointer.
 */
static inline void *aq_arg_ptr(const aq_am *am, unsigned at)
{
    return (void *)(uintptr_t)aq_arg_u64(am, at);
}

/**
 * A handler: runs inside a library call of the receiving process, on the thread that made it.
 *
 * It may reply once, if the message is a request, and must not call anything that blocks: only
 * replies, queries, aq_exit and the calls whose text allows it.
 */
typedef void aq_am_fn(aq_am *am);

/** A row of the table for aq_am_register. */
typedef struct aq_handler_entry {
    aq_handler index; /**< AQ_HANDLER_BASE..255, or AQ_HANDLER_AUTO; written back */
    uint8_t nargs;    /**< 0..16, or AQ_AM_ANY_ARGS; other messages are refused with an error */
    unsigned accepts; /**< OR of AQ_AM_ categories and AQ_AM_REQUEST / AQ_AM_REPLY; 0: everything */
    aq_am_fn *fn;
    void *context;    /**< handed to the handler as am->context */
    const char *name; /**< for messages and traces; may be NULL; kept as a pointer */
} aq_handler_entry;

/**
 * Register handlers with an endpoint. Each endpoint has a table of its own.
 *
 * Fixed indices are placed first; then each row with AQ_HANDLER_AUTO gets the highest free index,
 * in table order, and it is written back: the same tables give the same indices everywhere. Not
 * collective: synchronise (aq_barrier) before peers send to them.
 *
 * Blocking    Never.
 * Threads     Any one at a time; not from inside a handler.
 *
 * @return AQ_OK        All rows are registered; the table may be freed.
 * @return AQ_EHANDLER  An index is reserved or taken, or none is free; nothing was registered.
 * @return AQ_EINVAL    A row has no function, or too many arguments; nothing was registered.
 * @return AQ_ENOTSUP   The endpoint was created without AQ_EP_AM.
 */
AQ_API AQ_MUST_USE aq_status aq_am_register(aq_ep *ep, aq_handler_entry *table, size_t count);

/**
 * The largest payload of a Medium to or from any process of `team`, in bytes (AQ_AM_MAX_MEDIUM; on
 * a connection the smaller one of its two programs).
 *
 * Threads     Any, also inside handlers.
 */
AQ_API size_t aq_am_max_medium(const aq_team *team);

/**
 * The largest payload of a Long to or from any process of `team`, in bytes.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API size_t aq_am_max_long(const aq_team *team);

/**
 * Send a Short request: arguments only.
 *
 * It runs the handler of that index of the endpoint that `team` names in the process `rank`: the
 * first one, but for the teams of aq_team_pair and aq_team_create_eps.
 *
 * A request to the calling process itself runs its handler before the call returns, also with
 * AQ_IMMEDIATE, on this thread; and the reply that it makes runs its handler before that returns.
 *
 * Completion  On return the arguments may be reused. In another process the handler runs later.
 * Ordering    None, not even between two messages to one process.
 * Blocking    Until there is room for it, and then runs handlers; never with AQ_IMMEDIATE.
 * Threads     Any; not from inside a handler.
 *
 * @return AQ_OK        Sent.
 * @return AQ_AGAIN     Only with AQ_IMMEDIATE: no room now, nothing was sent.
 * @return AQ_ENOTSUP   The caller's endpoint of `team` was created without AQ_EP_AM.
 * @return AQ_ERANK, AQ_EHANDLER, AQ_EINVAL, AQ_ECONTEXT, AQ_ESTATE, AQ_EPEER  Nothing was sent.
 */
AQ_API AQ_MUST_USE aq_status aq_am_short(aq_team *team, aq_rank rank, aq_handler handler,
                                         const aq_arg *args, unsigned nargs, unsigned flags);

/**
 * Send a Medium request: `nbytes` from `src` arrive in a buffer of the receiver's library.
 *
 * Completion  With `local` NULL, `src` may be reused on return; else when `*local` is complete
 *             (a root event, which must be waited for); with AQ_EVENT_GROUP after
 *             aq_nbi_wait(AQ_NBI_LOCAL) or the access region's event or its leaf.
 * Ordering, Blocking, Threads  As aq_am_short.
 *
 * @return As aq_am_short, and:
 * @return AQ_ESIZE     `nbytes` is above aq_am_max_medium() and what the way to this process takes.
 */
AQ_API AQ_MUST_USE aq_status aq_am_medium(aq_team *team, aq_rank rank, aq_handler handler,
                                          const void *src, size_t nbytes, const aq_arg *args,
                                          unsigned nargs, unsigned flags, aq_event *local);

/**
 * Send a Long request: `nbytes` from `src` are written to `dst` in the receiver's segment, and
 * then the handler runs and sees them there.
 *
 * With `nbytes` 0 nothing is written and `dst` need not be in a segment. Source and destination
 * must not overlap.
 *
 * Completion  As aq_am_medium.
 * Ordering, Blocking, Threads  As aq_am_short.
 *
 * @return As aq_am_medium, and:
 * @return AQ_ERANGE    [dst, dst + nbytes) is not inside the receiver's segment.
 */
AQ_API AQ_MUST_USE aq_status aq_am_long(aq_team *team, aq_rank rank, aq_handler handler,
                                        const void *src, size_t nbytes, void *dst,
                                        const aq_arg *args, unsigned nargs, unsigned flags,
                                        aq_event *local);

/**
 * Send a Short request and have an event for its answer, in place of a counter and a handler of the
 * reply of the program's own.
 *
 * Completion  On return the arguments may be reused. `*ev`, a root event, is complete when the
 *             handler there has run and, if it replied, the reply's handler here; with AQ_EPEER
 *             when the process there died before. For aq_event_leaf it is a get.
 * Ordering, Blocking, Threads  As aq_am_short.
 *
 * The handler cannot tell it from another request, except that its reply, if it is a Long, has 14
 * arguments at most.
 *
 * @return AQ_OK        Sent; `*ev` must be waited for.
 * @return AQ_ENOMEM    No memory for the event.
 * @return As aq_am_short otherwise; AQ_EINVAL also if `ev` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_am_short_nb(aq_team *team, aq_rank rank, aq_handler handler,
                                            const aq_arg *args, unsigned nargs, unsigned flags,
                                            aq_event *ev);

/**
 * Send a Medium request and have an event for its answer, as aq_am_short_nb; `src` may be reused on
 * return.
 *
 * @return As aq_am_short_nb, and AQ_ESIZE.
 */
AQ_API AQ_MUST_USE aq_status aq_am_medium_nb(aq_team *team, aq_rank rank, aq_handler handler,
                                             const void *src, size_t nbytes, const aq_arg *args,
                                             unsigned nargs, unsigned flags, aq_event *ev);

/**
 * Send a Medium request when the operation of `*ev` is complete: to tell the target of a put that
 * its data is there.
 *
 * Completion  On return `src` and the arguments may be reused. `*ev`, any root event, becomes that
 *             of both: complete when the operation is and the message is sent, with the leaf of
 *             aq_event_local when the operation's is. If the operation fails nothing is sent.
 * Blocking    Never, except where `*ev` is complete already (AQ_EVENT_DONE): then as aq_am_medium.
 * Ordering, Threads  As aq_am_short.
 *
 * @return As aq_am_medium, but for AQ_AGAIN; AQ_EINVAL also if `ev` is NULL, AQ_ENOMEM. `*ev` is
 *         unchanged unless AQ_OK.
 */
AQ_API AQ_MUST_USE aq_status aq_am_medium_after_nb(aq_team *team, aq_rank rank, aq_handler handler,
                                                   const void *src, size_t nbytes,
                                                   const aq_arg *args, unsigned nargs,
                                                   aq_event *ev);

/**
 * The same for the thread's implicit set: both together count as a put (AQ_NBI_PUT), and `*ev`
 * becomes AQ_EVENT_DONE. Otherwise as aq_am_medium_after_nb.
 *
 * @return As aq_am_medium_after_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_am_medium_after_nbi(aq_team *team, aq_rank rank, aq_handler handler,
                                                    const void *src, size_t nbytes,
                                                    const aq_arg *args, unsigned nargs,
                                                    aq_event *ev);

/**
 * Reply to a request with a Short, from inside its handler, at most one reply per request.
 *
 * Blocking    May wait for room, running handlers of replies only; never for request resources. A
 *             reply to the process itself runs its handler before the call returns.
 * Threads     The one that runs the handler.
 *
 * @return AQ_OK        Sent.
 * @return AQ_ECONTEXT  `am` is a reply, or has been replied to, or this is not its handler.
 * @return AQ_AGAIN, AQ_EHANDLER, AQ_EINVAL, AQ_EPEER  As aq_am_short.
 */
AQ_API AQ_MUST_USE aq_status aq_am_reply_short(aq_am *am, aq_handler handler, const aq_arg *args,
                                               unsigned nargs, unsigned flags);

/**
 * Reply with a Medium; `src` may be reused on return. Otherwise as aq_am_reply_short.
 *
 * @return As aq_am_reply_short, and AQ_ESIZE.
 */
AQ_API AQ_MUST_USE aq_status aq_am_reply_medium(aq_am *am, aq_handler handler, const void *src,
                                                size_t nbytes, const aq_arg *args, unsigned nargs,
                                                unsigned flags);

/**
 * Reply with a Long to `dst` in the requester's segment; `src` may be reused on return. Otherwise
 * as aq_am_reply_short.
 *
 * @return As aq_am_reply_short, and AQ_ESIZE, AQ_ERANGE.
 */
AQ_API AQ_MUST_USE aq_status aq_am_reply_long(aq_am *am, aq_handler handler, const void *src,
                                              size_t nbytes, void *dst, const aq_arg *args,
                                              unsigned nargs, unsigned flags);

/**
 * A message being prepared: write up to `size` bytes of payload at `addr`, then commit or cancel.
 *
 * The fields below `size` belong to the library.
 */
typedef struct aq_am_buffer {
    void *addr;  /**< where the payload goes (or comes from: the caller's own buffer) */
    size_t size; /**< how many bytes were granted */
    void *aqi_route;
    void *aqi_am;
    void *aqi_slot;
    uint32_t aqi_flags;
    uint32_t aqi_nargs;
} aq_am_buffer;

/**
 * Prepare a request with a negotiated payload, Medium or Long (`category`).
 *
 * With `client_buf` NULL the payload is written straight into a buffer of the library (16-byte
 * aligned); else it is taken from `client_buf` at commit. Grants between `least` and `most` bytes.
 * `nargs` is the number of arguments that the commit will pass. Between reserve and commit or
 * cancel the calling thread makes no other communication call.
 *
 * Blocking, Threads  As aq_am_short.
 *
 * @return AQ_OK        `*buffer` is valid until commit or cancel.
 * @return AQ_AGAIN     Only with AQ_IMMEDIATE: no room now.
 * @return AQ_ESIZE     `least` is above the limit of the category.
 * @return AQ_EINVAL, AQ_ERANK, AQ_ENOTSUP, AQ_ECONTEXT, AQ_ESTATE, AQ_EPEER  Nothing was reserved.
 */
AQ_API AQ_MUST_USE aq_status aq_am_reserve(aq_team *team, aq_rank rank, unsigned category,
                                           const void *client_buf, size_t least, size_t most,
                                           unsigned nargs, unsigned flags, aq_am_buffer *buffer);

/**
 * Prepare a reply with a negotiated payload; counts as the reply of `am` once committed. Otherwise
 * as aq_am_reserve.
 *
 * Blocking    May wait for room, running handlers of replies only.
 * Threads     The one that runs the handler.
 *
 * @return As aq_am_reserve.
 */
AQ_API AQ_MUST_USE aq_status aq_am_reserve_reply(aq_am *am, unsigned category,
                                                 const void *client_buf, size_t least, size_t most,
                                                 unsigned nargs, unsigned flags,
                                                 aq_am_buffer *buffer);

/**
 * Send a prepared message with the first `nbytes` of its buffer; consumes the buffer.
 *
 * `dst` is the destination in the receiver's segment for a Long and is ignored for a Medium.
 * A caller-owned payload may be reused on return.
 *
 * Blocking    May wait for room, as the fixed forms do; never with AQ_IMMEDIATE.
 * Threads     The one that reserved it.
 *
 * @return AQ_OK        Sent.
 * @return AQ_AGAIN     Only with AQ_IMMEDIATE: not sent; the buffer is still usable.
 * @return AQ_ESIZE, AQ_ERANGE, AQ_EHANDLER, AQ_EINVAL  Not sent; the buffer is still usable.
 * @return AQ_EPEER     The peer died; the buffer is released.
 */
AQ_API AQ_MUST_USE aq_status aq_am_commit(aq_am_buffer *buffer, aq_handler handler, size_t nbytes,
                                          void *dst, const aq_arg *args, unsigned nargs,
                                          unsigned flags);

/**
 * Give a prepared message up; nothing is sent. A request being replied to may be replied to anew.
 *
 * Blocking    Never.
 * Threads     The one that reserved it.
 */
AQ_API void aq_am_cancel(aq_am_buffer *buffer);

#ifdef __cplusplus
}
#endif
#endif
