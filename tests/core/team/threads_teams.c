/*
 * Four threads in each rank, each with its own team and endpoint, make every call on them at once:
 * collectives of all kinds, blocking and nonblocking, barriers, teams that come and go, and
 * segments that are created, bound, published, used and destroyed. All threads make every query.
 * Threads with the same number draw the same random numbers on all ranks.
 */
#include "../support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, MOST = 8, BYTES = 96, FURTHER_BYTES = 3000 };

struct worker {
    unsigned index;
    uint64_t random; /* equal on all ranks */
    aq_team *team;
    aq_ep *ep;
    aq_rank self, size;
};

static uint32_t rounds;
/* For calls that, according to their description, only one thread at a time may make. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static uint64_t next(struct worker *w, uint64_t below)
{
    w->random = mix(w->random + 1);
    return (w->random >> 20) % below;
}

/* The data from rank `from` to rank `to`; equal on all ranks until the next number is drawn. */
static uint64_t datum(const struct worker *w, aq_rank from, aq_rank to)
{
    return w->random + from * 1000u + to;
}

static void block(const struct worker *w, unsigned char *at, size_t nbytes, aq_rank from,
                  aq_rank to)
{
    fill(at, nbytes, datum(w, from, to));
}

static bool is_block(const struct worker *w, const unsigned char *at, size_t nbytes, aq_rank from,
                     aq_rank to)
{
    return filled(at, nbytes, datum(w, from, to));
}

/* --- collectives ------------------------------------------------------------------------- */

static void move_broadcast(struct worker *w)
{
    unsigned char out[BYTES], in[2][BYTES];
    aq_rank root = (aq_rank)next(w, w->size);
    aq_event ev;
    memset(in, 0, sizeof(in));
    block(w, out, BYTES, root, 0);
    CHECK_OK(aq_coll_broadcast_nb(w->team, root, in[0], out, BYTES, 0, &ev));
    CHECK_OK(aq_coll_broadcast(w->team, root, in[1], out, BYTES, 0));
    CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
    for (int i = 0; i < 2; i++)
        CHECK(is_block(w, in[i], BYTES, root, 0));
}

static void sum(const void *left, void *right, size_t count, const void *context)
{
    const uint64_t *a = left;
    uint64_t *b = right;
    for (size_t i = 0; i < count; i++)
        b[i] += a[i] + *(const uint64_t *)context;
}

static void move_reduce(struct worker *w)
{
    static const uint64_t nought = 0;
    aq_rank root = (aq_rank)next(w, w->size);
    uint64_t mine[2] = {w->self, w->random % 1000}, got[6][2], want[2] = {0, 0};
    aq_event ev[4];
    for (aq_rank rank = 0; rank < w->size; rank++)
        want[0] += rank;
    want[1] = w->random % 1000 * w->size;
    CHECK_OK(aq_coll_reduce_nb(w->team, root, got[0], mine, 2, AQ_TYPE_U64, AQ_OP_ADD, 0, &ev[0]));
    CHECK_OK(aq_coll_reduce_user_nb(w->team, root, got[1], mine, 2, 8, sum, &nought, 0, &ev[1]));
    CHECK_OK(aq_coll_allreduce_nb(w->team, got[2], mine, 2, AQ_TYPE_U64, AQ_OP_ADD, 0, &ev[2]));
    CHECK_OK(aq_coll_allreduce_user_nb(w->team, got[3], mine, 2, 8, sum, &nought, 0, &ev[3]));
    CHECK_OK(aq_coll_reduce(w->team, root, got[4], mine, 2, AQ_TYPE_U64, AQ_OP_ADD, 0));
    CHECK_OK(aq_coll_allreduce(w->team, got[5], mine, 2, AQ_TYPE_U64, AQ_OP_ADD, 0));
    CHECK_OK(aq_event_wait_all(ev, COUNT_OF(ev), AQ_FOREVER));
    for (int i = 0; i < 6; i++) {
        bool everywhere = i == 2 || i == 3 || i == 5;
        if (everywhere || w->self == root) CHECK(memcmp(got[i], want, sizeof(want)) == 0);
    }
}

