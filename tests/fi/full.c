/* Queues of endpoints and completion queues that are full: calls fail until there is room. */
#include "fi/pair.h"
#include "front/fi/fi.h"

#include <stdio.h>

/* As many operations can be posted as the endpoint promises, however fast it can send them. */
static void room(void)
{
    struct pair pair;
    struct pair_wish wish = {.srx = true};
    struct fi_ops_ep *ops;
    uint64_t value = 0, got;
    ssize_t left, err;
    pair_open(&pair, &wish);
    ops = pair.a.ep->ops;
    CHECK_EQUAL(ops->rx_size_left(pair.a.ep), AFI_SIZE);
    CHECK_EQUAL(ops->tx_size_left(pair.a.ep), AFI_SIZE);
    CHECK_EQUAL(ops->tx_size_left(pair.a.srx), -FI_EINVAL);
    do {
        left = ops->tx_size_left(pair.a.ep);
        err = fi_inject(pair.a.ep, &value, sizeof(value), pair.a.other);
        CHECK_EQUAL(err, left > 0 ? 0 : -FI_EAGAIN);
        value += err == 0;
    } while (err == 0);
    CHECK(value >= AFI_SIZE);
    for (uint64_t i = 0; i < value; i++) {
        PAIR_CALL(&pair, fi_recv(pair.b.in, &got, sizeof(got), NULL, FI_ADDR_UNSPEC, NULL));
        (void)pair_next(&pair, pair.b.rx, NULL);
        CHECK_EQUAL(got, i);
    }
    CHECK_EQUAL(ops->tx_size_left(pair.a.ep), AFI_SIZE);
    pair_close(&pair);
}

/* Programs that post until a call fails get there, even if they read no completions. */
static void endless(void)
{
    struct pair pair;
    const struct pair_wish wish = {0};
    struct fi_cq_tagged_entry entry;
    struct iovec iov = {.iov_len = 64};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC};
    char some[64] = "";
    ssize_t err;
    uint64_t receives = 0;
    pair_open(&pair, &wish);
    struct fid_ep *ep = pair.a.ep;
    fi_addr_t self = pair.a.self;
    const struct afi_cq *tx = AQI_OF(pair.a.tx, struct afi_cq, fid);
    const struct afi_cq *rx = AQI_OF(pair.a.rx, struct afi_cq, fid);
    while ((err = fi_trecv(ep, some, 1, NULL, FI_ADDR_UNSPEC, 1, 0, some)) == 0)
        receives++;
    CHECK_EQUAL(err, -FI_EAGAIN);
    CHECK_EQUAL(receives, AFI_FULL);
    CHECK_EQUAL(ep->ops->rx_size_left(ep), 0);
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQUAL(fi_cancel(&ep->fid, some), 0);
        CHECK_EQUAL(pair_error(&pair, pair.a.rx).err, FI_ECANCELED);
    }
    iov.iov_base = some;
    CHECK_EQUAL(fi_recvmsg(ep, &msg, FI_MULTI_RECV), 0); /* gets all messages, which are empty */
    while ((err = fi_send(ep, NULL, 0, NULL, self, NULL)) == 0 || tx->count < AFI_FULL)
        if (err != 0) pair_move(&pair);
    CHECK_EQUAL(err, -FI_EAGAIN);
    while (rx->count < AFI_FULL)
        pair_move(&pair);
    const uint64_t value = 0;
    CHECK_EQUAL(ep->ops->tx_size_left(ep), 0);
    CHECK_EQUAL(fi_sendv(ep, &iov, NULL, 1, self, NULL), -FI_EAGAIN);
    CHECK_EQUAL(fi_tsend(ep, some, 1, NULL, self, 2, NULL), -FI_EAGAIN);
    CHECK_EQUAL(fi_write(ep, some, 1, NULL, self, 0, 1, NULL), -FI_EAGAIN);
    CHECK_EQUAL(fi_atomic(ep, &value, 1, NULL, self, 0, 1, FI_UINT64, FI_SUM, NULL), -FI_EAGAIN);
    CHECK_EQUAL(fi_recv(ep, some, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EAGAIN);
    CHECK_EQUAL(fi_tinject(ep, some, 1, self, 2), 0); /* reports no completion */
    while (tx->count >= AFI_FULL)                     /* sends were under way when it became full */
        CHECK_EQUAL(fi_cq_read(pair.a.tx, &entry, 1), 1);
    CHECK_EQUAL(fi_tsend(ep, some, 1, NULL, self, 2, NULL), 0);
    while (rx->count >= AFI_FULL)
        CHECK_EQUAL(fi_cq_read(pair.a.rx, &entry, 1), 1);
    CHECK_EQUAL(fi_recv(ep, some, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    pair_close(&pair);
}

/* A larger queue than the default. */
static void large(void)
{
    enum { LARGE = 5000 };
    struct fi_info *hints = fi_allocinfo(), *info;
    struct pair pair;
    const struct pair_wish wish = {0};
    struct fid_ep *ep;
    uint64_t value = 0;
    hints->tx_attr->size = hints->rx_attr->size = LARGE;
    CHECK_EQUAL(pair_find_by(FI_VERSION(1, 17), hints, &info), 0);
    CHECK(info->tx_attr->size >= LARGE && info->rx_attr->size >= LARGE);
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_endpoint(pair.a.domain, info, &ep, NULL), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &pair.a.av->fid, 0), 0);
    CHECK_EQUAL(fi_ep_bind(ep, &pair.a.tx->fid, FI_TRANSMIT | FI_RECV), 0);
    CHECK_EQUAL(fi_enable(ep), 0);
    CHECK_EQUAL(ep->ops->tx_size_left(ep), LARGE);
    for (; value < LARGE; value++) /* none is sent, as no call makes progress */
        CHECK_EQUAL(fi_inject(ep, &value, sizeof(value), pair.a.other), 0);
    CHECK_EQUAL(ep->ops->tx_size_left(ep), 0);
    CHECK_EQUAL(fi_inject(ep, &value, sizeof(value), pair.a.other), -FI_EAGAIN);
    CHECK_EQUAL(fi_close(&ep->fid), 0);
    pair_close(&pair);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

int main(void)
{
    room();
    endless();
    large();
    puts("ok");
    return 0;
}
