/* Active messages: a message names a handler, which runs in the receiving process. */
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

#define AQ_HANDLER_AUTO 0   /**< in a table for aq_am_register: assign a free index */
#define AQ_HANDLER_BASE 64  /**< indices from here to 255 belong to programs */
#define AQ_AM_ANY_ARGS  255 /**< in a table: any number of arguments */

/** Categories of messages, and what a handler accepts. */
#define AQ_AM_SHORT 0x1u /**< arguments only */
#define AQ_AM_MEDIUM                                                                               \
    0x2u /**< arguments and a payload in a library buffer, valid until the handler returns */
#define AQ_AM_LONG    0x4u  /**< arguments and a payload written into the receiver's segment */
#define AQ_AM_REQUEST 0x8u  /**< a request: its handler may reply once */
#define AQ_AM_REPLY   0x10u /**< a reply: its handler must not send */

/**
 * A message as its handler sees it; valid until the handler returns.
 *
 * `args` and the `payload` of a Medium are in library buffers: copy what must outlive the handler.
 */
typedef struct aq_am {
    const aq_arg *args; /**< `nargs` arguments */
    void *payload; /**< Medium: 16-byte aligned library buffer; Long: the address the sender gave */
    size_t nbytes; /**< size of the payload in bytes */
    void *context; /**< the pointer registered with the handler */
    aq_ep *ep;     /**< the endpoint that received it and owns the handler */
    aq_rank source; /**< job rank of the sender; 1 if it came over a connection */
    uint8_t nargs;
    aq_handler handler;
    uint8_t category;  /**< AQ_AM_SHORT, AQ_AM_MEDIUM or AQ_AM_LONG */
    uint8_t is_reply;  /**< 1 for a reply */
    uint8_t source_ep; /**< index of the endpoint it came from; a reply goes there */
} aq_am;

/**
 * Return the 64-bit integer in arguments `at` and `at` + 1 of a message, sent with AQ_ARG64 (or as
 * a 64-bit value of aq_args in C++).
 *
 * Blocking    Never.
 * Threads     The thread that runs the handler.
 *
 * @return The value; a signed one converts back to int64_t.
 */
static inline uint64_t aq_arg_u64(const aq_am *am, unsigned at)
{
    return (uint32_t)am->args[at] | (uint64_t)(uint32_t)am->args[at + 1] << 32;
}

/**
 * Return the pointer in arguments `at` and `at` + 1 of a message, sent with AQ_ARG_PTR. The sender
 * decides in which process the address is valid.
 *
 * Blocking    Never.
 * Threads     The thread that runs the handler.
 *
 * @return The pointer.
 */
static inline void *aq_arg_ptr(const aq_am *am, unsigned at)
{
    return (void *)(uintptr_t)aq_arg_u64(am, at);
}

/**
 * A handler. It runs inside a library call of the receiving process, on the thread that made it.
 *
 * It may reply once if the message is a request, and must not block: it may only call replies,
 * queries, aq_exit, and calls that are documented as callable from handlers.
 */
typedef void aq_am_fn(aq_am *am);

/** An entry of the table for aq_am_register. */
typedef struct aq_handler_entry {
    aq_handler index; /**< AQ_HANDLER_BASE..255, or AQ_HANDLER_AUTO; written back */
    uint8_t nargs;    /**< 0..16, or AQ_AM_ANY_ARGS; other numbers are rejected with an error */
    unsigned accepts; /**< OR of AQ_AM_ categories and AQ_AM_REQUEST / AQ_AM_REPLY; 0: all */
    aq_am_fn *fn;
    void *context;    /**< passed to the handler as am->context */
    const char *name; /**< for messages and traces; may be NULL; only the pointer is stored */
} aq_handler_entry;

/**
 * Register handlers with an endpoint. Each endpoint has its own table.
 *
 * Fixed indices are placed first; then each entry with AQ_HANDLER_AUTO is assigned the highest free
 * index, in table order, which is written back. Thus equal tables give equal indices in all
 * processes. Not collective: synchronize (aq_barrier) before peers send to the new handlers.
 *
 * Blocking    Never.
 * Threads     One at a time; not from a handler.
 *
 * @return AQ_OK        All entries are registered; the table may be freed.
 * @return AQ_EHANDLER  An index is reserved or taken, or none is free; nothing was registered.
 * @return AQ_EINVAL    An entry has no function, or too many arguments; nothing was registered.
 * @return AQ_ENOTSUP   The endpoint was created without AQ_EP_AM.
 */
AQ_API AQ_MUST_USE aq_status aq_am_register(aq_ep *ep, aq_handler_entry *table, size_t count);