/* A place for each rank, with a gap before each. */
static void places(const struct worker *w, size_t counts[MOST], size_t offsets[MOST])
{
    for (aq_rank rank = 0; rank < w->size; rank++) {
        counts[rank] = 8 * (rank + 1);
        offsets[rank] = rank * (size_t)BYTES + 8;
    }
}

static void move_gather(struct worker *w)
{
    unsigned char out[BYTES], in[6][MOST * BYTES + BYTES];
    size_t counts[MOST], offsets[MOST];
    aq_rank root = (aq_rank)next(w, w->size);
    aq_event ev[4];
    places(w, counts, offsets);
    block(w, out, BYTES, w->self, 0);
    CHECK_OK(aq_coll_gather_nb(w->team, root, in[0], out, BYTES, 0, &ev[0]));
    CHECK_OK(
        aq_coll_gatherv_nb(w->team, root, in[1], counts, offsets, out, counts[w->self], 0, &ev[1]));
    CHECK_OK(aq_coll_allgather_nb(w->team, in[2], out, BYTES, 0, &ev[2]));
    CHECK_OK(aq_coll_allgatherv_nb(w->team, in[3], counts, offsets, out, 0, &ev[3]));
    CHECK_OK(aq_coll_gather(w->team, root, in[4], out, BYTES, 0));
    CHECK_OK(aq_coll_allgather(w->team, in[5], out, BYTES, 0));
    CHECK_OK(aq_event_wait_all(ev, COUNT_OF(ev), AQ_FOREVER));
    for (aq_rank rank = 0; rank < w->size; rank++) {
        CHECK(is_block(w, in[2] + rank * (size_t)BYTES, BYTES, rank, 0));
        CHECK(is_block(w, in[3] + offsets[rank], counts[rank], rank, 0));
        CHECK(is_block(w, in[5] + rank * (size_t)BYTES, BYTES, rank, 0));
        if (w->self != root) continue;
        CHECK(is_block(w, in[0] + rank * (size_t)BYTES, BYTES, rank, 0));
        CHECK(is_block(w, in[1] + offsets[rank], counts[rank], rank, 0));
        CHECK(is_block(w, in[4] + rank * (size_t)BYTES, BYTES, rank, 0));
    }
}

static void move_scatter(struct worker *w)
{
    unsigned char out[MOST * BYTES + BYTES], outv[MOST * BYTES + BYTES], in[3][BYTES];
    size_t counts[MOST], offsets[MOST];
    aq_rank root = (aq_rank)next(w, w->size);
    aq_event ev[2];
    places(w, counts, offsets);
    for (aq_rank rank = 0; rank < w->size; rank++) {
        block(w, out + rank * (size_t)BYTES, BYTES, root, rank);
        block(w, outv + offsets[rank], counts[rank], root, rank);
    }
    CHECK_OK(aq_coll_scatter_nb(w->team, root, in[0], out, BYTES, 0, &ev[0]));
    CHECK_OK(aq_coll_scatterv_nb(w->team, root, in[1], counts[w->self], outv, counts, offsets, 0,
                                 &ev[1]));
    CHECK_OK(aq_coll_scatter(w->team, root, in[2], out, BYTES, 0));
    CHECK_OK(aq_event_wait_all(ev, COUNT_OF(ev), AQ_FOREVER));
    CHECK(is_block(w, in[0], BYTES, root, w->self));
    CHECK(is_block(w, in[1], counts[w->self], root, w->self));
    CHECK(is_block(w, in[2], BYTES, root, w->self));
}

