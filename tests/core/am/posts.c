/*
 * The number of posts per message, put and get, of completions reported, and of messages received,
 * by the counters of rank 0, the only rank that acts. Over ibv only.
 */
#include "../support.h"

#include <string.h>

enum { TAKE = 100, MANY = 960, EVERY = 16, LARGE = 128 << 10, MEMORY = 4 << 20 };
enum { FEW = 4 }; /* tolerance, for barriers and their credits */

struct posts {
    uint64_t all, signaled, receive;
};

static _Atomic uint32_t taken;

static void on_message(aq_am *am)
{
    (void)am;
    taken++;
}

static struct posts posts_since(struct posts before)
{
    return (struct posts){.all = job_counter("posts") - before.all,
                          .signaled = job_counter("posts_signaled") - before.signaled,
                          .receive = job_counter("posts_receive") - before.receive};
}

/*
 * The posts of `act`, which sends `messages`. All other ranks are silent meanwhile.
 */
static struct posts posts_of(void (*act)(void), uint32_t messages)
{
    struct posts before = {0};
    taken = 0;
    job_barrier();
    if (job.self == 0) {
        before = posts_since(before);
        act();
        before = posts_since(before);
    } else {
        job_await(&taken, messages);
    }
    job_barrier();
    return before;
}

static void send_shorts(void)
{
    for (unsigned i = 0; i < MANY; i++)
        CHECK_OK(aq_am_short(job.team, 1, TAKE, AQ_NO_ARGS, 0));
}

static void send_longs(void)
{
    for (unsigned i = 0; i < MANY; i++)
        CHECK_OK(aq_am_long(job.team, 1, TAKE, job.base, 2048, job_at(1, 0), AQ_NO_ARGS, 0, NULL));
}

static void put_and_get(void)
{
    for (unsigned i = 0; i < MANY; i++) {
        CHECK_OK(aq_put(job.team, 1, job_at(1, 0), job.base, 8, 0));
        CHECK_OK(aq_get(job.team, 1, job.base, job_at(1, 0), LARGE, 0));
    }
}

/* One post per message. Credits return in messages of the other side. */
static void check_messages(struct posts posts)
{
    CHECK(posts.all >= MANY && posts.all <= MANY + FEW);
    CHECK(posts.signaled >= MANY / EVERY - FEW && posts.signaled <= MANY / EVERY + FEW);
    CHECK(posts.receive <= MANY + FEW);
}

/* `apart`: AQ_AM_PACKED_LONG is set such that Longs are put and their headers sent. */
int main(int argc, char **argv)
{
    bool apart = argc > 1 && strcmp(argv[1], "apart") == 0;
    aq_handler_entry table[] = {{TAKE, 0, AQ_AM_REQUEST, on_message, NULL, "take"}};
    job_open(AQ_THREAD_SINGLE, LARGE);
    job_handlers(table, COUNT_OF(table));
    CHECK_EQUAL(job.size, 2);
    struct posts shorts = posts_of(send_shorts, MANY), longs = posts_of(send_longs, MANY);
    struct posts transfers = posts_of(put_and_get, 0);
    if (job.self == 0) {
        check_messages(shorts);
        if (apart)
            CHECK(longs.all >= 2 * MANY && longs.all <= 2 * MANY + FEW);
        else
            check_messages(longs); /* each packed with its payload */
        CHECK(transfers.all >= 2 * MANY && transfers.all <= 2 * MANY + FEW);
        CHECK(transfers.signaled >= 2 * MANY && transfers.signaled <= 2 * MANY + FEW);
        CHECK(transfers.receive <= FEW);
        CHECK_EQUAL(job_counter("linked"), 1);
        CHECK(job_counter("linked_bytes") > 0 && job_counter("linked_bytes") <= MEMORY);
    }
    job_close();
    return 0;
}
