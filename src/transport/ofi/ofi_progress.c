/* ofi: completions and errors, and sleeping until there are some. */
#include "transport/ofi/ofi_impl.h"

#include "base/fail.h"
#include "base/log.h"

#include <poll.h>
#include <stdio.h>

/* After OFI_AWAY ns without a round, the next one continues for up to a quarter of that time, and
 * no longer than OFI_CATCH_UP ns, until nothing is left: see ofi_progress_catch_up. */
enum { OFI_AWAY = 100000, OFI_AWAY_SHARE = 4, OFI_CATCH_UP = 2000000 };

static unsigned ofi_progress_one(struct ofi_tp *ofi, const struct fi_cq_data_entry *entry,
                                 enum aqi_progress_mode mode)
{
    struct ofi_buf view, *buf;
    struct ofi_piece *piece;
    if (AQI_UNLIKELY(ofi_receive_is_write(entry))) {
        struct ofi_peer *peer = ofi_long_reported(ofi, entry->data);
        if (peer != NULL) ofi_message_take_early(ofi, peer, mode);
        return 1;
    }
    struct ofi_ctx *ctx = entry->op_context;
    switch (ctx->kind) {
    case OFI_RECEIVE:
    case OFI_AREA:
        buf = ofi_receive_message(entry, &view);
        return buf != NULL ? ofi_message_received(ofi, buf, entry->len, mode) : 0;
    case OFI_SEND:
    case OFI_CONTROL:
        ofi_message_sent(ofi, ofi_buf_of(ctx));
        return 1;
    default:
        piece = (struct ofi_piece *)ctx;
        ofi_op_peer(ofi_piece_op(piece))->broken = 0;
        ofi_op_peer(ofi_piece_op(piece))->pieces++;
        ofi_transfer_piece_done(ofi, piece, AQ_OK);
        return 1;
    }
}

/* Whether the owner may have unmapped the memory, which is not a failure of the connection. */
static bool ofi_progress_is_refused(int err)
{
    return err == FI_EACCES || err == FI_EKEYREJECTED || err == FI_EINVAL;
}

/*
 * Its local memory was valid when it was posted, but has become inaccessible. If the data of a put
 * ends early, tcp;ofi_rxm takes the bytes that follow in the stream for the rest of it, and reports
 * that they have arrived.
 */
static void ofi_progress_piece_gone(struct ofi_tp *ofi, struct ofi_piece *piece)
{
    const struct aqi_transfer *op = piece->rdma.op;
    struct ofi_peer *peer = ofi_op_peer(ofi_piece_op(piece));
    bool put = !op->get;
    if (op->status == AQ_OK)
        aqi_fail(AQ_EINVAL, "ofi",
                 "%s: %zu bytes of this process at %p, %s, can no longer be %s (mprotect, munmap): "
                 "they must stay accessible until the transfer is complete",
                 ofi_name(ofi), piece->rdma.len, (void *)(op->local + piece->rdma.offset),
                 put ? "the source of a put" : "the destination of a get",
                 put ? "read" : "written");
    ofi_transfer_piece_done(ofi, piece, AQ_EINVAL);
    if (put)
        aqi_rdma_fail(&ofi->rdma, &peer->rdma, "%s: the source of a put can no longer be read",
                      ofi_name(ofi));
}

static void ofi_progress_piece_failed(struct ofi_tp *ofi, struct ofi_piece *piece, int err,
                                      const char *text)
{
    struct ofi_peer *peer = ofi_op_peer(ofi_piece_op(piece));
    bool get = piece->rdma.op->get;
    if (ofi_progress_is_refused(err)) {
        ofi_transfer_piece_refused(ofi, piece);
    } else if (err == FI_EFAULT) {
        ofi_progress_piece_gone(ofi, piece);
    } else if (ofi_peer_is_cut(err)) {
        ofi_flush_broken(ofi, peer, text);
        ofi_transfer_piece_cancelled(ofi, piece, err == FI_ECANCELED || err == FI_EIO);
    } else {
        ofi_transfer_piece_done(ofi, piece, AQ_EPEER);
        aqi_rdma_fail(&ofi->rdma, &peer->rdma, "%s: a remote %s failed: %s", ofi_name(ofi),
                      get ? "read" : "write", text);
    }
}

