/*
 * Messages and tagged messages, by direct calls of libfabric's interface: matching, order, sizes,
 * truncation, peeks, claims, cancels, multi-receive buffers, completion levels.
 */
#include "fi/pair.h"

#include <stdio.h>

static void sizes(struct pair *pair)
{
    static const size_t lens[] = {0,    1,    8,     63,    4096,  8000,
                                  8192, 8300, 65000, 65536, 70000, 10000001};
    for (size_t i = 0; i < COUNT_OF(lens); i++) {
        size_t len = lens[i];
        char *from = malloc(len + 1), *to = calloc(1, len + 1);
        pattern_fill(from, len, (unsigned)i);
        for (int early = 0; early < 2; early++) { /* the receive is posted before the send or not */
            memset(to, 0, len);
            if (early == 0)
                PAIR_CALL(pair, fi_trecv(pair->b.in, to, len, NULL, FI_ADDR_UNSPEC, 7, 0, to));
            PAIR_CALL(pair, fi_tsend(pair->a.ep, from, len, NULL, pair->a.other, 7, from));
            for (int k = 0; early == 1 && k < 100; k++)
                pair_move(pair);
            if (early == 1)
                PAIR_CALL(pair, fi_trecv(pair->b.in, to, len, NULL, FI_ADDR_UNSPEC, 7, 0, to));
            fi_addr_t source;
            struct fi_cq_tagged_entry entry = pair_next(pair, pair->b.rx, &source);
            CHECK(entry.op_context == to);
            CHECK_EQUAL(entry.len, len);
            CHECK_EQUAL(entry.tag, 7);
            CHECK_EQUAL(entry.flags & (FI_RECV | FI_TAGGED), FI_RECV | FI_TAGGED);
            CHECK_EQUAL(source, pair->b.other);
            pattern_check(to, len, (unsigned)i);
            entry = pair_next(pair, pair->a.tx, NULL);
            CHECK(entry.op_context == from);
            CHECK_EQUAL(entry.flags & (FI_SEND | FI_TAGGED), FI_SEND | FI_TAGGED);
        }
        free(from);
        free(to);
    }
}

/* Messages match in the order in which they were sent, and receives in that of posting. */
static void order(struct pair *pair)
{
    enum { COUNT = 300 };
    uint64_t sent[COUNT], got[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        sent[i] = i;
        PAIR_CALL(pair, fi_tsend(pair->a.ep, &sent[i], sizeof(sent[i]), NULL, pair->a.other, i % 3,
                                 NULL));
        (void)pair_next(pair, pair->a.tx, NULL);
    }
    for (uint64_t i = 0; i < COUNT; i += 3) /* all with tag 1, then any */
        PAIR_CALL(pair, fi_trecv(pair->b.in, &got[i / 3], 8, NULL, pair->b.other, 1, 0, NULL));
    for (uint64_t i = COUNT / 3; i < COUNT; i++)
        PAIR_CALL(pair, fi_trecv(pair->b.in, &got[i], 8, NULL, FI_ADDR_UNSPEC, 0, 3, NULL));
    for (uint64_t i = 0; i < COUNT; i++)
        (void)pair_next(pair, pair->b.rx, NULL);
    for (uint64_t i = 0; i < COUNT / 3; i++)
        CHECK_EQUAL(got[i], 3 * i + 1);
    for (uint64_t i = COUNT / 3, next = 0; i < COUNT; i++, next++) {
        if (next % 3 == 1) next++;
        CHECK_EQUAL(got[i], next);
    }
}

