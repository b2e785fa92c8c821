/*
 * Vector, indexed and strided transfers compared with a naive copy, with random shapes: pieces that
 * differ between the sides, negative, exchanged and repeated strides; the three forms of GASNet-EX
 * and those of GASNet-1.
 */
#include <gasnet.h>
#include <gasnetex.h>

#include <gasnet_vis.h>

#include "draw.h"

#include <signal.h>

enum { ARENA = 16384, PIECES = 40, LEVELS = 4 };

/* Each process owns an arena in each segment, and keeps a picture of the expected contents. */
static unsigned char picture[ARENA], source[ARENA], landed[ARENA], expected[ARENA];

static char *arena_of(gex_Rank_t rank)
{
    return job_at(rank, 0) + (size_t)job.rank * ARENA;
}

static void scramble(unsigned char *block)
{
    for (int i = 0; i < ARENA; i++)
        block[i] = (unsigned char)draw();
}

/* Cut `total` bytes of an arena into pieces that do not overlap; some may be empty. */
static size_t cut(gex_Memvec_t *list, char *base, size_t total)
{
    size_t count = 0, at = draw_below(64);
    while (total > 0 || (count < PIECES && draw_below(4) == 0)) {
        size_t len = draw_below(3) == 0 ? 0 : 1 + draw_below(total < 300 ? total + 1 : 300);
        if (len > total || count == PIECES - 1) len = total;
        list[count].gex_addr = base + at;
        list[count].gex_len = len;
        count++;
        at += len + draw_below(40);
        total -= len;
        if (count == PIECES) break;
    }
    /* In any order: addresses need not ascend. */
    for (size_t i = 0; i + 1 < count; i++) {
        size_t k = i + draw_below(count - i);
        gex_Memvec_t swap = list[i];
        list[i] = list[k];
        list[k] = swap;
    }
    return count;
}

/* The oracle: copies the bytes in order, from an image of one side to an image of the other. */
static void copy_list(unsigned char *to, const char *to_base, const gex_Memvec_t *dst,
                      size_t dst_count, const unsigned char *from, const char *from_base,
                      const gex_Memvec_t *src, size_t src_count)
{
    size_t s = 0, in_s = 0;
    for (size_t d = 0; d < dst_count; d++) {
        for (size_t in_d = 0; in_d < dst[d].gex_len; in_d++) {
            while (in_s == src[s].gex_len)
                s++, in_s = 0;
            CHECK(s < src_count);
            to[(char *)dst[d].gex_addr + in_d - to_base] =
                from[(char *)src[s].gex_addr + in_s - from_base];
            in_s++;
        }
    }
}

/* GASNet-EX blocking, event, event with leaf, implicit, in a region; then the three of GASNet-1. */
enum form { BLOCKING, EVENT, LEAF, IMPLICIT, REGION, OLD, OLD_EVENT, OLD_IMPLICIT, FORMS };

static void finish(gex_Event_t event, enum form form)
{
    CHECK(event != GEX_EVENT_NO_OP);
    if (form == LEAF) gex_Event_Wait(gex_Event_QueryLeaf(event, GEX_EC_LC));
    gex_Event_Wait(event);
}

#define DO(form, category, blocking, nb, nbi, old, old_nb, old_nbi)                                \
    switch (form) {                                                                                \
    case BLOCKING:                                                                                 \
        CHECK((blocking) == 0);                                                                    \
        break;                                                                                     \
    case EVENT:                                                                                    \
    case LEAF:                                                                                     \
        finish((nb), form);                                                                        \
        break;                                                                                     \
    case IMPLICIT:                                                                                 \
        CHECK((nbi) == 0);                                                                         \
        gex_NBI_Wait(category, 0);                                                                 \
        break;                                                                                     \
    case REGION:                                                                                   \
        gex_NBI_BeginAccessRegion(0);                                                              \
        CHECK((nbi) == 0);                                                                         \
        finish(gex_NBI_EndAccessRegion(0), EVENT);                                                 \
        break;                                                                                     \
    case OLD:                                                                                      \
        old;                                                                                       \
        break;                                                                                     \
    case OLD_EVENT:                                                                                \
        gasnet_wait_syncnb(old_nb);                                                                \
        break;                                                                                     \
    default:                                                                                       \
        old_nbi;                                                                                   \
        gasnet_wait_syncnbi_all();                                                                 \
        break;                                                                                     \
    }

