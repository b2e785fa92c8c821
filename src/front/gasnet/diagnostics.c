/*
 * A self-test of the library, for programs that provide one: atomics under contention, and
 * transfers of random ranges to a peer and back. Errors are printed and counted.
 */
#include "aqg.h"

#include <gasnet_coll.h>

#include <pthread.h>

enum { RANGE = 4096, MOST_THREADS = 64 };

static gasnett_strongatomic64_t counted;
static gasnett_mutex_t guard = GASNETT_MUTEX_INITIALIZER;
static uint64_t guarded;

static void *diagnostics_count_up(void *arg)
{
    int iters = *(const int *)arg;
    for (int i = 0; i < iters; i++) {
        gasnett_strongatomic64_increment(&counted, GASNETT_ATOMIC_NONE);
        gasnett_mutex_lock(&guard);
        guarded++;
        gasnett_mutex_unlock(&guard);
    }
    return NULL;
}

static int diagnostics_check_threads(int iters, int threads)
{
    pthread_t ids[MOST_THREADS];
    int started = 0;
    gasnett_strongatomic64_set(&counted, 0, GASNETT_ATOMIC_NONE);
    guarded = 0;
    while (started < threads - 1 && started < MOST_THREADS &&
           pthread_create(&ids[started], NULL, diagnostics_count_up, &iters) == 0)
        started++;
    diagnostics_count_up(&iters);
    for (int i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    uint64_t want = (uint64_t)(started + 1) * (uint64_t)iters;
    uint64_t got = gasnett_strongatomic64_read(&counted, GASNETT_ATOMIC_MB_PRE);
    if (got == want && guarded == want) return 0;
    fprintf(stderr,
            "diagnostics: counted %" PRIu64 " steps with atomics and %" PRIu64
            " with a mutex, instead of %" PRIu64 "\n",
            got, guarded, want);
    return 1;
}

static int diagnostics_check_transfers(int iters, gex_TM_t tm, gex_Rank_t peer, void *peerseg,
                                       unsigned seed)
{
    unsigned char sent[RANGE], back[RANGE];
    for (int i = 0; i < iters; i++) {
        size_t len = 1 + (seed = seed * 1103515245u + 12345u) / 65536 % RANGE;
        size_t at = (seed = seed * 1103515245u + 12345u) / 65536 % (RANGE - len + 1);
        char *there = (char *)peerseg + at;
        memset(back, 0, len);
        for (size_t k = 0; k < len; k++)
            sent[k] = (unsigned char)((seed >> 3) + k * 7);
        gex_Event_Wait(gex_RMA_PutNB(tm, peer, there, sent, len, GEX_EVENT_DEFER, 0));
        gex_Event_Wait(gex_RMA_GetNB(tm, back, peer, there, len, 0));
        if (memcmp(sent, back, len) == 0) continue;
        fprintf(stderr, "diagnostics: %zu bytes put to rank %u came back modified\n", len,
                (unsigned)peer);
        return 1;
    }
    return 0;
}

int gasnett_run_diagnostics(int iters, int threads, const char *sections, gex_TM_t tm, void *myseg,
                            gex_Rank_t peer, void *peerseg, unsigned int seed)
{
    int wrong = diagnostics_check_threads(iters, threads);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    wrong += diagnostics_check_transfers(iters, tm, peer, peerseg, seed + 1);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    return wrong;
}

void gasnett_diagnostic_gethandlers(gex_AM_Entry_t **table, int *count)
{
    *table = NULL;
    *count = 0;
}
