/*
 * A client of the key-value service of server.c. It waits up to five seconds for the server.
 *
 * - client URI set KEY VALUE
 * - client URI get KEY: exit code 3 if there is no such key
 * - client URI stop
 * - client URI time N: request the value of "" N times, and print the mean time
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SET = AQ_HANDLER_BASE, GET, STOP, VALUE }; /* the same as in server.c */

static int found;
static unsigned quiet; /* replies to count without printing them */

static void on_value(aq_am *am)
{
    found = am->args[0];
    if (quiet > 0)
        quiet--;
    else if (found)
        printf("%.*s\n", (int)am->nbytes, (const char *)am->payload);
}

/* Send a request and wait until its reply has been handled, or the server has ended. */
static aq_status ask(aq_team *pair, aq_handler what, const char *data, size_t n)
{
    aq_event answer;
    aq_status st = aq_am_medium_nb(pair, 1, what, data, n, AQ_NO_ARGS, 0, &answer);
    return st == AQ_OK ? aq_event_wait(&answer, AQ_FOREVER) : st;
}

/* Measure round trips, one at a time. */
static aq_status measure(aq_team *pair, const char *key, size_t n, unsigned times)
{
    struct timespec from, to;
    aq_status st = AQ_OK;
    quiet = times;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (unsigned i = 0; i < times && st == AQ_OK; i++)
        st = ask(pair, GET, key, n);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ns = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
    if (st == AQ_OK) printf("%.0f ns for a request and its answer\n", ns / times);
    return st;
}

static int usage(void)
{
    fprintf(stderr, "usage: client URI set KEY VALUE | get KEY | stop | time N\n");
    return 2;
}

int main(int argc, char **argv)
{
    aq_team *world;
    aq_connection *connection;
    char both[200];
    int set = argc == 5 && strcmp(argv[2], "set") == 0;
    int get = argc == 4 && strcmp(argv[2], "get") == 0;
    int stop = argc == 3 && strcmp(argv[2], "stop") == 0;
    int times = argc == 4 && strcmp(argv[2], "time") == 0 ? atoi(argv[3]) : 0;
    if (!set && !get && !stop && times < 1) return usage();
    int n =
        snprintf(both, sizeof(both), "%s%c%s", get || set ? argv[3] : "", 0, set ? argv[4] : "") +
        1;
    if (n > (int)sizeof(both)) return usage();

    aq_error_log(0); /* check() prints failures */
    check(aq_init(NULL, &world), "aq_init");
    aq_handler_entry handler = {.index = VALUE, .nargs = 1, .fn = on_value};
    check(aq_am_register(aq_team_ep(world), &handler, 1), "aq_am_register");
    aq_connect_params params = {
        .struct_size = sizeof(params), .data = "kv1", .nbytes = 3, .flags = AQ_CONNECT_WAIT};
    check(aq_connect(argv[1], &params, &connection), "aq_connect");

    aq_team *pair = aq_connection_team(connection); /* rank 0 is this process, rank 1 the server */
    aq_status st = times > 0 ? measure(pair, both, (size_t)n, (unsigned)times)
                             : ask(pair,
                                   stop  ? STOP
                                   : set ? SET
                                         : GET,
                                   both, (size_t)n);
    if (st != AQ_EPEER) check(st, "aq_event_wait");
    check(aq_connection_close(connection), "aq_connection_close");
    check(aq_finalize(), "aq_finalize");
    if (st == AQ_EPEER) fprintf(stderr, "the server has ended\n");
    return st == AQ_EPEER ? 1 : found || times > 0 ? 0 : 3;
}
