/* The choice of the bootstrap, and the common code of its kinds. */
#include "job/boot.h"

#include "base/fail.h"
#include "job/manager/manager.h"
#include "job/settings.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Tables returned by aqi_boot_table. */
struct boot_table {
    struct boot_table *next;
    void *memory;
    size_t bytes;
};

static aq_status boot_choose(const struct aqi_boot_kind **kind)
{
    const struct aqi_manager_kind *manager;
    bool launched = aqi_job_config.boot_fd != 0;
    aq_status status = aqi_manager_choose(&manager);
    if (status != AQ_OK) return status;
    if (aqi_job_config.boot == AQI_BOOT_AS_FORK && !launched)
        return aqi_fail(AQ_ESTATE, "job", "AQ_BOOT=fork, but aqrun did not start this process");
    /* In a manager's job, the ranks start the agent. */
    *kind = launched || manager != NULL ? &aqi_boot_fork : &aqi_boot_single;
    if (aqi_job_config.boot == AQI_BOOT_AS_SINGLE) *kind = &aqi_boot_single;
    return AQ_OK;
}

bool aqi_boot_is_specified(void)
{
    const struct aqi_boot_kind *kind = &aqi_boot_single;
    return aqi_job_config.boot != AQI_BOOT_AS_AUTO || boot_choose(&kind) != AQ_OK ||
           kind != &aqi_boot_single;
}

aq_status aqi_boot_open(struct aqi_boot *_Atomic *boot)
{
    const struct aqi_boot_kind *kind = &aqi_boot_single;
    aq_status status = boot_choose(&kind);
    if (status != AQ_OK) return status;
    struct aqi_boot *opened = calloc(1, kind->bytes);
    if (opened == NULL) return aqi_fail(AQ_ENOMEM, "job", "no memory to join the job");
    opened->kind = kind;
    opened->fd = -1;
    atomic_store(boot, opened);
    status = kind->open(opened);
    if (status != AQ_OK) free(atomic_exchange(boot, NULL));
    return status;
}

aq_status aqi_boot_table(struct aqi_boot *boot, const void *mine, size_t len, const void **table)
{
    struct boot_table *made = malloc(sizeof(*made));
    if (made == NULL) return aqi_fail(AQ_ENOMEM, "job", "no memory for a table of all ranks");
    aq_status status = boot->kind->table(boot, mine, len, &made->memory);
    if (status != AQ_OK) {
        free(made);
        return status;
    }
    made->bytes = len * boot->info.size;
    made->next = boot->tables;
    boot->tables = made;
    *table = made->memory;
    return AQ_OK;
}

bool aqi_boot_alert(const struct aqi_boot *boot)
{
    /* Pairs with the release in desk.c. `seen` is ahead if an event was read from the socket before
     * its count was published. */
    uint32_t alerts = atomic_load_explicit(boot->alerts, memory_order_acquire);
    uint32_t seen = atomic_load_explicit(&boot->seen, memory_order_relaxed);
    return (int32_t)(alerts - seen) > 0;
}

void aqi_boot_close(struct aqi_boot *boot)
{
    while (boot->tables != NULL) {
        struct boot_table *table = boot->tables;
        boot->tables = table->next;
        munmap(table->memory, table->bytes);
        free(table);
    }
    boot->kind->close(boot);
    free(boot);
}
