/* Ways to end a job, by number: started by exits.py, which checks them from outside. */
#include <gasnet.h>
#include <gasnet_tools.h>

#include "support.h"

#include <pthread.h>
#include <signal.h>

enum { CODE = 42, OTHER = 4, EXIT_NOW = 200, NOTHING, BYTES };
enum { SIGNAL = 100, SIGNAL_HANDLED = 200 }; /* plus the number of a signal: more cases */
enum { THREADS = 4 };

static int which;

static void say_and_exit(int code)
{
    printf("rank %u exits\n", (unsigned)gasnet_mynode());
    gasnet_exit(code);
}

static void on_exit_now(gasnet_token_t token)
{
    (void)token;
    say_and_exit(CODE);
}

static void on_nothing(gasnet_token_t token)
{
    (void)token;
}

/* Exit between prepare and commit of the reply. */
static void on_bytes(gasnet_token_t token, void *buf, size_t nbytes)
{
    (void)buf, (void)nbytes;
    if (which != 62) return;
    gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyMedium(token, NULL, 8, 8, NULL, 0, 0);
    if (gex_AM_SrcDescSize(sd) >= 8) say_and_exit(CODE);
}

static void on_quit(int number)
{
    (void)number;
    fprintf(stderr, "rank %u heard SIGQUIT\n", (unsigned)gasnet_mynode());
    gasnet_exit(CODE);
}

/* --- a second code in the same process ------------------------------------------------------- */

static void exit_otherwise(void)
{
    gasnet_exit(OTHER);
}

static void on_signal_otherwise(int number)
{
    (void)number;
    gasnet_exit(OTHER);
}