/**
 * Return the largest payload of a Medium to or from any process of `team`, in bytes
 * (AQ_AM_MAX_MEDIUM; on a connection, the smaller of the two programs' values).
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API size_t aq_am_max_medium(const aq_team *team);

/**
 * Return the largest payload of a Long to or from any process of `team`, in bytes.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API size_t aq_am_max_long(const aq_team *team);

/**
 * Send a Short request: arguments only.
 *
 * The message runs handler `handler` in process `rank`, on the endpoint that `team` names there:
 * the first one, except for teams of aq_team_pair and aq_team_create_eps.
 *
 * A request to the calling process itself runs its handler on this thread before the call returns,
 * even with AQ_IMMEDIATE; if the handler replies, the reply's handler runs before the replying call
 * returns.
 *
 * Completion  The arguments may be reused on return. In another process the handler runs later.
 * Ordering    None, not even between two messages to one process.
 * Blocking    Until there is room for the message, running handlers meanwhile; never with
 *             AQ_IMMEDIATE.
 * Threads     Any; not from a handler.
 *
 * @return AQ_OK        Sent.
 * @return AQ_AGAIN     Only with AQ_IMMEDIATE: no room; nothing was sent.
 * @return AQ_ENOTSUP   The caller's endpoint of `team` was created without AQ_EP_AM.
 * @return AQ_ERANK, AQ_EHANDLER, AQ_EINVAL, AQ_ECONTEXT, AQ_ESTATE, AQ_EPEER  Nothing was sent.
 */
AQ_API AQ_MUST_USE aq_status aq_am_short(aq_team *team, aq_rank rank, aq_handler handler,
                                         const aq_arg *args, unsigned nargs, unsigned flags);

/**
 * Send a Medium request: `nbytes` from `src` arrive in a library buffer of the receiver.
 *
 * Completion  If `local` is NULL, `src` may be reused on return. Otherwise `src` may be reused when
 *             `*local`, a root event that must be waited for, is complete; with AQ_EVENT_GROUP,
 *             after aq_nbi_wait(AQ_NBI_LOCAL), or when the access region's event or its leaf is
 *             complete.
 * Ordering, Blocking, Threads  As aq_am_short.
 *
 * @return As aq_am_short, and:
 * @return AQ_ESIZE     `nbytes` exceeds both aq_am_max_medium() and the limit of the path to this
 *                      process.
 */
AQ_API AQ_MUST_USE aq_status aq_am_medium(aq_team *team, aq_rank rank, aq_handler handler,
                                          const void *src, size_t nbytes, const aq_arg *args,
                                          unsigned nargs, unsigned flags, aq_event *local);

/**
 * Send a Long request: `nbytes` from `src` are written to `dst` in the receiver's segment before
 * the handler runs.
 *
 * If `nbytes` is 0, nothing is written and `dst` need not be in a segment. Source and destination
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
 * Send a Short request and return an event for its reply, so that the program needs neither a
 * counter nor a reply handler.
 *
 * To the remote handler it is an ordinary request, except that a Long reply may have at most 14
 * arguments.
 *
 * Completion  The arguments may be reused on return. `*ev`, a root event, completes when the remote
 *             handler has run and, if it replied, the reply's handler has run here; or with
 *             AQ_EPEER if the remote process died first. For aq_event_leaf it counts as a get.
 * Ordering, Blocking, Threads  As aq_am_short.
 *
 * @return AQ_OK        Sent; `*ev` must be waited for.
 * @return AQ_ENOMEM    Not enough memory for the event.
 * @return As aq_am_short otherwise; AQ_EINVAL also if `ev` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_am_short_nb(aq_team *team, aq_rank rank, aq_handler handler,
                                            const aq_arg *args, unsigned nargs, unsigned flags,
                                            aq_event *ev);

/**
 * Send a Medium request and return an event for its reply, as aq_am_short_nb; `src` may be reused
 * on return.
 *
 * @return As aq_am_short_nb, and AQ_ESIZE.
 */
AQ_API AQ_MUST_USE aq_status aq_am_medium_nb(aq_team *team, aq_rank rank, aq_handler handler,
                                             const void *src, size_t nbytes, const aq_arg *args,
                                             unsigned nargs, unsigned flags, aq_event *ev);

/**
 * Send a Medium request when the operation of `*ev` completes, for example to notify the target of
 * a put that its data has arrived.
 *
 * Completion  `src` and the arguments may be reused on return. `*ev`, any root event, then
 *             represents both: it completes when the operation is complete and the message has been
 *             sent, and its leaf from aq_event_local completes with the operation's own. If the
 *             operation fails, nothing is sent. If the call fails, `*ev` is unchanged.
 * Blocking    Never, unless `*ev` is already complete (AQ_EVENT_DONE): then as aq_am_medium.
 * Ordering, Threads  As aq_am_short.
 *
 * @return AQ_OK      Sent, or to be sent when the operation completes.
 * @return AQ_ENOMEM  Not enough memory to defer the message.
 * @return AQ_AGAIN   Only with AQ_IMMEDIATE, if `*ev` is already complete: no room, nothing sent.
 * @return As aq_am_medium otherwise; AQ_EINVAL also if `ev` is NULL.
 */
