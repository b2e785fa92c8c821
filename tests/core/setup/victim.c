/*
 * A job that ends badly: `victim HOW WHERE`. The last rank ends as HOW says (victim_ends.c) while
 * the others are in the state WHERE (victim_places.c). Each rank first prints a line, which stays
 * in its buffer and must not be lost.
 */
#include "victim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

aq_team *divided;
_Atomic uint32_t received;

bool victim_is_last(void)
{
    const char *rank = getenv("AQ_RANK"), *size = getenv("AQ_SIZE");
    return rank == NULL || size == NULL || atoi(rank) == atoi(size) - 1;
}

void victim_mark(const char *word)
{
    char line[40];
    if (getenv("AQT_MARKS") == NULL) return;
    int len = snprintf(line, sizeof(line), "#%s\n", word);
    ssize_t written = write(STDERR_FILENO, line, (size_t)len);
    (void)written;
}

void victim_pass_time(void)
{
    struct timespec time = {.tv_nsec = 20 * 1000 * 1000};
    while (nanosleep(&time, &time) != 0) {
    }
}

const struct choice *victim_find(const struct choice *choices, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(choices[i].name, name) == 0) return &choices[i];
    fprintf(stderr, "victim: no such choice: %s\n", name);
    exit(2);
}

/* --- handlers ---------------------------------------------------------------------------- */

static void on_flood(aq_am *am)
{
    (void)am;
    received++;
}

static void on_exit_request(aq_am *am)
{
    aq_exit(am->args[0]);
}

static void on_ask(aq_am *am)
{
    CHECK_OK(aq_am_reply_short(am, ANSWER, am->args, 1, 0));
}

/* Never returns. */
static void on_stay(aq_am *am)
{
    (void)am;
    for (;;)
        pause();
}

static _Atomic uint32_t others;

static void on_started(aq_am *am)
{
    (void)am;
    others++;
}

/* Make sure that all ranks have left the barrier before the last rank ends. */
static void start_all(void)
{
    aq_rank last = job.size - 1;
    job_barrier();
    if (job.self != last)
        CHECK_OK(aq_am_short(job.team, last, STARTED, AQ_NO_ARGS, 0));
    else
        job_await(&others, last);
}

int main(int argc, char **argv)
{
    aq_handler_entry table[] = {
        {FLOOD, 0, 0, on_flood, NULL, "flood"},
        {STARTED, 0, AQ_AM_SHORT | AQ_AM_REQUEST, on_started, NULL, "started"},
        {EXIT, 1, AQ_AM_SHORT | AQ_AM_REQUEST, on_exit_request, NULL, "exit"},
        {ASK, 1, AQ_AM_SHORT | AQ_AM_REQUEST, on_ask, NULL, "ask"},
        {ANSWER, 1, AQ_AM_SHORT | AQ_AM_REPLY, on_exit_request, NULL, "answer"},
        {STAY, 0, AQ_AM_SHORT | AQ_AM_REQUEST, on_stay, NULL, "stay"},
    };
    if (argc != 3) return 2;
    const struct choice *how = victim_end(argv[1]), *where = victim_place(argv[2]);
    bool attach = strstr(where->name, "attach") != NULL;
    if (how->before != NULL && victim_is_last()) how->before();
    if (where->before != NULL && !victim_is_last()) where->before();
    job_open(how->threads ? AQ_THREAD_MULTIPLE : AQ_THREAD_SINGLE, attach ? 0 : 65536);
    job_handlers(table, COUNT_OF(table));
    CHECK_OK(aq_team_split(job.team, 0, 0, 0, &divided));
    aq_ep *deaf;
    CHECK_OK(aq_ep_create(AQ_EP_RMA, &deaf));
    if (how->prepare != NULL) how->prepare();
    printf("rank %u was here\n", job.self);
    start_all();
    victim_mark("ready");
    if (job.self != job.size - 1 || job.size == 1) where->run();
    bool together = strcmp(where->name, "nowhere") == 0;
    if (!together) victim_pass_time();
    if (together || job.self == job.size - 1) victim_mark("ends");
    how->run();
    return how->value;
}
