/*
 * Scattered transfers to memory that is not mapped. Small pieces share Medium messages: a put
 * message is records with their bytes, a get message is records and its answer their bytes. A
 * record is a row of equal pieces in the target's memory. Large pieces go as puts and gets of their
 * own.
 */
#include "core/vis/pending.h"
#include "core/vis/vis.h"

#include <endian.h>
#include <string.h>

/* On the wire, little-endian. */
struct vis_record {
    uint64_t addr, step;
    uint32_t len, count;
};
static_assert(sizeof(struct vis_record) == 24, "a record has no padding");

static struct vis_table table;
static struct aqi_pool buffers; /* of a Medium's size: packing here, gathering in a handler */

/* A message that is being packed. */
struct pack {
    struct vis_transfer *t;
    struct aqi_comp *comp;
    unsigned char *buffer;
    size_t used;
    struct vis_record last;
    size_t last_at;        /* where `last` was written */
    struct vis_side start; /* of a get: the local side of its first byte */
    size_t bytes;          /* of a get: asked for */
};

/* --- sending --------------------------------------------------------------------------------- */

static aq_status flush(struct pack *p)
{
    struct vis_transfer *t = p->t;
    if (p->used == 0) return AQ_OK;
    uint32_t cookie[2];
    aqi_comp_add(p->comp, &p->comp->remote, 1);
    if (!vis_pending_enter(&table, t->route->rank, p->comp, p->bytes, t->get ? &p->start : NULL,
                           cookie)) {
        aqi_comp_remote(p->comp);
        return aqi_fail(AQ_ENOMEM, "core", "%s: no memory for another message", t->call);
    }
    int32_t args[] = {(int32_t)cookie[0], (int32_t)cookie[1]};
    struct aqi_am am = {.kind = AQI_AM_MEDIUM,
                        .handler = t->get ? CORE_HANDLER_VIS_GET : CORE_HANDLER_VIS_PUT,
                        .nargs = 2,
                        .nbytes = (uint32_t)p->used,
                        .args = args,
                        .payload = p->buffer};
    aqi_count(AQI_CTR_AM_BYTES, p->used);
    aq_status st =
        core_send(t->route, &am, t->begun ? t->flags & ~AQ_IMMEDIATE : t->flags, t->call);
    p->used = p->bytes = 0;
    t->begun = t->begun || st == AQ_OK;
    if (st == AQ_OK) return AQ_OK;
    /* Unless the loss of the peer has ended it already. */
    struct vis_pending *pending = vis_pending_take(&table, cookie[0], cookie[1], t->route->rank);
    if (pending != NULL) {
        aqi_comp_remote(p->comp);
        vis_pending_put(&table, pending);
    }
    return st;
}

static void write_record(struct pack *p, size_t at)
{
    struct vis_record wire = {.addr = htole64(p->last.addr),
                              .step = htole64(p->last.step),
                              .len = htole32(p->last.len),
                              .count = htole32(p->last.count)};
    memcpy(p->buffer + at, &wire, sizeof(wire));
    p->last_at = at;
}

/* Does this row go on where the last record ends, both of them without gaps? */
static bool continues(const struct pack *p, const struct vis_record *record)
{
    return p->used != 0 && p->last.count == 1 && record->count == 1 &&
           p->last.addr + p->last.len == record->addr;
}

/* Put a row into the message, as much of it as there is room for. False: it is full. */
static bool append(struct pack *p, struct vis_row *row)
{
    size_t head = sizeof(struct vis_record),
           whole = aqi_min(p->t->route->max_medium, core.max_medium);
    size_t room = whole - p->used;
    bool get = p->t->get;
    if (room <= head) return false;
    size_t most = get ? whole - p->bytes : room - head;
    if (most < aqi_min(row->len, 64)) return false;
    vis_limit(row, most);
    size_t bytes = row->len * row->count;
    struct vis_record record = {.addr = row->a,
                                .step = (uint64_t)row->a_step,
                                .len = (uint32_t)row->len,
                                .count = (uint32_t)row->count};
    if (record.count == 1 || row->a_step == (int64_t)row->len) { /* no gaps at the target */
        record.len = (uint32_t)bytes;
        record.count = 1;
        record.step = 0;
    }
    if (get && p->used == 0) p->start = p->t->local;
    if (continues(p, &record)) {
        p->last.len += record.len;
        write_record(p, p->last_at);
    } else {
        p->last = record;
        write_record(p, p->used);
        p->used += head;
    }
    p->bytes += bytes;
    if (get) return true;
    vis_copy(p->buffer + p->used, (int64_t)row->len, (void *)(uintptr_t)row->b, row->b_step,
             row->len, row->count);
    p->used += bytes;
    return true;
}

