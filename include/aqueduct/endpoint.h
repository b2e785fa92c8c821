/* Endpoints: what a process can be addressed by, each with at most one segment. */
#ifndef AQUEDUCT_ENDPOINT_H
#define AQUEDUCT_ENDPOINT_H

#include <aqueduct/segment.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AQ_EP_RMA    0x1u /**< puts, gets, memsets, and vector, indexed and strided transfers */
#define AQ_EP_ATOMIC 0x2u /**< remote atomics */
#define AQ_EP_AM     0x4u /**< active messages, with a table of handlers of its own */
#define AQ_EP_COLL   0x8u /**< membership in teams with collectives */
#define AQ_EP_ALL    0xfu
/** With AQ_EP_AM: handlers that are not registered with it are those of the first endpoint. */
#define AQ_EP_AM_SHARED 0x10u

/**
 * How many endpoints a process may have, with the first one, which aq_init makes.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API unsigned aq_ep_max(void);

/**
 * Create a further endpoint, without a segment. Its index is the next one, from 1.
 *
 * Not collective; processes that make the same calls get the same indices. It lives until
 * aq_finalize. Address it with aq_team_pair.
 *
 * Blocking    Never.
 * Threads     Any one at a time; not from inside a handler.
 *
 * @return AQ_OK       `*ep` is valid until aq_finalize.
 * @return AQ_ELIMIT   There are aq_ep_max() already.
 * @return AQ_EINVAL   `capabilities` is empty or unknown, or a pointer is NULL.
 * @return AQ_ENOMEM, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_ep_create(unsigned capabilities, aq_ep **ep);

/**
 * The number that other processes name an endpoint by; 0 is the first.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API unsigned aq_ep_index(const aq_ep *ep);

/**
 * What an endpoint can do: AQ_EP_ bits.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API unsigned aq_ep_capabilities(const aq_ep *ep);

/**
 * The segment of an endpoint; NULL: it has none.
 *
 * Threads     Any, also inside handlers.
 */
AQ_API aq_segment *aq_ep_segment(const aq_ep *ep);

/**
 * Give a segment to an endpoint that has none. One segment may be bound to several endpoints.
 *
 * This process may use it at once; the others after aq_ep_publish.
 *
 * Blocking    Never.
 * Threads     Any one at a time, and nothing else uses the endpoint; not from inside a handler.
 *
 * @return AQ_OK      Bound.
 * @return AQ_EINVAL  A pointer is NULL, or the endpoint has a segment already.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_ep_bind(aq_ep *ep, aq_segment *segment);

/**
 * A team to name the processes of the job by their job ranks, through this endpoint, with their
 * endpoints of index `remote_index`.
 *
 * Good for one-sided operations, segment queries and messages; not for collectives and barriers.
 * That the endpoint exists there is not asked: a message to one that does not exist or has no
 * AQ_EP_AM ends the job, and its segment is one of size 0. Local and cheap; equal arguments give
 * equal values, and never a team of another kind.
 *
 * Threads     Any, also inside handlers.
 *
 * @return     The team, valid until aq_finalize; NULL before aq_init, without `ep`, or if
 *             `remote_index` is not below aq_ep_max().
 */
AQ_API aq_team *aq_team_pair(aq_ep *ep, unsigned remote_index);

/**
 * Make the segments bound to `count` endpoints of this process accessible to all of `team`.
 *
 * The lists of the processes may differ and be empty; an endpoint without a segment is passed over.
 * The endpoints are idle meanwhile. Afterwards any team that names them may be used.
 *
 * Blocking    Collective; runs handlers.
 * Threads     One thread of each process; not from inside a handler.
 *
 * @return AQ_OK      Every process may access what the others have published.
 * @return AQ_EINVAL  `team` is NULL or a pair, or an endpoint of any process is unknown.
 * @return AQ_ENOMEM, AQ_ESYS, AQ_ELIMIT, AQ_EPEER, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_ep_publish(aq_team *team, aq_ep *const *eps, size_t count);

#ifdef __cplusplus
}
#endif
#endif
