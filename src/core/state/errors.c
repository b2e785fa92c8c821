/* The errors that many calls share. */
#include "core/state/state.h"

#include <stdio.h>

AQI_COLD aq_status core_not_callable(const char *call)
{
    if (!atomic_load(&core.open))
        return aqi_fail(AQ_ESTATE, "core", "%s: called before aq_init or after aq_finalize", call);
    if (core_thread_is_foreign())
        return aqi_fail(
            AQ_ESTATE, "core",
            "%s: called by thread %d, but thread %d called aq_init in AQ_THREAD_SINGLE, which "
            "allows calls by that thread only: use AQ_THREAD_SERIALIZED or AQ_THREAD_MULTIPLE",
            call, core_thread_id(), core.owner);
    if (core_thread_mine == NULL) return AQ_ENOMEM; /* core_thread_attach has recorded the cause */
    return aqi_fail(AQ_ECONTEXT, "core",
                    "%s: called inside a handler, which may only reply and query", call);
}

aq_status aqi_core_callable(const char *call)
{
    return core_callable(atomic_load(&core.open) ? core_self() : NULL, call);
}

static const char *errors_peer_of(const struct core_route *route, char name[16])
{
    if (route->rank >= core.params.size) return "the peer of this connection";
    snprintf(name, 16, "rank %u", route->rank);
    return name;
}

AQI_COLD aq_status core_lost(const struct core_route *route, const char *call)
{
    if (route->rank >= core.params.size)
        return aqi_fail_quiet(AQ_EPEER, "%s: the peer of this connection is gone", call);
    return aqi_fail(AQ_EPEER, "core", "%s: rank %u is dead or unreachable", call,
                    (unsigned)route->rank);
}

AQI_COLD aq_status core_failed(const struct core_route *route, aq_status st, const char *call)
{
    if (st == AQ_EPEER) return core_lost(route, call);
    char name[16];
    return aqi_fail(st, "core", "%s: failed for %s: %s", call, errors_peer_of(route, name),
                    aq_status_text(st));
}

AQI_COLD struct core_route *core_no_route(const aq_team *team, aq_rank rank, const char *call,
                                          aq_status *st)
{
    if (team == NULL)
        *st = aqi_fail(AQ_EINVAL, "core", "%s: the team is NULL", call);
    else if (team->dead)
        *st = aqi_fail(AQ_ESTATE, "core", "%s: the team has been destroyed", call);
    else
        *st = aqi_fail(AQ_ERANK, "core", "%s: rank %u is not in the team, whose ranks are 0 to %u",
                       call, rank, team->size - 1);
    return NULL;
}

AQI_COLD aq_status core_no_answer(const char *call)
{
    return aqi_fail(AQ_ENOTSUP, "core",
                    "%s: a group takes only Short and Medium requests, and they cannot be "
                    "answered: for all else, connect to the member itself",
                    call);
}

AQI_COLD aq_status core_out_of_segment(const struct core_route *route, uint64_t addr, size_t len,
                                       const char *call)
{
    char name[16];
    const char *peer = errors_peer_of(route, name);
    if (core_may_answer(route, call) != AQ_OK) return AQ_ENOTSUP;
    if (route->seg_size == 0)
        return aqi_fail(AQ_ERANGE, "core", "%s: %s has no segment: %s", call, peer,
                        peer == name ? "every process must call aq_segment_attach first"
                                     : "it must pass one when it connects or accepts");
    return aqi_fail(AQ_ERANGE, "core",
                    "%s: %zu bytes at %#llx are not inside the segment of %s, which is %zu bytes "
                    "at %#llx",
                    call, len, (unsigned long long)addr, peer, route->seg_size,
                    (unsigned long long)route->seg_addr);
}

aq_status core_team_usable(const char *call, const aq_team *team)
{
    aq_status st = aqi_core_callable(call);
    if (st != AQ_OK) return st;
    if (team == NULL) return aqi_fail(AQ_EINVAL, "core", "%s: the team is NULL", call);
    if (team->dead) return aqi_fail(AQ_ESTATE, "core", "%s: the team has been destroyed", call);
    if (team->pair)
        return aqi_fail(
            AQ_EINVAL, "core",
            "%s: a team of aq_team_pair or of a connection only names peers: it has no collectives",
            call);
    return AQ_OK;
}
