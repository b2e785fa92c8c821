/* One-sided operations: put and get of every size, their counters, malformed keys. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RMA_GUARD 64u

/* Each rank owns a slice of every rank's memory. */
struct rma_place {
    size_t slice; /* bytes */
    size_t mine;  /* offset of my slice in a target */
};

static struct rma_place rma_open(struct ct_ep *ep, size_t slice)
{
    ct_mem_open(ep, slice * ep->size);
    return (struct rma_place){.slice = slice, .mine = slice * ep->self};
}

static bool rma_untouched(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != 0xa5) return false;
    return true;
}

/* Counters that start above zero, so that a decrement too many or too few shows. */
static void rma_comp_init(const struct ct_ep *ep, struct aqi_comp *comp)
{
    ct_comp_init(ep, comp);
    aqi_comp_add(comp, &comp->local, 1000);
    aqi_comp_add(comp, &comp->remote, 1000);
}

static void rma_comp_wait(struct ct_ep *ep, struct aqi_comp *comp)
{
    while (ct_comp_local(comp) > 1000 || ct_comp_remote(comp) > 1000)
        ct_poll(ep);
    for (int more = 0; more < 3; more++)
        ct_poll(ep);
    CT_EQUAL(ct_comp_local(comp), 1000);
    CT_EQUAL(ct_comp_remote(comp), 1000);
    CT_EQUAL(atomic_load(&comp->status), AQ_OK);
}

/* Put, check at the target, and get it back, with guard bytes on every side. */
static void rma_round(struct ct_ep *ep, const struct rma_place *place, size_t len, size_t from,
                      size_t to, unsigned char *buffer)
{
    uint32_t target = ct_next(ep), source = (ep->self + ep->size - 1) % ep->size;
    size_t offset = RMA_GUARD + to;
    unsigned char *seen = ep->mem.addr + place->slice * source;
    memset(seen, 0xa5, len + 3 * RMA_GUARD);
    ct_barrier(ep);
    struct aqi_comp comp;
    rma_comp_init(ep, &comp);
    fill(buffer + from, len, ep->self + len);
    ct_put(ep, target, place->mine + offset, buffer + from, len, &comp);
    rma_comp_wait(ep, &comp);
    ct_barrier(ep);
    CT_CHECK(rma_untouched(seen, offset));
    CT_CHECK(filled(seen + offset, len, source + len));
    CT_CHECK(rma_untouched(seen + offset + len, RMA_GUARD));
    memset(buffer, 0xa5, len + 3 * RMA_GUARD);
    rma_comp_init(ep, &comp);
    ct_get(ep, target, place->mine + offset, buffer + RMA_GUARD + from, len, &comp);
    rma_comp_wait(ep, &comp);
    CT_CHECK(rma_untouched(buffer, RMA_GUARD + from));
    CT_CHECK(filled(buffer + RMA_GUARD + from, len, ep->self + len));
    CT_CHECK(rma_untouched(buffer + RMA_GUARD + from + len, RMA_GUARD - from));
    ct_barrier(ep);
}

static void rma_sizes(struct ct_ep *ep)
{
    static const size_t sizes[] = {0,       1,
                                   2,       3,
                                   4,       7,
                                   8,       9,
                                   15,      16,
                                   17,      31,
                                   33,      63,
                                   64,      65,
                                   127,     128,
                                   129,     511,
                                   512,     513,
                                   1023,    2048,
                                   4031,    4032,
                                   4033,    4095,
                                   4096,    4097,
                                   8191,    16385,
                                   32767,   65535,
                                   65536,   131073,
                                   262144,  (1u << 20) + 3,
                                   8u << 20};
    static const size_t skew[][2] = {{0, 0}, {1, 0}, {0, 1}, {3, 5}, {63, 1}};
    size_t count =
        AQI_COUNT_OF(sizes) - CT_SANITIZED; /* sanitizers see nothing new in the largest ones */
    size_t largest = sizes[count - 1];
    struct rma_place place = rma_open(ep, largest + 4 * RMA_GUARD);
    unsigned char *buffer = malloc(largest + 4 * RMA_GUARD);
    CT_CHECK(buffer != NULL);
    for (size_t i = 0; i < count; i++) {
        size_t skews = CT_SANITIZED || sizes[i] > 65536 ? 2 : AQI_COUNT_OF(skew);
        for (size_t s = 0; s < skews; s++)
            rma_round(ep, &place, sizes[i], skew[s][0], skew[s][1], buffer);
    }
    free(buffer);
    ct_mem_close(ep);
}

