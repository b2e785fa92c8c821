/*
 * The fallback layer's scattered transfers: rows share messages. A put message consists of records,
 * each with its bytes; a get message of records only, and its answer of the bytes, in order. A
 * record is a row of equal pieces in the target's memory.
 */
#include "base/copy.h"
#include "base/fail.h"
#include "transport/layers/fallback_impl.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* On the wire, little-endian. */
struct rows_record {
    uint64_t addr, step;
    uint32_t len, count;
};
static_assert(sizeof(struct rows_record) == 24, "a record has no padding");

/* --- packing --------------------------------------------------------------------------------- */

/*
 * The destination of bytes of an answer. It is small, since a get keeps one for each piece of a
 * list with irregular distances.
 */
struct rows_place {
    unsigned char *local;
    int64_t step;
    uint32_t len, count;
};

/* A message being packed; for a get, `bytes` are requested. */
struct rows_pack {
    unsigned char *buffer;
    size_t room, used, bytes;
    bool put;
    struct rows_record last;
    size_t last_at; /* offset of that record */
};

/* Cut off the front of a row: as many whole pieces as fit `most` bytes (not 0), or part of one. */
static struct aqi_row fallback_rows_cut(struct aqi_row *row, size_t most)
{
    struct aqi_row out = *row;
    size_t left = row->len - row->skip, pieces;
    out.skip = 0;
    if (row->skip != 0 || left > most) {
        out.remote += row->skip;
        out.local += row->skip;
        out.len = aqi_min(left, most);
        out.count = 1;
        row->skip += out.len;
        pieces = row->skip == row->len;
    } else {
        out.count = pieces = aqi_min(row->count, most / row->len);
    }
    if (pieces == 0) return out;
    row->remote += (uint64_t)row->remote_step * pieces;
    row->local += row->local_step * (int64_t)pieces;
    row->count -= pieces;
    row->skip = 0;
    return out;
}

static void fallback_rows_write(struct rows_pack *p, size_t at)
{
    struct rows_record wire = {.addr = htole64(p->last.addr),
                               .step = htole64(p->last.step),
                               .len = htole32(p->last.len),
                               .count = htole32(p->last.count)};
    memcpy(p->buffer + at, &wire, sizeof(wire));
    p->last_at = at;
}

/* Append a part that was cut off to the message, which has room for it and a record. */
static void fallback_rows_append(struct rows_pack *p, const struct aqi_row *row)
{
    size_t bytes = row->len * row->count;
    struct rows_record record = {.addr = row->remote,
                                 .step = (uint64_t)row->remote_step,
                                 .len = (uint32_t)row->len,
                                 .count = (uint32_t)row->count};
    if (row->count == 1 || row->remote_step == (int64_t)row->len) { /* no gaps at the target */
        record.len = (uint32_t)bytes;
        record.count = 1;
        record.step = 0;
    }
    if (p->used != 0 && p->last.count == 1 && record.count == 1 &&
        p->last.addr + p->last.len == record.addr) {
        p->last.len += record.len;
        fallback_rows_write(p, p->last_at);
    } else {
        p->last = record;
        fallback_rows_write(p, p->used);
        p->used += sizeof(record);
    }
    p->bytes += bytes;
    if (!p->put) return;
    aqi_copy_pieces(p->buffer + p->used, (int64_t)row->len, row->local, row->local_step, row->len,
                    row->count);
    p->used += bytes;
}

/*
 * Pack as many rows as fit. `*row` becomes the rest of the first row that does not fit entirely,
 * and `*taken` its index. For a get, `places` receives the destinations of the parts that were cut
 * off; `*nplaces` is its capacity, then their number.
 */
