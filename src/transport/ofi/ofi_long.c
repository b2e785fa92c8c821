/*
 * ofi: Longs whose payload is written. The header is sent right after the write, without waiting
 * for its completion, so that a Long takes one trip. The order of the two does not matter: the
 * write carries data that the target's completion queue reports (FI_REMOTE_CQ_DATA), and until then
 * the target keeps the header like an early message.
 *
 * Such writes to a peer are numbered, and each header carries the number of its write. At most
 * OFI_LONGS headers to a peer are unconfirmed, so 64 bits record which writes have arrived, and a
 * repeated write has no effect on them.
 *
 * If the connection breaks, a write is repeated, but only after the peer has answered that the
 * header has not arrived: otherwise the write has, and the program may have changed that memory
 * since. If a write fails for good, nothing must wait for it: its header is resent, with the same
 * number, as OFI_VOID.
 */
#include "transport/ofi/ofi_impl.h"

#include "base/log.h"
#include "base/stats.h"

#include <string.h>

enum {
    OFI_LONGS = 64,
    OFI_LONG_NUMBER = 8 /* bits of the number in the reported data; above it is the rank */
};

/* Follows the arguments of a header. */
struct ofi_long {
    uint32_t valid, number;
};

/* --- conditions ------------------------------------------------------------------------------ */

static uint64_t ofi_long_data(const struct ofi_tp *ofi, uint32_t number)
{
    return (uint64_t)ofi->rdma.params.self << OFI_LONG_NUMBER | (number & UINT8_MAX);
}

/* With virtual addresses, shm itself copies into the peer's memory, so a write is complete at once,
 * and a write plus an injected message is faster than a message that is not injected. */
static bool ofi_long_is_direct(const struct ofi_tp *ofi)
{
    return ofi->info->ep_attr->protocol == FI_PROTO_SHM && ofi_wants(ofi, FI_MR_VIRT_ADDR);
}

static bool ofi_long_is_possible(const struct ofi_tp *ofi)
{
    return (ofi->without & (OFI_REMOTE | OFI_REPORT)) == 0 &&
           ofi->info->domain_attr->cq_data_size >= sizeof(uint32_t) &&
           ofi->rdma.params.size <= UINT32_C(1) << (32 - OFI_LONG_NUMBER);
}

void ofi_long_open(struct ofi_tp *ofi)
{
    struct aqi_tp_limits *limits = &ofi->rdma.tp.limits;
    size_t frame = OFI_FRAME + sizeof(struct ofi_tail);
    bool direct = ofi_long_is_direct(ofi), possible = ofi_long_is_possible(ofi);
    limits->packed = limits->max_medium;
    if (direct && ofi->inject > frame)
        limits->packed = aqi_min(limits->max_medium, ofi->inject - frame);
    ofi->rdma.max_long = !possible ? 0 : direct ? ofi->put_inject : ofi_config.piece;
    if (!ofi_wants(ofi, FI_MR_LOCAL)) limits->copied = aqi_min(ofi->rdma.max_long, AQI_RDMA_COPIED);
}

/* --- sending --------------------------------------------------------------------------------- */

static void ofi_long_header(struct ofi_tp *ofi, struct ofi_peer *peer, const struct aqi_am *am,
                            struct ofi_buf *buf)
{
    struct ofi_long number = {.valid = 1, .number = ++peer->writes};
    aqi_rdma_encode_long(&ofi->rdma, &buf->rdma, am);
    memcpy(buf->rdma.bytes + buf->rdma.len, &number, sizeof(number));
    buf->rdma.len += (uint32_t)sizeof(number);
    buf->is_long = true;
    buf->write = number.number;
    peer->longs++;
    ofi_message_post_later(ofi, peer, buf);
}

