/*
 * Queues and waiting on them, selective completions, closed endpoints, and objects that are still
 * in use.
 */
#include "fi/pair.h"
#include "front/fi/fi.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static void selective(void)
{
    struct pair pair;
    struct pair_wish wish = {.cq_flags = FI_SELECTIVE_COMPLETION};
    int value = 1, got;
    struct iovec iov = {.iov_base = &value, .iov_len = sizeof(value)};
    pair_open(&pair, &wish);
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = pair.a.other, .context = &pair};
    for (unsigned i = 0; i < 4; i++)
        PAIR_CALL(&pair, fi_recv(pair.b.in, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(&pair, fi_send(pair.a.ep, &value, 4, NULL, pair.a.other, NULL));
    PAIR_CALL(&pair, fi_sendmsg(pair.a.ep, &msg, 0));
    PAIR_CALL(&pair, fi_sendmsg(pair.a.ep, &msg, FI_COMPLETION));
    PAIR_CALL(&pair, fi_inject(pair.a.ep, &value, 4, pair.a.other));
    for (unsigned i = 0; i < 4; i++)
        (void)pair_next(&pair, pair.b.rx, NULL);
    CHECK(pair_next(&pair, pair.a.tx, NULL).op_context == &pair);
    pair_none(&pair, pair.a.tx);
    pair_close(&pair);
}

/*
 * An endpoint whose operations are injected by default: the program may reuse the buffer after each
 * call, although nothing can be sent before the connection is open.
 */
static void injected(void)
{
    static char large[AFI_INJECT + 1];
    struct pair pair;
    struct pair_wish wish = {.tx_flags = FI_INJECT};
    uint64_t value, got;
    pair_open(&pair, &wish);
    for (value = 1; value <= 3; value++)
        PAIR_CALL(&pair, fi_send(pair.a.ep, &value, sizeof(value), NULL, pair.a.other, NULL));
    CHECK_EQUAL(fi_send(pair.a.ep, large, sizeof(large), NULL, pair.a.other, NULL), -FI_EMSGSIZE);
    for (uint64_t i = 1; i <= 3; i++) {
        PAIR_CALL(&pair, fi_recv(pair.b.in, &got, sizeof(got), NULL, FI_ADDR_UNSPEC, NULL));
        (void)pair_next(&pair, pair.b.rx, NULL);
        CHECK_EQUAL(got, i);
        CHECK_EQUAL(pair_next(&pair, pair.a.tx, NULL).flags, FI_SEND | FI_MSG);
    }
    pair_close(&pair);
}

/*
 * Reading zero completions makes progress even if some are queued; waiting for zero completions
 * waits for one.
 */
static void reads(void)
{
    struct pair pair;
    struct pair_wish wish = {.wait = FI_WAIT_UNSPEC};
    struct fi_cq_tagged_entry entries[2];
    int value = 1, got;
    pair_open(&pair, &wish);
    struct afi_cq *cq = AQI_OF(pair.b.rx, struct afi_cq, fid);
    uint64_t until = pair_now() + UINT64_C(30000000000);
    for (size_t i = 1; i <= 2; i++) {
        PAIR_CALL(&pair, fi_recv(pair.b.in, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
        PAIR_CALL(&pair, fi_inject(pair.a.ep, &value, 4, pair.a.other));
        while (cq->count < i) {
            CHECK_EQUAL(fi_cq_read(pair.b.rx, NULL, 0), -FI_EAGAIN);
            CHECK(pair_now() < until);
        }
    }
    CHECK_EQUAL(fi_cq_read(pair.b.rx, entries, 2), 2);
    cq->cond = FI_CQ_COND_THRESHOLD;
    for (uintptr_t least = 0; least <= 2; least++) {
        for (uintptr_t i = 0; i < least || i == 0; i++) {
            PAIR_CALL(&pair, fi_recv(pair.b.in, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
            PAIR_CALL(&pair, fi_inject(pair.a.ep, &value, 4, pair.a.other));
        }
        CHECK_EQUAL(fi_cq_sread(pair.b.rx, entries, 2, (void *)least, 20000), least == 2 ? 2 : 1);
    }
    pair_close(&pair);
}

/* Flags and options of an endpoint, a shared receive context and a counter. */
static void options(void)
{
    struct pair pair;
    struct pair_wish wish = {.srx = true};
    size_t least, len = sizeof(least) - 1, name_len = 64;
    uint64_t flags = FI_RECV | FI_MULTI_RECV;
    char name[64];
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_control(&pair.a.srx->fid, FI_SETOPSFLAG, &flags), 0);
    flags = FI_RECV;
    CHECK_EQUAL(fi_control(&pair.a.srx->fid, FI_GETOPSFLAG, &flags), 0);
    CHECK_EQUAL(flags, FI_MULTI_RECV);
    flags = FI_TRANSMIT;
    CHECK_EQUAL(fi_control(&pair.a.srx->fid, FI_GETOPSFLAG, &flags), -FI_EINVAL);
    CHECK_EQUAL(fi_control(&pair.a.srx->fid, FI_ENABLE, NULL), 0);
    CHECK_EQUAL(fi_control(&pair.a.srx->fid, FI_GETWAIT, &flags), -FI_ENOSYS);
    CHECK_EQUAL(fi_getname(&pair.a.srx->fid, name, &name_len), -FI_EOPBADSTATE);
    flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
    CHECK_EQUAL(fi_control(&pair.a.ep->fid, FI_SETOPSFLAG, &flags), 0);
    flags = FI_TRANSMIT;
    CHECK_EQUAL(fi_control(&pair.a.ep->fid, FI_GETOPSFLAG, &flags), 0);
    CHECK_EQUAL(flags, FI_DELIVERY_COMPLETE);
    CHECK_EQUAL(fi_control(&pair.a.reads->fid, FI_GETOPSFLAG, &flags), 0);
    CHECK_EQUAL(flags, 0);
    CHECK_EQUAL(fi_control(&pair.a.reads->fid, FI_SETOPSFLAG, &flags), 0);
    flags = FI_COMPLETION;
    CHECK_EQUAL(fi_control(&pair.a.reads->fid, FI_SETOPSFLAG, &flags), -FI_EBADFLAGS);

    CHECK_EQUAL(fi_getopt(&pair.a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &len),
                -FI_ETOOSMALL);
    CHECK_EQUAL(len, sizeof(least));
    for (size_t i = 0; i <= 2; i++) {
        CHECK_EQUAL(fi_setopt(&pair.a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &i, len), 0);
        CHECK_EQUAL(
            fi_getopt(&pair.a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &len), 0);
        CHECK_EQUAL(least, i == 0 ? 1 : i); /* otherwise a full buffer would be kept */
    }
    CHECK_EQUAL(fi_getopt(&pair.a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &least, &len),
                -FI_ENOPROTOOPT);
    pair_close(&pair);
}

/*
 * A shared receive context may be bound to a queue and an address vector, and may outlive its
 * endpoints. Without FI_DIRECTED_RECV, sources are ignored.
 */
static void shared(void)
{
    struct pair pair;
    struct pair_wish wish = {.srx = true};
    struct fi_av_attr attr = {0};
    struct fid_ep *srx, *ep;
    char name[64];
    size_t len = sizeof(name);
    fi_addr_t addr;
    int got;
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_close(&pair.a.ep->fid), 0);
    CHECK_EQUAL(fi_close(&pair.a.av->fid), 0);
    CHECK_EQUAL(fi_recv(pair.a.srx, &got, 4, NULL, 0, NULL), -FI_EINVAL);
    CHECK_EQUAL(fi_av_open(pair.a.domain, &attr, &pair.a.av, NULL), 0);
    CHECK_EQUAL(fi_endpoint(pair.a.domain, pair.a.info, &pair.a.ep, NULL), 0);
    CHECK_EQUAL(fi_ep_bind(pair.a.ep, &pair.a.av->fid, 0), 0);
    CHECK_EQUAL(fi_ep_bind(pair.a.ep, &pair.a.rx->fid, FI_RECV), 0);
    CHECK_EQUAL(fi_ep_bind(pair.a.ep, &pair.a.srx->fid, 0), 0);
    CHECK_EQUAL(fi_enable(pair.a.ep), 0);
    CHECK_EQUAL(fi_getname(&pair.b.ep->fid, name, &len), 0);
    CHECK_EQUAL(fi_av_insert(pair.a.av, name, 1, &addr, 0, NULL), 1);
    PAIR_CALL(&pair, fi_recv(pair.a.srx, &got, 4, NULL, addr, &got));
    /* Another endpoint takes its place when one is closed. */
    CHECK_EQUAL(fi_endpoint(pair.a.domain, pair.a.info, &ep, NULL), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &pair.a.av->fid, 0), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &pair.a.tx->fid, FI_RECV), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &pair.a.srx->fid, 0), 0);
    CHECK_EQUAL(fi_enable(ep), 0);
    CHECK_EQUAL(fi_close(&pair.a.ep->fid), 0);
    pair.a.ep = ep;
    CHECK_EQUAL(fi_cancel(&pair.a.srx->fid, &got), 0);
    CHECK_EQUAL(pair_error(&pair, pair.a.tx).err, FI_ECANCELED);

    struct fi_rx_attr rx_attr = *pair.a.info->rx_attr;
    rx_attr.caps &= ~FI_DIRECTED_RECV;
    CHECK_EQUAL(fi_srx_context(pair.a.domain, &rx_attr, &srx, NULL), 0);
    CHECK_EQUAL(fi_ep_bind(srx, &pair.a.rx->fid, 0), 0);
    CHECK_EQUAL(fi_ep_bind(srx, &pair.a.tx->fid, 0), -FI_EINVAL);
    CHECK_EQUAL(fi_ep_bind(srx, &pair.a.av->fid, 0), 0);
    CHECK_EQUAL(fi_ep_bind(srx, &pair.a.av->fid, 0), -FI_EINVAL);
    CHECK_EQUAL(fi_recv(srx, &got, 4, NULL, 12345, &got), 0);
    CHECK_EQUAL(fi_cancel(&srx->fid, &got), 0);
    CHECK_EQUAL(pair_error(&pair, pair.a.rx).err, FI_ECANCELED);
    CHECK_EQUAL(fi_close(&srx->fid), 0);
    pair_close(&pair);
}

