/* fi: posted receives, unexpected messages, and their completion. */
#include "front/fi/wire.h"

#include <stdlib.h>
#include <string.h>

enum { RECEIVE_MULTI_LEAST = 64 };

void afi_rxq_init(struct afi_rxq *rxq)
{
    for (unsigned i = 0; i < AQI_COUNT_OF(rxq->matches); i++)
        afi_match_init(&rxq->matches[i]);
    aqi_list_init(&rxq->posted);
    aqi_list_init(&rxq->claimed);
    rxq->least = RECEIVE_MULTI_LEAST;
}

static void receive_free(struct afi_rx *rx)
{
    if (rx->source != NULL) afi_ident_put(rx->source);
    aqi_pool_put(&afi.rx_pool, rx);
}

static bool receive_is_posted(const struct afi_rx *rx)
{
    return !aqi_list_is_empty(&rx->link);
}

/* Accept no further messages for this receive. */
static void receive_unpost(struct afi_rx *rx)
{
    if (!receive_is_posted(rx)) return;
    afi_match_cancel(&rx->rxq->matches[rx->tagged], &rx->posted);
    aqi_list_remove(&rx->link);
    rx->rxq->posted_count--;
}

/* The bytes of a message for which it was charged, besides AFI_COST. */
static size_t receive_bytes(const struct afi_message *message)
{
    return message->remote ? 0 : message->nbytes;
}

static void receive_drop_arrival(struct afi_arrival *arrival)
{
    if (arrival->message.spared)
        arrival->peer->ep->rxq->spared -= receive_bytes(&arrival->message) + AFI_COST;
    afi_match_drop(&arrival->unexpected);
    aqi_list_remove(&arrival->claimed);
    arrival->peer->kept--;
    aqi_stash_put(&afi.stash, arrival);
}

void afi_rxq_close(struct afi_rxq *rxq)
{
    for (unsigned i = 0; i < AQI_COUNT_OF(rxq->matches); i++) {
        struct afi_match *match = &rxq->matches[i];
        while (!aqi_list_is_empty(&match->unexpected))
            receive_drop_arrival(
                AQI_OF(match->unexpected.next, struct afi_arrival, unexpected.all));
    }
    while (!aqi_list_is_empty(&rxq->claimed))
        receive_drop_arrival(AQI_OF(rxq->claimed.next, struct afi_arrival, claimed));
    while (!aqi_list_is_empty(&rxq->posted)) {
        struct afi_rx *rx = AQI_OF(rxq->posted.next, struct afi_rx, link);
        receive_unpost(rx);
        receive_free(rx);
    }
    for (unsigned i = 0; i < AQI_COUNT_OF(rxq->matches); i++)
        afi_match_close(&rxq->matches[i]);
}

/* --- completion ------------------------------------------------------------------------------ */

/* Completion of one message: `got` of `total` bytes, at offset `at` of the buffer. */
struct receive_end {
    struct afi_ep *ep;
    const struct afi_ident *source;
    uint64_t tag, data, total;
    uint8_t flags;
    size_t at, got;
    int err;
};

static inline uint64_t receive_cq_flags(const struct afi_rx *rx, const struct receive_end *end)
{
    bool last = rx->many && !receive_is_posted(rx) && rx->fetching == 0;
    return FI_RECV | (rx->tagged ? FI_TAGGED : FI_MSG) |
           ((end->flags & AFI_DATA_FLAG) != 0 ? FI_REMOTE_CQ_DATA : 0) | (last ? FI_MULTI_RECV : 0);
}

static AQI_INLINE void receive_ended(struct afi_rx *rx, const struct receive_end *end)
{
    struct afi_ep *ep = end->ep;
    struct afi_cq *cq = afi_rx_cq(ep);
    bool fine = end->err == 0 && end->got == end->total;
    void *buf = rx->count != 0 ? (unsigned char *)rx->iov[0].iov_base + end->at : NULL;
    fi_addr_t source = afi_av_addr_of(ep->av, end->source);
    uint64_t flags = receive_cq_flags(rx, end);
    if (!ep->closing) afi_count(ep->cntr[AFI_COUNT_RECV], fine);
    if (ep->closing) cq = NULL;
    bool reports = rx->report || (flags & FI_MULTI_RECV) != 0;
    bool stranger =
        source == FI_ADDR_NOTAVAIL && fine && reports && (ep->caps & FI_SOURCE_ERR) != 0;
    if (cq != NULL && AQI_UNLIKELY(!fine || stranger)) {
        int err = end->err != 0 ? end->err : fine ? FI_EADDRNOTAVAIL : FI_ETRUNC;
        const struct fi_cq_err_entry entry = {.op_context = rx->context,
                                              .flags = flags,
                                              .len = end->got,
                                              .buf = buf,
                                              .data = end->data,
                                              .tag = end->tag,
                                              .olen = end->total - end->got,
                                              .err = err};
        afi_cq_fail(cq, &entry, stranger ? &end->source->name : NULL);
    } else if (cq != NULL && reports) {
        const struct fi_cq_tagged_entry entry = {.op_context = rx->context,
                                                 .flags = flags,
                                                 .len = end->got,
                                                 .buf = buf,
                                                 .data = end->data,
                                                 .tag = end->tag};
        afi_cq_write(cq, &entry, source);
    }
    if (!receive_is_posted(rx) && rx->fetching == 0) receive_free(rx);
}

