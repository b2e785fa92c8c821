/* Endpoints: the addressable parts of a process, each with at most one segment. */
#ifndef AQUEDUCT_ENDPOINT_H
#define AQUEDUCT_ENDPOINT_H

#include <aqueduct/segment.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AQ_EP_RMA    0x1000000u /**< one-sided operations other than atomics */
#define AQ_EP_ATOMIC 0x2000000u /**< remote atomics */
#define AQ_EP_AM     0x4000000u /**< active messages, with the endpoint's own handler table */
#define AQ_EP_COLL   0x8000000u /**< membership in teams with collectives */
#define AQ_EP_ALL    0xf000000u
/** With AQ_EP_AM: handlers that are not registered with it are looked up in the first endpoint. */
#define AQ_EP_AM_SHARED 0x10000000u

/**
 * Return the maximum number of endpoints of a process, including the one that aq_init creates.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API unsigned aq_ep_max(void);

/**
 * Create another endpoint, without a segment. Its index is the next one, from 1.
 *
 * Not collective; processes that make the same calls get the same indices. The endpoint exists
 * until aq_finalize. Address it with aq_team_pair.
 *
 * Blocking    Never.
 * Threads     One at a time; not from a handler.
 *
 * @return AQ_OK       `*ep` is valid until aq_finalize.
 * @return AQ_ELIMIT   There are already aq_ep_max() endpoints.
 * @return AQ_EINVAL   `capabilities` is empty or unknown, or a pointer is NULL.
 * @return AQ_ENOMEM, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_ep_create(unsigned capabilities, aq_ep **ep);

/**
 * Return the index by which other processes address an endpoint; 0 is the one that aq_init creates.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API unsigned aq_ep_index(const aq_ep *ep);

/**
 * Return the capabilities of an endpoint as AQ_EP_ bits.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API unsigned aq_ep_capabilities(const aq_ep *ep);

/**
 * Return the segment of an endpoint, or NULL if it has none.
 *
 * Threads     Any; may be called from a handler.
 */
AQ_API aq_segment *aq_ep_segment(const aq_ep *ep);

/**
 * Bind a segment to an endpoint that has none. A segment may be bound to several endpoints.
 *
 * This process may use it at once; other processes after aq_ep_publish.
 *
 * Blocking    Never.
 * Threads     One at a time, while nothing else uses the endpoint; not from a handler.
 *
 * @return AQ_OK      Bound.
 * @return AQ_EINVAL  A pointer is NULL, or the endpoint already has a segment.
 * @return AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_ep_bind(aq_ep *ep, aq_segment *segment);

/**
 * Return a team that addresses the processes of the job by job rank, from this endpoint to their
 * endpoints with index `remote_index`.
 *
 * It can be used for one-sided operations, segment queries and messages, but not for collectives
 * and barriers. The remote endpoint is not checked: a message to an endpoint that does not exist or
 * lacks AQ_EP_AM ends the job, and its segment has size 0. The call is local and cheap. Equal
 * arguments give the same team, which is never equal to a team of another kind.
 *
 * Threads     Any; may be called from a handler.
 *
 * @return     The team, valid until aq_finalize; NULL before aq_init, if `ep` is NULL, or if
 *             `remote_index` is not below aq_ep_max().
 */
AQ_API aq_team *aq_team_pair(aq_ep *ep, unsigned remote_index);

/**
 * Make the segments bound to `count` endpoints of this process accessible to all of `team`.
 *
 * The lists may differ between processes and may be empty; an endpoint without a segment is
 * skipped. The endpoints must be idle during the call. Afterwards every team that includes them may
 * be used.
 *
 * Blocking    Collective; runs handlers.
 * Threads     One thread per process; not from a handler.
 *
 * @return AQ_OK      Every process may access what the others have published.
 * @return AQ_EINVAL  `team` is NULL or a pair, or in any process an endpoint is unknown or `flags`
 *                    is not 0.
 * @return AQ_ENOMEM, AQ_ESYS, AQ_ELIMIT, AQ_EPEER, AQ_ESTATE, AQ_ECONTEXT
 */
AQ_API AQ_MUST_USE aq_status aq_ep_publish(aq_team *team, aq_ep *const *eps, size_t count,
                                           unsigned flags);

#ifdef __cplusplus
}
#endif
#endif