static gex_Flags_t flags_of(enum form form)
{
    return form == LEAF ? GEX_FLAG_ENABLE_LEAF_LC : 0;
}

static gasnet_memvec_t *old_list(gex_Memvec_t *list)
{
    return (gasnet_memvec_t *)(void *)list;
}

/* Check our arena of `rank` against the picture. */
static void compare(gex_Rank_t rank)
{
    static unsigned char now[ARENA];
    CHECK(gex_RMA_GetBlocking(job.tm, now, rank, arena_of(rank), ARENA, 0) == 0);
    for (int i = 0; i < ARENA; i++)
        if (now[i] != picture[i])
            fprintf(stderr, "rank %u: byte %d is %u, not %u\n", rank, i, now[i], picture[i]);
    CHECK(memcmp(now, picture, ARENA) == 0);
}

static void start_over(gex_Rank_t rank)
{
    scramble(source);
    scramble(picture);
    scramble(landed);
    memcpy(expected, landed, ARENA);
    CHECK(gex_RMA_PutBlocking(job.tm, rank, arena_of(rank), picture, ARENA, 0) == 0);
}

static void vector_round(gex_Rank_t rank, enum form form)
{
    gex_Memvec_t here[PIECES], there[PIECES];
    char *far = arena_of(rank);
    size_t total = draw_below(8) == 0 ? 0 : draw_below(6000);
    size_t h = cut(here, (char *)source, total), t = cut(there, far, total);
    start_over(rank);
    copy_list(picture, far, there, t, source, (char *)source, here, h);
    DO(form, GEX_EC_PUT, gex_VIS_VectorPutBlocking(job.tm, rank, t, there, h, here, 0),
       gex_VIS_VectorPutNB(job.tm, rank, t, there, h, here, flags_of(form)),
       gex_VIS_VectorPutNBI(job.tm, rank, t, there, h, here, GEX_FLAG_ENABLE_LEAF_LC),
       gasnet_putv_bulk(rank, t, old_list(there), h, old_list(here)),
       gasnet_putv_nb_bulk(rank, t, old_list(there), h, old_list(here)),
       gasnet_putv_nbi_bulk(rank, t, old_list(there), h, old_list(here)))
    compare(rank);

    h = cut(here, (char *)landed, total);
    copy_list(expected, (char *)landed, here, h, picture, far, there, t);
    DO(form, GEX_EC_GET, gex_VIS_VectorGetBlocking(job.tm, h, here, rank, t, there, 0),
       gex_VIS_VectorGetNB(job.tm, h, here, rank, t, there, 0),
       gex_VIS_VectorGetNBI(job.tm, h, here, rank, t, there, 0),
       gasnet_getv_bulk(h, old_list(here), rank, t, old_list(there)),
       gasnet_getv_nb_bulk(h, old_list(here), rank, t, old_list(there)),
       gasnet_getv_nbi_bulk(h, old_list(here), rank, t, old_list(there)))
    CHECK(memcmp(landed, expected, ARENA) == 0);
}

/* `count` pieces of `len` bytes, as addresses and as a list for the oracle. */
static void place(void **addrs, gex_Memvec_t *list, size_t count, size_t len, char *base)
{
    for (size_t i = 0; i < count; i++) {
        size_t slot = (i * 7 + 3) % count; /* a permutation unless 7 divides the count */
        if (count % 7 == 0) slot = i;
        addrs[i] = base + slot * (ARENA / (count + 1)) / 2 * 2;
        list[i].gex_addr = addrs[i];
        list[i].gex_len = len;
    }
}