/* Each piece of a row by an operation of its own. */
static aq_status send_pieces(struct pack *p, const struct vis_row *row)
{
    struct vis_transfer *t = p->t;
    /* What a get message asks for is without a hole. */
    aq_status st = t->get ? flush(p) : AQ_OK;
    for (size_t i = 0; i < row->count && st == AQ_OK; i++) {
        uint64_t remote = row->a + (uint64_t)row->a_step * i;
        void *local = (void *)(uintptr_t)(row->b + (uint64_t)row->b_step * i);
        st = core_start_run(t->route, t->get, remote, local, row->len,
                            t->begun ? t->flags & ~AQ_IMMEDIATE : t->flags, p->comp, t->call);
        t->begun = t->begun || st == AQ_OK;
    }
    return st;
}

aq_status vis_carry(struct vis_transfer *t, struct aqi_comp *comp)
{
    struct pack p = {.t = t, .comp = comp, .buffer = aqi_pool_get(&buffers)};
    struct vis_row row;
    aq_status st = AQ_OK;
    if (p.buffer == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: no memory to pack", t->call);
    while (st == AQ_OK && vis_peek(&t->remote, &t->local, &row)) {
        if (row.len >= aqi_core_config.vis_pack) {
            st = send_pieces(&p, &row);
        } else if (!append(&p, &row)) {
            st = flush(&p);
            continue;
        }
        if (st == AQ_OK) vis_take(&t->remote, &t->local, &row);
    }
    if (st == AQ_OK) st = flush(&p);
    aqi_pool_put(&buffers, p.buffer);
    return st;
}

/* --- serving --------------------------------------------------------------------------------- */

static void answer(aq_am *am, aq_handler handler, aq_status status, const void *data, size_t nbytes)
{
    struct core_message *message = (struct core_message *)am;
    int32_t args[] = {am->args[0], am->args[1], (int32_t)status};
    struct aqi_am out = {.kind = data != NULL ? AQI_AM_MEDIUM : AQI_AM_SHORT,
                         .handler = handler,
                         .nargs = 3,
                         .flags = AQI_AM_IS_REPLY,
                         .nbytes = (uint32_t)nbytes,
                         .args = args,
                         .payload = data};
    message->replied = true;
    /* An answer that cannot be sent is to a peer that is dead. */
    (void)core_send(message->route, &out, 0, "vis");
}

/* Read the record at `*at` and step over it. False: it makes no sense or is not to be touched. */
static bool read_record(const aq_am *am, const unsigned char **at, const unsigned char *end,
                        struct vis_row *row)
{
    struct vis_record wire;
    const struct core_route *route = ((const struct core_message *)am)->route;
    int64_t last;
    if ((size_t)(end - *at) < sizeof(wire)) return false;
    memcpy(&wire, *at, sizeof(wire));
    *at += sizeof(wire);
    *row = (struct vis_row){.a = le64toh(wire.addr),
                            .a_step = (int64_t)le64toh(wire.step),
                            .len = le32toh(wire.len),
                            .count = le32toh(wire.count)};
    if (row->len == 0 || row->count == 0 || row->len * row->count > route->max_medium ||
        __builtin_mul_overflow(row->a_step, (int64_t)(row->count - 1), &last))
        return false;
    uint64_t low = last < 0 ? row->a + (uint64_t)last : row->a;
    uint64_t span = last < 0 ? 0 - (uint64_t)last : (uint64_t)last;
    return core_range_ok(route, low, span + row->len);
}

/* Look at all records before the first of them moves a byte. */
static bool records_ok(const aq_am *am, bool with_bytes, size_t *bytes)
{
    const unsigned char *at = am->payload, *end = at + am->nbytes;
    size_t most = ((const struct core_message *)am)->route->max_medium;
    struct vis_row row;
    for (*bytes = 0; at < end;) {
        if (!read_record(am, &at, end, &row)) return false;
        size_t n = row.len * row.count;
        *bytes += n;
        if (*bytes > most || (with_bytes && n > (size_t)(end - at))) return false;
        if (with_bytes) at += n;
    }
    return true;
}

static bool is_request(const aq_am *am)
{
    return !am->is_reply && am->nargs == 2 && am->category == AQ_AM_MEDIUM;
}

static void on_put(aq_am *am)
{
    const unsigned char *at = am->payload, *end = at + am->nbytes;
    struct vis_row row;
    size_t bytes;
    if (!is_request(am)) return;
    if (!records_ok(am, true, &bytes)) {
        answer(am, CORE_HANDLER_VIS_DONE, AQ_ERANGE, NULL, 0);
        return;
    }
    /* The sizes are read a second time, and a stranger may have changed them since. */
    while (at < end && read_record(am, &at, end, &row)) {
        if (row.len * row.count > (size_t)(end - at)) break;
        vis_copy((void *)(uintptr_t)row.a, row.a_step, at, (int64_t)row.len, row.len, row.count);
        at += row.len * row.count;
    }
    answer(am, CORE_HANDLER_VIS_DONE, AQ_OK, NULL, 0);
}

static void on_get(aq_am *am)
{
    const unsigned char *at = am->payload, *end = at + am->nbytes;
    struct vis_row row;
    size_t bytes;
    if (!is_request(am)) return;
    bool ok = records_ok(am, false, &bytes);
    unsigned char *buffer = ok ? aqi_pool_get(&buffers) : NULL;
    if (buffer == NULL) {
        answer(am, CORE_HANDLER_VIS_DONE, ok ? AQ_ENOMEM : AQ_ERANGE, NULL, 0);
        return;
    }
    unsigned char *to = buffer, *full = buffer + bytes;
    while (at < end && read_record(am, &at, end, &row)) {
        if (row.len * row.count > (size_t)(full - to)) break; /* as in on_put */
        vis_copy(to, (int64_t)row.len, (void *)(uintptr_t)row.a, row.a_step, row.len, row.count);
        to += row.len * row.count;
    }
    answer(am, CORE_HANDLER_VIS_DATA, AQ_OK, buffer, bytes);
    aqi_pool_put(&buffers, buffer);
}

/* --- answers --------------------------------------------------------------------------------- */

static void finish(struct vis_pending *pending, aq_status status)
{
    if (status != AQ_OK) aqi_comp_fail(pending->comp, status);
    aqi_comp_remote(pending->comp);
    vis_pending_put(&table, pending);
}

static struct vis_pending *answered(const aq_am *am)
{
    if (!am->is_reply || am->nargs != 3) return NULL;
    return vis_pending_take(&table, (uint32_t)am->args[0], (uint32_t)am->args[1],
                            ((const struct core_message *)am)->route->rank);
}

static void on_done(aq_am *am)
{
    struct vis_pending *pending = answered(am);
    if (pending == NULL) return;
    aq_status status = am->args[2] <= 0 ? (aq_status)am->args[2] : AQ_EPROTO;
    finish(pending, pending->get && status == AQ_OK ? AQ_EPROTO : status);
}

static void on_data(aq_am *am)
{
    const unsigned char *from = am->payload;
    struct vis_pending *pending = answered(am);
    struct vis_row row;
    if (pending == NULL) return;
    if (!pending->get || am->nbytes != pending->bytes) {
        finish(pending, AQ_EPROTO);
        return;
    }
    for (size_t left = am->nbytes; left != 0 && vis_walk(&pending->local, left, &row);) {
        vis_copy((void *)(uintptr_t)row.a, row.a_step, from, (int64_t)row.len, row.len, row.count);
        from += row.len * row.count;
        left -= row.len * row.count;
    }
    finish(pending, AQ_OK);
}

/* --- opening, closing, losing a peer --------------------------------------------------------- */

aq_status core_vis_open(void)
{
    vis_table_open(&table, core.multi);
    aqi_pool_init(&buffers, core.max_medium, 1, core.multi);
    core_register_system(CORE_HANDLER_VIS_PUT, on_put, "vis-put");
    core_register_system(CORE_HANDLER_VIS_GET, on_get, "vis-get");
    core_register_system(CORE_HANDLER_VIS_DONE, on_done, "vis-done");
    core_register_system(CORE_HANDLER_VIS_DATA, on_data, "vis-data");
    core_on_loss(core_vis_peer_down);
    return AQ_OK;
}

void core_vis_close(void)
{
    vis_table_close(&table);
    aqi_pool_destroy(&buffers);
}

void core_vis_peer_down(uint32_t rank)
{
    struct vis_pending *pending;
    while ((pending = vis_pending_take_any(&table, rank)) != NULL)
        finish(pending, AQ_EPEER);
}
