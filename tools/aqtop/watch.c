/* The connection to a job's root agent, and the data of its ranks. */
#include "aqtop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The last word of a line of /proc/net/unix is the name, with '@' for the NUL of abstract names. */
size_t watch_find(struct found_job *jobs, size_t max)
{
    size_t count = 0, room = 0;
    char *line = NULL;
    FILE *file = fopen("/proc/net/unix", "re");
    while (file != NULL && getline(&line, &room, file) > 0) {
        struct found_job job;
        int pid;
        const char *name = strstr(line, " @" AQI_TOP_NAME);
        if (name == NULL || sscanf(name, " @" AQI_TOP_NAME "%u.%d", &job.user, &pid) != 2) continue;
        if (job.user != geteuid() && geteuid() != 0) continue;
        job.pid = (pid_t)pid;
        bool again = false; /* connections have this name as well */
        for (size_t i = 0; i < count && i < max; i++)
            again = again || jobs[i].pid == job.pid;
        if (again) continue;
        if (count < max) jobs[count] = job;
        count++;
    }
    free(line);
    if (file != NULL) fclose(file);
    return count;
}

bool watch_open(struct watch *watch, const struct found_job *job, unsigned interval_ms)
{
    const struct aqi_top_ask ask = {.version = aqi_wire_version(AQI_WIRE_TOP),
                                    .interval_ms = interval_ms};
    *watch = (struct watch){.fd = aqi_top_connect(job->user, (int)job->pid), .job = job->pid};
    if (watch->fd >= 0 && send(watch->fd, &ask, sizeof(ask), MSG_NOSIGNAL) == (ssize_t)sizeof(ask))
        return true;
    fprintf(stderr, "aqtop: cannot reach job %d: %s\n", (int)job->pid, strerror(errno));
    return false;
}

static bool watch_take(struct watch *watch, const struct aqi_top_packet *packet)
{
    if (watch->count == 0) {
        watch->ranks = calloc(packet->ranks, sizeof(*watch->ranks));
        if (watch->ranks == NULL) return false;
        watch->count = packet->ranks;
        snprintf(watch->program, sizeof(watch->program), "%.63s", packet->program);
    }
    for (uint32_t i = 0; i < packet->rows; i++) {
        const struct aqi_top_row *row = &packet->row[i];
        if (row->rank >= watch->count) continue;
        struct rank *rank = &watch->ranks[row->rank];
        rank->now = *row;
        if (!rank->known) rank->before = *row;
        rank->known = true;
        snprintf(rank->host, sizeof(rank->host), "%.63s", packet->host);
    }
    return true;
}

/* Whether this aqtop cannot interpret a packet; sets `why`. */
static bool watch_refuse(struct watch *watch, const struct aqi_top_packet *packet, size_t len)
{
    const size_t head = offsetof(struct aqi_top_packet, row);
    char job[32];
    snprintf(job, sizeof(job), "job %d", (int)watch->job);
    if (len >= sizeof(packet->version) && packet->version != aqi_wire_version(AQI_WIRE_TOP))
        aqi_wire_differs(watch->why, sizeof(watch->why), AQI_WIRE_TOP, job, packet->version,
                         "this aqtop");
    else if (len < head || packet->ranks == 0 || packet->rows > AQI_TOP_ROWS ||
             packet->form != aqi_counters_form() ||
             len != head + packet->rows * sizeof(packet->row[0]))
        snprintf(
            watch->why, sizeof(watch->why),
            "%s and this aqtop have different counters: use the aqtop of the job's installation",
            job);
    return watch->why[0] != '\0';
}

bool watch_read(struct watch *watch)
{
    static struct aqi_top_packet packet;
    for (;;) {
        ssize_t got = recv(watch->fd, &packet, sizeof(packet), MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return true;
        if (got <= 0) return false;
        if (watch_refuse(watch, &packet, (size_t)got)) return false;
        if (!watch_take(watch, &packet)) return false;
    }
}

bool watch_is_fresh(const struct watch *watch)
{
    bool any = false;
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct rank *rank = &watch->ranks[i];
        if (rank->known && rank->now.at_ns == rank->before.at_ns) return false;
        any = any || rank->known;
    }
    return any;
}

bool watch_rate(struct watch *watch)
{
    bool any = false;
    for (uint32_t i = 0; i < watch->count; i++) {
        struct rank *rank = &watch->ranks[i];
        if (rank->known && rank->now.at_ns > rank->before.at_ns) {
            rank->rates = rates_between(&rank->before, &rank->now);
            rank->before = rank->now;
            rank->rated = true;
        }
        any = any || rank->rated;
    }
    return any;
}

struct rates watch_total(const struct watch *watch, unsigned *ranks, unsigned *hosts)
{
    struct rates total = {0};
    *ranks = *hosts = 0;
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct rank *rank = &watch->ranks[i];
        bool seen = false;
        if (!rank->rated) continue;
        rates_add(&total, &rank->rates);
        ++*ranks;
        for (uint32_t k = 0; k < i && !seen; k++)
            seen = watch->ranks[k].rated && strcmp(watch->ranks[k].host, rank->host) == 0;
        *hosts += !seen;
    }
    if (*ranks != 0) total.waits /= *ranks;
    return total;
}

void watch_close(struct watch *watch)
{
    if (watch->fd >= 0) close(watch->fd);
    free(watch->ranks);
}
