/* Sizes beyond every limit, operations that do not exist, unknown flags, and rare errors. */
#include "common/capture.h"
#include "fi/pair.h"
#include "front/fi/fi.h"

#include <stdio.h>
#include <sys/wait.h>

enum { KEY = 42 };

/* Lengths beyond max_msg_size, where sums of lengths overflow, are refused before anything is
 * read. */
static void sizes(struct pair *pair)
{
    static const size_t lens[] = {AFI_MAX_MESSAGE + 1, SIZE_MAX - 39, SIZE_MAX};
    struct fid_ep *ep = pair->a.ep;
    fi_addr_t to = pair->a.other;
    char byte = 0;
    for (size_t i = 0; i < COUNT_OF(lens); i++) {
        size_t len = lens[i];
        const struct iovec iov = {.iov_base = &byte, .iov_len = len};
        CHECK_EQUAL(fi_send(ep, &byte, len, NULL, to, NULL), -FI_EMSGSIZE);
        CHECK_EQUAL(fi_sendv(ep, &iov, NULL, 1, to, NULL), -FI_EMSGSIZE);
        CHECK_EQUAL(fi_senddata(ep, &byte, len, NULL, 1, to, NULL), -FI_EMSGSIZE);
        CHECK_EQUAL(fi_inject(ep, &byte, len, to), -FI_EMSGSIZE);
        CHECK_EQUAL(fi_tsend(ep, &byte, len, NULL, to, 1, NULL), -FI_EMSGSIZE);
        CHECK_EQUAL(fi_tinject(ep, &byte, len, to, 1), -FI_EMSGSIZE);
        CHECK_EQUAL(fi_write(ep, &byte, len, NULL, to, 0, KEY, NULL), -FI_EMSGSIZE);
        CHECK_EQUAL(fi_inject_write(ep, &byte, len, to, 0, KEY), -FI_EMSGSIZE);
        CHECK_EQUAL(fi_read(ep, &byte, len, NULL, to, 0, KEY, NULL), -FI_EMSGSIZE);
    }
    for (size_t count = SIZE_MAX / 8; count > AFI_ATOMIC / 8; count /= 3) {
        CHECK_EQUAL(fi_atomic(ep, &byte, count + 1, NULL, to, 0, KEY, FI_INT64, FI_SUM, NULL),
                    -FI_EMSGSIZE);
        CHECK_EQUAL(fi_inject_atomic(ep, &byte, count + 1, to, 0, KEY, FI_INT64, FI_SUM),
                    -FI_EMSGSIZE);
    }
}

/* Atomic operations that the call does not have, or on memory that is not registered but posted. */
static void atomics(struct pair *pair)
{
    struct fid_ep *ep = pair->a.ep;
    fi_addr_t to = pair->a.other;
    uint64_t value = 0, result;
    const struct fi_ioc ioc = {.addr = &value, .count = 1};
    const struct fi_rma_ioc there = {.count = 1, .key = KEY};
    struct fi_msg_atomic msg = {.msg_iov = &ioc,
                                .iov_count = 1,
                                .addr = to,
                                .rma_iov = &there,
                                .rma_iov_count = 1,
                                .datatype = FI_UINT64,
                                .op = FI_ATOMIC_READ};
    struct fi_atomic_attr attr;
    CHECK_EQUAL(fi_atomic(ep, &value, 1, NULL, to, 0, KEY, FI_UINT64, FI_ATOMIC_READ, NULL),
                -FI_EOPNOTSUPP);
    CHECK_EQUAL(fi_atomicmsg(ep, &msg, 0), -FI_EOPNOTSUPP);
    msg.op = FI_SUM;
    CHECK_EQUAL(fi_atomicmsg(ep, &msg, FI_TAGGED), -FI_EOPNOTSUPP);
    CHECK_EQUAL(
        fi_fetch_atomic(ep, &value, 1, NULL, &result, NULL, to, 0, KEY, FI_UINT64, FI_CSWAP, NULL),
        -FI_EOPNOTSUPP);
    CHECK_EQUAL(fi_query_atomic(pair->a.domain, FI_UINT64, FI_CSWAP, &attr,
                                FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC),
                -FI_EINVAL);
    pair_none(pair, pair->a.tx);
}