/* Ten thousand receives of different kinds; each message matches its own. */
static void many_receives(struct pair *pair)
{
    enum { COUNT = 10000 };
    uint32_t *got = calloc(COUNT, sizeof(*got));
    for (uint32_t i = 0; i < COUNT; i++)
        PAIR_CALL(pair, fi_trecv(pair->b.in, &got[i], 4, NULL,
                                 i % 2 != 0 ? pair->b.other : FI_ADDR_UNSPEC, (uint64_t)i << 8,
                                 i % 4 < 2 ? 0xff : 0, &got[i]));
    for (uint32_t i = COUNT; i-- > 0;) {
        uint64_t tag = (uint64_t)i << 8 | (i % 4 < 2 ? 0x5a : 0);
        PAIR_CALL(pair, fi_tinject(pair->a.ep, &i, 4, pair->a.other, tag));
        struct fi_cq_tagged_entry entry = pair_next(pair, pair->b.rx, NULL);
        CHECK(entry.op_context == &got[i]);
        CHECK_EQUAL(got[i], i);
        CHECK_EQUAL(entry.tag, tag);
    }
    free(got);
}

static void data_and_pieces(struct pair *pair)
{
    char from[300], to[300];
    struct iovec out[8], in[8];
    struct fi_msg_tagged msg;
    for (size_t i = 0; i < 8; i++) {
        out[i] = (struct iovec){.iov_base = from + 30 * i, .iov_len = 30};
        in[i] = (struct iovec){.iov_base = to + 35 * i, .iov_len = i < 7 ? 35 : 5};
    }
    pattern_fill(from, 240, 3);
    PAIR_CALL(pair, fi_trecvv(pair->b.in, in, NULL, 8, FI_ADDR_UNSPEC, 5, 0, NULL));
    msg = (struct fi_msg_tagged){.msg_iov = out,
                                 .iov_count = 8,
                                 .addr = pair->a.other,
                                 .tag = 5,
                                 .data = UINT64_C(0x1122334455667788)};
    PAIR_CALL(pair, fi_tsendmsg(pair->a.ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA));
    struct fi_cq_tagged_entry entry = pair_next(pair, pair->b.rx, NULL);
    CHECK((entry.flags & FI_REMOTE_CQ_DATA) != 0);
    CHECK(entry.data == msg.data);
    CHECK_EQUAL(entry.len, 240);
    pattern_check(to, 240, 3);
    (void)pair_next(pair, pair->a.tx, NULL);
    /* Likewise, with more than fits into one message. */
    char *long_from = malloc(8 * 10000), *long_to = calloc(8, 10000);
    for (size_t i = 0; i < 8; i++) {
        out[i] = (struct iovec){.iov_base = long_from + 10000 * i, .iov_len = 10000};
        in[i] = (struct iovec){.iov_base = long_to + 11000 * i, .iov_len = i < 7 ? 11000 : 3000};
    }
    pattern_fill(long_from, 80000, 4);
    PAIR_CALL(pair, fi_trecvv(pair->b.in, in, NULL, 8, FI_ADDR_UNSPEC, 5, 0, NULL));
    PAIR_CALL(pair, fi_tsendmsg(pair->a.ep, &msg, FI_COMPLETION));
    entry = pair_next(pair, pair->b.rx, NULL);
    CHECK_EQUAL(entry.len, 80000);
    CHECK_EQUAL(entry.flags & FI_REMOTE_CQ_DATA, 0);
    pattern_check(long_to, 80000, 4);
    (void)pair_next(pair, pair->a.tx, NULL);
    free(long_from);
    free(long_to);
}

static void truncation(struct pair *pair)
{
    static const size_t lens[] = {100, 100000};
    char *from = malloc(100000), *to = malloc(100000);
    for (size_t i = 0; i < 2; i++) {
        pattern_fill(from, lens[i], 9);
        memset(to, 0, lens[i]);
        PAIR_CALL(pair, fi_trecv(pair->b.in, to, 40, NULL, FI_ADDR_UNSPEC, 1, 0, to));
        PAIR_CALL(pair, fi_tsend(pair->a.ep, from, lens[i], NULL, pair->a.other, 1, NULL));
        struct fi_cq_err_entry error = pair_error(pair, pair->b.rx);
        CHECK_EQUAL(error.err, FI_ETRUNC);
        CHECK_EQUAL(error.len, 40);
        CHECK_EQUAL(error.olen, lens[i] - 40);
        CHECK(error.op_context == to);
        pattern_check(to, 40, 9);
        CHECK_EQUAL(to[40], 0);
        (void)pair_next(pair, pair->a.tx, NULL);
    }
    free(from);
    free(to);
}

