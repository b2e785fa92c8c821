/* The barriers of GASNet-1: gasnet_coll_barrier on any team, gasnet_barrier on the primordial
 * team. */
#include "aqg.h"

#include <gasnet_coll.h>

static_assert(GASNET_BARRIERFLAG_ANONYMOUS == AQ_BARRIER_ANONYMOUS &&
                  GASNET_BARRIERFLAG_MISMATCH == AQ_BARRIER_MISMATCH,
              "the same bits");

static unsigned barrier_flags_of(int flags)
{
    return (unsigned)flags & (AQ_BARRIER_ANONYMOUS | AQ_BARRIER_MISMATCH);
}

void gasnet_coll_barrier_notify(gasnet_team_handle_t team, int id, int flags)
{
    aqgi_done("gasnet_barrier_notify",
              aq_barrier_notify(aqgi_aq(team), id, barrier_flags_of(flags)));
}

/* A mismatch is a result, not an error. */
static int barrier_result(const char *call, aq_status st)
{
    if (AQG_LIKELY(st == AQ_OK)) return GASNET_OK;
    if (st == AQ_EMISMATCH) return GASNET_ERR_BARRIER_MISMATCH;
    if (st == AQ_AGAIN) return GASNET_ERR_NOT_READY;
    aqgi_fatal(call, st);
}

int gasnet_coll_barrier_wait(gasnet_team_handle_t team, int id, int flags)
{
    return barrier_result("gasnet_barrier_wait",
                          aq_barrier_wait(aqgi_aq(team), id, barrier_flags_of(flags), AQ_FOREVER));
}

int gasnet_coll_barrier_try(gasnet_team_handle_t team, int id, int flags)
{
    return barrier_result("gasnet_barrier_try",
                          aq_barrier_wait(aqgi_aq(team), id, barrier_flags_of(flags), 0));
}

int gasnet_coll_barrier(gasnet_team_handle_t team, int id, int flags)
{
    gasnet_coll_barrier_notify(team, id, flags);
    return gasnet_coll_barrier_wait(team, id, flags);
}

/* Returns 0 and sets `*id` if the last barrier was named. */
int gasnet_coll_barrier_result(gasnet_team_handle_t team, int *id)
{
    int named = 0;
    aq_status st = aq_barrier_result(aqgi_aq(team), &named);
    if (st == AQ_OK && id != NULL) *id = named;
    if (st == AQ_OK) return 0;
    if (st == AQ_AGAIN || st == AQ_EMISMATCH) return 1;
    aqgi_fatal("gasnet_barrier_result", st);
}

/* --- the primordial team ---------------------------------------------------------------------- */

static gex_TM_t barrier_world(const char *call)
{
    if (!aqgi.open) aqgi_die("%s: called before gex_Client_Init or gasnet_init", call);
    return aqg_world;
}

void gasnet_barrier_notify(int id, int flags)
{
    gasnet_coll_barrier_notify(barrier_world(__func__), id, flags);
}

AQG_DEFINE(int, gasnet_barrier_wait, (int id, int flags),
           gasnet_coll_barrier_wait(barrier_world(__func__), id, flags))
AQG_DEFINE(int, gasnet_barrier_try, (int id, int flags),
           gasnet_coll_barrier_try(barrier_world(__func__), id, flags))
AQG_DEFINE(int, gasnet_barrier, (int id, int flags),
           gasnet_coll_barrier(barrier_world(__func__), id, flags))
AQG_DEFINE(int, gasnet_barrier_result, (int *id),
           gasnet_coll_barrier_result(barrier_world(__func__), id))
