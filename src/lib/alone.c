/* The library without a job: opened like a job of one process; reports nothing to a launcher. */
#include "lib/alone.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "core/core.h"
#include "job/boot.h"
#include "lib/lib.h"
#include "transport/shm/shm.h"
#include "transport/transport.h"

#include <aqueduct/aqueduct.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define ALONE_TIMEOUT_NS UINT64_C(86400000000000)
#define ALONE_SILENCE_NS UINT64_C(120000000000)

enum { ALONE_CONNECTIONS = 4096, ALONE_DATA = 2048, ALONE_SPINS_MIN = 16, ALONE_SPINS = 512 };

static struct aqi_boot *alone_boot;

static bool alone_alert(void *arg)
{
    (void)arg;
    return false;
}

/* A transport cannot continue, and no launcher reports the reason. */
static void alone_fatal(void *arg, const char *why)
{
    (void)arg;
    aqi_log(AQI_LOG_ERROR, "lib", "%s", why);
    abort();
}

static aq_status alone_open_core(struct aqi_boot *boot, aq_team **world)
{
    struct aqi_core_params params = {.boot = lib_core_boot(boot),
                                     .thread_mode = AQ_THREAD_SERIALIZED,
                                     .turns = true,
                                     .brisk = true,
                                     .register_call = "aq_am_register",
                                     .create_call = "aq_ep_create",
                                     .size = 1,
                                     .local_size = 1,
                                     .cores = 1};
    params.boot.alert = alone_alert;
    params.boot.fatal = alone_fatal;
    memcpy(params.key, boot->info.key, sizeof(params.key));
    return aqi_core_open(&params, world);
}

static void alone_configure(void)
{
    aqi_core_config.progress_thread = 0;
    aqi_core_config.conn_max = aqi_max(aqi_core_config.conn_max, ALONE_CONNECTIONS);
    aqi_core_config.conn_data = aqi_max(aqi_core_config.conn_data, ALONE_DATA);
    aqi_core_config.conn_timeout_ns = ALONE_TIMEOUT_NS;
    /* The owner of memory should not have to take part in a transfer. */
    aqi_setting_prefer(aqi_transport_find("shm")->settings, "AQ_SHM_CMA", SHM_CMA_ALWAYS);
    /* A process that was stopped for a minute is not dead. */
    aqi_setting_prefer(aqi_transport_find("udp")->settings, "AQ_UDP_KEEPALIVE", ALONE_SILENCE_NS);
}

aq_status lib_alone_open(const char *front,
                         bool (*allows)(void *context, uint64_t addr, size_t len), aq_team **world)
{
    aq_segment *everything;
    aq_status st = lib_load_settings(false);
    if (st == AQ_OK) st = aqi_log_configure(lib_config.log);
    if (st == AQ_OK) st = lib_outputs_begin_alone(front);
    if (st != AQ_OK) return st;
    alone_configure();
    if (allows != NULL) aqi_core_config.segment_mode = AQ_SEGMENT_EVERYTHING;
    aqi_core_filter_ranges(allows);
    struct aqi_boot *boot = calloc(1, aqi_boot_single.bytes);
    if (boot == NULL) return aqi_fail(AQ_ENOMEM, "lib", "no memory to open the library");
    boot->kind = &aqi_boot_single;
    boot->fd = -1;
    st = boot->kind->open(boot);
    if (st == AQ_OK) st = alone_open_core(boot, world);
    if (st != AQ_OK) {
        aqi_boot_close(boot);
        return st;
    }
    alone_boot = boot;
    if (allows != NULL) st = aq_segment_attach(*world, 0, &everything);
    if (st != AQ_OK) lib_alone_close();
    return st;
}

void lib_alone_close(void)
{
    if (alone_boot == NULL) return;
    lib_outputs_end();
    aqi_core_close();
    aqi_boot_close(alone_boot);
    alone_boot = NULL;
}

uint64_t lib_alone_set_close_timeout(uint64_t ns)
{
    uint64_t last = aqi_core_config.conn_timeout_ns;
    aqi_core_config.conn_timeout_ns = ns;
    return last;
}

_Atomic unsigned lib_alone_spins = ALONE_SPINS;

/*
 * If the core was away for a short time, another process of the program, or another thread, shares
 * it: yield sooner. For longer, it was a program that computes: yields cost a time slice then.
 */
void lib_alone_yield_now(void)
{
    enum { UNUSED_NS = 2000, SLICE_NS = 300000 };
    unsigned spins = atomic_load_explicit(&lib_alone_spins, memory_order_relaxed);
    uint64_t before = aqi_now_ns();
    (void)sched_yield();
    uint64_t away = aqi_now_ns() - before;
    if (away > UNUSED_NS && away < SLICE_NS)
        spins = spins / 2 >= ALONE_SPINS_MIN ? spins / 2 : ALONE_SPINS_MIN;
    else
        spins = spins * 2 <= ALONE_SPINS ? spins * 2 : ALONE_SPINS;
    atomic_store_explicit(&lib_alone_spins, spins, memory_order_relaxed);
}

bool lib_alone_may_use(const char *transport)
{
    return aqi_core_may_use(transport);
}