static void objects(struct pair *pair)
{
    struct fi_wait_attr set_attr = {.wait_obj = FI_WAIT_FD};
    struct fi_cntr_attr attr = {.flags = FI_SEND};
    struct fid_cntr *cntr;
    struct fid_mr *mr;
    char memory[8];
    uint64_t flags = FI_TRANSMIT | FI_RECV | FI_COMPLETION;
    CHECK_EQUAL(fi_control(&pair->a.ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
    CHECK_EQUAL(fi_control(&pair->a.ep->fid, FI_GETOPSFLAG, &flags), -FI_EINVAL);
    CHECK_EQUAL(fi_cntr_open(pair->a.domain, &attr, &cntr, NULL), -FI_EBADFLAGS);
    CHECK_EQUAL(fi_cntr_open(pair->a.domain, NULL, &cntr, NULL), -FI_EINVAL);
    CHECK_EQUAL(fi_cq_open(pair->a.domain, NULL, &pair->a.tx, NULL), -FI_EINVAL);
    CHECK_EQUAL(fi_av_open(pair->a.domain, NULL, &pair->a.av, NULL), -FI_EINVAL);
    CHECK_EQUAL(fi_eq_open(pair->a.fabric, NULL, NULL, NULL), -FI_EINVAL);
    CHECK_EQUAL(fi_cq_signal(pair->a.tx), -FI_ENOSYS); /* no thread can wait for it */
    CHECK_EQUAL(fi_wait_open(pair->a.fabric, &set_attr, &pair->a.set), 0);
    attr = (struct fi_cntr_attr){.wait_obj = FI_WAIT_SET, .wait_set = pair->a.set};
    CHECK_EQUAL(fi_cntr_open(pair->a.domain, &attr, &cntr, NULL), 0);
    CHECK_EQUAL(fi_cntr_wait(cntr, 1, 1), -FI_ENOSYS);
    CHECK_EQUAL(fi_close(&cntr->fid), 0);
    CHECK_EQUAL(fi_mr_reg(pair->a.domain, memory, sizeof(memory), FI_REMOTE_READ, 0,
                          FI_KEY_NOTAVAIL, 0, &mr, NULL),
                -FI_EKEYREJECTED);
}

/* Flags that would change the meaning of an operation are refused, not ignored. */
static void flags(struct pair *pair)
{
    static const uint64_t refused[] = {FI_TRIGGER, FI_MULTICAST, FI_COMMIT_COMPLETE};
    struct fid_ep *ep = pair->a.ep;
    uint64_t value = 0;
    const struct iovec iov = {.iov_base = &value, .iov_len = sizeof(value)};
    const struct fi_rma_iov there = {.len = sizeof(value), .key = KEY};
    const struct fi_ioc ioc = {.addr = &value, .count = 1};
    const struct fi_rma_ioc place = {.count = 1, .key = KEY};
    fi_addr_t to = pair->a.other;
    const struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = to};
    const struct fi_msg_tagged tagged = {.msg_iov = &iov, .iov_count = 1, .addr = to};
    const struct fi_msg_rma rma = {
        .msg_iov = &iov, .iov_count = 1, .addr = to, .rma_iov = &there, .rma_iov_count = 1};
    const struct fi_msg_atomic atomic = {.msg_iov = &ioc,
                                         .iov_count = 1,
                                         .addr = to,
                                         .rma_iov = &place,
                                         .rma_iov_count = 1,
                                         .datatype = FI_UINT64,
                                         .op = FI_SUM};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        CHECK_EQUAL(fi_sendmsg(ep, &msg, refused[i]), -FI_EBADFLAGS);
        CHECK_EQUAL(fi_recvmsg(ep, &msg, refused[i]), -FI_EBADFLAGS);
        CHECK_EQUAL(fi_tsendmsg(ep, &tagged, refused[i]), -FI_EBADFLAGS);
        CHECK_EQUAL(fi_trecvmsg(ep, &tagged, refused[i]), -FI_EBADFLAGS);
        CHECK_EQUAL(fi_writemsg(ep, &rma, refused[i]), -FI_EBADFLAGS);
        CHECK_EQUAL(fi_readmsg(ep, &rma, refused[i]), -FI_EBADFLAGS);
        CHECK_EQUAL(fi_atomicmsg(ep, &atomic, refused[i]), -FI_EBADFLAGS);
    }
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        uint64_t set = FI_TRANSMIT | refused[i];
        CHECK_EQUAL(fi_control(&ep->fid, FI_SETOPSFLAG, &set), -FI_EBADFLAGS);
        struct fi_eq_attr eq_attr = {.flags = refused[i]};
        struct fi_cq_attr cq_attr = {.flags = refused[i]};
        CHECK_EQUAL(fi_eq_open(pair->a.fabric, &eq_attr, NULL, NULL), -FI_EBADFLAGS);
        CHECK_EQUAL(fi_cq_open(pair->a.domain, &cq_attr, NULL, NULL), -FI_EBADFLAGS);
    }
    struct fi_cq_attr attr = {.wait_obj = FI_WAIT_FD, .wait_cond = FI_CQ_COND_THRESHOLD + 1};
    CHECK_EQUAL(fi_cq_open(pair->a.domain, &attr, NULL, NULL), -FI_EINVAL);
    pair_none(pair, pair->a.tx);
}