/* Endpoints share a transmit context, which stays open as long as one of them is. */
static void shared_transmit(void)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    const struct pair_wish wish = {0};
    struct pair pair;
    struct fid_stx *stx, *other;
    struct fid_ep *eps[2];
    int value = 7, got;
    hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), 0);
    CHECK_EQUAL(info->ep_attr->tx_ctx_cnt, FI_SHARED_CONTEXT);
    CHECK_EQUAL(info->ep_attr->rx_ctx_cnt, 1);
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_stx_context(pair.a.domain, info->tx_attr, &stx, &pair), 0);
    CHECK(stx->fid.context == &pair);
    CHECK_EQUAL(fi_stx_context(pair.b.domain, NULL, &other, NULL), 0);
    for (size_t i = 0; i < COUNT_OF(eps); i++) {
        CHECK_EQUAL(fi_endpoint(pair.a.domain, info, &eps[i], NULL), 0);
        CHECK_EQUAL(fi_ep_bind(eps[i], &other->fid, 0), -FI_EDOMAIN);
        CHECK_EQUAL(fi_ep_bind(eps[i], &stx->fid, 0), 0);
        CHECK_EQUAL(fi_ep_bind(eps[i], &stx->fid, 0), -FI_EINVAL);
        CHECK_EQUAL(fi_ep_bind(eps[i], &pair.b.av->fid, 0), -FI_EDOMAIN);
        CHECK_EQUAL(fi_ep_bind(eps[i], &pair.b.tx->fid, FI_TRANSMIT), -FI_EDOMAIN);
        CHECK_EQUAL(fi_ep_bind(eps[i], &pair.b.reads->fid, FI_READ), -FI_EDOMAIN);
        CHECK_EQUAL(fi_ep_bind(eps[i], &pair.a.av->fid, 0), 0);
        CHECK_EQUAL(fi_ep_bind(eps[i], &pair.a.tx->fid, FI_TRANSMIT | FI_RECV), 0);
        CHECK_EQUAL(fi_enable(eps[i]), 0);
        PAIR_CALL(&pair, fi_recv(pair.b.in, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
        PAIR_CALL(&pair, fi_send(eps[i], &value, 4, NULL, pair.a.other, &eps[i]));
        CHECK(pair_next(&pair, pair.a.tx, NULL).op_context == &eps[i]);
        (void)pair_next(&pair, pair.b.rx, NULL);
    }
    for (size_t i = 0; i < COUNT_OF(eps); i++) {
        CHECK_EQUAL(fi_close(&stx->fid), -FI_EBUSY);
        CHECK_EQUAL(fi_close(&eps[i]->fid), 0);
    }
    CHECK_EQUAL(fi_close(&stx->fid), 0);
    CHECK_EQUAL(fi_close(&other->fid), 0);
    pair_close(&pair);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

static void *fail_later(void *cntr)
{
    CHECK_EQUAL(fi_cntr_adderr(cntr, 2), 0);
    return NULL;
}

/* A counter that only the program changes: the values read, and when waits for it end. */
static void counters(void)
{
    struct pair pair;
    struct pair_wish wish = {0};
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_cntr *cntr;
    pthread_t thread;
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_cntr_open(pair.a.domain, &attr, &cntr, NULL), 0);
    CHECK_EQUAL(fi_cntr_wait(cntr, 0, 0), 0);
    CHECK_EQUAL(fi_cntr_wait(cntr, 1, 0), -FI_ETIMEDOUT);
    CHECK_EQUAL(fi_cntr_wait(cntr, 1, 1), -FI_ETIMEDOUT);
    CHECK_EQUAL(fi_cntr_set(cntr, 5), 0);
    CHECK_EQUAL(fi_cntr_add(cntr, 2), 0);
    CHECK_EQUAL(fi_cntr_wait(cntr, 7, 0), 0);
    CHECK_EQUAL(fi_cntr_wait(cntr, 7, -1), 0);
    CHECK_EQUAL(fi_cntr_read(cntr), 7);
    CHECK_EQUAL(fi_cntr_seterr(cntr, 3), 0);
    CHECK_EQUAL(fi_cntr_wait(cntr, 8, 0), -FI_ETIMEDOUT); /* earlier errors do not end it */
    CHECK_EQUAL(pthread_create(&thread, NULL, fail_later, cntr), 0);
    while (fi_cntr_readerr(cntr) != 5)
        CHECK(fi_cntr_wait(cntr, 8, 1) != 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(fi_close(&cntr->fid), 0);
    pair_close(&pair);
}

/* Events that the program writes, of any type and size, are read in the same order. */
static void own_events(void)
{
    struct pair pair;
    struct pair_wish wish = {0};
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC, .flags = FI_WRITE};
    struct fid_eq *eq;
    char sent[1000], got[1000];
    uint32_t type;
    pattern_fill(sent, sizeof(sent), 1);
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_eq_open(pair.a.fabric, &attr, &eq, NULL), 0);
    CHECK_EQUAL(fi_eq_sread(eq, &type, got, sizeof(got), 1, 0), -FI_EAGAIN);
    for (uint32_t i = 0; i < 3; i++)
        CHECK_EQUAL(fi_eq_write(eq, 1000 + i, sent, i * 500, 0), i * 500);
    for (uint32_t i = 0; i < 3; i++) {
        if (i != 0) CHECK_EQUAL(fi_eq_read(eq, &type, got, 499, 0), -FI_ETOOSMALL);
        CHECK_EQUAL(fi_eq_read(eq, &type, got, sizeof(got), FI_PEEK), i * 500);
        CHECK_EQUAL(fi_eq_sread(eq, &type, got, sizeof(got), -1, 0), i * 500);
        CHECK_EQUAL(type, 1000 + i);
        pattern_check(got, i * 500, 1);
    }
    CHECK_EQUAL(fi_eq_read(eq, &type, got, sizeof(got), 0), -FI_EAGAIN);
    CHECK_EQUAL(fi_eq_write(eq, 7, NULL, 0, 0), 0);
    CHECK_EQUAL(fi_eq_read(eq, &type, NULL, 0, 0), 0);
    CHECK_EQUAL(type, 7);
    CHECK_EQUAL(fi_close(&eq->fid), 0);
    pair_close(&pair);
}

