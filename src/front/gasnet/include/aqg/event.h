/* Events, implicit operations of a thread, and polling. */
#ifndef AQG_EVENT_H
#define AQG_EVENT_H

#include <aqg/types.h>

AQG_BEGIN

int aqg_event_test(gex_Event_t event);
void aqg_event_wait(gex_Event_t event);

AQG_INLINE int gex_Event_Test(gex_Event_t event)
{
    return AQG_LIKELY(event == GEX_EVENT_INVALID) ? GASNET_OK : aqg_event_test(event);
}
AQG_INLINE void gex_Event_Wait(gex_Event_t event)
{
    if (AQG_UNLIKELY(event != GEX_EVENT_INVALID)) aqg_event_wait(event);
}
int gex_Event_TestSome(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
void gex_Event_WaitSome(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
int gex_Event_TestAll(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
void gex_Event_WaitAll(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
gex_Event_t gex_Event_QueryLeaf(gex_Event_t root, gex_EC_t event_category);

void gex_NBI_BeginAccessRegion(gex_Flags_t flags);
gex_Event_t gex_NBI_EndAccessRegion(gex_Flags_t flags) AQG_MUST_USE;
int gex_NBI_Test(gex_EC_t event_mask, gex_Flags_t flags);
void gex_NBI_Wait(gex_EC_t event_mask, gex_Flags_t flags);

int gasnet_AMPoll(void);

const char *gasnet_ErrorName(int err);
const char *gasnet_ErrorDesc(int err);

/* One round of a wait: poll; if nothing has arrived, spin, yield or sleep according to the wait
 * mode. */
struct aqg_wait {
    uint64_t state[4];
};
void aqg_wait_round(struct aqg_wait *wait);

#define GASNET_BLOCKUNTIL(cond)                                                                    \
    do {                                                                                           \
        struct aqg_wait aqg_waiting = {{0, 0, 0, 0}};                                              \
        while (!(cond))                                                                            \
            aqg_wait_round(&aqg_waiting);                                                          \
        __atomic_thread_fence(__ATOMIC_ACQUIRE);                                                   \
    } while (0)

#define GASNET_WAIT_SPIN      0
#define GASNET_WAIT_BLOCK     1
#define GASNET_WAIT_SPINBLOCK 2
int gasnet_set_waitmode(int mode);

AQG_END

#endif