/* The signal arrives while this process waits for the others to end as well. */
static void exit_under_signal(void)
{
    timer_t timer;
    struct itimerspec soon;
    struct sigevent event;
    memset(&soon, 0, sizeof(soon));
    memset(&event, 0, sizeof(event));
    soon.it_value.tv_nsec = 20000000;
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR1;
    gasnett_reghandler(SIGUSR1, on_signal_otherwise);
    CHECK_EQUAL(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    CHECK_EQUAL(timer_settime(timer, 0, &soon, NULL), 0);
    gasnet_exit(CODE);
}

static void *thread_exits(void *arg);

/* Another thread ends the process, possibly after this one has returned from main. */
static int return_during_exit(void)
{
    pthread_t thread;
    struct sigaction action;
    action.sa_handler = SIG_DFL;
    CHECK_EQUAL(pthread_create(&thread, NULL, thread_exits, NULL), 0);
    while (action.sa_handler != SIG_IGN) /* until it is about to announce the end */
        CHECK_EQUAL(sigaction(SIGTERM, NULL, &action), 0);
    return OTHER;
}

/* --- states of the processes that do not exit ------------------------------------------------ */

static void in_barrier(void)
{
    gasnet_barrier_notify(0, 0);
    gasnet_barrier_wait(0, 0);
}

static void in_poll(void)
{
    for (;;)
        gasnet_AMPoll();
}

static void in_sends(void)
{
    for (;;)
        gasnet_AMRequestShort0((gasnet_mynode() + 1) % gasnet_nodes(), NOTHING);
}

static void in_loop(void)
{
    static volatile unsigned count;
    for (;;)
        count = count + 1;
}

static void *thread_exits(void *arg)
{
    (void)arg;
    gasnet_exit(CODE);
    return NULL;
}

static void *thread_waits(void *arg)
{
    void (*wait)(void);
    memcpy(&wait, &arg, sizeof(wait));
    wait();
    return NULL;
}

static void start_thread(void *(*run)(void *), void (*wait)(void))
{
    pthread_t thread;
    void *arg;
    memcpy(&arg, &wait, sizeof(arg));
    CHECK_EQUAL(pthread_create(&thread, NULL, run, arg), 0);
}

/* Printed output must appear although this process never calls the library again. */
static void in_loop_with_output(void)
{
    printf("rank %u spins\n", (unsigned)gasnet_mynode());
    in_loop();
}

/* The last process exits or returns from main; the others are in a state of the given kind. */
static int one_exits(int case_number, void (*others)(void))
{
    if (gasnet_mynode() != gasnet_nodes() - 1) {
        others();
        return 0; /* the barrier cannot be complete */
    }
    if (case_number % 10 != 0) say_and_exit(CODE);
    return CODE;
}

/* One process has printed something and gets a signal; the others are in a barrier. */
static int one_is_signaled(int number, int handles_quit)
{
    if (handles_quit) gasnett_reghandler(SIGQUIT, on_quit);
    if (gasnet_mynode() == gasnet_nodes() - 1) {
        printf("rank %u wrote this", (unsigned)gasnet_mynode());
        raise(number);
    }
    in_barrier();
    return 0;
}

/* A crash, with more in the buffer than a pipe holds. */
static void crash_with_output(void)
{
    enum { ROOM = 1 << 20, LINES = 8192 };
    static char room[ROOM];
    (void)setvbuf(stdout, room, _IOFBF, ROOM);
    for (int i = 0; i < LINES; i++)
        printf("%-62s.\n", "much");
    raise(SIGSEGV);
}

static int run(void)
{
    void (*const others[])(void) = {in_barrier, in_poll, in_sends, in_loop, in_loop_with_output};
    gasnet_node_t last = gasnet_nodes() - 1;
    int thread;
    gex_TM_t tm;
    gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
    if (which >= SIGNAL) return one_is_signaled(which % 100, which >= SIGNAL_HANDLED);
    switch (which) {
    case 10: /* all return */
        return CODE;
    case 11: /* all exit */
        say_and_exit(CODE);
        break;
    case 20:
    case 21: /* one exits or returns, others in a barrier */
        return one_exits(which, others[0]);
    case 23:
    case 24: /* with the progress thread */
        return one_exits(which, others[1]);
    case 25:
        return one_exits(which, others[2]);
    case 27:
        return one_exits(which, others[3]);
    case 29:
        return one_exits(which, others[4]);
    case 31: /* one crashes */
        if (gasnet_mynode() == last) raise(SIGSEGV);
        in_barrier();
        break;
    case 32: /* one fails */
        if (gasnet_mynode() == last) gasnett_fatalerror_nopos("on purpose");
        in_poll();
        break;
    case 33: /* one crashes with much output */
        if (gasnet_mynode() == last) crash_with_output();
        in_barrier();
        break;
    case 35: /* the others handle SIGQUIT, polling */
    case 36: /* or without calls */
    case 37: /* or without calls, and Aqueduct has something to write at the end */
        gasnett_reghandler(SIGQUIT, on_quit);
        in_barrier();
        return one_exits(which, which == 35 ? in_poll : in_loop);
    case 45: /* with GASNET_CATCH_EXIT=0 one returns, others stay for AQ_EXIT_TIMEOUT */
        if (gasnet_mynode() == last) return CODE;
        CHECK_EQUAL(gasnett_nsleep(200000000), 0);
        printf("rank %u stayed\n", (unsigned)gasnet_mynode());
        return 0;
    case 50: /* from a handler, everywhere */
        gasnet_AMRequestShort0(gasnet_mynode(), EXIT_NOW);
        in_poll();
        break;
    case 51: /* by a request from elsewhere */
        if (gasnet_mynode() == 0) gasnet_AMRequestShort0(last, EXIT_NOW);
        in_poll();
        break;
    case 52: /* by many requests at once */
        gasnet_AMRequestShort0(0, EXIT_NOW);
        in_poll();
        break;
    case 61: /* between prepare and commit */
        if (gasnet_mynode() == last) {
            gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, 0, NULL, 8, 8, NULL, 0, 0);
            if (gex_AM_SrcDescSize(sd) >= 8) say_and_exit(CODE);
        }
        in_poll();
        break;
    case 62:
        if (gasnet_mynode() == last) gasnet_AMRequestMedium0(0, BYTES, "bytes", 5);
        in_poll();
        break;
    case 80: /* in the SIGQUIT handler of the processes that are notified of the end */
        gasnett_reghandler(SIGQUIT, on_signal_otherwise);
        in_barrier();
        if (gasnet_mynode() == last) gasnet_exit(CODE);
        in_poll();
        break;
    case 81: /* in a handler of atexit that runs after ours */
        return CODE;
    case 82: /* in a signal handler during its exit, which the others delay for a while */
        if (gasnet_mynode() == last) exit_under_signal();
        in_poll();
        break;
    case 83: /* in main, while another thread exits */
        return return_during_exit();
    case 70: /* from all threads at once */
        for (thread = 0; thread < THREADS; thread++)
            start_thread(thread_exits, in_poll);
        in_loop();
        break;
    case 71:
    case 72:
    case 73:
    case 74: /* from one thread, while other local threads are active */
        start_thread(thread_waits, others[which - 71]);
        if (gasnet_mynode() == last) {
            start_thread(thread_exits, in_poll);
            in_loop();
        }
        in_loop();
        break;
    default:
        fprintf(stderr, "there is no case %d\n", which);
        gasnet_exit(2);
    }
    return 0;
}

int main(int argc, char **argv)
{
    gasnet_handlerentry_t table[] = {{EXIT_NOW, (gex_AM_Fn_t)on_exit_now},
                                     {NOTHING, (gex_AM_Fn_t)on_nothing},
                                     {BYTES, (gex_AM_Fn_t)on_bytes}};
    which = argc > 1 ? atoi(argv[1]) : 0;
    if (which == 81) CHECK_EQUAL(atexit(exit_otherwise), 0);
    /* Sanitizers have handlers, and signals with handlers are left alone. */
    signal(which >= SIGNAL ? which % 100 : SIGSEGV, SIG_DFL);
    CHECK_EQUAL(gasnet_init(&argc, &argv), GASNET_OK);
    if (which == 40) gasnet_exit(CODE); /* all, before attach */
    if (which == 41 && gasnet_mynode() == gasnet_nodes() - 1) gasnet_exit(CODE);
    CHECK_EQUAL(gasnet_attach(table, COUNT_OF(table), 16 * GASNET_PAGESIZE, 0), GASNET_OK);
    return run();
}