/* Peek until a message has arrived. Returns its length. */
static size_t peek_until(struct pair *pair, struct fi_msg_tagged *msg, uint64_t flags)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    uint64_t until = pair_now() + UINT64_C(30000000000);
    for (;;) {
        ssize_t got;
        PAIR_CALL(pair, fi_trecvmsg(pair->b.in, msg, FI_PEEK | flags));
        while ((got = fi_cq_read(pair->b.rx, &entry, 1)) == -FI_EAGAIN)
            CHECK(pair_now() < until);
        if (got == 1) return entry.len;
        CHECK_EQUAL(got, -FI_EAVAIL);
        CHECK_EQUAL(fi_cq_readerr(pair->b.rx, &error, 0), 1);
        CHECK_EQUAL(error.err, FI_ENOMSG);
        CHECK(pair_now() < until);
    }
}

static void peek(struct pair *pair)
{
    static const size_t lens[] = {10, 90000};
    char *from = malloc(90000), *to = malloc(90000);
    struct fi_context context;
    for (size_t i = 0; i < 2; i++) {
        struct iovec iov = {.iov_base = to, .iov_len = 90000};
        struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = 3, .context = &context};
        PAIR_CALL(pair, fi_trecvmsg(pair->b.in, &msg, FI_PEEK));
        CHECK_EQUAL(pair_error(pair, pair->b.rx).err, FI_ENOMSG);
        pattern_fill(from, lens[i], 2);
        for (unsigned n = 0; n < 3; n++)
            PAIR_CALL(pair, fi_tsend(pair->a.ep, from, lens[i], NULL, pair->a.other, 3, NULL));
        CHECK_EQUAL(peek_until(pair, &msg, 0), lens[i]); /* it stays queued */
        PAIR_CALL(pair, fi_trecvmsg(pair->b.in, &msg, FI_PEEK | FI_CLAIM));
        CHECK_EQUAL(pair_next(pair, pair->b.rx, NULL).len, lens[i]);
        PAIR_CALL(pair, fi_trecv(pair->b.in, to, 90000, NULL, FI_ADDR_UNSPEC, 3, 0, NULL));
        CHECK_EQUAL(pair_next(pair, pair->b.rx, NULL).len, lens[i]); /* the second */
        msg.msg_iov = &iov;
        msg.iov_count = 1;
        memset(to, 0, lens[i]);
        PAIR_CALL(pair, fi_trecvmsg(pair->b.in, &msg, FI_CLAIM));
        CHECK(pair_next(pair, pair->b.rx, NULL).op_context == &context);
        pattern_check(to, lens[i], 2);
        msg.msg_iov = NULL;
        msg.iov_count = 0;
        (void)peek_until(pair, &msg, FI_DISCARD); /* the third */
        PAIR_CALL(pair, fi_trecvmsg(pair->b.in, &msg, FI_PEEK));
        CHECK_EQUAL(pair_error(pair, pair->b.rx).err, FI_ENOMSG);
        for (unsigned n = 0; n < 3; n++)
            (void)pair_next(pair, pair->a.tx, NULL);
    }
    free(from);
    free(to);
}

static void cancel(struct pair *pair)
{
    int value = 0, other = 5;
    PAIR_CALL(pair, fi_trecv(pair->b.in, &value, 4, NULL, FI_ADDR_UNSPEC, 11, 0, &value));
    CHECK_EQUAL(fi_cancel(&pair->b.in->fid, &value), 0);
    struct fi_cq_err_entry error = pair_error(pair, pair->b.rx);
    CHECK_EQUAL(error.err, FI_ECANCELED);
    CHECK(error.op_context == &value);
    CHECK_EQUAL(fi_cancel(&pair->b.in->fid, &value), -FI_ENOENT);
    PAIR_CALL(pair, fi_tinject(pair->a.ep, &other, 4, pair->a.other, 11));
    PAIR_CALL(pair, fi_trecv(pair->b.in, &value, 4, NULL, FI_ADDR_UNSPEC, 11, 0, NULL));
    (void)pair_next(pair, pair->b.rx, NULL);
    CHECK_EQUAL(value, 5);
}