static void receive_fetched(struct afi_fetch *fetch)
{
    struct afi_rx *rx = fetch->rx;
    const struct receive_end end = {
        .ep = fetch->peer->ep,
        .source = fetch->peer->ident,
        .tag = fetch->tag,
        .data = fetch->data,
        .total = fetch->total,
        .flags = fetch->flags,
        .at = fetch->at,
        .got = aqi_min(fetch->total, afi_iov_len(fetch->to, fetch->to_count)),
        .err = fetch->status == AQ_OK ? 0 : FI_EIO};
    afi_wire_answer(fetch->peer, fetch->epoch, fetch->remote_op, end.err);
    if (!fetch->spared) afi_wire_give_back(fetch->peer, fetch->epoch, 0);
    rx->fetching--;
    receive_ended(rx, &end);
}

/* --- delivery -------------------------------------------------------------------------------- */

static void receive_fetch(struct afi_rx *rx, struct afi_peer *peer,
                          const struct afi_message *message, size_t at, size_t len)
{
    struct afi_fetch *fetch = afi_fetch_new(peer, message->bytes, message->nbytes);
    if (fetch == NULL) abort(); /* the message must not be lost */
    fetch->to_count = afi_iov_part(rx->iov, rx->count, at, len, fetch->to);
    fetch->len = len;
    fetch->rx = rx;
    fetch->at = at;
    fetch->tag = message->tag;
    fetch->data = message->data;
    fetch->total = message->len;
    fetch->flags = message->flags;
    fetch->spared = message->spared;
    fetch->remote_op = message->op;
    fetch->epoch = message->epoch;
    fetch->done = receive_fetched;
    rx->fetching++;
    afi_fetch_begin(fetch);
}

static AQI_INLINE void receive_deliver(struct afi_rx *rx, struct afi_peer *peer,
                                       const struct afi_message *message)
{
    size_t at = rx->used, len = aqi_min(message->len, rx->len - at);
    rx->used += rx->many ? len : 0;
    if (!rx->many || rx->len - rx->used < rx->rxq->least) receive_unpost(rx);
    bool gone = message->remote && message->epoch != peer->epoch; /* lost with the connection */
    if (message->remote && !gone) {
        receive_fetch(rx, peer, message, at, len);
        return;
    }
    const struct receive_end end = {.ep = peer->ep,
                                    .source = peer->ident,
                                    .tag = message->tag,
                                    .data = message->data,
                                    .total = message->len,
                                    .flags = message->flags,
                                    .at = at,
                                    .got = gone ? 0 : len,
                                    .err = gone ? FI_ECONNRESET : 0};
    if (!gone) afi_iov_scatter(rx->iov, rx->count, at, message->bytes, len);
    if ((message->flags & AFI_ACK_DELIVERED) != 0)
        afi_wire_answer(peer, message->epoch, message->op, 0);
    if (!message->spared) afi_wire_give_back(peer, message->epoch, message->nbytes);
    receive_ended(rx, &end);
}

/*
 * The program may wait for a message that its peer sends after many others, so these must not
 * block it: their credit is given back at once, as long as they are short and few enough.
 */
static void receive_spare(struct afi_arrival *arrival)
{
    struct afi_rxq *rxq = arrival->peer->ep->rxq;
    size_t bytes = receive_bytes(&arrival->message);
    if (bytes > AFI_INJECT || rxq->spared + bytes + AFI_COST > AFI_SPARE) return;
    rxq->spared += bytes + AFI_COST;
    arrival->message.spared = true;
    afi_wire_give_back(arrival->peer, arrival->message.epoch, bytes);
}