struct ofi_ctx *ofi_progress_error(struct ofi_tp *ofi, int *err, char *text, size_t len)
{
    struct fi_cq_err_entry entry = {0};
    char detail[128] = "";
    if (fi_cq_readerr(ofi->cq, &entry, 0) != 1) return NULL;
    const char *more =
        fi_cq_strerror(ofi->cq, entry.prov_errno, entry.err_data, detail, sizeof(detail));
    snprintf(text, len, "%s (the provider reports: %s)", ofi_library.strerror(entry.err),
             more != NULL ? more : "nothing");
    *err = entry.err;
    return entry.op_context;
}

/* The queue has lost completions: operations in flight may never be reported. */
static void ofi_progress_overrun(struct ofi_tp *ofi, const char *text)
{
    for (uint32_t id = 0; id < ofi->rdma.params.size; id++)
        if (ofi_peer_at(ofi, id) != NULL)
            aqi_rdma_fail(&ofi->rdma, ofi->rdma.peers[id], "%s: its completion queue is lost: %s",
                          ofi_name(ofi), text);
}

static void ofi_progress_failed(struct ofi_tp *ofi)
{
    char text[192];
    int err = 0;
    struct ofi_ctx *ctx = ofi_progress_error(ofi, &err, text, sizeof(text));
    if (ctx == NULL) {
        if (err == FI_EOVERRUN) ofi_progress_overrun(ofi, text);
        return;
    }
    if (ctx->kind == OFI_RECEIVE || ctx->kind == OFI_AREA) {
        ofi_receive_failed(ofi, ctx);
        aqi_log(AQI_LOG_INFO, "ofi", "%s: a receive failed: %s", ofi_name(ofi), text);
    } else if (ctx->kind == OFI_SEND || ctx->kind == OFI_CONTROL) {
        struct ofi_peer *peer = ofi_buf_peer(ofi_buf_of(ctx));
        ofi_message_sent(ofi, ofi_buf_of(ctx));
        if (ofi_peer_is_cut(err))
            ofi_flush_broken(ofi, peer, text);
        else
            aqi_rdma_fail(&ofi->rdma, &peer->rdma, "%s: a message was not delivered: %s",
                          ofi_name(ofi), text);
    } else {
        ofi_progress_piece_failed(ofi, (struct ofi_piece *)ctx, err, text);
    }
}

/* Whether there is a completion in `found`. */
static bool ofi_progress_poll(struct ofi_tp *ofi)
{
    if (ofi->found_first != ofi->found_count) return true;
    ssize_t got = fi_cq_read(ofi->cq, ofi->found, AQI_RDMA_BATCH);
    if (AQI_UNLIKELY(got == -FI_EAVAIL)) ofi_progress_failed(ofi);
    if (AQI_UNLIKELY(got == -FI_EOVERRUN))
        ofi_progress_overrun(ofi, ofi_library.strerror(FI_EOVERRUN));
    ofi->found_first = 0;
    ofi->found_count = got > 0 ? (unsigned)got : 0;
    for (unsigned i = 0; i < ofi->found_count; i++)
        ofi_receive_found(ofi, &ofi->found[i]);
    return got > 0;
}

/*
 * Handle completions one by one, since other threads or nested handlers may take the next one.
 * After a batch that was not full, there is hardly ever more.
 */
static unsigned ofi_progress_queue(struct ofi_tp *ofi, enum aqi_progress_mode mode)
{
    unsigned n = 0;
    for (unsigned taken = 0; taken < AQI_RDMA_BATCH && ofi_progress_poll(ofi); taken++) {
        struct fi_cq_data_entry entry = ofi->found[ofi->found_first++];
        n += ofi_progress_one(ofi, &entry, mode);
        if (ofi->found_first == ofi->found_count && ofi->found_count < AQI_RDMA_BATCH) break;
    }
    return n;
}

