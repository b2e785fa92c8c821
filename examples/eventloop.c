/*
 * An event loop: each process waits in one poll() for both messages and a timer, without using the
 * CPU. At each tick it sends a request to its neighbor, which replies. Usage: eventloop [TICKS]
 */
#include "check.h"
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { ASK = 100, ANSWER };

static int32_t asked, heard, answered;

static void on_ask(aq_am *am)
{
    heard++;
    check(aq_am_reply_short(am, ANSWER, am->args, 1, 0), "aq_am_reply_short");
}

static void on_answer(aq_am *am)
{
    answered += am->args[0] == answered; /* replies arrive in order */
}

static int start_timer(void)
{
    struct itimerspec every = {.it_value.tv_nsec = 1000000, .it_interval.tv_nsec = 10000000};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (timer >= 0 && timerfd_settime(timer, 0, &every, NULL) == 0) return timer;
    perror("timer");
    aq_exit(1);
}

static void ask_next(aq_team *world)
{
    aq_rank next = (aq_team_rank(world) + 1) % aq_team_size(world);
    check(aq_am_short(world, next, ASK, AQ_ARGS(asked), 0), "aq_am_short");
    asked++;
}

/* Run until this process has finished, and then until all processes have. */
static void loop(aq_team *world, int32_t ticks)
{
    struct pollfd fds[] = {{.events = POLLIN}, {.fd = start_timer(), .events = POLLIN}};
    int done = 0;
    check(aq_wait_fd(&fds[0].fd), "aq_wait_fd");
    for (;;) {
        uint64_t expired;
        aq_status st = aq_poll(); /* runs the handlers of messages that have arrived */
        if (st < AQ_OK) check(st, "aq_poll");
        if (read(fds[1].fd, &expired, sizeof(expired)) > 0 && asked < ticks) ask_next(world);
        if (!done && asked == ticks && heard == ticks && answered == ticks) {
            check(aq_barrier_notify(world, 0, AQ_BARRIER_ANONYMOUS), "aq_barrier_notify");
            done = 1;
        }
        if (done && aq_barrier_wait(world, 0, AQ_BARRIER_ANONYMOUS, 0) == AQ_OK) break;
        /* AQ_AGAIN: something has arrived meanwhile, so do not sleep. */
        if (st != AQ_OK && aq_wait_prepare() == AQ_OK && poll(fds, 2, -1) < 0 && errno != EINTR)
            perror("poll");
    }
    close(fds[1].fd);
}

int main(int argc, char **argv)
{
    int32_t ticks = argc == 2 ? atoi(argv[1]) : 20;
    aq_team *world;
    if (argc > 2 || ticks < 1) {
        fprintf(stderr, "usage: eventloop [TICKS], with at least 1 tick\n");
        return 2;
    }
    check(aq_init(NULL, &world), "aq_init");
    aq_handler_entry handlers[] = {
        {.index = ASK, .nargs = 1, .accepts = AQ_AM_SHORT | AQ_AM_REQUEST, .fn = on_ask},
        {.index = ANSWER, .nargs = 1, .accepts = AQ_AM_SHORT | AQ_AM_REPLY, .fn = on_answer}};
    check(aq_am_register(aq_team_ep(world), handlers, 2), "aq_am_register");
    check(aq_barrier(world), "aq_barrier"); /* every process has registered its handlers */
    loop(world, ticks);
    if (aq_team_rank(world) == 0) printf("every process was asked and answered %d times\n", ticks);
    check(aq_finalize(), "aq_finalize");
    return 0;
}
