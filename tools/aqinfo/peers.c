/*
 * The ranks' data about their peers: from the boards of a running job, or from the counter files
 * of a finished one.
 */
#include "base/board.h"
#include "base/wire.h"
#include "data.h"
#include "job/top.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Time limit for an answer from the hosts of a job. */
enum { TIMEOUT_MS = 5000 };

/* For sorting: peers of the job by number, then connected programs, then dropped packets. */
enum { CONNECTION = UINT32_MAX - 1, DROPPED = UINT32_MAX };

static struct line {
    unsigned rank, peer;
    char name[64]; /* of the peer */
    char *text;
} * lines;
static size_t count;
static int refused; /* a process of another version was found */

static const struct column {
    const char *key, *title;
    int width;
} columns[] = {{"rtt_us", "rtt us", 10},    {"least_us", "least", 10},  {"rto_us", "timeout", 11},
               {"window", "window", 9},     {"flying", "flying", 9},    {"queued", "queued", 8},
               {"packet", "packet", 7},     {"sent", "sent", 9},        {"again", "again", 7},
               {"received", "received", 9}, {"repeated", "repeated", 9}};

/* Keep the lines of a text about peers or dropped packets. The latter sort after all peers. */
static size_t keep_lines(char *text)
{
    size_t before = count;
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct line new = {.text = line};
        int at = 0;
        if (sscanf(line, "rank %u: peer %u %n", &new.rank, &new.peer, &at) == 2 && at != 0)
            snprintf(new.name, sizeof(new.name), "%u", new.peer);
        else if (sscanf(line, "rank %u: connection %63s %n", &new.rank, new.name, &at) == 2 &&
                 at != 0)
            new.peer = CONNECTION;
        else if (sscanf(line, "rank %u: dropped%n", &new.rank, &at) == 1 && at != 0)
            new.peer = DROPPED;
        else
            continue;
        lines = realloc(lines, (count + 1) * sizeof(*lines));
        new.text = strdup(line + at);
        if (lines == NULL || new.text == NULL) abort();
        lines[count++] = new;
    }
    return count - before;
}

static int read_file(const char *name)
{
    FILE *file = fopen(name, "re");
    char *text = NULL;
    size_t room = 0;
    int failed = file == NULL || getdelim(&text, &room, '\0', file) < 0 || keep_lines(text) == 0;
    if (file == NULL || ferror(file))
        fprintf(stderr, "aqinfo: cannot read %s: %s\n", name, strerror(errno));
    else if (failed)
        fprintf(stderr,
                "aqinfo: %s contains no peers: was it written by AQ_STATS_FILE, in a job that used "
                "udp?\n",
                name);
    free(text);
    if (file != NULL) fclose(file);
    return failed;
}

static void keep_text(void *arg, char *text)
{
    size_t *found = arg;
    *found += keep_lines(text);
}

/* Whether process `pid` is process `from` or a descendant of it. */
static int descends(long pid, long from)
{
    for (int depth = 0; pid > 1 && depth < 100; depth++) {
        char path[64], stat[512];
        if (pid == from) return 1;
        snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
        FILE *file = fopen(path, "r");
        if (file == NULL) return 0;
        stat[fread(stat, 1, sizeof(stat) - 1, file)] = '\0';
        fclose(file);
        const char *name_end = strrchr(stat, ')');
        if (name_end == NULL || sscanf(name_end, ") %*c %ld", &pid) != 1) return 0;
    }
    return 0;
}

/* Connect to the root agent of a job, aqrun, which has access to the data of other hosts. */
static int connect_job(const char *name)
{
    char path[64];
    struct stat of;
    snprintf(path, sizeof(path), "/proc/%.20s", name);
    return stat(path, &of) == 0 ? aqi_top_connect(of.st_uid, (int)strtol(name, NULL, 10)) : -1;
}

/* Report that another process has an incompatible version. */
static void refuse(enum aqi_wire wire, const char *what, const char *name, unsigned version)
{
    char why[200], them[64];
    snprintf(them, sizeof(them), "%s %.20s", what, name);
    aqi_wire_differs(why, sizeof(why), wire, them, version, "this aqinfo");
    fprintf(stderr, "aqinfo: %s\n", why);
    refused = 1;
}

/* Receive the next packet. Returns 0 if none arrives in time, no others follow, or the version
 * differs. */
