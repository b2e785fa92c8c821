/* How a wait spends its time: spinning, yielding, sleeping. */
#include "core/state/state.h"

#include "base/clock.h"

#include <limits.h>
#include <string.h>

/* Empty polls of a wait before its first yield. SPIN_ROUNDS take about 100 us. */
enum { SPIN_ROUNDS = 4000, BLOCK_ROUNDS = 50 };
/* After this many consecutive empty polls, polls of the program no longer pause. */
enum { POLLS_PAUSED = 32 };

void core_mode_crowd(unsigned threads)
{
    static const unsigned rounds[] = {[AQ_WAIT_AUTO] = SPIN_ROUNDS,
                                      [AQ_WAIT_SPIN] = UINT32_MAX,
                                      [AQ_WAIT_YIELD] = 0,
                                      [AQ_WAIT_BLOCK] = BLOCK_ROUNDS,
                                      [AQ_WAIT_SHARE] = 0};
    bool crowded = (uint64_t)core.params.local_size * threads > core.params.cores;
    aq_wait_mode mode = core.wait_wanted;
    /*
     * Programs request spinning without checking the number of cores; on a shared core, a thread
     * that spins takes the core from the one that it waits for.
     */
    if (crowded && core.wait_hinted && mode == AQ_WAIT_SPIN) mode = AQ_WAIT_SHARE;
    core.waiters = threads;
    atomic_store_explicit(&core.wait_mode, mode, memory_order_relaxed);
    core.spin_rounds = crowded && mode == AQ_WAIT_AUTO ? 0 : rounds[mode];
    core.spins = core.spin_rounds;
    core.awake_ns = crowded || mode != AQ_WAIT_AUTO ? 0 : aqi_core_config.awake_ns;
    core.calm_polls = core.params.brisk ? 0 : core.spin_rounds == 0 ? UINT_MAX : POLLS_PAUSED;
}

const struct aqi_setting *core_setting(const char *name)
{
    return &aqi_core_settings.rows[aqi_setting_row(&aqi_core_settings, name)];
}

bool core_setting_is_default(const char *name)
{
    return aqi_setting_is_default(&aqi_core_settings, aqi_setting_row(&aqi_core_settings, name));
}

bool core_setting_is_alias(const char *name)
{
    return strcmp(aqi_setting_variable(name), name) != 0;
}

aq_status aq_wait_mode_set(aq_wait_mode mode)
{
    if (!atomic_load(&core.open))
        return aqi_fail(AQ_ESTATE, "core", "aq_wait_mode_set: this process is not in a job");
    if ((unsigned)mode > AQ_WAIT_SHARE)
        return aqi_fail(AQ_EINVAL, "core", "aq_wait_mode_set: %d is not a value of aq_wait_mode",
                        (int)mode);
    if (!core_setting_is_default("AQ_WAIT")) return AQ_OK;
    aqi_spin_lock(&core.lock);
    core.wait_hinted = true;
    core.wait_wanted = mode;
    core_mode_crowd(core.waiters);
    aqi_spin_unlock(&core.lock);
    return AQ_OK;
}

/* A pause takes 10 ns on some processors and 45 ns on others; polls are best about 25 ns apart. */
void core_mode_calibrate(void)
{
    enum { SAMPLE = 32, APART_NS = 25, MOST = 4 };
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 3; i++) { /* one of them may be interrupted */
        uint64_t begun = aqi_now_ns();
        for (int n = 0; n < SAMPLE; n++)
            aqi_pause();
        least = aqi_min(least, aqi_now_ns() - begun);
    }
    core.pauses = (unsigned)aqi_max(1, aqi_min(MOST, SAMPLE * APART_NS / aqi_max(1, least)));
}