static void indexed_round(gex_Rank_t rank, enum form form)
{
    static const size_t shapes[][4] = {{8, 16, 16, 8},  {1, 120, 12, 10}, {30, 3, 30, 3},
                                       {15, 8, 1, 120}, {0, 5, 3, 0},     {6, 700, 14, 300}};
    const size_t *shape = shapes[draw_below(6)];
    void *here[32], *there[32];
    gex_Memvec_t here_list[32], there_list[32];
    size_t h = shape[0], hl = shape[1], t = shape[2], tl = shape[3];
    char *far = arena_of(rank);
    start_over(rank);
    place(here, here_list, h, hl, (char *)source);
    place(there, there_list, t, tl, far);
    copy_list(picture, far, there_list, t, source, (char *)source, here_list, h);
    DO(form, GEX_EC_PUT, gex_VIS_IndexedPutBlocking(job.tm, rank, t, there, tl, h, here, hl, 0),
       gex_VIS_IndexedPutNB(job.tm, rank, t, there, tl, h, here, hl, flags_of(form)),
       gex_VIS_IndexedPutNBI(job.tm, rank, t, there, tl, h, here, hl, 0),
       gasnet_puti_bulk(rank, t, there, tl, h, here, hl),
       gasnet_puti_nb_bulk(rank, t, there, tl, h, here, hl),
       gasnet_puti_nbi_bulk(rank, t, there, tl, h, here, hl))
    compare(rank);

    place(here, here_list, h, hl, (char *)landed);
    copy_list(expected, (char *)landed, here_list, h, picture, far, there_list, t);
    DO(form, GEX_EC_GET, gex_VIS_IndexedGetBlocking(job.tm, h, here, hl, rank, t, there, tl, 0),
       gex_VIS_IndexedGetNB(job.tm, h, here, hl, rank, t, there, tl, 0),
       gex_VIS_IndexedGetNBI(job.tm, h, here, hl, rank, t, there, tl, 0),
       gasnet_geti_bulk(h, here, hl, rank, t, there, tl),
       gasnet_geti_nb_bulk(h, here, hl, rank, t, there, tl),
       gasnet_geti_nbi_bulk(h, here, hl, rank, t, there, tl))
    CHECK(memcmp(landed, expected, ARENA) == 0);
}

struct shape {
    size_t elem, levels, count[LEVELS];
    ptrdiff_t strides[2][LEVELS]; /* there and here */
    size_t first[2];              /* offset of element 0, 0, … in its arena */
};

/* Strides for one side such that elements do not overlap: a packed block, dimensions in any
 * order, some of them backwards. `plain` strides ascend by level, as GASNet-1 requires. */