/* Whether the provider has completions or arrivals to process. */
static bool ofi_progress_has_more(struct ofi_tp *ofi)
{
    struct fid *fids[] = {&ofi->cq->fid};
    struct pollfd arrivals = {.fd = ofi->rdma.fd, .events = POLLIN};
    return ofi->found_first != ofi->found_count || fi_trywait(ofi->fabric, fids, 1) != FI_SUCCESS ||
           poll(&arrivals, 1, 0) > 0;
}

/*
 * A process that computes between its polls finds much that has arrived, and its peers wait for it.
 * One reading of the queue makes some providers (tcp) take only one transfer of each peer, and a
 * put into our memory yields no completion that would show there was one.
 */
static AQI_NOINLINE unsigned ofi_progress_catch_up(struct ofi_tp *ofi, uint64_t away)
{
    struct aqi_tp *tp = &ofi->rdma.tp;
    uint64_t until = ofi->rdma.now + aqi_min(away / OFI_AWAY_SHARE, OFI_CATCH_UP);
    unsigned n = 0;
    while (ofi_progress_has_more(ofi) && tp->hooks.now(tp->hooks.host) < until) {
        /* Handlers have returned credits for OFI_RECEIVE_MORE messages at most. */
        if (ofi->posted < ofi->receives) ofi_receive_post(ofi);
        n += ofi_progress_queue(ofi, AQI_PROGRESS_ALL);
    }
    return n;
}

unsigned ofi_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now)
{
    struct ofi_tp *ofi = (struct ofi_tp *)tp;
    uint64_t away = aqi_rdma_begin_round(&ofi->rdma, now);
    unsigned n = aqi_rdma_run_held(&ofi->rdma, mode);
    n += ofi_progress_queue(ofi, mode);
    if (AQI_UNLIKELY(away >= OFI_AWAY) && mode == AQI_PROGRESS_ALL && ofi->rdma.fd >= 0)
        n += ofi_progress_catch_up(ofi, away);
    if (AQI_UNLIKELY(ofi->posted < ofi->receives)) ofi_receive_post(ofi);
    if (AQI_UNLIKELY(now >= ofi->look_at)) ofi_peer_look(ofi);
    if (AQI_UNLIKELY(ofi->flushes)) ofi_flush_push(ofi);
    if (AQI_UNLIKELY(ofi->again != NULL)) ofi_transfer_push_again(ofi);
    if (AQI_UNLIKELY(ofi->dying != 0) && n == 0) ofi_peer_end_transfers(ofi);
    if (AQI_UNLIKELY(ofi->farewell.due)) ofi_farewell_push(ofi);
    aqi_rdma_serve_memory(&ofi->rdma);
    return n + aqi_rdma_end_round(&ofi->rdma, mode);
}

uint64_t ofi_next_deadline(struct aqi_tp *tp)
{
    struct ofi_tp *ofi = (struct ofi_tp *)tp;
    aqi_rdma_lock(&ofi->rdma);
    uint64_t at = ofi->look_at;
    aqi_rdma_unlock(&ofi->rdma);
    return at;
}

/* The descriptor does not signal operations that wait for room. */
aq_status ofi_arm(struct aqi_tp *tp, bool on)
{
    struct ofi_tp *ofi = (struct ofi_tp *)tp;
    struct fid *fids[] = {&ofi->cq->fid};
    if (!on) return AQ_OK;
    aqi_rdma_lock(&ofi->rdma);
    bool go =
        ofi->rdma.held == NULL && ofi->rdma.lost == NULL && ofi->rdma.waiting == 0 &&
        ofi->again == NULL && ofi->dying == 0 && !ofi->farewell.due && !ofi->flushes &&
        !ofi_progress_poll(ofi) && ofi->posted == ofi->receives &&
        !(ofi->rdma.lending.on && (ofi->rdma.pins.due || aqi_lending_due(&ofi->rdma.lending)));
    if (go && ofi->rdma.fd >= 0) go = fi_trywait(ofi->fabric, fids, 1) == FI_SUCCESS;
    aqi_rdma_unlock(&ofi->rdma);
    return go ? AQ_OK : AQ_AGAIN;
}
