/* The table of bootstrap kinds, and the calls that go through it. */
#include "job/boot.h"

#include "base/fail.h"
#include "job/kind.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Asked in this order; the last one takes everybody. */
static const struct aqi_boot_kind *const boot_kinds[] = {&aqi_boot_fork, &aqi_boot_single};

static const struct aqi_boot_kind *boot_choose(void)
{
    size_t i = 0;
    while (!boot_kinds[i]->launched())
        i++;
    return boot_kinds[i];
}

aq_status aqi_boot_open(struct aqi_boot **boot)
{
    const struct aqi_boot_kind *kind = boot_choose();
    struct aqi_boot *opened = calloc(1, kind->bytes);
    if (opened == NULL) return aqi_fail(AQ_ENOMEM, "job", "no memory to join the job");
    opened->kind = kind;
    opened->info.kind = kind->name;
    opened->fd = -1;
    aq_status status = kind->open(opened);
    if (status == AQ_OK)
        *boot = opened;
    else
        free(opened);
    return status;
}

const struct aqi_boot_info *aqi_boot_info(const struct aqi_boot *boot)
{
    return &boot->info;
}

aq_status aqi_boot_allgather(struct aqi_boot *boot, const void *mine, size_t len, void *all)
{
    return boot->kind->allgather(boot, mine, len, all);
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

void aqi_boot_idle(struct aqi_boot *boot, void (*idle)(void))
{
    boot->idle = idle;
}

aq_status aqi_boot_share(struct aqi_boot *boot, const char *name, size_t bytes, int *fd)
{
    return boot->kind->share(boot, name, bytes, fd);
}

aq_status aqi_boot_ready(struct aqi_boot *boot)
{
    return boot->kind->ready(boot);
}

aq_status aqi_boot_leaving(struct aqi_boot *boot)
{
    return boot->kind->leaving(boot);
}

aq_status aqi_boot_agree(struct aqi_boot *boot, const uint64_t name[2], aq_status mine,
                         const uint8_t *members)
{
    return boot->kind->agree(boot, name, mine, members);
}

bool aqi_boot_alert(const struct aqi_boot *boot)
{
    /* Pairs with the release in hub.c. `seen` runs ahead when an event was read from the socket
     * before its count was published. */
    uint32_t alerts = atomic_load_explicit(boot->alerts, memory_order_acquire);
    uint32_t seen = atomic_load_explicit(&boot->seen, memory_order_relaxed);
    return (int32_t)(alerts - seen) > 0;
}

aq_status aqi_boot_progress(struct aqi_boot *boot, aqi_boot_event_fn *fn, void *arg)
{
    return boot->kind->progress(boot, fn, arg);
}

int aqi_boot_fd(const struct aqi_boot *boot)
{
    return boot->fd;
}

void aqi_boot_exit(struct aqi_boot *boot, int code, const char *why)
{
    boot->kind->exit(boot, code, why);
}

bool aqi_boot_ending(struct aqi_boot *boot, int code, uint64_t wait_ns)
{
    return boot->kind->ending(boot, code, wait_ns);
}

aq_status aqi_boot_finalize(struct aqi_boot *boot)
{
    return boot->kind->finalize(boot);
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