static void stride_side(struct shape *s, int side, int plain)
{
    size_t order[LEVELS], extent = s->elem;
    s->first[side] = 0;
    for (size_t i = 0; i < s->levels; i++)
        order[i] = i;
    for (size_t i = 0; !plain && i + 1 < s->levels; i++) {
        size_t k = i + draw_below(s->levels - i), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    for (size_t i = 0; i < s->levels; i++) {
        size_t dim = order[i], stride = extent + draw_below(3);
        int backwards = !plain && draw_below(3) == 0;
        s->strides[side][dim] = backwards ? -(ptrdiff_t)stride : (ptrdiff_t)stride;
        if (backwards && s->count[dim] > 0) s->first[side] += stride * (s->count[dim] - 1);
        extent = stride * (s->count[dim] > 0 ? s->count[dim] : 1);
    }
    CHECK(extent < ARENA);
}

static void stride_copy(const struct shape *s, int to_side, unsigned char *to,
                        const unsigned char *from)
{
    size_t all = s->elem > 0;
    for (size_t i = 0; i < s->levels; i++)
        all *= s->count[i];
    for (size_t n = 0; n < all; n++) {
        ptrdiff_t to_at = (ptrdiff_t)s->first[to_side], from_at = (ptrdiff_t)s->first[1 - to_side];
        size_t rest = n;
        for (size_t i = 0; i < s->levels; i++) {
            ptrdiff_t index = (ptrdiff_t)(rest % s->count[i]);
            rest /= s->count[i];
            to_at += index * s->strides[to_side][i];
            from_at += index * s->strides[1 - to_side][i];
        }
        memcpy(to + to_at, from + from_at, s->elem);
    }
}

static void strided_round(gex_Rank_t rank, enum form form)
{
    struct shape s;
    int plain = form >= OLD;
    char *far = arena_of(rank);
    s.elem = draw_below(10) == 0 ? 0 : 1 + draw_below(24);
    s.levels = draw_below(LEVELS + 1);
    for (size_t i = 0; i < s.levels; i++)
        s.count[i] = draw_below(12) == 0 ? 0 : 1 + draw_below(4);
    stride_side(&s, 0, plain);
    stride_side(&s, 1, plain);
    start_over(rank);
    stride_copy(&s, 0, picture, source);

    /* The arrays are overwritten right after the call, since it must have read them. */
    size_t count[LEVELS + 1], old_there[LEVELS], old_here[LEVELS];
    ptrdiff_t there[LEVELS], here[LEVELS];
    for (int get = 0; get < 2; get++) {
        count[0] = s.elem;
        for (size_t i = 0; i < s.levels; i++) {
            count[i + 1] = s.count[i];
            there[i] = s.strides[0][i];
            here[i] = s.strides[1][i];
            old_there[i] = (size_t)there[i];
            old_here[i] = (size_t)here[i];
        }
        char *f = far + s.first[0], *n = (char *)(get ? landed : source) + s.first[1];
        if (!get) {
            DO(form, GEX_EC_PUT,
               gex_VIS_StridedPutBlocking(job.tm, rank, f, there, n, here, s.elem, count + 1,
                                          s.levels, 0),
               gex_VIS_StridedPutNB(job.tm, rank, f, there, n, here, s.elem, count + 1, s.levels,
                                    flags_of(form)),
               gex_VIS_StridedPutNBI(job.tm, rank, f, there, n, here, s.elem, count + 1, s.levels,
                                     0),
               gasnet_puts_bulk(rank, f, old_there, n, old_here, count, s.levels),
               gasnet_puts_nb_bulk(rank, f, old_there, n, old_here, count, s.levels),
               gasnet_puts_nbi_bulk(rank, f, old_there, n, old_here, count, s.levels))
            compare(rank);
            continue;
        }
        stride_copy(&s, 1, expected, picture);
        DO(form, GEX_EC_GET,
           gex_VIS_StridedGetBlocking(job.tm, n, here, rank, f, there, s.elem, count + 1, s.levels,
                                      0),
           gex_VIS_StridedGetNB(job.tm, n, here, rank, f, there, s.elem, count + 1, s.levels, 0),
           gex_VIS_StridedGetNBI(job.tm, n, here, rank, f, there, s.elem, count + 1, s.levels, 0),
           gasnet_gets_bulk(n, old_here, rank, f, old_there, count, s.levels),
           gasnet_gets_nb_bulk(n, old_here, rank, f, old_there, count, s.levels),
           gasnet_gets_nbi_bulk(n, old_here, rank, f, old_there, count, s.levels))
        CHECK(memcmp(landed, expected, ARENA) == 0);
    }
}

/*
 * Zero strides at the source repeat it, and the arrays may be changed while the put is in progress.
 */
static void repeat_and_spoil(gex_Rank_t rank)
{
    ptrdiff_t there[2] = {1, 100}, here[2] = {0, 0};
    size_t count[2] = {100, 20};
    unsigned char one = 0xA5;
    start_over(rank);
    gex_Event_t event =
        gex_VIS_StridedPutNB(job.tm, rank, arena_of(rank), there, &one, here, 1, count, 2, 0);
    memset(there, 1, sizeof(there));
    memset(here, 1, sizeof(here));
    memset(count, 1, sizeof(count));
    gex_Event_Wait(event);
    memset(picture, 0xA5, 2000);
    compare(rank);
}

/* --- completion at the peer ------------------------------------------------------------------- */

enum { NOTIFIED = 200, NOTE = 100 };
static unsigned notified, notified_by[64];

/*
 * The data of the put has arrived; its first bytes are the number of earlier puts from the same
 * rank.
 */
static void on_put(gex_Token_t token, void *buf, size_t nbytes)
{
    gex_Token_Info_t info;
    unsigned note;
    CHECK(gex_Token_Info(token, &info, GEX_TI_SRCRANK | GEX_TI_EP) & GEX_TI_SRCRANK);
    CHECK(info.gex_ep == job.ep && nbytes >= sizeof(note));
    memcpy(&note, buf, sizeof(note));
    unsigned char *arena = (unsigned char *)job.base + (size_t)info.gex_srcrank * ARENA;
    CHECK(arena[note * 3] == (unsigned char)note &&
          arena[note * 3 + 2] == (unsigned char)(note + 1));
    one_more(&notified_by[info.gex_srcrank]);
    one_more(&notified);
}

static void on_nothing(gex_Token_t token, void *buf, size_t nbytes)
{
    (void)token, (void)buf;
    CHECK_EQUAL(nbytes, 0);
    one_more(&notified);
}

static void tell_peers(gex_AM_Entry_t *table)
{
    gex_Rank_t rank;
    unsigned i;
    for (rank = 0; rank < job.size; rank++) {
        for (i = 0; i < NOTIFIED; i++) {
            unsigned char bytes[2] = {(unsigned char)i, (unsigned char)(i + 1)}, note[NOTE];
            ptrdiff_t there = 2, here = 1;
            size_t count = 2;
            char *at = arena_of(rank) + i * 3;
            memcpy(note, &i, sizeof(i));
            gex_VIS_SetPeerCompletionHandler(table[0].gex_index, note,
                                             i % 2 ? sizeof(note) : sizeof(i), 0);
            if (i % 3 == 0)
                gex_Event_Wait(
                    gex_VIS_StridedPutNB(job.tm, rank, at, &there, bytes, &here, 1, &count, 1, 0));
            else if (i % 3 == 1)
                CHECK(gex_VIS_StridedPutNBI(job.tm, rank, at, &there, bytes, &here, 1, &count, 1,
                                            0) == 0);
            else
                CHECK(gex_VIS_StridedPutBlocking(job.tm, rank, at, &there, bytes, &here, 1, &count,
                                                 1, 0) == 0);
            gex_NBI_Wait(GEX_EC_PUT, 0);
        }
        /*
         * One handler without a payload; once it has been used, or is disarmed, puts cause no
         * notification.
         */
        gex_VIS_SetPeerCompletionHandler(table[1].gex_index, NULL, 0, 0);
        CHECK(gex_VIS_VectorPutBlocking(job.tm, rank, 0, NULL, 0, NULL, 0) == 0);
        CHECK(gex_VIS_VectorPutBlocking(job.tm, rank, 0, NULL, 0, NULL, 0) == 0);
        gex_VIS_SetPeerCompletionHandler(table[1].gex_index, NULL, 0, 0);
        gex_VIS_SetPeerCompletionHandler(0, NULL, 0, 0);
        CHECK(gex_VIS_VectorPutBlocking(job.tm, rank, 0, NULL, 0, NULL, 0) == 0);
    }
    GASNET_BLOCKUNTIL(__atomic_load_n(&notified, __ATOMIC_ACQUIRE) >= (NOTIFIED + 1) * job.size);
    job_barrier();
    CHECK_EQUAL(notified, (NOTIFIED + 1) * job.size);
    for (rank = 0; rank < job.size; rank++)
        CHECK_EQUAL(notified_by[rank], NOTIFIED);
}

/* A single piece, possibly empty, in each shape and form. */
static void move_one_piece(void)
{
    static const size_t lens[] = {0, 1, 7, 8, 9, 64, 300};
    const size_t one = 1;
    const ptrdiff_t step = 999;
    unsigned char out[300], in[300];
    unsigned i, turn;
    for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        for (turn = 0; turn < 3; turn++) {
            size_t len = lens[i];
            void *there = arena_of(job.next), *from = out, *to = in;
            gex_Memvec_t far, near_out, near_in;
            far.gex_addr = there;
            near_out.gex_addr = out;
            near_in.gex_addr = in;
            far.gex_len = near_out.gex_len = near_in.gex_len = len;
            memset(out, (int)(turn + 3 * i + 1), sizeof(out));
            memset(in, 0, sizeof(in));
            if (turn == 0) {
                gex_Event_Wait(gex_VIS_VectorPutNB(job.tm, job.next, 1, &far, 1, &near_out, 0));
                CHECK(gex_VIS_IndexedGetBlocking(job.tm, 1, &to, len, job.next, 1, &there, len,
                                                 0) == 0);
            } else if (turn == 1) {
                CHECK(gex_VIS_IndexedPutNBI(job.tm, job.next, 1, &there, len, 1, &from, len, 0) ==
                      0);
                gex_NBI_Wait(GEX_EC_PUT, 0);
                gex_Event_Wait(gex_VIS_StridedGetNB(job.tm, in, &step, job.next, there, &step, len,
                                                    &one, 1, 0));
            } else {
                CHECK(gex_VIS_StridedPutBlocking(job.tm, job.next, there, NULL, out, NULL, len,
                                                 NULL, 0, 0) == 0);
                CHECK(gex_VIS_VectorGetNBI(job.tm, 1, &near_in, job.next, 1, &far, 0) == 0);
                gex_NBI_Wait(GEX_EC_GET, 0);
            }
            CHECK(memcmp(in, out, len) == 0 && (len == sizeof(in) || in[len] == 0));
        }
    }
}