static struct afi_arrival *receive_keep(struct afi_peer *peer, const struct afi_message *message)
{
    struct afi_arrival *arrival = aqi_stash_get(&afi.stash, sizeof(*arrival) + message->nbytes);
    if (arrival == NULL) abort(); /* the sender considers it delivered */
    *arrival = (struct afi_arrival){.unexpected = {.tag = message->tag, .source = peer->ident},
                                    .peer = peer,
                                    .message = *message};
    arrival->message.bytes = arrival->bytes;
    peer->kept++;
    aqi_list_init(&arrival->claimed);
    memcpy(arrival->bytes, message->bytes, message->nbytes);
    receive_spare(arrival);
    return arrival;
}

void afi_receive(struct afi_peer *peer, const struct afi_message *message)
{
    struct afi_rxq *rxq = peer->ep->rxq;
    struct afi_match *match = &rxq->matches[message->tagged];
    struct afi_posted *posted = afi_match_find(match, message->tag, peer->ident);
    if (posted != NULL)
        receive_deliver(AQI_OF(posted, struct afi_rx, posted), peer, message);
    else
        afi_match_keep(match, &receive_keep(peer, message)->unexpected);
}

static void receive_deliver_arrival(struct afi_rx *rx, struct afi_arrival *arrival)
{
    receive_deliver(rx, arrival->peer, &arrival->message);
    receive_drop_arrival(arrival);
}

static void receive_purge(struct afi_arrival *arrival, const struct afi_peer *peer, bool all)
{
    if (arrival->peer == peer && (all || arrival->message.remote)) receive_drop_arrival(arrival);
}

void afi_receive_peer_gone(struct afi_peer *peer, bool all)
{
    struct afi_rxq *rxq = peer->ep->rxq;
    struct aqi_node *next;
    for (unsigned i = 0; i < AQI_COUNT_OF(rxq->matches); i++) {
        struct aqi_node *list = &rxq->matches[i].unexpected;
        for (struct aqi_node *at = list->next; at != list; at = next) {
            next = at->next;
            receive_purge(AQI_OF(at, struct afi_arrival, unexpected.all), peer, all);
        }
    }
    for (struct aqi_node *at = rxq->claimed.next; all && at != &rxq->claimed; at = next) {
        next = at->next;
        receive_purge(AQI_OF(at, struct afi_arrival, claimed), peer, all);
    }
}

/* --- posting --------------------------------------------------------------------------------- */

static struct afi_rx *receive_new(struct afi_rxq *rxq, const struct afi_receive_request *request)
{
    struct afi_rx *rx = aqi_pool_get(&afi.rx_pool);
    if (rx == NULL) return NULL;
    rx->posted.tag = request->tag;
    rx->posted.ignore = request->ignore;
    rx->posted.source = rx->source = request->source;
    if (rx->source != NULL) rx->source->users++; /* even if removed from the vector */
    aqi_list_init(&rx->link);
    rx->rxq = rxq;
    rx->tagged = request->tagged;
    rx->many = (request->flags & FI_MULTI_RECV) != 0;
    rx->report = request->report;
    rx->fetching = 0;
    rx->context = request->context;
    rx->count = (unsigned)request->count;
    rx->len = 0;
    rx->used = 0;
    for (unsigned i = 0; i < rx->count; i++) {
        rx->iov[i] = request->iov[i];
        rx->len += rx->iov[i].iov_len;
    }
    return rx;
}

static void receive_report_peek(const struct afi_receive_request *request,
                                const struct afi_arrival *arrival)
{
    const struct fi_cq_tagged_entry entry = {
        .op_context = request->context,
        .flags = FI_RECV | (request->tagged ? FI_TAGGED : FI_MSG) |
                 ((arrival->message.flags & AFI_DATA_FLAG) != 0 ? FI_REMOTE_CQ_DATA : 0),
        .len = arrival->message.len,
        .data = arrival->message.data,
        .tag = arrival->message.tag};
    if (request->cq != NULL)
        afi_cq_write(request->cq, &entry,
                     afi_av_addr_of(arrival->peer->ep->av, arrival->peer->ident));
}

static void receive_discard(struct afi_arrival *arrival)
{
    if (arrival->message.remote || (arrival->message.flags & AFI_ACK_DELIVERED) != 0)
        afi_wire_answer(arrival->peer, arrival->message.epoch, arrival->message.op, 0);
    if (!arrival->message.spared)
        afi_wire_give_back(arrival->peer, arrival->message.epoch, receive_bytes(&arrival->message));
    receive_drop_arrival(arrival);
}