/* Untagged messages share a buffer, including one that has to be fetched. */
static void multi_receive(struct pair *pair)
{
    enum { ROOM = 90000, LARGE = 80000 };
    char *room = malloc(ROOM), from[200], *large = malloc(LARGE);
    size_t least = 1000, used = 0, len = sizeof(least);
    struct iovec iov = {.iov_base = room, .iov_len = ROOM};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = room};
    CHECK_EQUAL(
        fi_setopt(&pair->b.in->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)),
        0);
    CHECK_EQUAL(fi_getopt(&pair->b.in->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &len),
                0);
    CHECK_EQUAL(least, 1000);
    PAIR_CALL(pair, fi_recvmsg(pair->b.in, &msg, FI_MULTI_RECV | FI_COMPLETION));
    pattern_fill(large, LARGE, 77);
    for (unsigned i = 0; used + least <= ROOM; i++) {
        bool is_large = i == 3;
        size_t n = is_large ? LARGE : 100 + i;
        pattern_fill(from, sizeof(from), i);
        PAIR_CALL(pair, fi_send(pair->a.ep, is_large ? large : from, n, NULL, pair->a.other, NULL));
        struct fi_cq_tagged_entry entry = pair_next(pair, pair->b.rx, NULL);
        (void)pair_next(pair, pair->a.tx, NULL);
        CHECK(entry.op_context == room);
        CHECK(entry.buf == room + used);
        CHECK_EQUAL(entry.len, n);
        pattern_check(entry.buf, n, is_large ? 77 : i);
        used += n;
        CHECK_EQUAL((entry.flags & FI_MULTI_RECV) != 0, used + least > ROOM);
    }
    PAIR_CALL(pair, fi_inject(pair->a.ep, from, 10, pair->a.other));
    pair_none(pair, pair->b.rx); /* the buffer has been released */
    PAIR_CALL(pair, fi_recv(pair->b.in, room, 10, NULL, FI_ADDR_UNSPEC, NULL));
    (void)pair_next(pair, pair->b.rx, NULL);
    free(room);
    free(large);
}

/* Only the level that promises a match is reported after a receive has been posted; all others of a
 * short message before. */
static void levels(struct pair *pair)
{
    static const uint64_t levels[] = {FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
                                      FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE};
    for (size_t i = 0; i < COUNT_OF(levels); i++) {
        int from = 3, to = 0;
        struct iovec iov = {.iov_base = &from, .iov_len = sizeof(from)};
        struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = pair->a.other};
        PAIR_CALL(pair, fi_sendmsg(pair->a.ep, &msg, FI_COMPLETION | levels[i]));
        bool matches = levels[i] == FI_MATCH_COMPLETE;
        if (matches)
            pair_none(pair, pair->a.tx);
        else
            (void)pair_next(pair, pair->a.tx, NULL);
        PAIR_CALL(pair, fi_recv(pair->b.in, &to, 4, NULL, pair->b.other, NULL));
        (void)pair_next(pair, pair->b.rx, NULL);
        if (matches) (void)pair_next(pair, pair->a.tx, NULL);
        CHECK_EQUAL(to, 3);
    }
}

/* An endpoint can send to itself, in order with everything else that it sends. */
static void to_itself(struct pair *pair)
{
    char *from = malloc(100000), *to = calloc(1, 100000);
    static const size_t lens[] = {5, 100000};
    for (size_t i = 0; i < 2; i++) {
        pattern_fill(from, lens[i], 1);
        PAIR_CALL(pair, fi_tsend(pair->b.ep, from, lens[i], NULL, pair->b.self, 4, NULL));
        PAIR_CALL(pair, fi_trecv(pair->b.in, to, lens[i], NULL, pair->b.self, 4, 0, NULL));
        fi_addr_t source;
        (void)pair_next(pair, pair->b.rx, &source);
        CHECK_EQUAL(source, pair->b.self);
        (void)pair_next(pair, pair->b.tx, NULL);
        pattern_check(to, lens[i], 1);
    }
    free(from);
    free(to);
}