static void move_alltoall(struct worker *w)
{
    unsigned char out[MOST * BYTES + BYTES], in[3][MOST * BYTES + BYTES];
    size_t counts[MOST], offsets[MOST];
    aq_event ev[2];
    (void)next(w, 2);
    for (aq_rank rank = 0; rank < w->size; rank++) {
        counts[rank] = 40;
        offsets[rank] = rank * (size_t)BYTES;
        block(w, out + rank * (size_t)BYTES, BYTES, w->self, rank);
    }
    CHECK_OK(aq_coll_alltoall_nb(w->team, in[0], out, BYTES, 0, &ev[0]));
    CHECK_OK(
        aq_coll_alltoallv_nb(w->team, in[1], counts, offsets, out, counts, offsets, 0, &ev[1]));
    CHECK_OK(aq_coll_alltoall(w->team, in[2], out, BYTES, 0));
    CHECK_OK(aq_event_wait_all(ev, COUNT_OF(ev), AQ_FOREVER));
    for (aq_rank rank = 0; rank < w->size; rank++) {
        CHECK(is_block(w, in[0] + rank * (size_t)BYTES, BYTES, rank, w->self));
        CHECK(is_block(w, in[1] + offsets[rank], counts[rank], rank, w->self));
        CHECK(is_block(w, in[2] + rank * (size_t)BYTES, BYTES, rank, w->self));
    }
}

static void move_barriers(struct worker *w)
{
    int id = (int)next(w, 1000);
    aq_event ev;
    aq_status status;
    CHECK_OK(aq_barrier(w->team));
    CHECK_OK(aq_barrier_notify(w->team, id, 0));
    CHECK_OK(aq_barrier_wait(w->team, id, 0, AQ_FOREVER));
    CHECK_OK(aq_barrier_nb(w->team, 0, &ev));
    CHECK_OK(aq_barrier_notify(w->team, 0, AQ_BARRIER_ANONYMOUS));
    while ((status = aq_barrier_wait(w->team, 0, AQ_BARRIER_ANONYMOUS, 0)) == AQ_AGAIN)
        ;
    CHECK_STATUS(status, AQ_OK);
    CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
}

/* --- teams ------------------------------------------------------------------------------- */

/* Derive a team from the thread's own, use it instead for a while, and destroy it. */
static void move_teams(struct worker *w)
{
    static void (*const moves[])(struct worker *) = {move_broadcast, move_reduce,   move_gather,
                                                     move_scatter,   move_alltoall, move_barriers};
    struct worker inner = *w;
    aq_rank members[MOST];
    bool list = next(w, 2) == 0;
    if (list) {
        for (aq_rank rank = 0; rank < w->size; rank++)
            members[rank] = w->size - 1 - rank;
        CHECK_OK(aq_team_create(w->team, members, w->size, 0, &inner.team));
    } else {
        CHECK_OK(aq_team_split(w->team, (int)(w->self % 2), (int)w->self, 0, &inner.team));
    }
    inner.self = aq_team_rank(inner.team);
    inner.size = aq_team_size(inner.team);
    CHECK_EQUAL(inner.self, list ? w->size - 1 - w->self : w->self / 2);
    CHECK_EQUAL(aq_team_translate(inner.team, inner.self, w->team), w->self);
    inner.random = mix(w->random + (list ? 0 : w->self % 2));
    for (int i = 0; i < 3; i++)
        moves[next(&inner, COUNT_OF(moves))](&inner);
    CHECK_OK(aq_team_destroy(inner.team));
}

/* --- endpoints and segments -------------------------------------------------------------- */