/* Blocked before any thread is created, so that it can be awaited. */
static sigset_t wake_up;

/* A put with a notification returns although the peer makes no calls: it waits for a signal. */
static void notify_blocked_peer(gex_AM_Entry_t *table)
{
    char *mine = job.base + 63 * GASNET_PAGESIZE;
    unsigned before = notified;
    pid_t self = getpid(), peer = 0;
    int sends = job.rank % 2 == 0 && job.rank + 1 < job.size;
    CHECK((size_t)job.size * ARENA <= 63 * GASNET_PAGESIZE);
    memcpy(mine, &self, sizeof(self));
    job_barrier();
    CHECK_EQUAL(gex_RMA_GetBlocking(job.tm, &peer, job.next, job_at(job.next, 63 * GASNET_PAGESIZE),
                                    sizeof(peer), 0),
                0);
    job_barrier();
    if (job.rank % 2 == 1) {
        int got = 0;
        CHECK(sigwait(&wake_up, &got) == 0 && got == SIGUSR1);
        GASNET_BLOCKUNTIL(__atomic_load_n(&notified, __ATOMIC_ACQUIRE) == before + 2);
    }
    if (sends) {
        unsigned char bytes[300] = {1};
        void *dst = arena_of(job.next), *src = bytes;
        gex_Event_t event;
        gex_VIS_SetPeerCompletionHandler(table[1].gex_index, NULL, 0, 0);
        event = gex_VIS_IndexedPutNB(job.tm, job.next, 1, &dst, sizeof(bytes), 1, &src,
                                     sizeof(bytes), 0);
        gex_VIS_SetPeerCompletionHandler(table[1].gex_index, NULL, 0, 0);
        CHECK_EQUAL(gex_VIS_IndexedPutNBI(job.tm, job.next, 1, &dst, sizeof(bytes), 1, &src,
                                          sizeof(bytes), 0),
                    0);
        CHECK_EQUAL(kill(peer, SIGUSR1), 0);
        gex_Event_Wait(event);
        gex_NBI_Wait(GEX_EC_PUT, 0);
    }
    job_barrier();
}