static int next_packet(const char *job, int fd, struct aqi_top_peers *packet)
{
    const size_t head = offsetof(struct aqi_top_peers, text);
    const unsigned ours = aqi_wire_version(AQI_WIRE_TOP);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, TIMEOUT_MS) != 1) return 0;
    ssize_t got = recv(fd, packet, sizeof(*packet), 0);
    if (got >= (ssize_t)sizeof(packet->version) && packet->version != ours)
        refuse(AQI_WIRE_TOP, "job", job, packet->version);
    return got >= (ssize_t)head && packet->version == ours && packet->len == (size_t)got - head;
}

/* Keep the data of all hosts of a job. Returns the number of lines, or -1 if there is no such job.
 */
static ssize_t ask_job(const char *name)
{
    const struct aqi_top_ask ask = {.version = aqi_wire_version(AQI_WIRE_TOP),
                                    .what = AQI_TOP_PEERS};
    static struct aqi_top_peers packet;
    uint32_t answered = 0, agents = 0;
    size_t found = 0;
    int fd = connect_job(name);
    if (fd < 0) return -1;
    int asked = send(fd, &ask, sizeof(ask), MSG_NOSIGNAL) == (ssize_t)sizeof(ask);
    while (asked && (agents == 0 || answered < agents) && next_packet(name, fd, &packet)) {
        char *text = strndup(packet.text, packet.len);
        if (text == NULL) abort();
        found += keep_lines(text);
        free(text);
        answered += packet.last;
        if (packet.agents != 0) agents = packet.agents;
    }
    close(fd);
    if (refused) return 0;
    if (agents == 0)
        fprintf(stderr, "aqinfo: job %s does not answer, because it is ending\n", name);
    else if (answered < agents)
        fprintf(stderr, "aqinfo: %u of the %u hosts of job %s did not answer\n", agents - answered,
                agents, name);
    return (ssize_t)found;
}

/* Read the boards of the process and its descendants. */
static size_t read_descendants(const char *name)
{
    size_t found = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || !descends(pid, strtol(name, NULL, 10))) continue;
        unsigned other = aqi_board_read((int)pid, keep_text, &found);
        if (other != 0) refuse(AQI_WIRE_BOARD, "process", entry->d_name, other);
    }
    if (processes != NULL) closedir(processes);
    return found;
}

static int read_job(const char *name)
{
    ssize_t found = ask_job(name);
    if (found < 0) found = (ssize_t)read_descendants(name);
    if (found == 0 && !refused)
        fprintf(stderr,
                "aqinfo: neither process %s nor its descendants have peers to show: the process "
                "has ended, belongs to another user, or does not use udp\n",
                name);
    return found == 0;
}

static int by_rank(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if ((x->peer == DROPPED) != (y->peer == DROPPED)) return x->peer == DROPPED ? 1 : -1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (x->peer != y->peer) return x->peer < y->peer ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void print_peer(const struct line *line, int width)
{
    char state[16] = "", key[16], value[32];
    int at = 0, more = 0;
    sscanf(line->text, "%15s%n", state, &at);
    printf("%6u %*s %-10s", line->rank, width, line->name, state);
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        int known = sscanf(line->text + at, " %15s %31s%n", key, value, &more) == 2 &&
                    strcmp(key, columns[i].key) == 0;
        printf(" %*s", columns[i].width, known ? value : "?");
        if (known) at += more;
    }
    putchar('\n');
}

int peers_show(char *const *names)
{
    int failed = 0, width = 6;
    for (; *names != NULL; names++)
        failed |=
            (*names)[strspn(*names, "0123456789")] == '\0' ? read_job(*names) : read_file(*names);
    if (count == 0) return 1;
    qsort(lines, count, sizeof(*lines), by_rank);
    for (size_t i = 0; i < count; i++)
        if ((int)strlen(lines[i].name) > width) width = (int)strlen(lines[i].name);
    printf("%6s %*s %-10s", "rank", width, "peer", "state");
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        printf(" %*s", columns[i].width, columns[i].title);
    putchar('\n');
    for (size_t i = 0; i < count; i++) {
        if (lines[i].peer != DROPPED)
            print_peer(&lines[i], width);
        else
            printf("rank %u dropped:%s\n", lines[i].rank, lines[i].text);
        free(lines[i].text);
    }
    free(lines);
    return failed;
}