/* The calls for scattered transfers that other tests with threads do not make. */
static void scatter_about(struct worker *w, aq_team *pair, aq_rank rank, unsigned char *there)
{
    unsigned char out[400], in[400];
    aq_vec far[4], near_out[4], near_in[4];
    void *far_at[4], *out_at[4], *in_at[4];
    const ptrdiff_t far_stride = 500, near_stride = 100;
    const size_t four = 4;
    aq_event ev;
    fill(out, sizeof(out), w->random);
    for (size_t i = 0; i < 4; i++) {
        far[i] = (aq_vec){far_at[i] = there + i * 500, 100};
        near_out[i] = (aq_vec){out_at[i] = out + i * 100, 100};
        near_in[i] = (aq_vec){in_at[i] = in + i * 100, 100};
    }
    switch (next(w, 3)) {
    case 0:
        CHECK_OK(aq_put_vector_nbi(pair, rank, 4, far, 4, near_out, 0));
        CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
        CHECK_OK(aq_get_vector_nb(pair, rank, 4, near_in, 4, far, 0, &ev));
        break;
    case 1:
        CHECK_OK(aq_put_indexed_nb(pair, rank, 4, far_at, 100, 4, out_at, 100, 0, &ev));
        CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
        CHECK_OK(aq_get_strided_nb(pair, rank, in, &near_stride, there, &far_stride, 100, &four, 1,
                                   0, &ev));
        break;
    default:
        CHECK_OK(aq_put_indexed_nbi(pair, rank, 4, far_at, 100, 4, out_at, 100, 0));
        CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
        CHECK_OK(
            aq_get_strided_nbi(pair, rank, in, &near_stride, there, &far_stride, 100, &four, 1, 0));
        CHECK_OK(aq_get_indexed_nb(pair, rank, 4, in_at, 100, 4, far_at, 100, 0, &ev));
    }
    CHECK_OK(aq_event_wait(&ev, AQ_FOREVER));
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
    CHECK(memcmp(in, out, sizeof(out)) == 0);
}

/*
 * One thread serves a peer's get from this segment, the peer then enters the barrier, and another
 * thread frees the memory. The other process orders these, which the thread sanitizer does not see.
 */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:^move_segment$\n";
}

/*
 * A segment is created, bound, published on the thread's team, used by the next member, and
 * destroyed.
 */
static void move_segment(struct worker *w)
{
    unsigned char *own = NULL, in[200], out[200];
    bool library = next(w, 2) == 0;
    aq_segment *segment;
    aq_segment_info info;
    if (!library) own = malloc(FURTHER_BYTES);
    CHECK_OK(aq_segment_create(own, FURTHER_BYTES, 0, &segment));
    CHECK(aq_segment_size(segment) >= FURTHER_BYTES && aq_segment_addr(segment) != NULL);
    pthread_mutex_lock(&turn);
    CHECK_OK(aq_ep_bind(w->ep, segment));
    pthread_mutex_unlock(&turn);
    CHECK(aq_ep_segment(w->ep) == segment);
    CHECK_OK(aq_ep_publish(w->team, &w->ep, 1, 0));
    aq_team *pair = aq_team_pair(job.ep, aq_ep_index(w->ep));
    aq_rank rank = aq_team_to_job(w->team, (w->self + 1) % w->size);
    CHECK_OK(aq_segment_query(pair, rank, &info));
    CHECK(info.size >= FURTHER_BYTES);
    fill(out, sizeof(out), w->random);
    CHECK_OK(aq_put(pair, rank, (unsigned char *)info.addr + 100, out, sizeof(out), 0));
    CHECK_OK(aq_get(pair, rank, in, (unsigned char *)info.addr + 100, sizeof(in), 0));
    CHECK(memcmp(in, out, sizeof(in)) == 0);
    scatter_about(w, pair, rank, info.addr);
    CHECK_OK(aq_barrier(w->team));
    pthread_mutex_lock(&turn);
    CHECK_OK(aq_segment_destroy(segment));
    pthread_mutex_unlock(&turn);
    free(own);
    CHECK_OK(aq_barrier(w->team)); /* no member uses it when the next one is created */
}

/* --- queries ----------------------------------------------------------------------------- */