/* Hundreds of operations under way at once, on one comp, in both directions. */
static void rma_many(struct ct_ep *ep)
{
    enum { COUNT = 500, SIZE = 1000 };
    struct rma_place place = rma_open(ep, 2 * COUNT * SIZE);
    uint32_t target = ct_next(ep);
    unsigned char *out = malloc(COUNT * SIZE), *in = malloc(COUNT * SIZE);
    CT_CHECK(out != NULL && in != NULL);
    for (uint32_t i = 0; i < COUNT; i++)
        fill(out + i * SIZE, SIZE, ep->self * 1000 + i);
    struct aqi_comp comp;
    rma_comp_init(ep, &comp);
    for (uint32_t i = 0; i < COUNT; i++)
        ct_put(ep, target, place.mine + i * SIZE, out + i * SIZE, SIZE, &comp);
    rma_comp_wait(ep, &comp);
    rma_comp_init(ep, &comp);
    for (uint32_t i = 0; i < COUNT; i++) {
        ct_get(ep, target, place.mine + (COUNT - 1 - i) * SIZE, in + i * SIZE, SIZE, &comp);
        ct_put(ep, target, place.mine + (COUNT + i) * SIZE, out + i * SIZE, SIZE, &comp);
    }
    rma_comp_wait(ep, &comp);
    for (uint32_t i = 0; i < COUNT; i++)
        CT_CHECK(filled(in + i * SIZE, SIZE, ep->self * 1000 + COUNT - 1 - i));
    ct_barrier(ep);
    uint32_t source = (ep->self + ep->size - 1) % ep->size;
    for (uint32_t i = 0; i < 2 * COUNT; i++)
        CT_CHECK(filled(ep->mem.addr + place.slice * source + i * SIZE, SIZE,
                        source * 1000 + i % COUNT));
    free(out);
    free(in);
    ct_mem_close(ep);
}

/* A fill has no source: it leaves comp->local alone, and the adjacent bytes as well. */
static void rma_fill(struct ct_ep *ep)
{
    static const size_t sizes[] = {0, 1, 7, 64, 1000, 65537, 1u << 20};
    struct rma_place place = rma_open(ep, (1u << 20) + 2 * RMA_GUARD);
    uint32_t target = ct_next(ep), source = (ep->self + ep->size - 1) % ep->size;
    for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++) {
        unsigned char *seen = ep->mem.addr + place.slice * source;
        memset(seen, 0xa5, sizes[i] + 2 * RMA_GUARD);
        ct_barrier(ep);
        struct aqi_comp comp;
        rma_comp_init(ep, &comp);
        aqi_comp_add(&comp, &comp.remote, 1);
        aq_status status;
        while ((status = ep->tp->ops.fill(ep->tp, ep->peers[target], ep->mem.remote[target],
                                          ep->world->addr[target] + place.mine + RMA_GUARD,
                                          0x1f0 + (int)i, sizes[i], &comp)) == AQ_AGAIN)
            ct_poll(ep);
        CT_EQUAL(status, AQ_OK);
        rma_comp_wait(ep, &comp);
        ct_barrier(ep);
        CT_CHECK(rma_untouched(seen, RMA_GUARD));
        for (size_t at = 0; at < sizes[i]; at++)
            CT_EQUAL(seen[RMA_GUARD + at], 0xf0 + i);
        CT_CHECK(rma_untouched(seen + RMA_GUARD + sizes[i], RMA_GUARD));
        ct_barrier(ep);
    }
    ct_mem_close(ep);
}

