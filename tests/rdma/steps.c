/*
 * The cost of a put, a get and a message over ibv, in instructions of the program and its
 * libraries, compared with the fewest verbs that do the same: one post, and the poll that finds its
 * completion. A message passes four arguments to a handler. Times mean little where the adapter is
 * emulated, but these counts do not depend on the machine. Rank 0 steps through its calls; between
 * them rank 1 obeys commands. In optimized builds a ratio above its limit is a failure.
 */
#include "../core/stepper.h"
#include "../core/support.h"

#include <infiniband/verbs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SINK = 100, WARM = 1, DATA = 1024, QUEUE = 64, INLINE = 72 };
/* One of 8 runs of the library posts buffers, and one of 9 returns credits; the runs of verbs are
 * all alike. */
enum { RUNS = 9, VERBS_RUNS = 2 };
enum command { IDLE, POLL, SEND, QUIT };

static _Atomic uint32_t *command, *answered; /* in the segment of rank 1; in that of rank 0 */
static _Atomic uint32_t arrived;
static uint32_t sent;
static uint64_t word;
static void *remote;
static const aq_arg args[4] = {1, 2, 3, 4};

static void on_sink(aq_am *am)
{
    (void)am;
    arrived++;
}

static void tell(enum command what)
{
    sent++;
    CHECK_OK(aq_put_value(job.team, 1, job_at(1, 0), sent << 8 | what, 4, 0));
    while (*answered != sent)
        sched_yield();
}

static void obey(void)
{
    uint32_t expected = 0;
    for (uint32_t what = IDLE, last = 0; (what & 0xff) != QUIT; last = what >> 8) {
        while (((what = *command) >> 8) == last)
            usleep(500); /* leave the processor to the stepper */
        expected += (what & 0xff) == POLL;
        while (arrived < expected)
            (void)aq_poll();
        if ((what & 0xff) == SEND) CHECK_OK(aq_am_short(job.team, 0, SINK, args, 4, 0));
        CHECK_OK(aq_put_value(job.team, 0, job_at(0, 0), what >> 8, 4, 0));
    }
}

/* --- by the library -------------------------------------------------------------------------- */

static aq_event event;
static bool over;

/* The wait finds the operation complete, because stepping takes longer than the adapter. */
static void our_put(void *arg)
{
    (void)arg;
    over = aq_put(job.team, 1, remote, &word, sizeof(word), 0) == AQ_OK;
}

static void our_get(void *arg)
{
    (void)arg;
    over = aq_get(job.team, 1, job.base + DATA, remote, 8, 0) == AQ_OK;
}

static void our_put_nb(void *arg)
{
    (void)arg;
    CHECK_OK(aq_put_nb(job.team, 1, remote, &word, sizeof(word), 0, &event));
}

static void our_get_nb(void *arg)
{
    (void)arg;
    CHECK_OK(aq_get_nb(job.team, 1, job.base + DATA, remote, 8, 0, &event));
}

static void our_test(void *arg)
{
    (void)arg;
    (void)aq_poll();
    over = aq_event_test(&event) == AQ_OK;
}

static void our_request(void *arg)
{
    (void)arg;
    CHECK_OK(aq_am_short(job.team, 1, SINK, args, 4, 0));
}

static void our_poll(void *arg)
{
    uint32_t before = arrived;
    (void)arg;
    (void)aq_poll();
    over = arrived != before;
}

/* --- by verbs, with a queue pair that is connected to itself ---------------------------------- */

static struct {
    struct ibv_pd *pd;
    struct ibv_cq *sent, *received;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    unsigned char memory[4096];
} verbs;

/* An IPv4 address, which the library also prefers. */
static int verbs_gid(struct ibv_context *context, union ibv_gid *gid)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    int index = 0;
    while (ibv_query_gid(context, 1, index, gid) == 0 && memcmp(gid, mapped, sizeof(mapped)) != 0)
        index++;
    CHECK(memcmp(gid, mapped, sizeof(mapped)) == 0);
    return index;
}