AQ_API AQ_MUST_USE aq_status aq_am_medium_after_nb(aq_team *team, aq_rank rank, aq_handler handler,
                                                   const void *src, size_t nbytes,
                                                   const aq_arg *args, unsigned nargs,
                                                   unsigned flags, aq_event *ev);

/**
 * Send a Medium request when the operation of `*ev` completes, in the thread's implicit set: both
 * together count as a put (AQ_NBI_PUT), and `*ev` becomes AQ_EVENT_DONE. Otherwise as
 * aq_am_medium_after_nb.
 *
 * @return As aq_am_medium_after_nb.
 */
AQ_API AQ_MUST_USE aq_status aq_am_medium_after_nbi(aq_team *team, aq_rank rank, aq_handler handler,
                                                    const void *src, size_t nbytes,
                                                    const aq_arg *args, unsigned nargs,
                                                    unsigned flags, aq_event *ev);

/**
 * Reply to a request with a Short, from inside its handler; at most one reply per request.
 *
 * Blocking    May wait for room for replies, never for that of requests; meanwhile runs handlers of
 *             replies only. A reply to the calling process itself runs its handler before the call
 *             returns.
 * Threads     The thread that runs the handler.
 *
 * @return AQ_OK        Sent.
 * @return AQ_ECONTEXT  `am` is a reply, has already been replied to, or this is not its handler.
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
 * May be copied, but only one copy may be committed or canceled.
 */
typedef struct aq_am_buffer {
    void *addr;  /**< where to write the payload, or the caller's own buffer */
    size_t size; /**< number of bytes granted */
    uint64_t aqi_opaque[6];
} aq_am_buffer;

/**
 * Prepare a request with a negotiated payload; `category` is Medium or Long.
 *
 * If `client_buf` is NULL the payload is written directly into a library buffer (16-byte aligned);
 * otherwise it is read from `client_buf` at commit. The call grants between `least` and `most`
 * bytes. `nargs` is the number of arguments that will be passed to the commit. Until commit or
 * cancel the calling thread must not make any other communication call.
 *
 * Blocking, Threads  As aq_am_short.
 *
 * @return AQ_OK        `*buffer` is valid until commit or cancel.
 * @return AQ_AGAIN     Only with AQ_IMMEDIATE: no room.
 * @return AQ_ESIZE     `least` exceeds the limit of the category.
 * @return AQ_EINVAL, AQ_ERANK, AQ_ENOTSUP, AQ_ECONTEXT, AQ_ESTATE, AQ_EPEER  Nothing was reserved.
 */
AQ_API AQ_MUST_USE aq_status aq_am_reserve(aq_team *team, aq_rank rank, unsigned category,
                                           const void *client_buf, size_t least, size_t most,
                                           unsigned nargs, unsigned flags, aq_am_buffer *buffer);

/**
 * Prepare a reply with a negotiated payload; it counts as the reply to `am` once committed.
 * Otherwise as aq_am_reserve.
 *
 * Blocking    May wait for room, running handlers of replies only.
 * Threads     The thread that runs the handler.
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
 * `dst` is the destination in the receiver's segment for a Long; it is ignored for a Medium. A
 * payload in the caller's own buffer may be reused on return.
 *
 * Blocking    May wait for room, as the calls without reservation; never with AQ_IMMEDIATE.
 * Threads     The thread that reserved it.
 *
 * @return AQ_OK        Sent.
 * @return AQ_AGAIN     Only with AQ_IMMEDIATE: not sent; the buffer is still valid.
 * @return AQ_ESIZE, AQ_ERANGE, AQ_EHANDLER, AQ_EINVAL  Not sent; the buffer is still valid.
 * @return AQ_EPEER     The peer died; the buffer is released.
 */
AQ_API AQ_MUST_USE aq_status aq_am_commit(aq_am_buffer *buffer, aq_handler handler, size_t nbytes,
                                          void *dst, const aq_arg *args, unsigned nargs,
                                          unsigned flags);

/**
 * Cancel a prepared message without sending it. If it was a reply, the request may still be replied
 * to.
 *
 * Blocking    Never.
 * Threads     The thread that reserved it.
 */
AQ_API void aq_am_cancel(aq_am_buffer *buffer);

#ifdef __cplusplus
}
#endif
#endif
