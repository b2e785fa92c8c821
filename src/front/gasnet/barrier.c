/* The barrier of GASNet-1, on the team of all processes and on others (gasnet_coll_barrier). */
#include "aqg.h"

static_assert(GASNET_BARRIERFLAG_ANONYMOUS == AQ_BARRIER_ANONYMOUS &&
                  GASNET_BARRIERFLAG_MISMATCH == AQ_BARRIER_MISMATCH,
              "the same bits");

static unsigned barrier_flags_of(int flags)
{
    return (unsigned)flags & (AQ_BARRIER_ANONYMOUS | AQ_BARRIER_MISMATCH);
}

void aqgi_barrier_notify(aq_team *team, int id, int flags)
{
    aqgi_done("gasnet_barrier_notify", aq_barrier_notify(team, id, barrier_flags_of(flags)));
}

/* A mismatch is an answer, not a failure. */
static int barrier_result(const char *call, aq_status st)
{
    if (AQG_LIKELY(st == AQ_OK)) return GASNET_OK;
    if (st == AQ_EMISMATCH) return GASNET_ERR_BARRIER_MISMATCH;
    if (st == AQ_AGAIN) return GASNET_ERR_NOT_READY;
    aqgi_fatal(call, st);
}

int aqgi_barrier_wait(aq_team *team, int id, int flags)
{
    return barrier_result("gasnet_barrier_wait",
                          aq_barrier_wait(team, id, barrier_flags_of(flags)));
}

int aqgi_barrier_try(aq_team *team, int id, int flags)
{
    return barrier_result("gasnet_barrier_try", aq_barrier_try(team, id, barrier_flags_of(flags)));
}

/* 0: somebody named the last barrier; it was `*id`. */
int aqgi_barrier_result(aq_team *team, int *id)
{
    int named = 0;
    aq_status st = aq_barrier_result(team, &named);
    if (st == AQ_OK && id != NULL) *id = named;
    if (st == AQ_OK) return 0;
    if (st == AQ_AGAIN || st == AQ_EMISMATCH) return 1;
    aqgi_fatal("gasnet_barrier_result", st);
}

static aq_team *barrier_world(const char *call)
{
    if (!aqgi.open) aqgi_die("%s: before gex_Client_Init or gasnet_init", call);
    return aqgi.world.aq;
}

void gasnet_barrier_notify(int id, int flags)
{
    aqgi_barrier_notify(barrier_world("gasnet_barrier_notify"), id, flags);
}

int gasnet_barrier_wait(int id, int flags)
{
    return aqgi_barrier_wait(barrier_world("gasnet_barrier_wait"), id, flags);
}

int gasnet_barrier_try(int id, int flags)
{
    return aqgi_barrier_try(barrier_world("gasnet_barrier_try"), id, flags);
}

int gasnet_barrier(int id, int flags)
{
    aqgi_barrier_notify(barrier_world("gasnet_barrier"), id, flags);
    return aqgi_barrier_wait(aqgi.world.aq, id, flags);
}

int gasnet_barrier_result(int *id)
{
    return aqgi_barrier_result(barrier_world("gasnet_barrier_result"), id);
}
