/*
 * Ends of jobs as programs see them: whatever one rank does while the others sit wherever, the job
 * ends within two seconds, with the right code and message, and nothing is left.
 *
 * How aqrun sees ends is tested in tests/job; the harness is the same.
 */
#include "../../job/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ending {
    const char *how;
    int code;
    const char *text; /* on standard error; "" for nothing there at all */
    bool printed;     /* what the others had printed comes out, unless they never look */
};

static const struct ending endings[] = {
    {"segv", 139, "was killed by signal 11 (Segmentation fault); ending the job", true},
    {"kill", 137, "was killed by signal 9 (Killed); ending the job", true},
    {"abort", 134, "was killed by signal 6 (Aborted); ending the job", true},
    {"exit3", 3, "", true},
    {"quick4", 4, "exited with code 4 before aq_finalize; ending the job", true},
    {"aq_exit7", 7, "", true},
    {"aq_exit0", 0, "", true},
    {"impatient6", 6, "", true},
    {"thread", 8, "", true},
    {"handler", 9, "", true},
    {"return5", 5, "exit(5) or a return from main before aq_finalize: that ends the job", true},
    {"unknown", 1, "rank 2 sent a message for handler 200, which is not registered", true},
    {"refused", 1,
     "sent a Short request with 2 arguments to handler 101 (exit) of endpoint 0, which is "
     "registered for Short requests with 1 arguments",
     true},
    {"no_endpoint", 1, "rank 2 sent a message to endpoint 3, which does not exist", true},
    {"deaf_endpoint", 1, "rank 2 sent a message to endpoint 1, which has no messages", true},
};

static const char *const states[] = {"barrier", "poll", "spin", "sleep", "send", "get", "finalize"};

static bool listens(const char *where)
{
    return strcmp(where, "spin") != 0 && strcmp(where, "sleep") != 0;
}

/* In a handler the exit needs somebody who runs it: rank 0. */
static bool possible(const struct ending *ending, const char *where)
{
    bool needs_rank_0 = strcmp(ending->how, "handler") == 0 ||
                        strcmp(ending->how, "unknown") == 0 || strcmp(ending->how, "refused") == 0;
    return !needs_rank_0 || listens(where);
}

static void run_ending(const struct ending *ending, const char *where, const char *fault)
{
    struct run run;
    print_message("%s while the others are in %s%s%s\n", ending->how, where,
                  fault ? ", AQ_FAULT=" : "", fault ? fault : "");
    char set[128];
    snprintf(set, sizeof(set), "AQ_FAULT=%s", fault ? fault : "");
    /* Who does not listen is ended by a signal. */
    job_run(&run, "-n", "3", "-E", set, "-E",
            listens(where) ? "AQ_EXIT_TIMEOUT=200s" : "AQ_EXIT_TIMEOUT=2s", CORE_VICTIM,
            ending->how, where);
    expect_code(&run, ending->code);
    if (ending->text[0] != '\0') expect_text(&run, ERR, ending->text);
    if (ending->printed && listens(where)) {
        expect_text(&run, OUT, "rank 0 was here\n");
        expect_text(&run, OUT, "rank 1 was here\n");
    }
    run_free(&run);
}

/* Every end while the others are in a barrier. */
static void test_endings(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
        run_ending(&endings[i], "barrier", NULL);
}

/* The common ends wherever the others are. */
static void test_states(void **state)
{
    (void)state;
    for (size_t where = 1; where < sizeof(states) / sizeof(states[0]); where++)
        for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
            const char *how = endings[i].how;
            bool common = strcmp(how, "segv") == 0 || strcmp(how, "aq_exit7") == 0 ||
                          strcmp(how, "handler") == 0 || strcmp(how, "return5") == 0;
            if (common && possible(&endings[i], states[where]))
                run_ending(&endings[i], states[where], NULL);
        }
}

/* Operations carried by messages, under way to the one that dies. */
static void test_states_without_direct_memory(void **state)
{
    (void)state;
    static const char hide[] = "hide=reserve+put+get+atomic+long+map+alloc";
    run_ending(&endings[0], "get", hide);
    run_ending(&endings[1], "send", hide);
    run_ending(&endings[0], "barrier", hide);
    run_ending(&endings[5], "get", hide);
}

/* A team that one member has destroyed, used by the others: it hears of that by a message. */
static void test_gone_team(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "4", "-E", "AQ_COLL_SCRATCH=0", CORE_VICTIM, "gone_team", "gone_team");
    expect_code(&run, 1);
    expect_text(&run, ERR, "(job rank 3) in aq_team_destroy");
    run_free(&run);
}

/* Ranks that end one after the other all get to their end, whoever is first. */
static void test_together(void **state)
{
    (void)state;
    static const char *const hows[] = {"together6", "threads6"};
    static const char *const faults[] = {"", "again=60,late=5,hide=reserve+put+get+map+alloc"};
    for (int i = 0; i < 20; i++) {
        struct run run;
        char set[128];
        snprintf(set, sizeof(set), "AQ_FAULT=%s", faults[i / 2 % 2]);
        job_run(&run, "-n", "5", "-E", set, CORE_VICTIM, hows[i % 2], "nowhere");
        expect_code(&run, 6);
        for (int rank = 0; rank < 5; rank++) {
            char text[40];
            snprintf(text, sizeof(text), "rank %d was late\n", rank);
            expect_text(&run, OUT, text);
        }
        run_free(&run);
    }
}