/* A message can be received although many that were sent before it have no receive yet. */
static void received_first(struct pair *pair, struct side *from, fi_addr_t to)
{
    enum { SHORT = 1600, LONG = 400, LEN = 100000 };
    char *out = malloc(LEN), *in = calloc(1, LEN);
    pattern_fill(out, LEN, 3);
    for (unsigned i = 0; i < SHORT; i++)
        PAIR_CALL(pair, fi_tinject(from->ep, &i, sizeof(i), to, 1));
    for (unsigned i = 0; i < LONG; i++)
        PAIR_CALL(pair, fi_tsend(from->ep, out, i % 2 == 0 ? LEN : 9000, NULL, to, 2, NULL));
    PAIR_CALL(pair, fi_tinject(from->ep, out, 1, to, 3));
    PAIR_CALL(pair, fi_trecv(pair->b.in, in, 1, NULL, FI_ADDR_UNSPEC, 3, 0, NULL));
    CHECK_EQUAL(pair_next(pair, pair->b.rx, NULL).tag, 3);
    for (unsigned i = 0, number; i < SHORT; i++) {
        PAIR_CALL(pair, fi_trecv(pair->b.in, &number, 4, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        CHECK_EQUAL(pair_next(pair, pair->b.rx, NULL).tag, 1);
        CHECK_EQUAL(number, i);
    }
    for (unsigned i = 0; i < LONG; i++) {
        PAIR_CALL(pair, fi_trecv(pair->b.in, in, LEN, NULL, FI_ADDR_UNSPEC, 2, 0, NULL));
        CHECK_EQUAL(pair_next(pair, pair->b.rx, NULL).len, i % 2 == 0 ? LEN : 9000);
        pattern_check(in, i % 2 == 0 ? LEN : 9000, 3);
        (void)pair_next(pair, from->tx, NULL);
    }
    free(out);
    free(in);
}

/* Thousands of messages without a receive: all arrive, although the memory for them is bounded. */
static void flood(struct pair *pair)
{
    enum { COUNT = 5000, LEN = 3000 };
    char *from = malloc(LEN), *to = malloc(LEN);
    unsigned sent = 0, got = 0, done = 0;
    struct fi_cq_tagged_entry entry;
    while (got < COUNT) {
        memset(from, 0, LEN);
        memcpy(from, &sent, sizeof(sent));
        if (sent < COUNT && fi_tinject(pair->a.ep, from, LEN, pair->a.other, 1) == 0) {
            sent++;
            continue;
        }
        pair_move(pair);
        PAIR_CALL(pair, fi_trecv(pair->b.in, to, LEN, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        (void)pair_next(pair, pair->b.rx, NULL);
        unsigned number;
        memcpy(&number, to, sizeof(number));
        CHECK_EQUAL(number, got);
        got++;
    }
    while (fi_cq_read(pair->a.tx, &entry, 1) == 1)
        done++;
    CHECK_EQUAL(done, 0); /* injected messages report no completion */
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    struct pair pair;
    struct pair_wish wish = {.srx = argc > 1 && strcmp(argv[1], "srx") == 0,
                             .automatic = argc > 1 && strcmp(argv[1], "auto") == 0,
                             .av_type = argc > 1 ? FI_AV_TABLE : FI_AV_UNSPEC};
    pair_open(&pair, &wish);
    sizes(&pair);
    order(&pair);
    many_receives(&pair);
    data_and_pieces(&pair);
    truncation(&pair);
    peek(&pair);
    cancel(&pair);
    multi_receive(&pair);
    levels(&pair);
    to_itself(&pair);
    received_first(&pair, &pair.a, pair.a.other);
    received_first(&pair, &pair.b, pair.b.self);
    flood(&pair);
    pair_close(&pair);
    puts("ok");
    return 0;
}