/* Looking up an address and its text, in buffers of any size. */
static void lookups(void)
{
    struct pair pair;
    struct pair_wish wish = {0};
    char name[64], found[64], text[200], part[200];
    size_t len = sizeof(name);
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_getname(&pair.b.ep->fid, name, &len), 0);
    CHECK_EQUAL(fi_av_lookup(pair.a.av, pair.a.other, found, &len), 0);
    CHECK_EQUAL(len, sizeof(name));
    CHECK(memcmp(found, name, len) == 0);
    memset(found, 0, sizeof(found));
    len = 8;
    CHECK_EQUAL(fi_av_lookup(pair.a.av, pair.a.other, found, &len), 0);
    CHECK_EQUAL(len, sizeof(name));
    CHECK(memcmp(found, name, 8) == 0 && found[8] == 0);
    CHECK_EQUAL(fi_av_lookup(pair.a.av, 17, found, &len), -FI_EINVAL);
    size_t room = sizeof(text), needed = 5;
    CHECK(fi_av_straddr(pair.a.av, name, text, &room) == text);
    CHECK(fi_av_straddr(pair.a.av, name, part, &needed) == part);
    CHECK_EQUAL(room, strlen(text) + 1);
    CHECK_EQUAL(needed, room);
    CHECK(strncmp(text, part, 4) == 0 && part[4] == 0);
    pair_close(&pair);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void waits(bool automatic)
{
    struct pair pair;
    struct pair_wish wish = {.wait = FI_WAIT_FD, .automatic = automatic};
    struct fi_cq_tagged_entry entry;
    int value = 1, got, fd;
    pair_open(&pair, &wish);
    struct fid *fids[] = {&pair.b.rx->fid};
    CHECK_EQUAL(fi_control(&pair.b.rx->fid, FI_GETWAIT, &fd), 0);
    CHECK(fd >= 0);
    PAIR_CALL(&pair, fi_recv(pair.b.in, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
    double begun = seconds();
    CHECK_EQUAL(fi_cq_sread(pair.b.rx, &entry, 1, NULL, 50), -FI_EAGAIN);
    CHECK(seconds() - begun >= 0.04);
    PAIR_CALL(&pair, fi_send(pair.a.ep, &value, 4, NULL, pair.a.other, NULL));
    CHECK_EQUAL(fi_cq_sread(pair.b.rx, &entry, 1, NULL, 20000), 1);
    CHECK_EQUAL(fi_cq_sread(pair.a.tx, &entry, 1, NULL, 20000), 1);
    CHECK_EQUAL(fi_cq_signal(pair.b.rx), 0);
    CHECK_EQUAL(fi_cq_sread(pair.b.rx, &entry, 1, NULL, 20000), -FI_EAGAIN);
    /* Sleep on the descriptor until a message arrives. */
    PAIR_CALL(&pair, fi_recv(pair.b.in, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(&pair, fi_send(pair.a.ep, &value, 4, NULL, pair.a.other, NULL));
    ssize_t n;
    while ((n = fi_cq_read(pair.b.rx, &entry, 1)) == -FI_EAGAIN) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (fi_trywait(pair.b.fabric, fids, 1) == 0) (void)poll(&wait, 1, 1000);
    }
    CHECK_EQUAL(n, 1);
    pair_close(&pair);
}

static int descriptor_of(struct fid *fid)
{
    int fd = -1;
    CHECK_EQUAL(fi_control(fid, FI_GETWAIT, &fd), 0);
    return fd;
}

static bool is_readable(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    return poll(&wait, 1, 0) == 1;
}

static void prepare(struct pair *pair, struct side *side, struct fid *fid)
{
    int err;
    while ((err = fi_trywait(side->fabric, &fid, 1)) == -FI_EAGAIN)
        pair_move(pair);
    CHECK_EQUAL(err, 0);
}

/*
 * A completion wakes a thread that sleeps on its queue even if another thread has written it and
 * since gone to sleep on another queue; likewise a counter.
 */
static void woken(void)
{
    struct pair pair;
    struct pair_wish wish = {.wait = FI_WAIT_FD};
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_FD};
    struct fid_cntr *cntr;
    int value = 1, got;
    pair_open(&pair, &wish);
    int fd = descriptor_of(&pair.b.rx->fid);
    const struct afi_cq *cq = AQI_OF(pair.b.rx, const struct afi_cq, fid);
    for (unsigned i = 0; i < 3; i++) {
        PAIR_CALL(&pair, fi_recv(pair.b.in, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
        prepare(&pair, &pair.b, &pair.b.rx->fid);
        PAIR_CALL(&pair, fi_inject(pair.a.ep, &value, 4, pair.a.other));
        while (cq->count == 0)
            pair_move(&pair);
        prepare(&pair, &pair.a, &pair.a.rx->fid);
        CHECK(is_readable(fd));
        struct fid *fid = &pair.b.rx->fid;
        CHECK_EQUAL(fi_trywait(pair.b.fabric, &fid, 1), -FI_EAGAIN);
        (void)pair_next(&pair, pair.b.rx, NULL);
    }
    CHECK_EQUAL(fi_cntr_open(pair.a.domain, &attr, &cntr, NULL), 0);
    fd = descriptor_of(&cntr->fid);
    prepare(&pair, &pair.a, &cntr->fid);
    CHECK_EQUAL(fi_cntr_add(cntr, 1), 0);
    prepare(&pair, &pair.a, &pair.a.rx->fid);
    CHECK(is_readable(fd));
    struct fid *fid = &cntr->fid;
    CHECK_EQUAL(fi_trywait(pair.a.fabric, &fid, 1), -FI_EAGAIN);
    CHECK_EQUAL(fi_cntr_read(cntr), 1);
    prepare(&pair, &pair.a, &cntr->fid);
    CHECK_EQUAL(fi_close(&cntr->fid), 0);
    pair_close(&pair);
}

/* The other endpoint is closed: operations end with an error, and this endpoint remains usable. */
static void gone(void)
{
    struct pair pair;
    struct pair_wish wish = {0};
    int value = 1, got = 0;
    char *large = malloc(100000);
    pair_open(&pair, &wish);
    PAIR_CALL(&pair, fi_send(pair.a.ep, &value, 4, NULL, pair.a.other, NULL));
    PAIR_CALL(&pair, fi_recv(pair.b.in, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
    (void)pair_next(&pair, pair.b.rx, NULL);
    (void)pair_next(&pair, pair.a.tx, NULL);
    PAIR_CALL(&pair, fi_send(pair.a.ep, large, 100000, NULL, pair.a.other, large));
    side_close(&pair.b);
    struct fi_cq_err_entry error = pair_error(&pair, pair.a.tx);
    CHECK(error.op_context == large);
    PAIR_CALL(&pair, fi_send(pair.a.ep, &value, 4, NULL, pair.a.other, &value));
    error = pair_error(&pair, pair.a.tx);
    CHECK(error.op_context == &value);
    CHECK(error.err == FI_ECONNREFUSED || error.err == FI_ECONNRESET);
    PAIR_CALL(&pair, fi_send(pair.a.ep, &value, 4, NULL, pair.a.self, NULL));
    PAIR_CALL(&pair, fi_recv(pair.a.in, &got, 4, NULL, FI_ADDR_UNSPEC, NULL));
    (void)pair_next(&pair, pair.a.rx, NULL);
    side_close(&pair.a);
    free(large);
}

/*
 * The connection breaks while messages wait for a receive: those that have arrived are delivered,
 * the one only announced is lost, and a new connection has the full window again.
 */
static void broken(void)
{
    enum { COUNT = 3000, LEN = 3000 };
    struct pair pair;
    struct pair_wish wish = {0};
    char *large = malloc(100000), *small = malloc(LEN), *got = malloc(100000);
    pair_open(&pair, &wish);
    pattern_fill(small, LEN, 1);
    for (unsigned i = 0; i < 20; i++)
        PAIR_CALL(&pair, fi_inject(pair.a.ep, small, LEN, pair.a.other));
    PAIR_CALL(&pair, fi_send(pair.a.ep, large, 100000, NULL, pair.a.other, large));
    for (unsigned i = 0; i < 1000; i++)
        pair_move(&pair);
    afi_lock();
    struct afi_peer *peer = afi_peer_of(AQI_OF(pair.b.ep, struct afi_ep, fid), pair.b.other);
    CHECK_EQUAL(peer->state, AFI_UP);
    afi_peer_fail(peer, FI_ECONNRESET);
    afi_unlock();
    CHECK(pair_error(&pair, pair.a.tx).op_context == large);
    for (unsigned i = 0; i < 20; i++) {
        PAIR_CALL(&pair, fi_recv(pair.b.in, got, LEN, NULL, FI_ADDR_UNSPEC, NULL));
        (void)pair_next(&pair, pair.b.rx, NULL);
        pattern_check(got, LEN, 1);
    }
    pair_none(&pair, pair.b.rx);
    for (unsigned sent = 0, taken = 0; taken < COUNT;) { /* without receives, as far as possible */
        if (sent < COUNT && fi_inject(pair.a.ep, small, LEN, pair.a.other) == 0) {
            sent++;
            continue;
        }
        PAIR_CALL(&pair, fi_recv(pair.b.in, got, LEN, NULL, pair.b.other, NULL));
        (void)pair_next(&pair, pair.b.rx, NULL);
        taken++;
    }
    PAIR_CALL(&pair, fi_send(pair.b.ep, large, 100000, NULL, pair.b.other, NULL));
    PAIR_CALL(&pair, fi_recv(pair.a.in, got, 100000, NULL, pair.a.other, NULL));
    CHECK_EQUAL(pair_next(&pair, pair.a.rx, NULL).len, 100000);
    pair_close(&pair);
    free(large);
    free(small);
    free(got);
}

static void in_use(void)
{
    struct pair pair;
    struct pair_wish wish = {0};
    struct fid_mr *mr, *twice;
    char memory[64], name[64];
    size_t len = 8;
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_close(&pair.a.tx->fid), -FI_EBUSY);
    CHECK_EQUAL(fi_close(&pair.a.av->fid), -FI_EBUSY);
    CHECK_EQUAL(fi_close(&pair.a.domain->fid), -FI_EBUSY);
    CHECK_EQUAL(fi_close(&pair.a.fabric->fid), -FI_EBUSY);
    CHECK_EQUAL(fi_mr_reg(pair.a.domain, memory, 64, FI_REMOTE_READ, 0, 5, 0, &mr, NULL), 0);
    CHECK_EQUAL(fi_mr_reg(pair.a.domain, memory, 64, FI_REMOTE_READ, 0, 5, 0, &twice, NULL),
                -FI_ENOKEY);
    CHECK_EQUAL(fi_close(&mr->fid), 0);
    CHECK_EQUAL(fi_getname(&pair.a.ep->fid, name, &len), -FI_ETOOSMALL);
    CHECK_EQUAL(len, 64);
    CHECK_EQUAL(fi_send(pair.a.ep, memory, 4, NULL, 17, NULL), -FI_EINVAL); /* no such address */
    memset(name, 'x', sizeof(name));
    fi_addr_t addr;
    CHECK_EQUAL(fi_av_insert(pair.a.av, name, 1, &addr, 0, NULL), 0);
    CHECK(addr == FI_ADDR_NOTAVAIL);
    CHECK_EQUAL(fi_av_remove(pair.a.av, &pair.a.other, 1, 0), 0);
    CHECK_EQUAL(fi_send(pair.a.ep, memory, 4, NULL, pair.a.other, NULL), -FI_EINVAL);
    pair_close(&pair);
}

/* An event queue, opened before anything else, reports each insertion and each refused address. */
static void events(void)
{
    struct pair pair;
    struct pair_wish wish = {0};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_av_attr av_attr = {.flags = FI_EVENT};
    struct fid_fabric *fabric;
    struct fid_eq *eq;
    struct fid_av *av;
    struct fi_info *info;
    struct fi_eq_entry entry;
    struct fi_eq_err_entry error = {.err = 0};
    char names[2][64];
    size_t len = sizeof(names[0]);
    fi_addr_t addrs[2];
    uint32_t type;
    CHECK_EQUAL(pair_find(&wish, &info), 0);
    CHECK_EQUAL(fi_prov_ini()->fabric(info->fabric_attr, &fabric, NULL), 0);
    CHECK_EQUAL(fi_eq_open(fabric, &eq_attr, &eq, NULL), 0);
    CHECK_EQUAL(fi_eq_read(eq, &type, &entry, sizeof(entry), 0), -FI_EAGAIN);
    CHECK_EQUAL(fi_eq_sread(eq, &type, &entry, sizeof(entry), 1, 0), -FI_EAGAIN);
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_getname(&pair.a.ep->fid, names[1], &len), 0);
    memset(names[0], 'x', sizeof(names[0]));
    CHECK_EQUAL(fi_av_open(pair.a.domain, &av_attr, &av, NULL), 0);
    CHECK_EQUAL(fi_av_insert(av, names, 2, addrs, 0, &pair), -FI_ENOEQ);
    CHECK_EQUAL(fi_av_bind(av, &eq->fid, 0), 0);
    CHECK_EQUAL(fi_eq_write(eq, 9, NULL, 0, 0), 0); /* errors come before it */
    CHECK_EQUAL(fi_av_insert(av, names, 2, addrs, 0, &pair), 0);
    CHECK(addrs[0] == FI_ADDR_NOTAVAIL && addrs[1] == 0);
    CHECK_EQUAL(fi_eq_read(eq, &type, &entry, sizeof(entry), 0), -FI_EAVAIL);
    error.err_data = names;
    error.err_data_size = sizeof(names);
    CHECK_EQUAL(fi_eq_readerr(eq, &error, 0), sizeof(error));
    CHECK(error.fid == &av->fid && error.context == &pair);
    CHECK(error.err_data == names && error.err_data_size == 0); /* the caller's buffer, unused */
    CHECK_EQUAL(error.data, 0);
    CHECK_EQUAL(error.err, FI_EINVAL);
    CHECK_EQUAL(fi_eq_readerr(eq, &error, 0), -FI_EAGAIN);
    CHECK_EQUAL(fi_eq_read(eq, &type, &entry, sizeof(entry), 0), 0);
    CHECK_EQUAL(type, 9);
    CHECK_EQUAL(fi_eq_read(eq, &type, &entry, sizeof(entry), 0), sizeof(entry));
    CHECK_EQUAL(type, FI_AV_COMPLETE);
    CHECK(entry.fid == &av->fid && entry.context == &pair);
    CHECK_EQUAL(entry.data, 1);
    CHECK_EQUAL(fi_eq_write(eq, AFI_EQ_ERROR, &entry, sizeof(entry), 0), -FI_EINVAL);
    memset(names[1], 'x', sizeof(names[1]));
    CHECK_EQUAL(fi_eq_write(eq, 9, NULL, 0, 0), 0);
    CHECK_EQUAL(fi_av_insert(av, names, 2, addrs, 0, &pair), 0);
    for (uint64_t i = 0; i < 2; i++) { /* in order */
        CHECK_EQUAL(fi_eq_readerr(eq, &error, 0), sizeof(error));
        CHECK_EQUAL(error.data, i);
    }
    CHECK_EQUAL(fi_eq_read(eq, &type, &entry, sizeof(entry), 0), 0);
    CHECK_EQUAL(fi_eq_read(eq, &type, &entry, sizeof(entry), 0), sizeof(entry));
    CHECK_EQUAL(entry.data, 0);
    CHECK_EQUAL(fi_close(&av->fid), 0);
    CHECK_EQUAL(fi_close(&eq->fid), 0);
    CHECK_EQUAL(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
    pair_close(&pair);
}

/*
 * An event queue stays open as long as it is bound to an object, which can be bound to no other
 * queue.
 */
static void bound_events(void)
{
    struct pair pair;
    struct pair_wish wish = {0};
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av_attr = {.flags = FI_EVENT};
    struct fid_domain *domain;
    struct fid_eq *eq, *other;
    struct fid_av *av;
    struct fid_ep *ep;
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_eq_open(pair.a.fabric, &attr, &eq, NULL), 0);
    CHECK_EQUAL(fi_eq_open(pair.a.fabric, &attr, &other, NULL), 0);
    CHECK_EQUAL(fi_domain(pair.a.fabric, pair.a.info, &domain, NULL), 0);
    CHECK_EQUAL(fi_av_open(domain, &av_attr, &av, NULL), 0);
    CHECK_EQUAL(fi_endpoint(domain, pair.a.info, &ep, NULL), 0);
    CHECK_EQUAL(fi_domain_bind(domain, &eq->fid, 0), 0);
    CHECK_EQUAL(fi_av_bind(av, &eq->fid, FI_SEND), -FI_EBADFLAGS);
    CHECK_EQUAL(fi_av_bind(av, &eq->fid, 0), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &eq->fid, 0), 0);
    CHECK_EQUAL(fi_domain_bind(domain, &other->fid, 0), -FI_EINVAL);
    CHECK_EQUAL(fi_av_bind(av, &other->fid, 0), -FI_EINVAL);
    CHECK_EQUAL(fi_ep_bind(ep, &other->fid, 0), -FI_EINVAL);
    CHECK_EQUAL(fi_close(&other->fid), 0);
    struct fid *users[] = {&ep->fid, &av->fid, &domain->fid};
    for (size_t i = 0; i < COUNT_OF(users); i++) {
        CHECK_EQUAL(fi_close(&eq->fid), -FI_EBUSY);
        CHECK_EQUAL(fi_close(users[i]), 0);
    }
    CHECK_EQUAL(fi_close(&eq->fid), 0);
    pair_close(&pair);
}

/* A fabric stays open as long as an object of it, of any kind, is open. */
static void used_fabric(void)
{
    const struct pair_wish wish = {0};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
    struct fi_wait_attr set_attr = {.wait_obj = FI_WAIT_FD};
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_wait *set;
    CHECK_EQUAL(pair_find(&wish, &info), 0);
    CHECK_EQUAL(fi_prov_ini()->fabric(info->fabric_attr, &fabric, NULL), 0);
    CHECK_EQUAL(fi_domain(fabric, info, &domain, NULL), 0);
    CHECK_EQUAL(fi_eq_open(fabric, &eq_attr, &eq, NULL), 0);
    CHECK_EQUAL(fi_wait_open(fabric, &set_attr, &set), 0);
    struct fid *users[] = {&domain->fid, &eq->fid, &set->fid};
    for (size_t i = 0; i < COUNT_OF(users); i++) {
        CHECK_EQUAL(fi_close(&fabric->fid), -FI_EBUSY);
        CHECK_EQUAL(fi_close(users[i]), 0);
    }
    CHECK_EQUAL(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
}

/* Registrations are reported in the event queue of their domain, if it is bound for that. */
static void registrations(void)
{
    struct pair pair;
    struct pair_wish wish = {0};
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_mr *mr, *twice;
    struct fi_eq_entry entry;
    char memory[64];
    uint32_t type;
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_eq_open(pair.a.fabric, &attr, &eq, NULL), 0);
    CHECK_EQUAL(fi_domain(pair.a.fabric, pair.a.info, &domain, NULL), 0);
    CHECK_EQUAL(fi_domain_bind(domain, &eq->fid, AFI_REG_MR | FI_SEND), -FI_EBADFLAGS);
    CHECK_EQUAL(fi_domain_bind(domain, &eq->fid, AFI_REG_MR), 0);
    CHECK_EQUAL(fi_mr_reg(domain, memory, 64, FI_REMOTE_READ, 0, 5, 0, &mr, &pair), 0);
    CHECK_EQUAL(fi_mr_reg(domain, memory, 64, FI_REMOTE_READ, 0, 5, 0, &twice, NULL), -FI_ENOKEY);
    CHECK_EQUAL(fi_mr_reg(domain, memory, 64, FI_REMOTE_READ, 0, 6, FI_RMA_PMEM, &twice, NULL),
                -FI_EBADFLAGS);
    CHECK_EQUAL(fi_eq_read(eq, &type, &entry, sizeof(entry), 0), sizeof(entry));
    CHECK_EQUAL(type, FI_MR_COMPLETE);
    CHECK(entry.fid == &mr->fid && entry.context == &pair);
    CHECK_EQUAL(fi_eq_read(eq, &type, &entry, sizeof(entry), 0), -FI_EAGAIN);
    CHECK_EQUAL(fi_close(&mr->fid), 0);
    CHECK_EQUAL(fi_close(&domain->fid), 0);
    CHECK_EQUAL(fi_close(&eq->fid), 0);
    pair_close(&pair);
}

/* An error entry is no larger than in the headers that the program was compiled with. */
static void old_programs(void)
{
    for (unsigned minor = 4; minor <= 5; minor++) {
        struct pair pair;
        struct pair_wish wish = {.version = FI_VERSION(1, minor)};
        struct fi_cq_err_entry error;
        struct fi_cq_tagged_entry entry;
        char data[8];
        pair_open(&pair, &wish);
        struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC};
        PAIR_CALL(&pair, fi_trecvmsg(pair.a.ep, &msg, FI_PEEK));
        CHECK_EQUAL(fi_cq_read(pair.a.rx, &entry, 1), -FI_EAVAIL);
        error.err_data = data;
        error.err_data_size = sizeof(data);
        CHECK_EQUAL(fi_cq_readerr(pair.a.rx, &error, 0), 1);
        CHECK_EQUAL(error.err, FI_ENOMSG);
        CHECK(error.err_data == (minor < 5 ? NULL : data));
        CHECK_EQUAL(error.err_data_size, minor < 5 ? sizeof(data) : 0);
        pair_close(&pair);
    }
}

/* The place of a removed address is given to the next one. */
static void places(void)
{
    struct pair pair;
    struct pair_wish wish = {.av_type = FI_AV_TABLE};
    char name[64];
    size_t len = sizeof(name);
    fi_addr_t addr, again[2] = {2, 3};
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_getname(&pair.a.ep->fid, name, &len), 0);
    for (fi_addr_t i = 2; i < 5; i++) {
        CHECK_EQUAL(fi_av_insert(pair.a.av, name, 1, &addr, 0, NULL), 1);
        CHECK_EQUAL(addr, i);
    }
    CHECK_EQUAL(fi_av_remove(pair.a.av, again, 1, FI_MORE), -FI_EBADFLAGS);
    CHECK_EQUAL(fi_av_remove(pair.a.av, again, 2, 0), 0);
    CHECK_EQUAL(fi_av_remove(pair.a.av, again, 1, 0), -FI_EINVAL); /* has been removed */
    CHECK_EQUAL(fi_av_insert(pair.a.av, name, 1, &addr, FI_AV_USER_ID, NULL), -FI_EBADFLAGS);
    for (fi_addr_t i = 2; i < 6; i += i == 3 ? 2 : 1) {
        CHECK_EQUAL(fi_av_insert(pair.a.av, name, 1, &addr, 0, NULL), 1);
        CHECK_EQUAL(addr, i);
    }
    name[3]++; /* another version */
    CHECK_EQUAL(fi_av_insert(pair.a.av, name, 1, &addr, 0, NULL), 0);
    CHECK(addr == FI_ADDR_NOTAVAIL);
    pair_close(&pair);
}

int main(void)
{
    events();
    bound_events();
    used_fabric();
    registrations();
    old_programs();
    selective();
    injected();
    reads();
    options();
    shared();
    shared_transmit();
    counters();
    own_events();
    lookups();
    waits(false);
    waits(true);
    woken();
    gone();
    broken();
    in_use();
    places();
    puts("ok");
    return 0;
}