/* A return from main without aq_finalize is an exit of the whole job, with code 0 as with others;
 * but then it may have been forgotten. */
static void test_return_0(void **state)
{
    (void)state;
#ifdef __GLIBC__
    const int code = 0;
    const char *said = "before aq_finalize: that ends the job";
#else /* the library is not told the code, so aqrun judges */
    const int code = 1;
    const char *said = "exited with code 0 before aq_finalize; ending the job";
#endif
    struct run run;
    job_run(&run, "-n", "3", CORE_VICTIM, "return0", "poll");
    expect_code(&run, code);
    expect_text(&run, ERR, said);
    for (int rank = 0; rank < 3; rank++) {
        char text[40];
        snprintf(text, sizeof(text), "rank %d was here\n", rank);
        expect_text(&run, OUT, text);
    }
    run_free(&run);
}

/* Ranks that are in different calls hear of it at once, and not after AQ_START_TIMEOUT. */
static void test_ranks_disagree(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", CORE_VICTIM, "finalize", "attach");
    expect_code(&run, 1);
    expect_text(&run, ERR, "in aq_segment_attach");
    expect_text(&run, ERR, "in aq_finalize");
    run_free(&run);
}

/* Ends as GASNet's clients make them: from handlers, threads, half-made messages, before attach. */
static void test_ends_of_clients(void **state)
{
    (void)state;
    static const struct {
        const char *how, *where;
        int code;
    } cases[] = {
        {"int", "barrier", 130},        {"own_handler", "barrier", 9}, {"handlers", "poll", 9},
        {"prepared", "barrier", 9},     {"threads", "poll", 8},        {"threads", "barrier", 8},
        {"aq_exit7", "late_attach", 7}, {"return5", "late_attach", 5}, {"kill", "late_attach", 137},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct run run;
        print_message("%s while the others are in %s\n", cases[i].how, cases[i].where);
        job_run(&run, "-n", "3", CORE_VICTIM, cases[i].how, cases[i].where);
        expect_code(&run, cases[i].code);
        if (strcmp(cases[i].where, "late_attach") == 0)
            expect_count(&run, OUT, "asked to quit\n", 2);
        run_free(&run);
    }
}

/* A handler of SIGQUIT runs in those who are told of the end; a rank that ends itself is not asked.
 */
static void test_quit_handlers(void **state)
{
    (void)state;
    static const char *const hows[] = {"kill", "aq_exit7", "return5", "handler"};
    for (size_t i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
        struct run run;
        job_run(&run, "-n", "3", CORE_VICTIM, hows[i], "quit");
        /* Of "handler" the third ends the job in rank 0. */
        expect_count(&run, OUT, "asked to quit\n", strcmp(hows[i], "handler") == 0 ? 1 : 2);
        /* What the killed one had printed is lost or not, as its C library likes. */
        if (strcmp(hows[i], "kill") != 0) expect_count(&run, OUT, " was here\n", 3);
        run_free(&run);
    }
}

/* Many more ranks than cores: what they do last, each has to be told of. */
static void test_many_ranks(void **state)
{
    (void)state;
    if (CORE_SANITIZED) skip();
    static const char *const places[] = {"poll", "barrier", "sleep"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct run run;
        job_run(&run, "-n", "256", "-E", "AQ_EXIT_TIMEOUT=2s", CORE_VICTIM, "kill", places[i]);
        expect_code(&run, 137);
        expect_text(&run, ERR, "aqrun: rank 255 (pid ");
        run_free(&run);
    }
}

/* Over udp the last rank hears of all the others, which make no call, and with which it has no
 * connection. */
static void test_deaf_over_udp(void **state)
{
    (void)state;
    if (!CORE_UDP) skip();
    const char *many = getenv("AQT_SLEEPERS");
    const char *const cases[][2] = {{many != NULL ? many : "16", "sleep"}, {"4", "spin"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct run run;
        job_run(&run, "-n", cases[i][0], "-E", "AQ_EXIT_TIMEOUT=2s", "-E", "AQ_TRANSPORTS=udp",
                CORE_VICTIM, "kill", cases[i][1]);
        expect_code(&run, 137);
        expect_text(&run, ERR, "was killed by signal 9 (Killed); ending the job");
        run_free(&run);
    }
}

/* A child that a rank forks ends with a code of its own: that is nobody's business. */
static void test_forked_child(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-n", "3", CORE_VICTIM, "fork", "finalize");
    expect_code(&run, 0);
    expect_no_text(&run, ERR, "ending the job");
    run_free(&run);
}

static void test_alone(void **state)
{
    (void)state;
    struct run run;
    static const struct {
        const char *how;
        int code;
    } cases[] = {{"aq_exit7", 7}, {"exit3", 3}, {"segv", 139}, {"aq_exit0", 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        /* Alone, nobody waits: "barrier" is over at once and the rank ends as it is told. */
        run_start(&run, CORE_VICTIM, cases[i].how, "barrier", NULL);
        run_wait(&run);
        expect_code(&run, cases[i].code);
        if (cases[i].code != 139) expect_text(&run, OUT, "rank 0 was here\n");
        run_free(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endings),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_states_without_direct_memory),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_return_0),
        cmocka_unit_test(test_gone_team),
        cmocka_unit_test(test_ranks_disagree),
        cmocka_unit_test(test_ends_of_clients),
        cmocka_unit_test(test_quit_handlers),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_deaf_over_udp),
        cmocka_unit_test(test_forked_child),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests_name("ends", tests, NULL, NULL);
}