static void ask_info(struct worker *w)
{
    aq_setting_info setting;
    aq_transport_info transport;
    aq_limit_info limit;
    aq_counter_info counter;
    const char *route;
    for (size_t i = 0; aq_info_setting(i, &setting) == AQ_OK; i++)
        CHECK(strncmp(setting.name, "AQ_", 3) == 0 && setting.value != NULL);
    for (size_t i = 0; aq_info_transport(i, &transport) == AQ_OK; i++)
        CHECK(transport.name[0] != '\0' && transport.reason != NULL);
    for (size_t i = 0; i < 3; i++)
        CHECK_OK(aq_info_limit(i, &limit));
    for (size_t i = 0; aq_info_counter(i, &counter) == AQ_OK; i++)
        CHECK(counter.name != NULL && counter.unit != NULL);
    CHECK_OK(aq_info_route(w->team, w->self, &route));
}

static void move_ask(struct worker *w)
{
    aq_rank count, mine;
    aq_atomic_domain *domain;
    aq_atomic_domain_info about;
    ask_info(w);
    aq_job_neighborhoods(&count, &mine);
    CHECK(mine < count);
    aq_job_hosts(&count, &mine);
    CHECK(mine < count && aq_job_progress_thread() >= 0);
    CHECK(aq_job_thread_mode() == AQ_THREAD_MULTIPLE && aq_version()[0] != '\0');
    CHECK_EQUAL(aq_team_from_job(w->team, aq_job_rank()), w->self);
    CHECK_EQUAL(aq_team_to_job(w->team, w->self), aq_job_rank());
    CHECK(aq_team_from_job(aq_team_host(), aq_job_rank()) != AQ_RANK_NONE);
    CHECK(aq_team_from_job(aq_team_neighborhood(), aq_job_rank()) != AQ_RANK_NONE);
    CHECK(aq_segment_max() > 0 && aq_segment_mode_get() == AQ_SEGMENT_FAST);
    CHECK(aq_ep_max() > THREADS && aq_ep_capabilities(w->ep) == (AQ_EP_RMA | AQ_EP_ATOMIC));
    CHECK(aq_status_name(AQ_EPEER)[0] == 'A' && aq_status_text(AQ_EPEER)[0] != '\0');
    pthread_mutex_lock(&turn);
    CHECK_OK(aq_atomic_domain_create(w->team, AQ_TYPE_I32, AQ_OP_BIT(AQ_OP_MAX), 0, &domain));
    pthread_mutex_unlock(&turn);
    CHECK_OK(aq_atomic_domain_query(domain, &about));
    CHECK(about.team == w->team && about.type == AQ_TYPE_I32 && about.size == 4);
    pthread_mutex_lock(&turn);
    aq_atomic_domain_destroy(domain);
    pthread_mutex_unlock(&turn);
}

static void *work(void *arg)
{
    static void (*const moves[])(struct worker *) = {
        move_broadcast, move_reduce, move_gather,  move_scatter, move_alltoall,
        move_barriers,  move_teams,  move_segment, move_ask,
    };
    struct worker *w = arg;
    for (uint32_t round = 0; round < rounds; round++)
        moves[next(w, COUNT_OF(moves))](w);
    return NULL;
}

int main(void)
{
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    job_open(AQ_THREAD_MULTIPLE, 4096);
    CHECK(job.size <= MOST);
    rounds = job.size > 2 ? 40 : 120;
    for (unsigned i = 0; i < THREADS; i++) {
        struct worker *w = &workers[i];
        w->index = i;
        w->random = mix(job.seed + i);
        CHECK_OK(aq_team_split(job.team, 0, i % 2 ? (int)job.self : -(int)job.self, 0, &w->team));
        CHECK_OK(aq_ep_create(AQ_EP_RMA | AQ_EP_ATOMIC, &w->ep));
        w->self = aq_team_rank(w->team);
        w->size = aq_team_size(w->team);
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK_OK(aq_team_destroy(workers[i].team));
    job_close();
    return 0;
}