/*
 * The source may be overwritten once comp->local has counted down, however late the put completes.
 */
static void rma_local(struct ct_ep *ep)
{
    static const size_t sizes[] = {1, 8, 100, 4096, 100000, 1000000};
    struct rma_place place = rma_open(ep, 1u << 20);
    uint32_t target = ct_next(ep), source = (ep->self + ep->size - 1) % ep->size;
    unsigned char *buffer = malloc(1u << 20);
    CT_CHECK(buffer != NULL);
    for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++) {
        struct aqi_comp comp;
        ct_comp_init(ep, &comp);
        fill(buffer, sizes[i], ep->self + i);
        ct_put(ep, target, place.mine, buffer, sizes[i], &comp);
        while (ct_comp_local(&comp) != 0)
            ct_poll(ep);
        memset(buffer, 0, sizes[i]);
        ct_comp_wait(ep, &comp);
        ct_barrier(ep);
        CT_CHECK(filled(ep->mem.addr + place.slice * source, sizes[i], source + i));
        ct_barrier(ep);
    }
    free(buffer);
    ct_mem_close(ep);
}

/*
 * If memory can be registered once, so can several pieces of it, even if the transport has room for
 * few regions.
 */
static void rma_some_memories(struct ct_ep *ep)
{
    enum { SOME = 4, EACH = 4096 };
    static unsigned char memory[SOME][EACH];
    struct aqi_mem *mems[SOME] = {NULL};
    for (unsigned i = 0; i < SOME; i++) {
        aq_status status = ep->tp->ops.mem_reg(ep->tp, memory[i], EACH, &mems[i]);
        if (status != AQ_OK) mems[i] = NULL;
        CT_CHECK((status == AQ_OK) == (mems[0] != NULL));
    }
    for (unsigned i = 0; i < SOME; i++)
        if (mems[i] != NULL) ep->tp->ops.mem_dereg(ep->tp, mems[i]);
}

/*
 * Memory that the transport did not allocate. If the transport cannot register it, it is accessed
 * by messages.
 */
static void rma_foreign(struct ct_ep *ep)
{
    size_t len = 300000;
    unsigned char *memory = malloc(len * ep->size), *buffer = malloc(len);
    CT_CHECK(memory != NULL && buffer != NULL);
    ct_mem_share(ep, memory, len * ep->size);
    uint32_t target = ct_next(ep), source = (ep->self + ep->size - 1) % ep->size;
    struct aqi_comp comp;
    ct_comp_init(ep, &comp);
    fill(buffer, len, ep->self);
    ct_put(ep, target, len * ep->self + 1, buffer, len - 1, &comp);
    ct_comp_wait(ep, &comp);
    ct_barrier(ep);
    CT_CHECK(filled(memory + len * source + 1, len - 1, source));
    memset(buffer, 0, len);
    ct_get(ep, target, len * ep->self + 1, buffer, len - 1, &comp);
    ct_comp_wait(ep, &comp);
    CT_CHECK(filled(buffer, len - 1, ep->self));
    ct_mem_close(ep);
    ct_barrier(ep);
    free(buffer);
    free(memory);
}

