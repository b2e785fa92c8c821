/*
 * The agents below this one. Each gets its ticket through an ssh session, and starts those below
 * it.
 */
#include "tree.h"

#include "base/clock.h"
#include "base/inet.h"
#include "job/agent.h"
#include "job/link.h"
#include "progress.h"
#include "session.h"
#include "ssh.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The maximum number of concurrent sessions: each is a process that computes keys. */
#define TREE_AT_ONCE 32u

static struct {
    struct ticket plan;
    struct progress progress;
    char here[AQI_LINK_OFFER_BYTES];                      /* addresses of this agent */
    char above[AQI_LINK_OFFER_BYTES + AQI_SOCKADDR_TEXT]; /* addresses of the parent */
} tree;

const char *tree_name(uint32_t number)
{
    for (uint32_t i = 0; i < tree.plan.tree_count; i++)
        if (tree.plan.tree[i].number == number) return tree.plan.tree[i].name;
    return number == 0 ? "the launcher's" : "another";
}

const char *tree_addresses_of(void *arg, uint32_t number)
{
    uint32_t at = job.agent;
    (void)arg;
    for (size_t i = 0; tree.plan.addresses[i] != NULL; i++) {
        at = aqi_hub_parent(at, tree.plan.fanout);
        if (at == number) return i == 0 ? tree.above : tree.plan.addresses[i];
    }
    return NULL;
}

void tree_attached(void *arg, uint32_t number)
{
    (void)arg;
    session_answered(number);
}

/* --- sessions ------------------------------------------------------------------------------- */

static void tree_on_line(uint32_t host, int stream, const char *text)
{
    static const char self[] = "aqrun: "; /* also the prefix of our own lines */
    if (strncmp(text, self, strlen(self)) == 0) text += strlen(self);
    /* An agent that attaches after the end of the job fails, which is not an error. */
    if (stream == STDERR_FILENO && !job.over)
        aqi_hub_print(job.hub, "host %s: %s", tree_name(host), text);
    else
        aqi_hub_print_verbose(job.hub, "host %s: %s", tree_name(host), text);
}

static void tree_on_ended(uint32_t host, enum session_end how, const char *why)
{
    aqi_hub_now(job.hub, aqi_now_ns());
    if (how == SESSION_SERVED)
        aqi_hub_print_verbose(job.hub, "%s", why); /* the link reports more */
    else if (!aqi_hub_ending(job.hub))
        aqi_hub_no_agent(job.hub, host, why);
    else if (how == SESSION_FAILED)
        aqi_hub_print(job.hub, "%s", why); /* even while the job ends: only users can fix this */
}

static void tree_on_child(void)
{
    reaper_restore_signals();
    limits_restore();
}

static bool tree_is_below(uint32_t number, uint32_t above)
{
    while (number > above)
        number = aqi_hub_parent(number, tree.plan.fanout);
    return number == above;
}

/* The part of this subtree that belongs to a child, beginning with the child itself. */
static struct ticket_host *tree_part(uint32_t child, uint32_t *count)
{
    struct ticket_host *part = calloc(tree.plan.tree_count, sizeof(*part));
    if (part == NULL) die("no memory for the hosts of the job");
    *count = 0;
    for (uint32_t i = 0; i < tree.plan.tree_count; i++)
        if (tree_is_below(tree.plan.tree[i].number, child)) part[(*count)++] = tree.plan.tree[i];
    return part;
}

/* The address of this agent, followed by those of the agents above. */
static const char **tree_address_list(void)
{
    size_t count = 0;
    while (tree.plan.addresses[count] != NULL)
        count++;
    const char **all = calloc(count + 2, sizeof(*all));
    if (all == NULL) die("no memory for addresses");
    all[0] = tree.here;
    for (size_t i = 0; i < count; i++)
        all[i + 1] = tree.plan.addresses[i];
    return all;
}

static void tree_start(const struct ticket_host *child)
{
    char why[SSH_WHY + TICKET_WHY];
    const struct ssh_config config = {.command = tree.plan.ssh_command,
                                      .options = tree.plan.ssh_options,
                                      .aqrun = tree.plan.remote_aqrun};
    struct ticket ticket = tree.plan;
    struct session_request request = {.host = child->number, .name = child->name};
    struct ticket_host *part = tree_part(child->number, &ticket.tree_count);
    ticket.host = child->number;
    ticket.tree = part;
    ticket.addresses = tree_address_list();
    request.ticket = ticket_encode(&ticket, &request.ticket_len, why);
    free(part);
    free(ticket.addresses);
    if (request.ticket == NULL) die("the ticket of host %s: %s", child->name, why);
    request.argv = ssh_argv(&config, child->name, why);
    if (request.argv == NULL) die("host %s: %s", child->name, why);
    if (!session_start(&request)) die("no memory to start host %s", child->name);
}

void tree_open(const struct ticket *plan)
{
    tree.plan = *plan;
    if (tree.plan.addresses[0] != NULL)
        ssh_addresses(getenv("SSH_CONNECTION"), tree.plan.addresses[0], tree.above,
                      sizeof(tree.above));
}

void tree_start_all(void)
{
    static const struct session_hooks hooks = {
        .line = tree_on_line, .ended = tree_on_ended, .child = tree_on_child};
    if (aqi_agent_offer(tree.here, sizeof(tree.here)) != AQ_OK) die("%s", aq_error_message());
    sessions_open(&hooks, (uint32_t)aqi_min(tree.plan.fanout, TREE_AT_ONCE),
                  tree.plan.ssh_timeout_ns);
    for (uint32_t i = 0; i < tree.plan.tree_count; i++) {
        const struct ticket_host *host = &tree.plan.tree[i];
        if (aqi_hub_parent(host->number, tree.plan.fanout) == job.agent) tree_start(host);
    }
}

static bool tree_answered(uint32_t index)
{
    return aqi_hub_agent_here(job.hub, index + 1);
}

static const char *tree_name_at(uint32_t index)
{
    return tree.plan.tree[index].name;
}

/* List the missing hosts, for interactive users. */
static uint64_t tree_progress(uint64_t now)
{
    const struct progress_hosts hosts = {
        .count = tree.plan.tree_count, .answered = tree_answered, .name = tree_name_at};
    char line[PROGRESS_LINE];
    uint64_t next = UINT64_MAX;
    if (job.agent != 0 || tree.plan.tree_count == 0 || aqi_hub_ending(job.hub)) return next;
    if (!job.options.verbose && isatty(STDERR_FILENO) == 0) return next;
    if (tree.progress.began_ns == 0) tree.progress.began_ns = now;
    if (progress_line(&tree.progress, &hosts, now, line, &next)) say("%s", line);
    return next;
}

uint64_t tree_tick(uint64_t now)
{
    return aqi_min(sessions_tick(now), tree_progress(now));
}
