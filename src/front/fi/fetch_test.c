/*
 * Tests fetch.c: an endpoint that is closed while it fetches messages from a process that is
 * stopped, or while the next one arrives. In the latter case both endpoints are in one process, and
 * transfer as if each had its own.
 */
#include "front/fi/sides_test.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { LEN = 4 << 20, SHORTER = 80 << 10, MESSAGES = 20, MOST_S = 15 };

static unsigned char sent[LEN], got[2][LEN];

static pid_t child;
static int to_child[2], to_parent[2];

static void name_write(int fd, const struct side *side)
{
    const struct afi_name name = side_name(side);
    assert_int_equal(write(fd, &name, sizeof(name)), sizeof(name));
}

static void name_read(int fd, struct side *side)
{
    struct afi_name name;
    assert_int_equal(read(fd, &name, sizeof(name)), sizeof(name));
    assert_int_equal(fi_av_insert(side->av, &name, 1, &side->other, 0, NULL), 1);
}

/* Connect by a short message; send the others when asked to, and stop. */
static void child_run(void)
{
    char go;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also if the test fails */
    world_open();
    side_open(&from);
    name_write(to_parent[1], &from);
    name_read(to_child[0], &from);
    assert_int_equal(fi_send(from.ep, sent, 1, NULL, from.other, NULL), 0);
    side_await(&from);
    assert_int_equal(read(to_child[0], &go, 1), 1);
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(fi_send(from.ep, sent, SHORTER, NULL, from.other, NULL), 0);
    raise(SIGSTOP);
}

static int open_world(void **state)
{
    assert_int_equal(setenv("AQ_SHM_CMA", "no", 1), 0); /* a transfer takes several polls */
    assert_true(pipe(to_child) == 0 && pipe(to_parent) == 0);
    child = fork();
    if (child == 0) {
        child_run();
        _exit(1);
    }
    sides_open();
    return 0;
}

static unsigned fetches(void)
{
    unsigned n = 0;
    for (struct aqi_node *at = afi.fetches.next; at != &afi.fetches; at = at->next)
        n++;
    return n;
}

static void test_closing_while_the_peer_is_stopped(void **state)
{
    struct side side;
    int status;
    side_open(&side);
    name_write(to_child[1], &side);
    name_read(to_parent[0], &side);
    for (int i = 0; i < 1 + MESSAGES; i++)
        assert_int_equal(fi_recv(side.ep, got[0], LEN, NULL, side.other, NULL), 0);
    side_await(&side);
    assert_int_equal(write(to_child[1], "g", 1), 1);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    for (uint64_t until = afi_deadline(TIMEOUT_MS); fetches() != MESSAGES;) {
        assert_true(aqi_now_ns() < until);
        afi_progress();
    }
    uint64_t most = afi_deadline(MOST_S * 1000);
    assert_int_equal(fi_close(&side.ep->fid), 0);
    assert_true(aqi_now_ns() < most);
    assert_int_equal(fetches(), 0);
    assert_int_equal(fi_close(&side.cq->fid), 0);
    assert_int_equal(fi_close(&side.av->fid), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_closing_while_messages_arrive(void **state)
{
    for (int i = 0; i < 2; i++) /* one to connect */
        assert_int_equal(fi_recv(to.ep, got[i], LEN, NULL, to.other, NULL), 0);
    assert_int_equal(fi_send(from.ep, sent, 1, NULL, from.other, NULL), 0);
    side_await(&from);
    side_await(&to);
    assert_int_equal(fi_recv(to.ep, got[0], LEN, NULL, to.other, NULL), 0);
    struct afi_peer *peer = side_peer(&to);
    assert_non_null(peer);
    peer->local = false;
    assert_int_equal(fi_send(from.ep, sent, LEN, NULL, from.other, NULL), 0);
    for (uint64_t until = afi_deadline(TIMEOUT_MS); aqi_list_is_empty(&afi.fetches);) {
        assert_true(aqi_now_ns() < until);
        afi_progress();
    }
    assert_int_equal(fi_send(from.ep, sent, LEN, NULL, from.other, NULL), 0);
    assert_int_equal(fi_close(&to.ep->fid), 0);
    assert_true(aqi_list_is_empty(&afi.fetches));
    assert_int_equal(fi_close(&from.ep->fid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closing_while_the_peer_is_stopped),
        cmocka_unit_test(test_closing_while_messages_arrive),
    };
    return cmocka_run_group_tests(tests, open_world, NULL);
}