static void fallback_rows_pack(struct rows_pack *p, const struct aqi_row *rows, unsigned n,
                               struct aqi_row *row, unsigned *taken, struct rows_place *places,
                               unsigned *nplaces)
{
    unsigned room = *nplaces;
    *row = rows[0];
    for (*taken = *nplaces = 0; *taken < n;) {
        if (p->room - p->used < sizeof(struct rows_record)) return;
        size_t most = p->put ? p->room - p->used - sizeof(struct rows_record) : p->room - p->bytes;
        if (most == 0 || (p->used != 0 && most < aqi_min(row->len - row->skip, 64))) return;
        if (!p->put && *nplaces == room) return;
        struct aqi_row cut = fallback_rows_cut(row, most);
        fallback_rows_append(p, &cut);
        if (places != NULL)
            places[*nplaces] = (struct rows_place){.local = cut.local,
                                                   .step = cut.local_step,
                                                   .len = (uint32_t)cut.len,
                                                   .count = (uint32_t)cut.count};
        ++*nplaces;
        if (row->count == 0 && ++*taken < n) *row = rows[*taken];
    }
}

static aq_status fallback_rows_send(struct aqi_fallback *fb, struct fallback_op *op,
                                    struct aqi_row *rows, unsigned n, unsigned *taken)
{
    struct aqi_tp *tp = fb->tp;
    struct aqi_slot slot;
    struct aqi_row rest;
    bool put = op->kind == FB_OP_PUT_ROWS;
    int32_t args[2] = {(int32_t)op->index, (int32_t)op->generation};
    aq_status st = tp->ops.am_reserve(tp, op->peer, false, 2, op->peer->max_medium, &slot);
    if (st != AQ_OK) return st;
    struct rows_pack p = {.buffer = slot.payload, .room = op->peer->max_medium, .put = put};
    unsigned whole;
    fallback_rows_pack(&p, rows, n, &rest, &whole, op->copy, &op->rows);
    op->fill_len = p.bytes;
    struct aqi_am am = {.kind = AQI_AM_INTERNAL,
                        .handler = put ? FB_PUT_ROWS : FB_GET_ROWS,
                        .nargs = 2,
                        .nbytes = (uint32_t)p.used,
                        .args = args};
    st = tp->ops.am_commit(tp, op->peer, &slot, &am);
    if (st == AQ_AGAIN) (void)tp->ops.am_commit(tp, op->peer, &slot, NULL);
    if (st != AQ_OK) return st;
    *taken = whole;
    if (whole < n) rows[whole] = rest;
    return AQ_OK;
}

aq_status fallback_rows(struct aqi_fallback *fb, bool put, struct aqi_peer *peer,
                        struct aqi_row *rows, unsigned n, unsigned *taken, struct aqi_comp *comp)
{
    struct fallback_peer *side = &fb->side[peer->id];
    struct fallback_op init = {.kind = put ? FB_OP_PUT_ROWS : FB_OP_GET_ROWS,
                               .peer = peer,
                               .len = 1,
                               .issued = 1,
                               .comp = comp};
    struct fallback_op *op = NULL;
    aq_status st = AQ_EPEER;
    /* One place more each for the first and the last row, which may be cut within a piece. */
    init.rows = (unsigned)aqi_min(n + 2, peer->max_medium / sizeof(struct rows_record));
    if (!put && (init.copy = malloc(init.rows * sizeof(struct rows_place))) == NULL) goto no_memory;
    aqi_spin_lock_if(fb->params.threads, &side->lock);
    if (!atomic_load_explicit(&side->down, memory_order_relaxed)) {
        op = fallback_op_new(fb, &init);
        st = op != NULL ? fallback_rows_send(fb, op, rows, n, taken) : AQ_ENOMEM;
    }
    if (op == NULL)
        free(init.copy);
    else if (st != AQ_OK)
        fallback_op_free(fb, op);
    aqi_spin_unlock_if(fb->params.threads, &side->lock);
    if (st == AQ_OK && put) aqi_comp_local(comp);
    if (st != AQ_ENOMEM) return st;
no_memory:
    return aqi_fail(AQ_ENOMEM, "transport", "no memory for a scattered transfer");
}