/* A peer that has confirmed nothing may not know this process yet, and would ignore the report. */
aq_status ofi_long_begin(struct aqi_rdma *rdma, struct aqi_transfer *want, const struct aqi_am *am,
                         const struct aqi_rdma_rmem *rmem, const struct aqi_mem *mem)
{
    struct ofi_tp *ofi = (struct ofi_tp *)rdma;
    struct ofi_peer *peer = (struct ofi_peer *)want->peer;
    struct aqi_rdma_buf *buf;
    if (peer->confirmed == 0) return AQ_ENOTSUP;
    if (peer->longs >= OFI_LONGS) return AQ_AGAIN;
    aq_status st = rdma->driver->buffer(rdma, want->peer, aqi_rdma_kind(am), &buf);
    if (st != AQ_OK) return st;
    const struct ofi_op op = {
        .header = peer->given + 1, .data = ofi_long_data(ofi, peer->writes + 1), .op = *want};
    st = ofi_transfer_write_reported(ofi, &op, rmem, mem);
    if (st == AQ_OK)
        ofi_long_header(ofi, peer, am, (struct ofi_buf *)buf);
    else
        aqi_rdma_put(rdma, buf);
    return st;
}

/* --- failures -------------------------------------------------------------------------------- */

bool ofi_long_has_arrived(const struct ofi_op *op)
{
    return op->op.is_long && (int32_t)(ofi_op_peer(op)->confirmed - op->header) >= 0;
}

void ofi_long_failed(struct aqi_rdma *rdma, struct aqi_transfer *failed)
{
    static atomic_bool once;
    const struct ofi_op *op = (const struct ofi_op *)failed;
    struct ofi_peer *peer = ofi_op_peer(op);
    struct ofi_buf *buf = peer->kept;
    if (op->op.comp == NULL)
        aqi_log_once(&once, AQI_LOG_WARN, "ofi",
                     "a Long of %zu bytes to %#llx of rank %u could not be written: its handler "
                     "does not run; destroy a segment once no peer uses it",
                     op->op.len, (unsigned long long)op->op.remote, peer->rdma.peer.id);
    while (buf != NULL && buf->number != op->header)
        buf = buf->next;
    if (buf == NULL) return;
    buf->voided = true;
    ofi_flush_again((struct ofi_tp *)rdma, peer, buf);
}

void ofi_long_void(const struct ofi_tp *ofi, struct ofi_buf *buf)
{
    struct aqi_am_wire head = ofi_message_own(ofi, OFI_VOID);
    head.addr = buf->write;
    memcpy(buf->rdma.bytes, &head, sizeof(head));
}

/* --- receiving ------------------------------------------------------------------------------- */

/* This write has arrived, or never will. Numbers too far ahead are ignored. */
static void ofi_long_mark(struct ofi_peer *peer, uint32_t ahead)
{
    if (ahead >= OFI_LONGS) return;
    peer->written_more |= UINT64_C(1) << ahead;
    while (peer->written_more & 1) {
        peer->written_more >>= 1;
        peer->written++;
    }
}

struct ofi_peer *ofi_long_reported(struct ofi_tp *ofi, uint64_t data)
{
    uint64_t source = data >> OFI_LONG_NUMBER;
    struct ofi_peer *peer = source < ofi->rdma.params.size ? ofi_peer_at(ofi, source) : NULL;
    if (peer != NULL) ofi_long_mark(peer, (uint8_t)(data - peer->written - 1));
    return peer;
}

void ofi_long_voided(struct ofi_peer *peer, const struct ofi_buf *buf)
{
    const struct aqi_am_wire *head = (const void *)buf->rdma.bytes;
    aqi_count(AQI_CTR_AM_DROPPED, 1);
    ofi_long_mark(peer, (uint32_t)head->addr - peer->written - 1);
}

/* A header that fallback.c sends after a put has no number. */
bool ofi_long_waits(const struct ofi_buf *buf)
{
    const struct aqi_am_wire *head = (const void *)buf->rdma.bytes;
    if (AQI_LIKELY(head->kind != AQI_AM_LONG_HEADER)) return false;
    struct ofi_long number;
    size_t at = aqi_am_payload_offset(head->nargs);
    if (at + sizeof(number) > buf->rdma.len) return false;
    memcpy(&number, buf->rdma.bytes + at, sizeof(number));
    uint32_t ahead = number.number - ofi_buf_peer(buf)->written - 1;
    if (number.valid == 0 || (int32_t)ahead < 0) return false;
    return ahead >= OFI_LONGS || (ofi_buf_peer(buf)->written_more >> ahead & 1) == 0;
}