static void verbs_connect(struct ibv_context *context)
{
    union ibv_gid gid;
    int index = verbs_gid(context, &gid);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    CHECK_EQUAL(ibv_modify_qp(verbs.qp, &attr,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
                0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = verbs.qp->qp_num,
        .max_dest_rd_atomic = 1,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = gid, .sgid_index = (uint8_t)index, .hop_limit = 64}}};
    CHECK_EQUAL(ibv_modify_qp(verbs.qp, &attr,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .max_rd_atomic = 1};
    CHECK_EQUAL(ibv_modify_qp(verbs.qp, &attr,
                              IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
                0);
}

static void verbs_open(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = list != NULL && *list != NULL ? ibv_open_device(*list) : NULL;
    CHECK(context != NULL);
    verbs.pd = ibv_alloc_pd(context);
    verbs.sent = ibv_create_cq(context, QUEUE, NULL, NULL, 0);
    verbs.received = ibv_create_cq(context, QUEUE, NULL, NULL, 0);
    CHECK(verbs.pd != NULL && verbs.sent != NULL && verbs.received != NULL);
    struct ibv_qp_init_attr init = {.send_cq = verbs.sent,
                                    .recv_cq = verbs.received,
                                    .cap = {.max_send_wr = QUEUE,
                                            .max_recv_wr = QUEUE,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = INLINE},
                                    .qp_type = IBV_QPT_RC};
    verbs.qp = ibv_create_qp(verbs.pd, &init);
    verbs.mr =
        ibv_reg_mr(verbs.pd, verbs.memory, sizeof(verbs.memory),
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    CHECK(verbs.qp != NULL && verbs.mr != NULL);
    verbs_connect(context);
}

static void verbs_send(enum ibv_wr_opcode opcode, uint32_t len)
{
    struct ibv_sge piece = {(uintptr_t)verbs.memory, len, verbs.mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &piece,
                                   .num_sge = 1,
                                   .opcode = opcode,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.rdma = {(uintptr_t)verbs.memory + 64, verbs.mr->rkey}};
    if (opcode != IBV_WR_RDMA_READ) wr.send_flags |= IBV_SEND_INLINE;
    CHECK_EQUAL(ibv_post_send(verbs.qp, &wr, &bad), 0);
}

static void verbs_put(void *arg)
{
    (void)arg;
    verbs_send(IBV_WR_RDMA_WRITE, 8);
}

static void verbs_get(void *arg)
{
    (void)arg;
    verbs_send(IBV_WR_RDMA_READ, 8);
}

/* A message with its handler and arguments, and nothing else. */
struct bare {
    uint32_t handler;
    aq_arg args[4];
};
static void bare_sink(const aq_arg *got)
{
    (void)got;
    arrived++;
}
static void (*const bare_handlers[256])(const aq_arg *got) = {[SINK] = bare_sink};

static void verbs_request(void *arg)
{
    struct bare *message = (struct bare *)(void *)verbs.memory;
    (void)arg;
    message->handler = SINK;
    memcpy(message->args, args, sizeof(args));
    verbs_send(IBV_WR_SEND, sizeof(*message));
}

static void verbs_receive(void *arg)
{
    struct ibv_sge piece = {(uintptr_t)verbs.memory + 128, 64, verbs.mr->lkey};
    struct ibv_recv_wr *bad, wr = {.sg_list = &piece, .num_sge = 1};
    (void)arg;
    CHECK_EQUAL(ibv_post_recv(verbs.qp, &wr, &bad), 0);
}

static void verbs_sent(void *arg)
{
    struct ibv_wc wc;
    (void)arg;
    over = ibv_poll_cq(verbs.sent, 1, &wc) == 1;
    CHECK(!over || wc.status == IBV_WC_SUCCESS);
}

static void verbs_dispatch(void *arg)
{
    struct ibv_wc wc;
    (void)arg;
    over = ibv_poll_cq(verbs.received, 1, &wc) == 1;
    if (!over) return;
    const struct bare *message = (const struct bare *)(const void *)(verbs.memory + 128);
    bare_handlers[message->handler](message->args);
    verbs_receive(NULL); /* the next buffer */
}

/* --- the table ------------------------------------------------------------------------------- */

static void nothing(void *arg)
{
    (void)arg;
}

static void ask_poll(void)
{
    tell(POLL);
}

/* The message must not arrive before `tell` has returned: if it did, ask for another. */
static void ask_send(void)
{
    uint32_t before;
    do {
        before = arrived;
        tell(SEND);
    } while (arrived != before);
}

static void verbs_clear(void)
{
    do
        verbs_sent(NULL);
    while (!over);
    do
        verbs_dispatch(NULL);
    while (!over);
}

static void verbs_give(void)
{
    verbs_request(NULL);
    do
        verbs_sent(NULL);
    while (!over);
}

/* `poll` is repeated until it reports the end; only its last run counts. */
struct way {
    void (*before)(void);
    void (*post)(void *arg);
    void (*poll)(void *arg);
    void (*after)(void);
};
static const struct row {
    const char *name;
    struct way ours, verbs;
    double most; /* the ratio */
} rows[] = {
    {"put", {NULL, NULL, our_put, NULL}, {NULL, verbs_put, verbs_sent, NULL}, 2.3},
    {"get", {NULL, NULL, our_get, NULL}, {NULL, verbs_get, verbs_sent, NULL}, 2.4},
    {"put_nb", {NULL, our_put_nb, our_test, NULL}, {NULL, verbs_put, verbs_sent, NULL}, 2.6},
    {"get_nb", {NULL, our_get_nb, our_test, NULL}, {NULL, verbs_get, verbs_sent, NULL}, 2.7},
    {"request", {NULL, our_request, NULL, ask_poll}, {NULL, verbs_request, NULL, verbs_clear}, 3.2},
    {"dispatch", {ask_send, NULL, our_poll, NULL}, {verbs_give, NULL, verbs_dispatch, NULL}, 3.4},
};

static uint32_t once(const struct way *way, uint32_t bare)
{
    uint32_t count = 0;
    if (way->before != NULL) way->before();
    if (way->post != NULL) count += stepper_run(way->post, NULL).instructions - bare;
    for (over = way->poll == NULL; !over;) {
        uint32_t polled = stepper_run(way->poll, NULL).instructions - bare;
        if (over) count += polled;
    }
    if (way->after != NULL) way->after();
    return count;
}

/* Of several runs: the least count, and the mean, which includes runs that return credits or post
 * receive buffers. */
struct found {
    uint32_t least, mean;
};

static struct found several(const struct way *way, uint32_t bare, unsigned runs)
{
    struct found found = {.least = UINT32_MAX};
    for (unsigned i = 0; i < WARM; i++)
        (void)once(way, bare);
    for (unsigned i = 0; i < runs; i++) {
        uint32_t now = once(way, bare);
        if (now < found.least) found.least = now;
        found.mean += now;
    }
    found.mean /= runs;
    return found;
}

static bool measure(void)
{
    bool good = true;
    uint32_t bare = stepper_run(nothing, NULL).instructions;
    printf("%-10s %8s %8s %8s %6s %6s  (instructions)\n", "", "ours", "mean", "verbs", "ratio",
           "mean");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct found ours = several(&rows[i].ours, bare, RUNS),
                     theirs = several(&rows[i].verbs, bare, VERBS_RUNS);
        double ratio = (double)ours.least / theirs.least, mean = (double)ours.mean / theirs.mean;
        printf("%-10s %8u %8u %8u %6.2f %6.2f\n", rows[i].name, ours.least, ours.mean, theirs.least,
               ratio, mean);
#ifdef NDEBUG
        good = good && ratio <= rows[i].most;
#endif
    }
    return good;
}

int main(void)
{
    aq_handler_entry table[] = {{SINK, 4, AQ_AM_REQUEST, on_sink, NULL, "sink"}};
    const char *why = stepper_open();
    if (why != NULL) printf("not counted: %s\n", why);
    setvbuf(stdout, NULL, _IOLBF, 0);
    job_open(AQ_THREAD_SINGLE, DATA + 4096);
    CHECK_EQUAL(job.size, 2);
    CHECK(why == NULL);
    remote = job_at(1, DATA);
    answered = command = (_Atomic uint32_t *)(void *)job.base;
    job_handlers(table, COUNT_OF(table));
    job_barrier();
    bool good = true;
    if (job.self == 1) {
        obey();
    } else {
        verbs_open();
        verbs_receive(NULL);
        good = measure();
        tell(QUIT);
    }
    job_barrier();
    CHECK(good);
    job_close();
    return 0;
}
