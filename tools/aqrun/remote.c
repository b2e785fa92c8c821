/*
 * `aqrun --agent`: runs a job's ranks on this host. It reads its ticket from standard input,
 * written by the aqrun that has started it through ssh; all other communication uses links.
 */
#include "base/clock.h"
#include "job.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Time limit for the ticket, which arrives immediately unless there is no writer. */
#define REMOTE_TIMEOUT_NS 60000000000u

/*
 * `input` is standard input after the ticket: end of file means that the process that started this
 * one has ended, or ends the job.
 */
static struct {
    struct aqi_source input;
    struct ticket ticket;
} remote = {.input.fd = -1};

/* Read more bytes; returns 0 at end of file. Dies if none arrive in time. */
static size_t remote_read(uint8_t *at, size_t room, uint64_t limit)
{
    for (;;) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        uint64_t now = aqi_now_ns();
        if (now >= limit)
            die("--agent: no ticket was received on standard input; aqrun itself uses this option, "
                "over ssh");
        if (poll(&input, 1, (int)((limit - now) / 1000000 + 1)) <= 0) continue;
        ssize_t got = read(STDIN_FILENO, at, room);
        if (got >= 0) return (size_t)got;
        if (errno != EINTR && errno != EAGAIN) die("--agent: standard input: %s", strerror(errno));
    }
}

/* Read no more bytes than needed: nothing follows the ticket, so reading more would block. */
static void remote_read_ticket(void)
{
    uint64_t limit = aqi_now_ns() + REMOTE_TIMEOUT_NS;
    size_t used = 0, room = 65536;
    char why[TICKET_WHY];
    uint8_t *bytes = malloc(room);
    for (;;) {
        if (bytes == NULL) die("--agent: no memory for a ticket");
        size_t got = remote_read(bytes + used, room - used, limit);
        used += got;
        ssize_t took =
            ticket_decode(bytes, used, got == 0, program_invocation_name, &remote.ticket, why);
        if (took < 0) die("--agent: %s", why);
        if (took > 0 && why[0] != '\0') say("%s", why);
        if (took > 0) break;
        if (used == room) bytes = realloc(bytes, room *= 2);
    }
    explicit_bzero(bytes, used);
    free(bytes);
}

static void remote_set_limits(void)
{
    for (uint32_t i = 0; i < remote.ticket.limit_count; i++) {
        const struct ticket_limit *limit = &remote.ticket.limits[i];
        struct rlimit now, wanted = {.rlim_cur = limit->soft, .rlim_max = limit->hard};
        /*
         * Use the system call: resources are numbers in the ticket, and the argument type of
         * getrlimit differs between C libraries.
         */
        if (syscall(SYS_prlimit64, 0, limit->resource, NULL, &now) != 0) continue;
        /* Limits of this host may be lower on purpose: do not exceed them. */
        wanted.rlim_max = aqi_min(wanted.rlim_max, now.rlim_max);
        wanted.rlim_cur = aqi_min(wanted.rlim_cur, wanted.rlim_max);
        (void)syscall(SYS_prlimit64, 0, limit->resource, &wanted, NULL);
    }
}

/* Set up the environment inherited by the ranks of this host. */
static const char *remote_set_up(void)
{
    static char why[1024];
    const struct ticket *ticket = &remote.ticket;
    clearenv();
    for (size_t i = 0; ticket->environment[i] != NULL; i++)
        if (putenv((char *)(uintptr_t)ticket->environment[i]) != 0)
            die("--agent: no memory for the environment");
    umask((mode_t)ticket->umask);
    remote_set_limits();
    if ((ticket->flags & TICKET_SAME_ADDRESSES) != 0) {
        int now = personality(0xffffffff);
        if (now != -1) (void)personality((unsigned long)now | ADDR_NO_RANDOMIZE);
    }
    if (chdir(ticket->folder) == 0) return NULL;
    snprintf(why, sizeof(why),
             "there is no directory %s here (%s): create it, or start aqrun in a directory that "
             "all hosts have",
             ticket->folder, strerror(errno));
    return why;
}

static void remote_input_ready(struct aqi_source *source)
{
    char byte;
    ssize_t got = read(source->fd, &byte, 1);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
    aqi_source_close(source);
    aqi_hub_now(job.hub, aqi_now_ns());
    aqi_hub_forsaken(job.hub);
}

/* Set the agent of each rank. For ranks of other hosts, any other number suffices. */
static void remote_place(struct aqi_hub_params *hub)
{
    const struct ticket_host *own = &remote.ticket.tree[0];
    uint32_t *agent_of = calloc(hub->ranks, sizeof(*agent_of));
    const char **names = calloc(hub->agents, sizeof(*names));
    if (agent_of == NULL || names == NULL) die("no memory for %u ranks", hub->ranks);
    for (uint32_t i = 0; i < own->count; i++)
        agent_of[own->first + i] = hub->agent;
    for (uint32_t i = 0; i < hub->agents; i++)
        names[i] = tree_name(i);
    hub->agent_of = agent_of;
    hub->hosts = names;
    job.first = own->first;
    job.count = own->count;
}

const struct ticket *remote_begin(struct aqi_hub_params *hub, const char **why)
{
    const struct ticket *ticket = &remote.ticket;
    const char *ssh = getenv("SSH_CONNECTION");
    char connection[256];
    /*
     * If a command other than ssh exec'ed this program, the end of the session might send a
     * signal, which would be taken as a request to end the job. The link and standard input report
     * that end as well, and the job may survive it.
     */
    prctl(PR_SET_PDEATHSIG, 0);
    snprintf(connection, sizeof(connection), "%s", ssh != NULL ? ssh : "");
    remote_read_ticket();
    *why = remote_set_up();
    if (ssh != NULL) setenv("SSH_CONNECTION", connection, 1);
    tree_open(ticket);
    unsetenv("SSH_CONNECTION");
    bool rootless = (ticket->flags & TICKET_ROOTLESS) != 0;
    *hub = (struct aqi_hub_params){.ranks = ticket->ranks,
                                   .agents = ticket->hosts,
                                   .agent = ticket->host,
                                   .fanout = ticket->fanout,
                                   .host_count = ticket->hosts - rootless,
                                   .host = ticket->host - rootless,
                                   .survive = (ticket->flags & TICKET_SURVIVE) != 0,
                                   .start_timeout_ns = ticket->start_timeout_ns,
                                   .exit_timeout_ns = ticket->exit_timeout_ns,
                                   .host_timeout_ns = ticket->host_timeout_ns};
    memcpy(hub->key, ticket->key, sizeof(hub->key));
    job.options.ranks = ticket->ranks;
    job.options.command = (char **)(uintptr_t)ticket->argv;
    job.options.verbose = (ticket->flags & TICKET_VERBOSE) != 0;
    job.options.prefix = (ticket->flags & TICKET_PREFIX) != 0;
    job.options.output = ticket->output[0] != '\0' ? ticket->output : NULL;
    job.bind = (ticket->flags & TICKET_BIND) != 0;
    snprintf(job.id, sizeof(job.id), "%s", ticket->job);
    remote_place(hub);
    return ticket;
}

void remote_watch_input(void)
{
    int input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0) die("--agent: %s", strerror(errno));
    close(null);
    fcntl(input, F_SETFL, O_NONBLOCK);
    aqi_source_open(&remote.input, input, remote_input_ready);
    aqi_source_watch(&remote.input, EPOLLIN);
}
