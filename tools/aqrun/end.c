/* The end of a job: its cause, its exit code, and the steps from a message to SIGKILL. */
#include "end.h"

#include "base/clock.h"
#include "collective.h"
#include "job.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>

/* A shell needs a moment to pass on how the program that it ran has ended. */
#define END_SHELL_NS 100000000u

/* What happens when, in quarters of AQ_EXIT_TIMEOUT after the end began. */
enum end_steps { END_TERM, END_KILL, END_ABANDON, END_STEPS };
static const unsigned end_quarters[END_STEPS] = {[END_TERM] = 1, [END_KILL] = 3, [END_ABANDON] = 4};

/* Ranks of which end_lost has told; mostly none, and then nobody looks through them all. */
static uint32_t end_lost_ranks;

static void end_terminate(struct rank *rank, int number)
{
    if (!rank->running) return;
    rank->terminated = true;
    kill(-rank->pid, number);
    kill(-rank->pid, SIGCONT); /* a stopped process would keep SIGTERM for later */
}

static void end_begin(int code, const struct rank *by, const char *why)
{
    struct end *end = &job.end;
    end->ending = true;
    if (end->code == 0) end->code = code;
    end->by = by != NULL ? by->number : AQI_MAX_RANKS;
    end->since_ns = aqi_now_ns();
    snprintf(end->why, sizeof(end->why), "%s", why);
    hub_tell_exit(end->by, by != NULL ? by->number : UINT32_MAX, end->code, end->why);
    /* Who is not in the job cannot be told, so there is nothing to wait for. */
    for (uint32_t i = 0; i < job.spawned; i++)
        if (job.ranks[i].state == RANK_STARTED) end_terminate(&job.ranks[i], SIGTERM);
}

void end_job(int code, const struct rank *by, const char *fmt, ...)
{
    char why[AQI_CONTROL_TEXT + 1];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    if (job.end.ending) {
        tell("%s", why);
        if (job.end.code == 0) job.end.code = code;
        return;
    }
    say("%s; ending the job", why);
    end_begin(code, by, why);
}

void end_asked(const struct rank *by, int code, const char *why)
{
    char name[RANK_NAME_BYTES], text[AQI_CONTROL_TEXT + 1];
    code &= 0xff; /* as the system does with exit codes */
    if (why[0] != '\0') {
        end_job(code, by, "%s: %s", rank_name(by, name), why);
        return;
    }
    snprintf(text, sizeof(text), "%s ended the job with code %d", rank_name(by, name), code);
    tell("%s", text);
    if (!job.end.ending)
        end_begin(code, by, text);
    else if (job.end.code == 0)
        job.end.code = code;
}

/* "rank 3 (pid 4711, ./prog) was killed by signal 11 (Segmentation fault)"; returns the code. */
static int end_describe(const struct rank *rank, int status, char *text, size_t room)
{
    char name[RANK_NAME_BYTES];
    rank_name(rank, name);
    int code = WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    bool shell_says = rank->lost_ns != 0 && code > EXIT_SIGNAL && code - EXIT_SIGNAL < NSIG;
    if (WIFSIGNALED(status) || shell_says)
        snprintf(text, room, "%s was killed by signal %d (%s)%s", name, code - EXIT_SIGNAL,
                 strsignal(code - EXIT_SIGNAL),
                 rank->state == RANK_LEFT ? " after aq_finalize" : "");
    else
        snprintf(text, room, "%s exited with code %d%s", name, code,
                 rank->state == RANK_JOINED ? " before aq_finalize" : "");
    return code;
}

/* A rank that ends while the job does. Its code counts only when nothing worse is known. */
static void end_straggler(const struct rank *rank, int code, bool killed, const char *text)
{
    bool news = code != 0 && !rank->terminated;
    if (news && killed && (rank->number == job.end.by || job.end.code == 0))
        say("%s", text);
    else
        tell("%s", text);
    if (news && job.end.code == 0) job.end.code = code;
}

void end_judge(struct rank *rank, int status)
{
    char text[AQI_CONTROL_TEXT + 1];
    int code = end_describe(rank, status, text, sizeof(text));
    if (job.end.ending) {
        end_straggler(rank, code, WIFSIGNALED(status), text);
    } else if (rank->state == RANK_LEFT) {
        if (WIFSIGNALED(status))
            say("%s", text);
        else
            tell("%s", text);
        if (job.end.code == 0) job.end.code = code;
    } else if (rank->state == RANK_JOINED || code != 0) {
        end_job(code != 0 ? code : EXIT_FAILED, rank, "%s", text);
    } else {
        tell("%s", text);
        job.absent++;
        collective_check();
    }
}

void end_lost(struct rank *rank)
{
    rank->lost_ns = aqi_now_ns();
    end_lost_ranks++;
}

void end_by_signal(int number)
{
    if (job.end.ending || job.running == 0) {
        tell("signal %d again: killing at once", number);
        for (uint32_t i = 0; i < job.spawned; i++)
            end_terminate(&job.ranks[i], SIGKILL);
        job.end.abandoned = job.running == 0;
        return;
    }
    end_job(EXIT_SIGNAL + number, NULL, "the launcher got signal %d (%s)", number,
            strsignal(number));
}

static void end_take_step(size_t step)
{
    char name[RANK_NAME_BYTES];
    for (uint32_t i = 0; i < job.spawned; i++) {
        struct rank *rank = &job.ranks[i];
        if (!rank->running) continue;
        if (step == END_ABANDON) {
            say("%s does not die; leaving it behind", rank_name(rank, name));
            job.end.abandoned = true;
        } else {
            tell("%s gets SIG%s", rank_name(rank, name), step == END_TERM ? "TERM" : "KILL");
            end_terminate(rank, step == END_TERM ? SIGTERM : SIGKILL);
        }
    }
}

static uint64_t end_tick_ending(uint64_t now)
{
    struct end *end = &job.end;
    while (end->step < END_STEPS) {
        uint64_t at = end->since_ns + job.exit_timeout_ns / 4 * end_quarters[end->step];
        if (now < at) return at;
        end_take_step(end->step++);
    }
    return UINT64_MAX;
}

/* Programs that ended under a shell which has not ended since, and so will not say why. */
static uint64_t end_tick_lost(uint64_t now)
{
    uint64_t next = UINT64_MAX;
    if (end_lost_ranks == 0) return next;
    for (uint32_t i = 0; i < job.spawned && !job.end.ending; i++) {
        struct rank *rank = &job.ranks[i];
        if (rank->lost_ns == 0 || !rank->running) continue;
        uint64_t at = rank->lost_ns + END_SHELL_NS;
        char name[RANK_NAME_BYTES];
        if (now >= at)
            end_job(EXIT_FAILED, rank, "%s ended before aq_finalize", rank_name(rank, name));
        else
            next = aqi_min(next, at);
    }
    return next;
}

uint64_t end_tick(uint64_t now)
{
    uint64_t next = UINT64_MAX;
    if (!job.end.ending && job.options.timeout_ns != 0) {
        next = job.began_ns + job.options.timeout_ns;
        if (now >= next)
            end_job(EXIT_TIME, NULL, "the job has not ended within the %.3g s of --timeout",
                    (double)job.options.timeout_ns / 1e9);
    }
    if (!job.end.ending) next = aqi_min(next, end_tick_lost(now));
    return job.end.ending ? end_tick_ending(now) : next;
}