int main(int argc, char **argv)
{
    gex_AM_Entry_t table[2] = {
        {0, (gex_AM_Fn_t)on_put, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, NULL, "on_put"},
        {0, (gex_AM_Fn_t)on_nothing, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, NULL, "nothing"}};
    sigemptyset(&wake_up);
    sigaddset(&wake_up, SIGUSR1);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &wake_up, NULL), 0);
    CHECK_EQUAL(
        gex_Client_Init(&job.client, &job.ep, &job.tm, "TEST", &argc, &argv, GEX_FLAG_USES_GASNET1),
        GASNET_OK);
    job_learn();
    CHECK_EQUAL(gex_Segment_Attach(&job.segment, job.tm, 64 * GASNET_PAGESIZE), GASNET_OK);
    job.base = (char *)gex_Segment_QueryAddr(job.segment);
    CHECK_EQUAL(gex_EP_RegisterHandlers(job.ep, table, 2), GASNET_OK);
    draw_seed(job.rank);
    job_barrier();
    for (int round = 0; round < 24; round++) {
        for (gex_Rank_t rank = 0; rank < job.size; rank++) {
            enum form form = (enum form)((round + (int)rank) % FORMS);
            vector_round(rank, form);
            indexed_round(rank, form);
            strided_round(rank, form);
        }
    }
    for (gex_Rank_t rank = 0; rank < job.size; rank++)
        repeat_and_spoil(rank);
    job_barrier();
    move_one_piece();
    job_barrier();
    tell_peers(table);
    notify_blocked_peer(table);
    job_barrier();
    gasnet_exit(0);
}
