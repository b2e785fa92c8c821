/*
 * usage: death [exit|fork|orphan|heir|minute]
 *
 * Two processes: the other one is stopped for a while, which delays messages but loses none, and is
 * then killed; from then on, operations to it end with an error, and the endpoint remains usable.
 * By argument, it exits without closing anything; or both fork, and the children exit; or a program
 * that it has started (orphan) or a forked child (heir) outlives it; or it is stopped for a minute.
 */
#include "fi/pair.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 1 << 20 };

static struct pair pair; /* `b` is in the other process */

static void meet(int fd)
{
    char mine[64], other[64];
    struct pair_wish wish = {0};
    size_t len = sizeof(mine);
    side_open(&pair.a, &wish);
    CHECK_EQUAL(fi_getname(&pair.a.ep->fid, mine, &len), 0);
    CHECK_EQUAL(write(fd, mine, len), (ssize_t)len);
    CHECK_EQUAL(recv(fd, other, sizeof(other), MSG_WAITALL), (ssize_t)sizeof(other));
    side_know(&pair.a, other, sizeof(other));
}

static const char *mode;

/* Fork a child that exits as programs do, running the exit handlers of all libraries. */
static void fork_and_exit(void)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) exit(0);
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
}

static bool mode_is(const char *what)
{
    return strcmp(mode, what) == 0;
}

/*
 * Start a child that lives until the other end of `fd` is closed: another program or, as an heir,
 * this one.
 */
static void fork_and_stay(int fd)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child != 0) return;
    CHECK_EQUAL(dup2(fd, 0), 0);
    char byte;
    while (mode_is("heir"))
        if (read(0, &byte, 1) <= 0) _exit(0);
    execlp("cat", "cat", NULL);
    _exit(1);
}

/* Send back the first bytes of each message; on request, exit without closing anything. */
static void serve(int fd)
{
    char *bytes = malloc(LARGE), byte;
    meet(fd);
    for (unsigned i = 0;; i++) {
        if (i == 60 && mode_is("fork")) fork_and_exit();
        if (i == 20 && (mode_is("orphan") || mode_is("heir"))) fork_and_stay(fd);
        PAIR_CALL(&pair, fi_recv(pair.a.ep, bytes, LARGE, NULL, FI_ADDR_UNSPEC, NULL));
        struct fi_cq_tagged_entry entry;
        while (fi_cq_read(pair.a.rx, &entry, 1) != 1)
            if (recv(fd, &byte, 1, MSG_DONTWAIT) >= 0) exit(0);
        PAIR_CALL(&pair, fi_inject(pair.a.ep, bytes, 8, pair.a.other));
    }
}

static void ask(char *bytes, size_t len)
{
    char answer[8];
    PAIR_CALL(&pair, fi_recv(pair.a.ep, answer, sizeof(answer), NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(&pair, fi_send(pair.a.ep, bytes, len, NULL, pair.a.other, NULL));
    (void)pair_next(&pair, pair.a.rx, NULL);
    (void)pair_next(&pair, pair.a.tx, NULL);
    CHECK(memcmp(answer, bytes, sizeof(answer)) == 0);
}

static void ask_all(char *bytes)
{
    for (unsigned i = 0; i < 50; i++)
        ask(bytes, i % 2 == 0 ? 8 : LARGE);
}

static void stop(pid_t child)
{
    int status;
    CHECK_EQUAL(kill(child, SIGSTOP), 0);
    CHECK_EQUAL(waitpid(child, &status, WUNTRACED), child);
}

static void stop_for_a_while(pid_t child, char *bytes)
{
    char answer[8];
    uint64_t until = pair_now() + UINT64_C(62000000000);
    stop(child);
    PAIR_CALL(&pair, fi_recv(pair.a.ep, answer, sizeof(answer), NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(&pair, fi_send(pair.a.ep, bytes, LARGE, NULL, pair.a.other, NULL));
    do
        pair_none(&pair, pair.a.tx);
    while (mode_is("minute") && pair_now() < until);
    CHECK_EQUAL(kill(child, SIGCONT), 0);
    (void)pair_next(&pair, pair.a.tx, NULL);
    (void)pair_next(&pair, pair.a.rx, NULL);
    ask(bytes, 8);
}

/* The other process is killed while a message to it is in flight, or exits. */
static void end(pid_t child, int fd, char *bytes)
{
    int status;
    if (mode_is("exit")) {
        CHECK_EQUAL(write(fd, "x", 1), 1);
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK_EQUAL(status, 0);
    } else {
        stop(child);
    }
    PAIR_CALL(&pair, fi_send(pair.a.ep, bytes, LARGE, NULL, pair.a.other, bytes));
    if (!mode_is("exit")) {
        CHECK_EQUAL(kill(child, SIGKILL), 0);
        CHECK_EQUAL(waitpid(child, &status, 0), child);
    }
    CHECK(pair_error(&pair, pair.a.tx).op_context == bytes);
}

int main(int argc, char **argv)
{
    int fds[2];
    char *bytes = malloc(LARGE), answer[8];
    mode = argc > 1 ? argv[1] : "";
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(fds[0]);
        serve(fds[1]);
    }
    close(fds[1]);
    meet(fds[0]);
    pattern_fill(bytes, LARGE, 1);
    ask_all(bytes);
    if (mode_is("fork")) {
        fork_and_exit();
        ask_all(bytes);
    }
    stop_for_a_while(child, bytes);
    end(child, fds[0], bytes);
    PAIR_CALL(&pair, fi_send(pair.a.ep, bytes, 8, NULL, pair.a.other, answer));
    CHECK(pair_error(&pair, pair.a.tx).op_context == answer);
    PAIR_CALL(&pair, fi_recv(pair.a.ep, answer, 8, NULL, pair.a.self, NULL));
    PAIR_CALL(&pair, fi_send(pair.a.ep, bytes, 8, NULL, pair.a.self, NULL));
    (void)pair_next(&pair, pair.a.rx, NULL);
    side_close(&pair.a);
    free(bytes);
    puts("ok");
    return 0;
}
