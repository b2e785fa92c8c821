/*
 * ofi: the buffers for arriving messages. If the provider supports it, it gets a few large ones,
 * which it fills with one message after the other (FI_MULTI_RECV): each message then takes only its
 * own length, not that of the longest. A handler gets its message in place. Messages that have to
 * wait are copied, as each would hold on to the whole buffer.
 *
 * A provider reports with a message, or after the last one, that it has released a buffer. Another
 * buffer then replaces it; it is posted again once its messages have been processed.
 */
#include "transport/ofi/ofi_impl.h"

#include "base/stats.h"

#include <string.h>

enum {
    OFI_RECEIVE_MORE = 16,
    OFI_RECEIVE_AREAS = 4,  /* extra buffers, as handlers may still read released ones */
    OFI_RECEIVE_BESIDE = 64 /* maximum bytes of a message that credits do not count */
};

/* --- limits ---------------------------------------------------------------------------------- */

/*
 * From each peer, its requests, a query and an answer may be in flight to this process; from all
 * together, as many replies as we have requests in flight to them. With one buffer per message, all
 * of these count by number. In buffers for many, requests count by their bytes, up to AQ_AM_BYTES
 * per peer (gemini's scheme), and a limit on all requests limits the replies.
 */
static uint64_t ofi_receive_requests(const struct ofi_tp *ofi, uint64_t depth)
{
    uint64_t own = 2 * OFI_FLUSHES * (OFI_FRAME + OFI_RECEIVE_BESIDE) +
                   (ofi->rdma.lending.on ? AQI_LENDING_BUFFERS * ofi->rdma.buffer : 0);
    uint64_t each = depth * ofi->rdma.buffer,
             bytes = ofi->limits.bytes + depth * OFI_RECEIVE_BESIDE;
    return own + (ofi->limits.bytes != 0 ? aqi_min(each, bytes) : each);
}

void ofi_receive_limit(struct ofi_tp *ofi)
{
    uint64_t peers = aqi_max(1, ofi->rdma.params.size - 1), memory = ofi_config.receive_memory;
    struct aqi_tp_limits *limits = &ofi->rdma.tp.limits;
    bool many = (ofi->without & OFI_MANY) == 0;
    if (peers * AQI_LENDING_BUFFERS * ofi->rdma.buffer > memory / 4) ofi->rdma.lending.on = false;
    uint64_t own = OFI_FLUSHES + (ofi->rdma.lending.on ? AQI_LENDING_BUFFERS : 0);
    ofi->limits = aqi_credit_gate_limits(&ofi->rdma.params, limits);
    uint64_t depth = ofi->limits.depth, share = memory / 2 / peers;
    if (many)
        while (depth > 1 && ofi_receive_requests(ofi, depth) > share)
            depth--;
    else
        depth = aqi_min(depth, aqi_max(1 + own, share / ofi->rdma.buffer) - own);
    limits->depth = (uint32_t)depth;
    uint64_t requests = peers * ofi_receive_requests(ofi, depth);
    uint64_t rest = memory - aqi_min(requests, memory / 2);
    if (many) limits->total = (uint32_t)aqi_min(UINT32_MAX, aqi_max(1, rest / ofi->rdma.buffer));
    ofi->limits = aqi_credit_gate_limits(&ofi->rdma.params, limits);
}

void ofi_receive_size(struct ofi_tp *ofi)
{
    uint64_t peers = aqi_max(1, ofi->rdma.params.size - 1), most = ofi->info->rx_attr->size;
    uint64_t depth = ofi->limits.depth, replies = peers * depth;
    if (ofi->limits.total != 0) replies = aqi_min(replies, ofi->limits.total);
    uint64_t own = 2 * OFI_FLUSHES + (ofi->rdma.lending.on ? AQI_LENDING_BUFFERS : 0);
    ofi->messages =
        (uint32_t)aqi_min(UINT32_MAX, peers * (depth + own) + replies + OFI_RECEIVE_MORE);
    most = aqi_min(most, ofi_config.receive_memory / ofi->rdma.buffer);
    ofi->receives = (uint32_t)aqi_min(most, ofi->messages);
    if (ofi->without & OFI_MANY) return;
    /* The end of each buffer, which has no room for the largest message, may stay empty. */
    uint64_t bytes = peers * ofi_receive_requests(ofi, depth) + replies * ofi->rdma.buffer;
    uint64_t areas =
        bytes / (aqi_rdma_chunk_len(&ofi->rdma) - ofi->rdma.buffer) + OFI_RECEIVE_AREAS;
    ofi->receives = (uint32_t)aqi_min(most, areas);
}

/* --- posting --------------------------------------------------------------------------------- */

/* Free it unless the provider or a message needs it. */
static void ofi_receive_is_done(struct ofi_tp *ofi, struct ofi_area *area)
{
    if (area->posted || area->messages != 0 || area->spoiled) return;
    area->next = ofi->free_areas;
    ofi->free_areas = area;
}