/* Pull the current contents of a peer's memory at any address; even where nothing is mapped. */
static void rma_pull(struct ct_ep *ep)
{
    static const size_t sizes[] = {1, 7, 4096, 4097, 300000};
    unsigned char *memory = malloc(300000), *buffer = malloc(300000);
    CT_CHECK(memory != NULL && buffer != NULL);
    uint32_t target = ct_next(ep);
    const struct aqi_transport *ops = &ep->tp->ops;
    struct aqi_peer *peer = ep->peers[target];
    ep->world->addr[ep->self] = (uint64_t)(uintptr_t)memory;
    ct_barrier(ep);
    uint64_t theirs = ep->world->addr[target];
    bool can = ops->pull(ep->tp, peer, theirs, buffer, 0) == AQ_OK;
    if (!can) {
        CT_EQUAL(ops->pull(ep->tp, peer, theirs, buffer, 1), AQ_ENOTSUP);
        ct_skip(ep, "memory of peers cannot be pulled");
    }
    for (size_t i = 0; i < AQI_COUNT_OF(sizes); i++) {
        size_t at = 300000 - sizes[i];
        fill(memory, 300000, ep->self + i);
        fill(memory + at, sizes[i], ep->self + sizes[i]);
        ct_barrier(ep);
        if (can) CT_OK(ops->pull(ep->tp, peer, theirs + at, buffer, sizes[i]));
        if (can) CT_CHECK(filled(buffer, sizes[i], target + sizes[i]));
        ct_barrier(ep);
    }
    if (can) CT_EQUAL(ops->pull(ep->tp, peer, 4096, buffer, 8), AQ_ERANGE);
    ct_barrier(ep);
    free(buffer);
    free(memory);
}

/*
 * A peer's own memory is zero at first, mapped at the address that it announces, and of a different
 * size on each rank.
 */
static void rma_memory(struct ct_ep *ep)
{
    size_t len = (size_t)(ep->self + 1) * 100000;
    ct_mem_open(ep, len);
    for (size_t i = 0; i < len; i++)
        CT_EQUAL(ep->mem.addr[i], 0);
    ct_barrier(ep); /* all ranks have checked their memory, so it may be written to from now on */
    uint32_t target = ct_next(ep);
    const struct aqi_rmem *remote = ep->mem.remote[target];
    if (remote != NULL) CT_CHECK(remote->len >= (size_t)(target + 1) * 100000);
    if ((ep->tp->ops.caps & AQI_CAP_MAP) != 0 && remote->local != NULL) {
        /* A plain store has the effect of a put. */
        ((unsigned char *)remote->local)[99999] = (unsigned char)(ep->self + 1);
        ct_barrier(ep);
        CT_EQUAL(ep->mem.addr[99999], (ep->self + ep->size - 1) % ep->size + 1);
    }
    ct_mem_close(ep);
}

/* One rank has no memory to share. */
static void rma_no_memory(struct ct_ep *ep)
{
    void *addr = NULL;
    size_t len = ep->self == 0 && ep->size > 1 ? 0 : 4096;
    CT_OK(ep->tp->ops.mem_alloc(ep->tp, len, 4096, &addr));
    if (len > 0) CT_CHECK(addr != NULL);
    if (len > 0) memset(addr, 1, len);
    ct_barrier(ep);
}

/* --- scattered --------------------------------------------------------------------------- */

enum { ROWS = 40, ROWS_SPACE = 200000 };

/* Rows of random shapes that touch no byte twice, within `space` at the target and in `memory`
 * here. */
static unsigned rma_make_rows(struct ct_ep *ep, struct aqi_row *rows, uint64_t there,
                              unsigned char *here)
{
    size_t at = 0;
    unsigned n = 0;
    for (; n < ROWS; n++) {
        size_t len = ct_random(ep) % 4 == 0 ? 1 + ct_random(ep) % 9000 : 1 + ct_random(ep) % 90;
        size_t count = 1 + ct_random(ep) % 12, gap = ct_random(ep) % 3 * (ct_random(ep) % 40);
        size_t span = (len + gap) * count;
        if (span > ROWS_SPACE - at) break;
        bool back = ct_random(ep) % 4 == 0; /* the last piece first */
        size_t first = at + (back ? (len + gap) * (count - 1) : 0);
        int64_t step = (int64_t)(len + gap) * (back ? -1 : 1);
        rows[n] = (struct aqi_row){.remote = there + first,
                                   .remote_step = step,
                                   .local = here + first,
                                   .local_step = step,
                                   .len = len,
                                   .count = count};
        at += span;
    }
    return n;
}

