/* Aliases of endpoints: every call works through them, with their own default flags. */
#include "fi/pair.h"

#include <stdio.h>

enum { KEY = 42, LEN = 8 };

static char memory[LEN];

/* One completion, of a call that has no flags, or none. */
static void expect(struct pair *pair, bool reported, uint64_t flags, const void *context)
{
    if (!reported) {
        pair_none(pair, pair->a.tx);
        return;
    }
    struct fi_cq_tagged_entry entry = pair_next(pair, pair->a.tx, NULL);
    CHECK_EQUAL(entry.flags, flags);
    CHECK(entry.op_context == context);
}

static struct fi_cq_tagged_entry arrived(struct pair *pair)
{
    return pair_next(pair, pair->b.rx, NULL);
}

/* The calls that send messages, through `ep`, whose completions are reported or not. */
static void messages(struct pair *pair, struct fid_ep *ep, bool reported)
{
    char out[LEN] = "message", got[LEN];
    const struct iovec iov = {.iov_base = out, .iov_len = LEN};
    const struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = pair->a.other};
    const struct fi_msg_tagged tagged = {
        .msg_iov = &iov, .iov_count = 1, .addr = pair->a.other, .tag = 5};
    fi_addr_t to = pair->a.other;
    void *context = got;
    uint64_t flags = FI_SEND | FI_MSG;
    for (unsigned i = 0; i < 6; i++)
        PAIR_CALL(pair, fi_recv(pair->b.in, got, LEN, NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(pair, fi_send(ep, out, LEN, NULL, to, context));
    expect(pair, reported, flags, context);
    PAIR_CALL(pair, fi_sendv(ep, &iov, NULL, 1, to, context));
    expect(pair, reported, flags, context);
    PAIR_CALL(pair, fi_senddata(ep, out, LEN, NULL, 9, to, context));
    expect(pair, reported, flags, context);
    PAIR_CALL(pair, fi_sendmsg(ep, &msg, 0)); /* with the flags of the call */
    PAIR_CALL(pair, fi_inject(ep, out, LEN, to));
    PAIR_CALL(pair, fi_injectdata(ep, out, LEN, 9, to));
    for (unsigned i = 0; i < 6; i++) {
        struct fi_cq_tagged_entry entry = arrived(pair);
        CHECK_EQUAL(entry.len, LEN);
        if (i == 2 || i == 5) CHECK_EQUAL(entry.data, 9);
    }
    flags = FI_SEND | FI_TAGGED;
    for (unsigned i = 0; i < 6; i++)
        PAIR_CALL(pair, fi_trecv(pair->b.in, got, LEN, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    PAIR_CALL(pair, fi_tsend(ep, out, LEN, NULL, to, 5, context));
    expect(pair, reported, flags, context);
    PAIR_CALL(pair, fi_tsendv(ep, &iov, NULL, 1, to, 5, context));
    expect(pair, reported, flags, context);
    PAIR_CALL(pair, fi_tsenddata(ep, out, LEN, NULL, 9, to, 5, context));
    expect(pair, reported, flags, context);
    PAIR_CALL(pair, fi_tsendmsg(ep, &tagged, 0));
    PAIR_CALL(pair, fi_tinject(ep, out, LEN, to, 5));
    PAIR_CALL(pair, fi_tinjectdata(ep, out, LEN, 9, to, 5));
    for (unsigned i = 0; i < 6; i++) {
        struct fi_cq_tagged_entry entry = arrived(pair);
        CHECK_EQUAL(entry.tag, 5);
        if (i == 2 || i == 5) CHECK_EQUAL(entry.data, 9);
    }
    pair_none(pair, pair->a.tx);
}

/* The same on remote memory. */
static void remote(struct pair *pair, struct fid_ep *ep, bool reported)
{
    uint64_t value = 7, old = 0;
    const struct iovec iov = {.iov_base = &value, .iov_len = LEN};
    const struct fi_rma_iov there = {.len = LEN, .key = KEY};
    const struct fi_msg_rma msg = {.msg_iov = &iov,
                                   .iov_count = 1,
                                   .addr = pair->a.other,
                                   .rma_iov = &there,
                                   .rma_iov_count = 1};
    fi_addr_t to = pair->a.other;
    void *context = &value;
    uint64_t writes = fi_cntr_read(pair->a.writes);
    PAIR_CALL(pair, fi_write(ep, &value, LEN, NULL, to, 0, KEY, context));
    expect(pair, reported, FI_RMA | FI_WRITE, context);
    PAIR_CALL(pair, fi_writev(ep, &iov, NULL, 1, to, 0, KEY, context));
    expect(pair, reported, FI_RMA | FI_WRITE, context);
    PAIR_CALL(pair, fi_writedata(ep, &value, LEN, NULL, 9, to, 0, KEY, context));
    expect(pair, reported, FI_RMA | FI_WRITE, context);
    CHECK_EQUAL(arrived(pair).data, 9);
    PAIR_CALL(pair, fi_writemsg(ep, &msg, 0));
    PAIR_CALL(pair, fi_inject_write(ep, &value, LEN, to, 0, KEY));
    PAIR_CALL(pair, fi_inject_writedata(ep, &value, LEN, 9, to, 0, KEY));
    CHECK_EQUAL(arrived(pair).data, 9);
    PAIR_CALL(pair, fi_atomic(ep, &value, 1, NULL, to, 0, KEY, FI_UINT64, FI_SUM, context));
    expect(pair, reported, FI_ATOMIC | FI_WRITE, context);
    PAIR_CALL(pair, fi_fetch_atomic(ep, &value, 1, NULL, &old, NULL, to, 0, KEY, FI_UINT64, FI_SUM,
                                    context));
    expect(pair, reported, FI_ATOMIC | FI_READ, context);
    while (fi_cntr_read(pair->a.writes) != writes + 7)
        pair_move(pair);
    PAIR_CALL(pair, fi_read(ep, &value, LEN, NULL, to, 0, KEY, context));
    expect(pair, reported, FI_RMA | FI_READ, context);
    CHECK_EQUAL(old, 14);
    CHECK_EQUAL(value, 21);
    PAIR_CALL(pair, fi_readv(ep, &iov, NULL, 1, to, 0, KEY, context));
    expect(pair, reported, FI_RMA | FI_READ, context);
    PAIR_CALL(pair, fi_readmsg(ep, &msg, 0));
    pair_none(pair, pair->a.tx);
}

static uint64_t flags_of(struct fid_ep *ep, uint64_t way)
{
    CHECK_EQUAL(fi_control(&ep->fid, FI_GETOPSFLAG, &way), 0);
    return way;
}

/* An alias has the flags of its parent, except for those given. */
static void inherited(struct pair *pair, struct fid_ep *alias)
{
    struct fid_ep *second, *none;
    uint64_t set = FI_TRANSMIT | FI_INJECT;
    CHECK_EQUAL(fi_ep_alias(pair->a.ep, &none, 0), -FI_EINVAL);
    CHECK_EQUAL(fi_ep_alias(pair->a.ep, &none, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
    CHECK_EQUAL(fi_ep_alias(pair->a.ep, &none, FI_TRANSMIT | FI_TRIGGER), -FI_EBADFLAGS);
    CHECK_EQUAL(fi_ep_alias(alias, &second, FI_RECV | FI_MULTI_RECV), 0);
    CHECK_EQUAL(flags_of(second, FI_TRANSMIT), FI_COMPLETION);
    CHECK_EQUAL(flags_of(second, FI_RECV), FI_MULTI_RECV);
    CHECK_EQUAL(fi_control(&second->fid, FI_SETOPSFLAG, &set), 0);
    CHECK_EQUAL(flags_of(second, FI_TRANSMIT), FI_INJECT);
    CHECK_EQUAL(flags_of(alias, FI_TRANSMIT), FI_COMPLETION);
    CHECK_EQUAL(flags_of(pair->a.ep, FI_TRANSMIT), 0);
    set = FI_TRANSMIT | FI_RECV;
    CHECK_EQUAL(fi_control(&second->fid, FI_GETOPSFLAG, &set), -FI_EINVAL);
    CHECK_EQUAL(fi_close(&alias->fid), 0);
    CHECK_EQUAL(fi_close(&pair->a.ep->fid), -FI_EBUSY);
    CHECK_EQUAL(fi_close(&second->fid), 0);
}

/* The endpoint's name, options and receives. */
static void receives(struct pair *pair)
{
    struct fid_ep *alias;
    char names[2][64], room[256], out[LEN] = "to many";
    size_t lens[2] = {sizeof(names[0]), sizeof(names[1])}, least = 200, len = sizeof(least);
    const struct iovec iov = {.iov_base = room, .iov_len = LEN};
    CHECK_EQUAL(fi_ep_alias(pair->b.ep, &alias, FI_RECV | FI_MULTI_RECV), 0);
    CHECK_EQUAL(fi_enable(alias), 0);
    CHECK_EQUAL(fi_getname(&alias->fid, names[0], &lens[0]), 0);
    CHECK_EQUAL(fi_getname(&pair->b.ep->fid, names[1], &lens[1]), 0);
    CHECK(lens[0] == lens[1] && memcmp(names[0], names[1], lens[0]) == 0);
    CHECK_EQUAL(fi_setname(&alias->fid, names[0], lens[0]), -FI_EINVAL);
    CHECK_EQUAL(fi_ep_bind(alias, &pair->b.tx->fid, FI_TRANSMIT), -FI_EOPBADSTATE);
    CHECK_EQUAL(fi_setopt(&alias->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, len), 0);
    least = 0;
    CHECK_EQUAL(fi_getopt(&alias->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &len), 0);
    CHECK_EQUAL(least, 200);
    CHECK(alias->ops->tx_size_left(alias) > 0 && alias->ops->rx_size_left(alias) > 0);
    CHECK_EQUAL(fi_recv(alias, room, sizeof(room), NULL, FI_ADDR_UNSPEC, room), 0);
    PAIR_CALL(pair, fi_inject(pair->a.ep, out, LEN, pair->a.other));
    CHECK_EQUAL(arrived(pair).flags, FI_RECV | FI_MSG);
    CHECK_EQUAL(fi_cancel(&alias->fid, room), 0);
    CHECK_EQUAL(pair_error(pair, pair->b.rx).err, FI_ECANCELED);
    CHECK_EQUAL(fi_trecv(alias, room, LEN, NULL, FI_ADDR_UNSPEC, 1, 6, NULL), 0);
    CHECK_EQUAL(fi_trecvv(alias, &iov, NULL, 1, FI_ADDR_UNSPEC, 9, 0, NULL), 0);
    PAIR_CALL(pair, fi_tinject(pair->a.ep, out, LEN, pair->a.other, 9));
    PAIR_CALL(pair, fi_tinject(pair->a.ep, out, LEN, pair->a.other, 5));
    CHECK_EQUAL(arrived(pair).tag, 9);
    CHECK_EQUAL(arrived(pair).tag, 5);
    CHECK_EQUAL(fi_close(&alias->fid), 0);
}

int main(void)
{
    const struct pair_wish wish = {.cq_flags = FI_SELECTIVE_COMPLETION};
    struct pair pair;
    struct fid_ep *alias;
    struct fid_mr *mr;
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_mr_reg(pair.b.domain, memory, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0,
                          &mr, NULL),
                0);
    CHECK_EQUAL(fi_ep_alias(pair.a.ep, &alias, FI_TRANSMIT | FI_COMPLETION), 0);
    messages(&pair, pair.a.ep, false);
    messages(&pair, alias, true);
    remote(&pair, pair.a.ep, false);
    remote(&pair, alias, true);
    receives(&pair);
    inherited(&pair, alias);
    CHECK_EQUAL(fi_close(&mr->fid), 0);
    pair_close(&pair);
    puts("ok");
    return 0;
}