static struct ofi_area *ofi_receive_area(struct ofi_tp *ofi)
{
    struct ofi_area *area = ofi->free_areas;
    if (area != NULL) {
        ofi->free_areas = area->next;
        return area;
    }
    struct aqi_rdma_chunk *chunk = aqi_rdma_add_chunk(&ofi->rdma, aqi_rdma_chunk_len(&ofi->rdma),
                                                      AQI_PINS_BUFFERS, sizeof(*area));
    if (chunk == NULL) return NULL;
    area = (struct ofi_area *)(void *)(chunk + 1);
    *area = (struct ofi_area){.ctx.kind = OFI_AREA, .chunk = chunk};
    return area;
}

static bool ofi_receive_post_area(struct ofi_tp *ofi)
{
    struct ofi_area *area = ofi_receive_area(ofi);
    if (area == NULL) return false;
    struct iovec part = {.iov_base = area->chunk->memory, .iov_len = area->chunk->len};
    void *desc = ofi_mr_desc(area->chunk->mr[0]);
    struct fi_msg msg = {.msg_iov = &part,
                         .desc = &desc,
                         .iov_count = 1,
                         .addr = FI_ADDR_UNSPEC,
                         .context = &area->ctx};
    area->posted = fi_recvmsg(ofi->ep, &msg, FI_MULTI_RECV | FI_COMPLETION) == 0;
    if (area->posted) return true;
    ofi_receive_is_done(ofi, area);
    return false;
}

static bool ofi_receive_post_buf(struct ofi_tp *ofi)
{
    struct ofi_buf *buf = ofi_buf_get(ofi);
    if (buf == NULL) return false;
    buf->ctx.kind = OFI_RECEIVE;
    if (fi_recv(ofi->ep, buf->rdma.bytes, ofi->rdma.buffer, ofi_mr_desc(buf->rdma.chunk->mr[0]),
                FI_ADDR_UNSPEC, &buf->ctx) == 0)
        return true;
    ofi_buf_put(ofi, buf);
    return false;
}

/* Progress retries what the provider rejects now. */
void ofi_receive_post(struct ofi_tp *ofi)
{
    bool many = (ofi->without & OFI_MANY) == 0;
    while (ofi->posted < ofi->receives &&
           (many ? ofi_receive_post_area(ofi) : ofi_receive_post_buf(ofi))) {
        ofi->posted++;
        aqi_count(AQI_CTR_POSTS_RECEIVE, 1);
    }
}

/* --- received messages ----------------------------------------------------------------------- */

static bool ofi_receive_is_message(const struct fi_cq_data_entry *entry)
{
    return (entry->flags & FI_RECV) != 0 || entry->len != 0;
}

/* Completions of one buffer may be handled in any order, and by several threads. */
void ofi_receive_found(struct ofi_tp *ofi, const struct fi_cq_data_entry *entry)
{
    if (AQI_UNLIKELY(ofi_receive_is_write(entry))) return;
    struct ofi_ctx *ctx = entry->op_context;
    struct ofi_area *area = (struct ofi_area *)ctx;
    if (ctx->kind == OFI_AREA) {
        if (ofi_receive_is_message(entry)) area->messages++;
        if (AQI_LIKELY((entry->flags & FI_MULTI_RECV) == 0) || !area->posted) return;
        area->posted = false;
        ofi_receive_is_done(ofi, area);
    } else if (ctx->kind != OFI_RECEIVE) {
        return;
    }
    ofi->posted--;
    ofi_receive_post(ofi);
}

struct ofi_buf *ofi_receive_message(const struct fi_cq_data_entry *entry, struct ofi_buf *view)
{
    struct ofi_ctx *ctx = entry->op_context;
    if (ctx->kind == OFI_RECEIVE) return ofi_buf_of(ctx);
    if (!ofi_receive_is_message(entry)) return NULL;
    *view = (struct ofi_buf){.rdma.bytes = entry->buf, .area = (struct ofi_area *)ctx};
    return view;
}

static void ofi_receive_leave(struct ofi_tp *ofi, struct ofi_area *area)
{
    area->messages--;
    ofi_receive_is_done(ofi, area);
}

struct ofi_buf *ofi_receive_keep(struct ofi_tp *ofi, struct ofi_buf *buf)
{
    if (buf->area == NULL) return buf;
    struct ofi_buf *own = ofi_buf_get(ofi);
    if (own != NULL) {
        memcpy(own->rdma.bytes, buf->rdma.bytes, buf->rdma.len);
        own->rdma.len = buf->rdma.len;
        own->number = buf->number;
        own->rdma.peer = buf->rdma.peer;
    }
    ofi_receive_leave(ofi, buf->area);
    return own;
}

void ofi_receive_drop(struct ofi_tp *ofi, struct ofi_buf *buf)
{
    if (buf->area != NULL)
        ofi_receive_leave(ofi, buf->area);
    else
        ofi_buf_put(ofi, buf);
}

/* The provider need not report whether it has released a large buffer, so it is not reposted. */
void ofi_receive_failed(struct ofi_tp *ofi, struct ofi_ctx *ctx)
{
    struct ofi_area *area = (struct ofi_area *)ctx;
    if (ctx->kind == OFI_RECEIVE) {
        ofi_buf_put(ofi, ofi_buf_of(ctx));
    } else {
        area->spoiled = true;
        if (!area->posted) return;
        area->posted = false;
    }
    ofi->posted--;
}
