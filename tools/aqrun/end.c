/* The end of a job: its cause, its exit code, and the steps from a message to SIGKILL. */
#include "base/cgroup.h"
#include "base/clock.h"
#include "job.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* A shell needs a moment to pass on how the program that it ran has ended: of AQ_EXIT_TIMEOUT. */
#define END_SHELL_PART 20

/* What happens when, in quarters of AQ_EXIT_TIMEOUT after the end began. */
enum end_steps { END_TERM, END_KILL, END_ABANDON, END_STEPS };
static const unsigned end_quarters[END_STEPS] = {[END_TERM] = 1, [END_KILL] = 3, [END_ABANDON] = 4};

/* Looks, a quarter apart, at killed processes that are not gone: so many at most, and so many
 * asleep where no signal comes, after which it is left behind. */
enum { END_LOOKS = 60, END_LOOKS_ASLEEP = 2 };

/* Ranks that come to their end one after the other all get there: the others are asked no sooner,
 * and again after twice the time each. Who still looks at its messages after a few agrees to it. */
#define END_ASK_NS 75000000u

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
    if (why != end->why) snprintf(end->why, sizeof(end->why), "%s", why);
    hub_tell(end->by, AQI_BOOT_EXIT, by != NULL ? by->number : UINT32_MAX, end->code, end->why);
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
    if (why[0] != '\0' && !collective_said(why)) {
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

/* The job ends once every rank that still runs wants to. */
static void end_check_wanted(void)
{
    if (job.end.grace_ns == 0 || job.end.ending) return;
    for (uint32_t i = 0; i < job.size; i++) {
        const struct rank *rank = &job.ranks[i];
        if (rank->state == RANK_WAITING || (rank->running && !rank->ending)) return;
    }
    end_begin(job.end.code, NULL, "all processes have come to their end");
}

void end_wanted(struct rank *by, int code, uint64_t wait_ns)
{
    char name[RANK_NAME_BYTES];
    tell("%s comes to its end with code %d", rank_name(by, name), code & 0xff);
    by->ending = true;
    if (job.end.code == 0) job.end.code = code & 0xff;
    if (job.end.grace_ns == 0) {
        uint64_t most = 24ull * 3600 * 1000000000;
        snprintf(job.end.why, sizeof(job.end.why), "%s ended the job with code %d",
                 rank_name(by, name), code & 0xff);
        wait_ns = aqi_min(wait_ns, most);
        job.end.wanted_ns = aqi_now_ns();
        job.end.ask_ns = job.end.wanted_ns + END_ASK_NS;
        job.end.grace_ns = job.end.wanted_ns + wait_ns;
    }
    end_check_wanted();
}

/* Has the kernel killed processes of our cgroup for its limit on memory since the job began? */
static bool end_memory_was_short(void)
{
    return aqi_cgroup_read("").kills > job.memory_kills;
}

/* "rank 3 (pid 4711, ./prog) was killed by signal 11 (Segmentation fault)"; returns the code. */
static int end_describe(const struct rank *rank, int status, char *text, size_t room)
{
    char name[RANK_NAME_BYTES];
    rank_name(rank, name);
    int code = WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    bool shell_says = rank->lost_ns != 0 && code > EXIT_SIGNAL && code - EXIT_SIGNAL < NSIG;
    if (WIFSIGNALED(status) || shell_says)
        snprintf(
            text, room, "%s was killed by signal %d (%s)%s%s", name, code - EXIT_SIGNAL,
            strsignal(code - EXIT_SIGNAL), rank->state == RANK_LEFT ? " after aq_finalize" : "",
            code == EXIT_SIGNAL + SIGKILL && end_memory_was_short()
                ? ", as the limit on memory of its cgroup was reached: raise that (memory.max), "
                  "or start fewer processes"
                : "");
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

/* Have all ranks started? They may have said so without having been heard. */
static bool end_all_started(void)
{
    for (uint32_t i = 0; i < job.spawned && job.ready < job.size; i++)
        if (!job.ranks[i].ready) hub_drain(&job.ranks[i]);
    return job.ready == job.size && !job.end.ending;
}

/* A rank of a job that was started died: with AQ_SURVIVE the others are told, and go on. */
static bool end_survived(struct rank *rank, int code, const char *text)
{
    if (!job.survive || !end_all_started()) return false;
    rank->fate = strdup(text);
    if (rank->fate == NULL) die("no memory to tell: %s", text);
    rank->state = RANK_LOST;
    job.absent++;
    job.lost++;
    if (job.end.code == 0) job.end.code = code;
    say("%s; the job goes on without it", text);
    hub_tell(rank->number, AQI_BOOT_PEER_LOST, rank->number, code, text);
    collective_check();
    agree_gone(rank);
    return true;
}

void end_tell_lost(void)
{
    enum { LISTED = 16 };
    uint32_t listed = 0;
    for (uint32_t i = 0; i < job.spawned && listed < LISTED; i++)
        if (job.ranks[i].fate != NULL) {
            say("the job ended without rank %u: %s", i, job.ranks[i].fate);
            listed++;
        }
    if (listed < job.lost) say("and without %u more", job.lost - listed);
}

void end_judge(struct rank *rank, int status)
{
    char text[AQI_CONTROL_TEXT + 1];
    int code = end_describe(rank, status, text, sizeof(text));
    if (job.end.ending) {
        end_straggler(rank, code, WIFSIGNALED(status), text);
    } else if (rank->state == RANK_LOST) {
        tell("%s", text);
    } else if (rank->state == RANK_LEFT) {
        if (WIFSIGNALED(status))
            say("%s", text);
        else
            tell("%s", text);
        if (job.end.code == 0) job.end.code = code;
    } else if (rank->state == RANK_JOINED || code != 0) {
        if (code == 0) code = EXIT_FAILED;
        if (rank->state != RANK_JOINED || !end_survived(rank, code, text))
            end_job(code, rank, "%s", text);
    } else {
        tell("%s", text);
        job.absent++;
        collective_check();
    }
    end_check_wanted();
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

/* What cannot be known counts as asleep. */
static bool end_is_asleep(const struct rank *rank)
{
    struct process process;
    return !reaper_look(rank->pid, &process) || process.state == 'D';
}

/*
 * Nothing withstands SIGKILL, but it may take long to give back gigabytes on a machine that is
 * busy: are there any who still go?
 */
static bool end_some_go(void)
{
    char name[RANK_NAME_BYTES];
    bool some = false;
    if (job.end.looks >= END_LOOKS) return false;
    for (uint32_t i = 0; i < job.spawned; i++) {
        struct rank *rank = &job.ranks[i];
        if (!rank->running) continue;
        rank->asleep = end_is_asleep(rank) ? rank->asleep + 1 : 0;
        some = some || rank->asleep < END_LOOKS_ASLEEP;
        if (job.end.looks == 0) tell("%s is killed and not gone yet", rank_name(rank, name));
    }
    return some;
}

static uint64_t end_tick_ending(uint64_t now)
{
    struct end *end = &job.end;
    while (end->step < END_STEPS) {
        unsigned quarters = end_quarters[end->step] + end->looks;
        uint64_t at = end->since_ns + job.exit_timeout_ns / 4 * quarters;
        if (now < at) return at;
        if (end->step == END_ABANDON && end_some_go())
            end->looks++;
        else
            end_take_step(end->step++);
    }
    return UINT64_MAX;
}

static void end_unexplained(struct rank *rank)
{
    char name[RANK_NAME_BYTES], text[AQI_CONTROL_TEXT + 1];
    snprintf(text, sizeof(text), "%s ended before aq_finalize", rank_name(rank, name));
    if (!end_survived(rank, EXIT_FAILED, text)) end_job(EXIT_FAILED, rank, "%s", text);
}

/* Programs that ended under a shell which has not ended since, and so will not say why. */
static uint64_t end_tick_lost(uint64_t now)
{
    uint64_t next = UINT64_MAX;
    if (end_lost_ranks == 0) return next;
    for (uint32_t i = 0; i < job.spawned && !job.end.ending; i++) {
        struct rank *rank = &job.ranks[i];
        if (rank->lost_ns == 0 || !rank->running || rank->state != RANK_JOINED) continue;
        uint64_t at = rank->lost_ns + job.exit_timeout_ns / END_SHELL_PART;
        if (now >= at)
            end_unexplained(rank);
        else
            next = aqi_min(next, at);
    }
    return next;
}

void end_left(const struct rank *rank)
{
    if (job.end.left_ns != 0) return;
    job.end.left_ns = aqi_now_ns() + job.exit_timeout_ns;
    job.end.left = rank->number;
}

/* All come to aq_finalize before any leaves it, unless it has failed there. */
static uint64_t end_tick_left(uint64_t now)
{
    char name[RANK_NAME_BYTES];
    if (now < job.end.left_ns) return job.end.left_ns;
    job.end.left_ns = UINT64_MAX;
    for (uint32_t i = 0; i < job.spawned; i++)
        if (job.ranks[i].state == RANK_JOINED && !job.ranks[i].leaving) {
            say("rank %u has left the job, while %s has not come to aq_finalize: it would wait for "
                "who has left for ever",
                job.end.left, rank_name(&job.ranks[i], name));
            break;
        }
    return UINT64_MAX;
}

/* Some ranks want the end: the others are asked, and at last it begins without them. */
static uint64_t end_tick_wanted(uint64_t now)
{
    struct end *end = &job.end;
    if (now >= end->grace_ns) {
        end_begin(end->code, NULL, end->why); /* who wanted it waits to be told, too */
        return UINT64_MAX;
    }
    if (now >= end->ask_ns) {
        hub_tell(AQI_MAX_RANKS, AQI_BOOT_ENDING, 0, 0, end->why);
        end->ask_ns = now + (now - end->wanted_ns);
    }
    return aqi_min(end->ask_ns, end->grace_ns);
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
    if (!job.end.ending && job.end.left_ns != 0) next = aqi_min(next, end_tick_left(now));
    if (!job.end.ending && job.end.grace_ns != 0) next = aqi_min(next, end_tick_wanted(now));
    return job.end.ending ? end_tick_ending(now) : next;
}