static void rma_move_rows(struct ct_ep *ep, bool put, uint32_t target, const struct aqi_row *all,
                          unsigned n, struct aqi_comp *comp)
{
    struct aqi_row rows[ROWS];
    memcpy(rows, all, n * sizeof(rows[0]));
    for (unsigned at = 0, taken = 0; at < n; at += taken) {
        if (put) aqi_comp_add(comp, &comp->local, 1);
        aqi_comp_add(comp, &comp->remote, 1);
        aq_status status;
        while ((status = (put ? ep->tp->ops.put_rows : ep->tp->ops.get_rows)(
                    ep->tp, ep->peers[target], ep->mem.remote[target], rows + at, n - at, &taken,
                    comp)) == AQ_AGAIN)
            ct_poll(ep);
        CT_EQUAL(status, AQ_OK);
        CT_CHECK(taken <= n - at);
    }
}

static void rma_rows(struct ct_ep *ep)
{
    ct_mem_open(ep, (size_t)ROWS_SPACE * ep->size);
    uint32_t target = ct_next(ep);
    unsigned char *out = malloc(ROWS_SPACE), *in = malloc(ROWS_SPACE), *want = malloc(ROWS_SPACE);
    CT_CHECK(out != NULL && in != NULL && want != NULL);
    uint64_t there = ep->world->addr[target] + (uint64_t)ROWS_SPACE * ep->self;
    for (uint32_t round = 0; round < 30; round++) {
        struct aqi_row rows[ROWS];
        struct aqi_comp comp;
        unsigned n = rma_make_rows(ep, rows, there, out);
        ct_comp_init(ep, &comp);
        fill(out, ROWS_SPACE, ep->self * 1000 + round);
        memset(want, 0x3c, ROWS_SPACE);
        memset(in, 0x3c, ROWS_SPACE);
        for (unsigned i = 0; i < n; i++)
            for (size_t k = 0; k < rows[i].count; k++) {
                int64_t at = rows[i].local - out + rows[i].local_step * (int64_t)k;
                memcpy(want + at, out + at, rows[i].len);
            }
        rma_move_rows(ep, true, target, rows, n, &comp);
        ct_comp_wait(ep, &comp);
        for (unsigned i = 0; i < n; i++)
            rows[i].local = in + (rows[i].local - out);
        rma_move_rows(ep, false, target, rows, n, &comp);
        ct_comp_wait(ep, &comp);
        CT_CHECK(memcmp(in, want, ROWS_SPACE) == 0);
    }
    ct_barrier(ep);
    free(out);
    free(in);
    free(want);
    ct_mem_close(ep);
}

static _Thread_local bool rma_mapped;
static aq_status rma_map(struct ct_ep *ep, uint32_t target, const void *key, size_t len,
                         size_t bytes)
{
    struct aqi_rmem *remote;
    aq_status status = ep->tp->ops.mem_map(ep->tp, ep->peers[target], key, len,
                                           ep->world->addr[target], bytes, &remote);
    if (status != AQ_OK) return status;
    rma_mapped = remote->local != NULL;
    ep->tp->ops.mem_unmap(ep->tp, remote);
    return status;
}

/*
 * Keys are bytes from a peer: malformed ones are refused, and nothing is accessed because of them.
 */
static void rma_bad_keys(struct ct_ep *ep)
{
    if ((ep->tp->ops.caps & AQI_CAP_REG) == 0) {
        ct_skip(ep, "keys are not used: no AQI_CAP_REG");
        return;
    }
    ct_mem_open(ep, 100000);
    uint32_t target = ct_next(ep);
    const unsigned char *good = ep->world->key[target];
    size_t len = ep->world->key_len[target];
    unsigned char key[AQI_KEY_MAX];
    for (int i = 0; i < 2000; i++) {
        for (size_t byte = 0; byte < len; byte++)
            key[byte] = i == 0 ? 0 : i == 1 ? 0xff : (unsigned char)ct_random(ep);
        CT_EQUAL(rma_map(ep, target, key, len, 100000), AQ_EPROTO);
    }
    /*
     * A key with one bit flipped may still be valid, if the bit is unused. It must not cause a
     * crash.
     */
    for (size_t bit = 0; bit < len * 8; bit++) {
        memcpy(key, good, len);
        key[bit / 8] ^= (unsigned char)(1u << bit % 8);
        aq_status status = rma_map(ep, target, key, len, 100000);
        CT_CHECK(status == AQ_OK || status == AQ_EPROTO);
    }
    for (size_t cut = 0; cut < len; cut++)
        CT_EQUAL(rma_map(ep, target, good, cut, 100000), AQ_EPROTO);
    /*
     * A range beyond the region is not mapped; if it is accessed by messages, the owner checks it.
     */
    static const size_t lengths[] = {(size_t)1 << 40, SIZE_MAX};
    for (size_t i = 0; i < AQI_COUNT_OF(lengths); i++)
        CT_CHECK(rma_map(ep, target, good, len, lengths[i]) != AQ_OK || !rma_mapped);
    /* The unmodified key still works, any number of times. */
    for (int i = 0; i < 100; i++)
        CT_OK(rma_map(ep, target, good, len, 100000));
    ct_mem_close(ep);
}