/* Attributes of a shared context that fi_getinfo would refuse. */
static void contexts(struct pair *pair)
{
    struct fi_tx_attr tx = *pair->a.info->tx_attr;
    struct fi_rx_attr rx = *pair->a.info->rx_attr;
    struct fid_stx *stx;
    struct fid_ep *srx;
    tx.size = AFI_MOST_SIZE + 1;
    rx.caps |= FI_TRIGGER;
    CHECK_EQUAL(fi_stx_context(pair->a.domain, &tx, &stx, NULL), -FI_EINVAL);
    CHECK_EQUAL(fi_srx_context(pair->a.domain, &rx, &srx, NULL), -FI_EINVAL);
    rx = *pair->a.info->rx_attr;
    CHECK_EQUAL(fi_srx_context(pair->a.domain, &rx, &srx, NULL), 0);
    uint64_t set = FI_RECV | FI_TRIGGER;
    CHECK_EQUAL(fi_control(&srx->fid, FI_SETOPSFLAG, &set), -FI_EBADFLAGS);
    CHECK_EQUAL(fi_close(&srx->fid), 0);
}

/* Calls of endpoints on a context that is for receives only. */
static void sends_of_contexts(struct pair *pair)
{
    struct fid_ep *srx;
    uint64_t value = 0, result = 0;
    const struct iovec iov = {.iov_base = &value, .iov_len = sizeof(value)};
    const struct fi_rma_iov there = {.len = sizeof(value), .key = KEY};
    fi_addr_t to = pair->a.other;
    const struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = to};
    const struct fi_msg_tagged tagged = {.msg_iov = &iov, .iov_count = 1, .addr = to};
    const struct fi_msg_rma rma = {
        .msg_iov = &iov, .iov_count = 1, .addr = to, .rma_iov = &there, .rma_iov_count = 1};
    CHECK_EQUAL(fi_srx_context(pair->a.domain, pair->a.info->rx_attr, &srx, NULL), 0);
    CHECK_EQUAL(fi_send(srx, &value, 8, NULL, to, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_sendv(srx, &iov, NULL, 1, to, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_sendmsg(srx, &msg, 0), -FI_ENOSYS);
    CHECK_EQUAL(fi_senddata(srx, &value, 8, NULL, 1, to, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_inject(srx, &value, 8, to), -FI_ENOSYS);
    CHECK_EQUAL(fi_injectdata(srx, &value, 8, 1, to), -FI_ENOSYS);
    CHECK_EQUAL(fi_tsend(srx, &value, 8, NULL, to, 1, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_tsendv(srx, &iov, NULL, 1, to, 1, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_tsendmsg(srx, &tagged, 0), -FI_ENOSYS);
    CHECK_EQUAL(fi_tinject(srx, &value, 8, to, 1), -FI_ENOSYS);
    CHECK_EQUAL(fi_write(srx, &value, 8, NULL, to, 0, KEY, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_writemsg(srx, &rma, 0), -FI_ENOSYS);
    CHECK_EQUAL(fi_inject_write(srx, &value, 8, to, 0, KEY), -FI_ENOSYS);
    CHECK_EQUAL(fi_read(srx, &value, 8, NULL, to, 0, KEY, NULL), -FI_ENOSYS);
    CHECK_EQUAL(fi_atomic(srx, &value, 1, NULL, to, 0, KEY, FI_UINT64, FI_SUM, NULL), -FI_ENOSYS);
    CHECK_EQUAL(
        fi_fetch_atomic(srx, &value, 1, NULL, &result, NULL, to, 0, KEY, FI_UINT64, FI_SUM, NULL),
        -FI_ENOSYS);
    CHECK_EQUAL(fi_tx_size_left(srx), -FI_EINVAL);
    CHECK_EQUAL(fi_close(&srx->fid), 0);
}

/* A shared transmit context has the options of endpoints, but none of receives. */
static void receives_of_contexts(struct pair *pair)
{
    struct fid_stx *stx;
    size_t least = 1, len = sizeof(least);
    CHECK_EQUAL(fi_stx_context(pair->a.domain, pair->a.info->tx_attr, &stx, NULL), 0);
    CHECK_EQUAL(fi_setopt(&stx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, len),
                -FI_ENOPROTOOPT);
    CHECK_EQUAL(fi_getopt(&stx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &len),
                -FI_ENOPROTOOPT);
    CHECK_EQUAL(fi_cancel(&stx->fid, &least), -FI_ENOENT);
    CHECK_EQUAL(fi_close(&stx->fid), 0);
}

/* A binding that is refused binds nothing. */
static void bindings(struct pair *pair)
{
    struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_NONE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fid_cntr *first, *second;
    struct fid_cq *cq;
    struct fid_ep *ep;
    CHECK_EQUAL(fi_cntr_open(pair->a.domain, &cntr_attr, &first, NULL), 0);
    CHECK_EQUAL(fi_cntr_open(pair->a.domain, &cntr_attr, &second, NULL), 0);
    CHECK_EQUAL(fi_cq_open(pair->a.domain, &cq_attr, &cq, NULL), 0);
    CHECK_EQUAL(fi_endpoint(pair->a.domain, pair->a.info, &ep, NULL), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &first->fid, 0), -FI_EINVAL);
    CHECK_EQUAL(fi_ep_bind(ep, &first->fid, FI_SEND | FI_FENCE), -FI_EINVAL);
    CHECK_EQUAL(fi_ep_bind(ep, &first->fid, FI_WRITE), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &second->fid, FI_SEND | FI_WRITE), -FI_EINVAL);
    CHECK_EQUAL(fi_ep_bind(ep, &pair->a.rx->fid, FI_RECV), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
    CHECK_EQUAL(fi_close(&second->fid), 0);
    CHECK_EQUAL(fi_close(&cq->fid), 0);
    CHECK_EQUAL(fi_close(&ep->fid), 0);
    CHECK_EQUAL(fi_close(&first->fid), 0);
}

/* An injected operation has no context: if it fails, that of the endpoint is reported. */
static void failed_injection(struct pair *pair)
{
    char byte = 0;
    pair->a.ep->fid.context = pair;
    PAIR_CALL(pair, fi_inject_write(pair->a.ep, &byte, 1, pair->a.other, 0, KEY));
    CHECK(pair_error(pair, pair->a.tx).op_context == pair);
}

/* Operations can be canceled as long as they wait for a connection, and the others are sent. */
static void unsent(struct pair *pair)
{
    int sent[3] = {0, 1, 2}, got;
    for (unsigned i = 0; i < COUNT_OF(sent); i++)
        CHECK_EQUAL(fi_send(pair->a.ep, &sent[i], 4, NULL, pair->a.other, &sent[i]), 0);
    CHECK_EQUAL(fi_cancel(&pair->a.ep->fid, &sent[1]), 0);
    CHECK_EQUAL(fi_cancel(&pair->a.ep->fid, &sent[1]), -FI_ENOENT);
    CHECK_EQUAL(fi_cancel(&pair->a.ep->fid, NULL), -FI_ENOENT);
    const struct fi_cq_err_entry error = pair_error(pair, pair->a.tx);
    CHECK(error.op_context == &sent[1] && error.err == FI_ECANCELED);
    CHECK_EQUAL(error.flags, FI_SEND | FI_MSG);
    for (int i = 0; i < 3; i += 2) {
        PAIR_CALL(pair, fi_recv(pair->b.in, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
        (void)pair_next(pair, pair->b.rx, NULL);
        CHECK_EQUAL(got, i);
        CHECK(pair_next(pair, pair->a.tx, NULL).op_context == &sent[i]);
        CHECK_EQUAL(fi_cancel(&pair->a.ep->fid, &sent[i]), -FI_ENOENT);
    }
}

/* A receive that is canceled counts as one that has failed, like one that is too short. */
static void failed_receives(struct pair *pair)
{
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct fid_cntr *cntr;
    struct fid_ep *ep;
    char name[64], got[4];
    size_t len = sizeof(name);
    CHECK_EQUAL(fi_cntr_open(pair->b.domain, &attr, &cntr, NULL), 0);
    CHECK_EQUAL(fi_endpoint(pair->b.domain, pair->b.info, &ep, NULL), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &pair->b.av->fid, 0), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &pair->b.rx->fid, FI_RECV), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &cntr->fid, FI_RECV), 0);
    CHECK_EQUAL(fi_enable(ep), 0);
    CHECK_EQUAL(fi_recv(ep, got, sizeof(got), NULL, FI_ADDR_UNSPEC, got), 0);
    CHECK_EQUAL(fi_cancel(&ep->fid, got), 0);
    CHECK_EQUAL(pair_error(pair, pair->b.rx).err, FI_ECANCELED);
    CHECK_EQUAL(fi_cntr_readerr(cntr), 1);
    CHECK_EQUAL(fi_getname(&ep->fid, name, &len), 0);
    PAIR_CALL(pair, fi_recv(ep, got, sizeof(got), NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(pair, fi_inject(pair->a.ep, name, len, side_insert(&pair->a, name)));
    CHECK_EQUAL(pair_error(pair, pair->b.rx).err, FI_ETRUNC);
    CHECK_EQUAL(fi_cntr_readerr(cntr), 2);
    CHECK_EQUAL(fi_cntr_read(cntr), 0);
    CHECK_EQUAL(fi_close(&ep->fid), 0);
    CHECK_EQUAL(fi_close(&cntr->fid), 0);
}

/* A claimed message whose bytes were lost with the connection ends with that error. */
static void lost_claim(struct pair *pair)
{
    enum { LEN = 1000000 };
    struct fi_context context;
    struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = 9};
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    char *bytes = calloc(1, LEN);
    ssize_t got;
    CHECK_EQUAL(fi_trecvmsg(pair->b.in, &msg, FI_PEEK | FI_CLAIM), -FI_EINVAL);
    msg.context = &context;
    PAIR_CALL(pair, fi_tsend(pair->a.ep, bytes, LEN, NULL, pair->a.other, 9, NULL));
    do {
        CHECK_EQUAL(fi_trecvmsg(pair->b.in, &msg, FI_PEEK | FI_CLAIM), 0);
        while ((got = fi_cq_read(pair->b.rx, &entry, 1)) == -FI_EAGAIN)
            pair_move(pair);
        if (got != 1) CHECK_EQUAL(fi_cq_readerr(pair->b.rx, &error, 0), 1);
    } while (got != 1);
    afi_lock();
    struct afi_peer *peer = afi_peer_of(AQI_OF(pair->b.ep, struct afi_ep, fid), pair->b.other);
    afi_peer_fail(peer, FI_ECONNRESET);
    afi_unlock();
    (void)pair_error(pair, pair->a.tx);
    CHECK_EQUAL(fi_trecvmsg(pair->b.in, &msg, FI_CLAIM), 0);
    error = pair_error(pair, pair->b.rx);
    CHECK_EQUAL(error.err, FI_ECONNRESET);
    CHECK_EQUAL(error.prov_errno, -FI_ECONNRESET);
    free(bytes);
}

static void use(struct side *side)
{
    struct fi_cq_tagged_entry entry;
    const struct pair_wish wish = {0};
    side_open(side, &wish);
    CHECK_EQUAL(fi_cq_read(side->rx, &entry, 1), -FI_EAGAIN);
}

/* AQ_STATS: the counters are printed when the last domain is closed, or at exit. */
static void counters(void)
{
    struct capture capture;
    struct side side;
    char closed[64], ended[64];
    int status;
    CHECK_EQUAL(setenv("AQ_STATS", "yes", 1), 0);
    capture_begin(&capture);
    pid_t child = fork();
    if (child == 0) {
        use(&side);
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (unsigned i = 0; i < 2; i++) {
        use(&side);
        side_close(&side);
    }
    CHECK_EQUAL(unsetenv("AQ_STATS"), 0);
    const char *said = capture_end(&capture);
    snprintf(ended, sizeof(ended), "process %d (fi): poll_empty ", (int)child);
    snprintf(closed, sizeof(closed), "process %d (fi): poll_empty ", (int)getpid());
    CHECK(strstr(said, ended) != NULL);
    const char *first = strstr(said, closed);
    CHECK(first != NULL && strstr(first + 1, closed) != NULL);
}

int main(void)
{
    counters();
    const struct pair_wish wish = {0};
    struct pair pair;
    pair_open(&pair, &wish);
    unsent(&pair);
    sizes(&pair);
    atomics(&pair);
    objects(&pair);
    flags(&pair);
    contexts(&pair);
    sends_of_contexts(&pair);
    receives_of_contexts(&pair);
    bindings(&pair);
    failed_injection(&pair);
    failed_receives(&pair);
    lost_claim(&pair);
    pair_close(&pair);
    puts("ok");
    return 0;
}
