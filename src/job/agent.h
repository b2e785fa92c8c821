/*
 * An agent: the hub of a host with its sockets, that is the desk for its ranks and links to other
 * agents, in the event loop of the process. There is one per process.
 *
 *     aqi_loop_open(…); aqi_agent_open(&params);
 *     while (!over) aqi_loop_once(aqi_agent_tick());
 *     aqi_agent_close();
 */
#ifndef AQI_AGENT_H
#define AQI_AGENT_H

#include "job/hub/hub.h"

struct aqi_agent_params {
    /*
     * Parameters of the hub, see hub.h. The caller sets the `hooks` for processes and users: kill,
     * asleep, hint, say, output, input, over, die. The agent sets all other hooks, `page` and
     * `now_ns`.
     */
    struct aqi_hub_params hub;
    uint32_t local_ranks;
    /* The addresses of an agent up the tree: "10.0.0.7:40000,…". NULL: unreachable. */
    const char *(*where)(void *arg, uint32_t agent);
    /* An agent has attached here. May be NULL. */
    void (*attached)(void *arg, uint32_t agent);
    /* The link of an agent below has failed, perhaps before all output of its ranks arrived; also
     * called after the end of the job. May be NULL. */
    void (*disconnected)(void *arg, uint32_t agent, const char *why);
    const char *ports; /* AQ_CONTROL_PORTS */
};

/*
 * Open an agent, which listens for other agents if there are several.
 *
 * @return AQ_ENOTSUP  Several hosts need libcrypto, which is missing.
 */
aq_status aqi_agent_open(const struct aqi_agent_params *params, struct aqi_hub **hub);
/* Begin to attach, unless this is the root. `where` may be called from now on. */
void aqi_agent_start(void);
/* The addresses at which this agent may be reached, as from aqi_links_offer. */
aq_status aqi_agent_offer(char *text, size_t len);
/* Do all work that is due. Returns the time of the next call. */
uint64_t aqi_agent_tick(void);
/* Whether the root can be reached, and the number of agents attached here. */
bool aqi_agent_attached(void);
uint32_t aqi_agent_children(void);
/* Send queued data and close all links in an orderly way; runs the loop until that is done, but at
 * most until `limit_ns` of aqi_now_ns. */
void aqi_agent_leave(uint64_t limit_ns);
void aqi_agent_close(void);

#endif