/*
 * A key may outlive its memory: only operations that use it fail, and the connection remains
 * usable.
 */
static void rma_given_back(struct ct_ep *ep)
{
    enum { LEN = 512, ROOM = LEN + 4 * RMA_GUARD };
    unsigned char buffer[ROOM];
    if ((ep->tp->ops.caps & AQI_CAP_REG) == 0 || (ep->tp->ops.caps & AQI_CAP_MAP) != 0) {
        ct_skip(ep, "memory is mapped, or needs no registration");
        return;
    }
    struct rma_place place = rma_open(ep, ROOM);
    rma_round(ep, &place, LEN, 0, 0, buffer);
    ep->tp->ops.mem_dereg(ep->tp, ep->mem.own);
    ep->mem.own = NULL;
    ct_barrier(ep);
    for (int i = 0; i < 3; i++) {
        struct aqi_comp comp;
        rma_comp_init(ep, &comp);
        ct_put(ep, ct_next(ep), place.mine, buffer, LEN, &comp);
        while (ct_comp_local(&comp) > 1000 || ct_comp_remote(&comp) > 1000)
            ct_poll(ep);
        int32_t status = atomic_load(&comp.status);
        bool keys = strcmp(ep->tp->ops.name, "ibv") == 0; /* the adapter refuses it */
        CT_CHECK(status == AQ_ERANGE || (status == AQ_OK && !keys));
    }
    ct_barrier(ep);
    ct_mem_close(ep);
    place = rma_open(ep, ROOM);
    rma_round(ep, &place, LEN, 0, 0, buffer);
    ct_mem_close(ep);
}

/* Operations that fallback.c serves for a transport are checked by the owner of the memory. */
static void rma_outside(struct ct_ep *ep)
{
    if ((ep->tp->ops.caps & (AQI_CAP_PUT | AQI_CAP_GET)) != 0 &&
        (ep->tp->ops.caps & AQI_CAP_REG) != 0) {
        ct_skip(ep, "the transport implements put and get; the core checks the range");
        return;
    }
    ct_mem_open(ep, 65536);
    memset(ep->mem.addr, 0xa5, 65536);
    ct_barrier(ep);
    uint32_t target = ct_next(ep);
    unsigned char buffer[256] = {0};
    static const int64_t offsets[] = {-256, -1, 65536 - 255, 65536, 1ll << 40};
    for (size_t i = 0; i < AQI_COUNT_OF(offsets); i++) {
        uint64_t addr = ep->world->addr[target] + (uint64_t)offsets[i];
        struct aqi_rmem *remote = ep->mem.remote[target];
        for (int get = 0; get < 2; get++) {
            struct aqi_comp comp;
            ct_comp_init(ep, &comp);
            aqi_comp_add(&comp, &comp.remote, 1);
            if (!get) aqi_comp_add(&comp, &comp.local, 1);
            aq_status status;
            do {
                ct_poll(ep);
                status = get ? ep->tp->ops.get(ep->tp, ep->peers[target], remote, addr, buffer, 256,
                                               NULL, &comp)
                             : ep->tp->ops.put(ep->tp, ep->peers[target], remote, addr, buffer, 256,
                                               NULL, &comp);
            } while (status == AQ_AGAIN);
            if (status < 0) continue; /* an immediate refusal is correct, too */
            while (ct_comp_local(&comp) != 0 || ct_comp_remote(&comp) != 0)
                ct_poll(ep);
            CT_EQUAL(atomic_load(&comp.status), AQ_ERANGE);
        }
    }
    ct_barrier(ep);
    CT_CHECK(rma_untouched(ep->mem.addr, 65536));
    ct_mem_close(ep);
}

