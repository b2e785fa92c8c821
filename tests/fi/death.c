/*
 * Two processes: the other one is stopped for a while, which delays messages and loses none, and is
 * then killed, after which operations to it end with an error and the endpoint lives on.
 */
#include "fi/pair.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 1 << 20 };

static struct pair pair; /* `b` is that of the other process */

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

/* Sends back the first bytes of whatever comes. */
static void serve(int fd)
{
    char *bytes = malloc(LARGE);
    meet(fd);
    for (;;) {
        PAIR_CALL(&pair, fi_recv(pair.a.ep, bytes, LARGE, NULL, FI_ADDR_UNSPEC, NULL));
        struct fi_cq_tagged_entry entry;
        while (fi_cq_read(pair.a.rx, &entry, 1) != 1)
            if (getppid() == 1) exit(0);
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

int main(void)
{
    int fds[2], status;
    char *bytes = malloc(LARGE), answer[8];
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) serve(fds[1]);
    meet(fds[0]);
    pattern_fill(bytes, LARGE, 1);
    for (unsigned i = 0; i < 50; i++)
        ask(bytes, i % 2 == 0 ? 8 : LARGE);

    CHECK_EQUAL(kill(child, SIGSTOP), 0);
    CHECK_EQUAL(waitpid(child, &status, WUNTRACED), child);
    PAIR_CALL(&pair, fi_recv(pair.a.ep, answer, sizeof(answer), NULL, FI_ADDR_UNSPEC, NULL));
    PAIR_CALL(&pair, fi_send(pair.a.ep, bytes, LARGE, NULL, pair.a.other, NULL));
    pair_none(&pair, pair.a.tx);
    CHECK_EQUAL(kill(child, SIGCONT), 0);
    (void)pair_next(&pair, pair.a.tx, NULL);
    (void)pair_next(&pair, pair.a.rx, NULL);
    ask(bytes, 8);

    CHECK_EQUAL(kill(child, SIGSTOP), 0);
    CHECK_EQUAL(waitpid(child, &status, WUNTRACED), child);
    PAIR_CALL(&pair, fi_send(pair.a.ep, bytes, LARGE, NULL, pair.a.other, bytes));
    CHECK_EQUAL(kill(child, SIGKILL), 0);
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(pair_error(&pair, pair.a.tx).op_context == bytes);
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
