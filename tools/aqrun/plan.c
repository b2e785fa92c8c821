/* Derives agents from hosts and ranks: the root, the ranks of each agent, and the tickets. */
#include "job.h"
#include "launch.h"
#include "ticket.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

static struct {
    struct ticket ticket;
    const char **names; /* of the agents' hosts */
    uint32_t *agent_of; /* of each rank */
    uint32_t root_host; /* index in the list; equal to its length: the root has no ranks */
} plan;

static void *plan_memory(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    if (memory == NULL) die("no memory for %zu hosts", count);
    return memory;
}

/* The root itself runs the ranks of this machine, regardless of its position in the list. */
static void plan_agents(void)
{
    const struct place *place = &launch.place;
    struct ticket_host *tree = plan_memory(place->hosts, sizeof(*tree));
    plan.names = plan_memory(place->hosts + 1, sizeof(*plan.names));
    plan.agent_of = plan_memory(place->ranks, sizeof(*plan.agent_of));
    plan.root_host = 0;
    while (plan.root_host < place->hosts && !launch.hosts.list[plan.root_host].here)
        plan.root_host++;
    plan.names[0] = plan.root_host < place->hosts ? launch.hosts.list[plan.root_host].name : "here";
    uint32_t count = 0;
    for (uint32_t host = 0; host < place->hosts; host++) {
        uint32_t first = place->first[host], ranks = place_count(place, host);
        if (host == plan.root_host) continue;
        tree[count] = (struct ticket_host){.number = count + 1,
                                           .first = first,
                                           .count = ranks,
                                           .name = launch.hosts.list[host].name};
        plan.names[count + 1] = tree[count].name;
        count++;
        for (uint32_t rank = first; rank < first + ranks; rank++)
            plan.agent_of[rank] = count;
    }
    plan.ticket.tree = tree;
    plan.ticket.tree_count = count;
    plan.ticket.hosts = count + 1;
}

static void plan_limits(void)
{
    static const int kinds[] = {RLIMIT_CORE,    RLIMIT_CPU,    RLIMIT_DATA,  RLIMIT_FSIZE,
                                RLIMIT_MEMLOCK, RLIMIT_NOFILE, RLIMIT_STACK, RLIMIT_AS};
    static struct ticket_limit limits[AQI_COUNT_OF(kinds)];
    struct rlimit limit;
    for (size_t i = 0; i < AQI_COUNT_OF(kinds); i++)
        if (syscall(SYS_prlimit64, 0, kinds[i], NULL, &limit) == 0)
            limits[plan.ticket.limit_count++] = (struct ticket_limit){
                .resource = (uint32_t)kinds[i], .soft = limit.rlim_cur, .hard = limit.rlim_max};
    plan.ticket.limits = limits;
}

static void plan_surroundings(void)
{
    static char folder[PATH_MAX];
    static const char *nobody[] = {NULL};
    mode_t mask = umask(022);
    umask(mask);
    if (getcwd(folder, sizeof(folder)) == NULL) die("the current directory: %s", strerror(errno));
    plan.ticket.folder = folder;
    plan.ticket.umask = (uint32_t)mask;
    plan.ticket.remote_aqrun = launch_aqrun();
    plan.ticket.ssh_command = aqi_launch_config.ssh_command;
    plan.ticket.ssh_options = aqi_launch_config.ssh_options;
    plan.ticket.argv = (const char **)(uintptr_t)job.options.command;
    plan.ticket.environment = env_select(&job.options.env, environ);
    plan.ticket.addresses = nobody;
    if (plan.ticket.environment == NULL) die("no memory for the environment");
    plan_limits();
}

static uint32_t plan_flags(const struct aqi_hub_params *hub)
{
    int now = personality(0xffffffff);
    bool same = now != -1 && ((unsigned)now & ADDR_NO_RANDOMIZE) != 0;
    return (job.bind ? TICKET_BIND : 0u) | (job.options.prefix ? TICKET_PREFIX : 0u) |
           (hub->survive ? TICKET_SURVIVE : 0u) | (job.options.verbose ? TICKET_VERBOSE : 0u) |
           (same ? TICKET_SAME_ADDRESSES : 0u) |
           (plan.root_host == launch.place.hosts ? TICKET_ROOTLESS : 0u);
}

const struct ticket *plan_open(struct aqi_hub_params *hub, const char *ports)
{
    struct ticket *ticket = &plan.ticket;
    plan_agents();
    plan_surroundings();
    uint64_t fanout = aqi_launch_config.ssh_fanout;
    bool rootless = plan.root_host == launch.place.hosts;
    hub->agents = ticket->hosts;
    hub->agent_of = plan.agent_of;
    hub->hosts = plan.names;
    hub->fanout = fanout != 0 ? (uint32_t)fanout : ticket->hosts;
    hub->host_count = ticket->hosts - rootless;
    hub->host = 0;
    job.first = rootless ? 0 : launch.place.first[plan.root_host];
    job.count = rootless ? 0 : place_count(&launch.place, plan.root_host);
    memcpy(ticket->key, hub->key, sizeof(ticket->key));
    ticket->job = job.id;
    ticket->ranks = hub->ranks;
    ticket->fanout = hub->fanout;
    ticket->ports = ports;
    ticket->flags = plan_flags(hub);
    ticket->output = job.options.output != NULL ? job.options.output : "";
    ticket->ssh_timeout_ns = aqi_launch_config.ssh_timeout_ns;
    ticket->start_timeout_ns = hub->start_timeout_ns;
    ticket->exit_timeout_ns = hub->exit_timeout_ns;
    ticket->host_timeout_ns = hub->host_timeout_ns;
    return ticket;
}