/* --- a target that sleeps -------------------------------------------------------------------- */

enum { RMA_LEAVE = 100 };

static void rma_on_leave(struct ct_ep *ep, uint32_t source, const struct aqi_am *am)
{
    (void)source, (void)am;
    *(bool *)ep->user = true;
}

static void rma_use_sleeper(struct ct_ep *ep, uint32_t rank, uint32_t number)
{
    enum { SIZE = 3000 };
    unsigned char buffer[SIZE];
    struct aqi_comp comp;
    rma_comp_init(ep, &comp);
    fill(buffer, SIZE, number);
    ct_put(ep, rank, 0, buffer, SIZE, &comp);
    rma_comp_wait(ep, &comp);
    memset(buffer, 0, SIZE);
    for (uint64_t spin = ct_random(ep) % 2000; spin > 0; spin--)
        aqi_pause();
    rma_comp_init(ep, &comp);
    ct_get(ep, rank, 0, buffer, SIZE, &comp);
    rma_comp_wait(ep, &comp);
    CT_CHECK(filled(buffer, SIZE, number));
}

/* The others make progress only when progress or the descriptor reports work. Everything that
 * needs their processor has to be reported, or rank 0 would wait forever. */
static void rma_asleep(struct ct_ep *ep)
{
    bool leave = false;
    if (ep->tp->ops.wait_fd(ep->tp) < 0) {
        ct_skip(ep, "no descriptor to wait on");
        return;
    }
    ep->user = &leave;
    ep->handlers[RMA_LEAVE] = rma_on_leave;
    ct_mem_open(ep, 4096);
    ct_meet(ep);
    while (ep->self != 0 && !leave) {
        if (ep->tp->ops.arm(ep->tp, true) == AQ_OK) ct_sleep(ep);
        CT_OK(ep->tp->ops.arm(ep->tp, false));
        while (ct_progress(ep, AQI_PROGRESS_ALL) != 0) {
        }
    }
    for (uint32_t round = 0; ep->self == 0 && round < 100; round++)
        rma_use_sleeper(ep, 1 + round % (ep->size - 1), round);
    struct aqi_am last = {.kind = AQI_AM_SHORT, .handler = RMA_LEAVE};
    for (uint32_t rank = 1; ep->self == 0 && rank < ep->size; rank++)
        ct_send(ep, rank, &last, NULL);
    ct_barrier(ep);
    ct_mem_close(ep);
}

const struct ct_case ct_cases_rma[] = {
    {"memory: zero, of different sizes", rma_memory, 0},
    {"memory: none in one rank", rma_no_memory, 0},
    {"memory: several registered pieces", rma_some_memories, 0},
    {"put and get: sizes times alignments", rma_sizes, 0},
    {"put and get: hundreds at once", rma_many, 0},
    {"fill: every size, and no adjacent byte", rma_fill, 0},
    {"put: local completion", rma_local, 0},
    {"put and get: memory from malloc", rma_foreign, 0},
    {"rows: scattered puts and gets", rma_rows, 0},
    {"pull: memory of a peer at any address", rma_pull, 0},
    {"malformed keys", rma_bad_keys, CT_PEERS},
    {"put: to memory that has been released", rma_given_back, CT_PEERS},
    {"served puts and gets outside the memory", rma_outside, 0},
    {"a sleeper is woken to serve", rma_asleep, CT_PEERS},
    {NULL, NULL, 0},
};