/* --- serving --------------------------------------------------------------------------------- */

/*
 * Decode the record at `*at` and advance. Returns false if it is malformed or its memory must not
 * be accessed.
 */
static bool fallback_rows_read(struct aqi_fallback *fb, const unsigned char **at,
                               const unsigned char *end, size_t most, struct aqi_row *row)
{
    struct rows_record wire;
    int64_t last;
    if ((size_t)(end - *at) < sizeof(wire)) return false;
    memcpy(&wire, *at, sizeof(wire));
    *at += sizeof(wire);
    *row = (struct aqi_row){.remote = le64toh(wire.addr),
                            .remote_step = (int64_t)le64toh(wire.step),
                            .len = le32toh(wire.len),
                            .count = le32toh(wire.count)};
    if (row->len == 0 || row->count == 0 || row->len * row->count > most ||
        __builtin_mul_overflow(row->remote_step, (int64_t)(row->count - 1), &last))
        return false;
    uint64_t low = last < 0 ? row->remote + (uint64_t)last : row->remote;
    uint64_t span = last < 0 ? 0 - (uint64_t)last : (uint64_t)last;
    return fb->up.range_ok(fb->up.host, low, span + row->len);
}

/* Check all records before the first byte moves. */
static bool fallback_rows_ok(struct aqi_fallback *fb, const struct aqi_am *am, bool put,
                             size_t most, size_t *bytes)
{
    const unsigned char *at = am->payload, *end = at + am->nbytes;
    struct aqi_row row;
    for (*bytes = 0; at < end;) {
        if (!fallback_rows_read(fb, &at, end, most, &row)) return false;
        size_t n = row.len * row.count;
        *bytes += n;
        if (*bytes > most || (put && n > (size_t)(end - at))) return false;
        if (put) at += n;
    }
    return true;
}

/* Sizes are read again here, since a peer may have changed them after the check. */
bool fallback_rows_put(struct aqi_fallback *fb, const struct aqi_am *am)
{
    const unsigned char *at = am->payload, *end = at + am->nbytes;
    struct aqi_row row;
    size_t bytes;
    if (!fallback_rows_ok(fb, am, true, am->nbytes, &bytes)) return false;
    while (fallback_rows_read(fb, &at, end, am->nbytes, &row)) {
        if (row.len * row.count > (size_t)(end - at)) break;
        aqi_copy_pieces((void *)(uintptr_t)row.remote, row.remote_step, at, (int64_t)row.len,
                        row.len, row.count);
        at += row.len * row.count;
    }
    return true;
}

bool fallback_rows_get(struct aqi_fallback *fb, const struct aqi_am *am, size_t most, void **buffer,
                       size_t *nbytes)
{
    const unsigned char *at = am->payload, *end = at + am->nbytes;
    struct aqi_row row;
    if (!fallback_rows_ok(fb, am, false, most, nbytes)) return false;
    unsigned char *to = *buffer = malloc(*nbytes + 1), *full = to + *nbytes;
    if (to == NULL) return true;
    while (fallback_rows_read(fb, &at, end, most, &row)) {
        if (row.len * row.count > (size_t)(full - to)) break;
        aqi_copy_pieces(to, (int64_t)row.len, (void *)(uintptr_t)row.remote, row.remote_step,
                        row.len, row.count);
        to += row.len * row.count;
    }
    *nbytes = (size_t)(to - (unsigned char *)*buffer); /* the heap's old contents follow */
    return true;
}

void fallback_rows_scatter(const struct fallback_op *op, const void *bytes)
{
    const struct rows_place *places = op->copy;
    const unsigned char *from = bytes;
    for (unsigned i = 0; i < op->rows; i++) {
        size_t len = places[i].len, count = places[i].count;
        aqi_copy_pieces(places[i].local, places[i].step, from, (int64_t)len, len, count);
        from += len * count;
    }
}
