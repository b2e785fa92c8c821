/* Events and implicit operations, which map directly to those of Aqueduct. */
#include "aqg.h"

/* An array of gex_Event_t is an array of aq_event: both are pointers, and 0 means done. */
static aq_event *event_array(gex_Event_t *events)
{
    return (aq_event *)(void *)events;
}

static int event_tested(const char *call, aq_status st)
{
    if (st == AQ_AGAIN) return GASNET_ERR_NOT_READY;
    aqgi_done(call, st);
    return GASNET_OK;
}

int aqg_event_test(gex_Event_t event)
{
    aq_event ev = aqgi_aq_event(event);
    return event_tested("gex_Event_Test", aq_event_test(&ev));
}

void aqg_event_wait(gex_Event_t event)
{
    aq_event ev = aqgi_aq_event(event);
    aqgi_done("gex_Event_Wait", aq_event_wait(&ev, AQ_FOREVER));
}

/* Calls on some or all of several events. */
#define EVENTS(Some, some)                                                                         \
    int gex_Event_Test##Some(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags)             \
    {                                                                                              \
        return event_tested("gex_Event_Test" #Some,                                                \
                            aq_event_test_##some(event_array(pevent), numevents));                 \
    }                                                                                              \
    void gex_Event_Wait##Some(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags)            \
    {                                                                                              \
        aqgi_done("gex_Event_Wait" #Some,                                                          \
                  aq_event_wait_##some(event_array(pevent), numevents, AQ_FOREVER));               \
    }
EVENTS(Some, some)
EVENTS(All, all)

AQG_DEFINE(gex_Event_t, gex_Event_QueryLeaf, (gex_Event_t root, gex_EC_t event_category),
           aqgi_event(aq_event_leaf(aqgi_aq_event(root), event_category)))

void gex_NBI_BeginAccessRegion(gex_Flags_t flags)
{
    aqgi_done("gex_NBI_BeginAccessRegion", aq_nbi_begin());
}

gex_Event_t gex_NBI_EndAccessRegion(gex_Flags_t flags)
{
    aq_event ev = AQ_EVENT_DONE;
    aqgi_done("gex_NBI_EndAccessRegion", aq_nbi_end(&ev));
    return aqgi_event(ev);
}

int gex_NBI_Test(gex_EC_t event_mask, gex_Flags_t flags)
{
    if (event_mask == 0) return GASNET_OK; /* nothing requested */
    return event_tested("gex_NBI_Test", aq_nbi_test(event_mask));
}

void gex_NBI_Wait(gex_EC_t event_mask, gex_Flags_t flags)
{
    if (event_mask != 0) aqgi_done("gex_NBI_Wait", aq_nbi_wait(event_mask, AQ_FOREVER));
}

int gasnet_AMPoll(void)
{
    aq_status st = aq_poll();
    if (aqgi_has_images()) aqgi_images_poll();
    return st >= 0 ? GASNET_OK : aqgi_error("gasnet_AMPoll", st);
}

static_assert(sizeof(struct aqg_wait) >= sizeof(aq_wait), "the public one has room");

void aqg_wait_round(struct aqg_wait *wait)
{
    if (aqgi_has_images()) aqgi_images_poll();
    aqgi_done("GASNET_BLOCKUNTIL", aq_poll_wait((aq_wait *)(void *)wait));
}

int gasnet_set_waitmode(int mode)
{
    static const aq_wait_mode modes[] = {[GASNET_WAIT_SPIN] = AQ_WAIT_SPIN,
                                         [GASNET_WAIT_BLOCK] = AQ_WAIT_SHARE,
                                         [GASNET_WAIT_SPINBLOCK] = AQ_WAIT_AUTO};
    if ((unsigned)mode > GASNET_WAIT_SPINBLOCK)
        return aqgi_refuse(GASNET_ERR_BAD_ARG, "gasnet_set_waitmode: mode %d does not exist", mode);
    return aqgi_error("gasnet_set_waitmode", aq_wait_mode_set(modes[mode]));
}