static int receive_peek(struct afi_rxq *rxq, const struct afi_receive_request *request)
{
    if ((request->flags & FI_CLAIM) != 0 && request->context == NULL) return -FI_EINVAL;
    afi_progress();
    struct afi_unexpected *found = afi_match_find_unexpected(
        &rxq->matches[request->tagged], request->tag, request->ignore, request->source);
    if (found == NULL) {
        const struct fi_cq_err_entry entry = {.op_context = request->context,
                                              .flags =
                                                  FI_RECV | (request->tagged ? FI_TAGGED : FI_MSG),
                                              .tag = request->tag,
                                              .err = FI_ENOMSG};
        if (request->cq != NULL) afi_cq_fail(request->cq, &entry, NULL);
        return 0;
    }
    struct afi_arrival *arrival = AQI_OF(found, struct afi_arrival, unexpected);
    receive_report_peek(request, arrival);
    if ((request->flags & FI_DISCARD) != 0) {
        receive_discard(arrival);
    } else if ((request->flags & FI_CLAIM) != 0) {
        afi_match_drop(found);
        aqi_list_append(&rxq->claimed, &arrival->claimed);
        ((struct fi_context *)request->context)->internal[0] = arrival;
    }
    return 0;
}

/* The message that a peek with the same context has claimed; NULL: none. */
static struct afi_arrival *receive_claimed(struct afi_rxq *rxq, const void *context)
{
    const void *claimed = ((const struct fi_context *)context)->internal[0];
    for (struct aqi_node *at = rxq->claimed.next; at != &rxq->claimed; at = at->next)
        if (AQI_OF(at, struct afi_arrival, claimed) == claimed)
            return AQI_OF(at, struct afi_arrival, claimed);
    return NULL;
}

static int receive_claim(struct afi_rxq *rxq, const struct afi_receive_request *request)
{
    struct afi_arrival *arrival =
        request->context != NULL ? receive_claimed(rxq, request->context) : NULL;
    if (arrival == NULL) return -FI_EINVAL;
    if ((request->flags & FI_DISCARD) != 0) {
        receive_report_peek(request, arrival);
        receive_discard(arrival);
        return 0;
    }
    struct afi_rx *rx = receive_new(rxq, request);
    if (rx == NULL) return -FI_ENOMEM;
    receive_deliver_arrival(rx, arrival);
    return 0;
}

int afi_receive_post(struct afi_rxq *rxq, const struct afi_receive_request *request)
{
    if ((request->flags & FI_PEEK) != 0) return receive_peek(rxq, request);
    if ((request->flags & FI_CLAIM) != 0) return receive_claim(rxq, request);
    if (AQI_UNLIKELY(rxq->posted_count >= AFI_FULL)) return -FI_EAGAIN;
    struct afi_match *match = &rxq->matches[request->tagged];
    struct afi_rx *rx = receive_new(rxq, request);
    struct afi_unexpected *found;
    if (rx == NULL) return -FI_ENOMEM;
    found = afi_match_find_unexpected(match, request->tag, request->ignore, request->source);
    if (found != NULL && !rx->many) {
        receive_deliver_arrival(rx, AQI_OF(found, struct afi_arrival, unexpected));
        return 0;
    }
    aqi_list_append(&rxq->posted, &rx->link);
    rxq->posted_count++;
    afi_match_post(match, &rx->posted);
    while (found != NULL) {
        struct afi_arrival *arrival = AQI_OF(found, struct afi_arrival, unexpected);
        size_t left = rx->len - rx->used;
        bool stays = left - aqi_min(left, arrival->message.len) >= rxq->least;
        receive_deliver_arrival(rx, arrival); /* frees the receive unless it stays posted */
        found =
            stays ? afi_match_find_unexpected(match, request->tag, request->ignore, request->source)
                  : NULL;
    }
    return 0;
}

int afi_rxq_cancel(struct afi_rxq *rxq, struct afi_cq *cq, struct afi_cntr *cntr, void *context)
{
    for (struct aqi_node *at = rxq->posted.next; at != &rxq->posted; at = at->next) {
        struct afi_rx *rx = AQI_OF(at, struct afi_rx, link);
        if (rx->context != context) continue;
        receive_unpost(rx);
        if (rx->fetching != 0) return 0; /* ends when the messages being fetched are complete */
        const struct fi_cq_err_entry entry = {.op_context = context,
                                              .flags = FI_RECV | (rx->tagged ? FI_TAGGED : FI_MSG) |
                                                       (rx->many ? FI_MULTI_RECV : 0),
                                              .tag = rx->posted.tag,
                                              .err = FI_ECANCELED};
        afi_count(cntr, false);
        if (cq != NULL) afi_cq_fail(cq, &entry, NULL);
        receive_free(rx);
        return 0;
    }
    return -FI_ENOENT;
}
