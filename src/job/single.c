/* The bootstrap of a process without a launcher: a job of one. */
#include "base/fail.h"
#include "base/random.h"
#include "base/shmem.h"
#include "base/spin.h"
#include "job/boot.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Agreements of this process with itself, answered by the next call of progress. */
struct single_agreement {
    struct single_agreement *next;
    uint64_t name[2];
    aq_status status;
};

struct single_boot {
    struct aqi_boot boot;
    struct aqi_spin lock; /* protects the list */
    struct single_agreement *agreements;
    _Atomic uint32_t agreed;
};

static struct single_boot *single_of(struct aqi_boot *boot)
{
    return (struct single_boot *)(void *)boot;
}

static aq_status single_open(struct aqi_boot *boot)
{
    boot->info.size = 1;
    boot->info.hosts = 1;
    boot->info.local_size = 1;
    boot->alerts = &single_of(boot)->agreed;
    return aqi_random(boot->info.key, sizeof(boot->info.key), "job");
}

static aq_status single_allgather(struct aqi_boot *boot, const void *mine, size_t len, void *all)
{
    (void)boot;
    if (len != 0) memmove(all, mine, len);
    return AQ_OK;
}

static aq_status single_table(struct aqi_boot *boot, const void *mine, size_t len, void **memory)
{
    (void)boot;
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return aqi_fail(AQ_ENOMEM, "job", "no memory for a table of %zu bytes", len);
    memcpy(at, mine, len);
    *memory = at;
    return AQ_OK;
}

static aq_status single_share(struct aqi_boot *boot, const char *name, size_t bytes, int *fd)
{
    (void)boot;
    return aqi_shmem_create(name, bytes, fd);
}

/* There is no agent to report to. */
static aq_status single_reach(struct aqi_boot *boot, enum aqi_boot_stage stage)
{
    (void)boot, (void)stage;
    return AQ_OK;
}

static aq_status single_agree(struct aqi_boot *boot, const uint64_t name[2], aq_status mine,
                              const uint8_t *members)
{
    struct single_boot *single = single_of(boot);
    struct single_agreement *agreement = malloc(sizeof(*agreement));
    (void)members;
    if (agreement == NULL) return aqi_fail(AQ_ENOMEM, "job", "no memory to agree");
    *agreement = (struct single_agreement){.name = {name[0], name[1]}, .status = mine};
    aqi_spin_lock(&single->lock);
    agreement->next = single->agreements;
    single->agreements = agreement;
    aqi_spin_unlock(&single->lock);
    atomic_fetch_add(&single->agreed, 1);
    return AQ_OK;
}

static aq_status single_show(struct aqi_boot *boot, enum aqi_show what, int fd)
{
    (void)boot, (void)what, (void)fd;
    return AQ_ENOTSUP;
}

static aq_status single_progress(struct aqi_boot *boot, aqi_boot_event_fn *fn, void *arg)
{
    static const uint8_t me = 1;
    struct single_boot *single = single_of(boot);
    aqi_spin_lock(&single->lock);
    struct single_agreement *agreement = single->agreements;
    single->agreements = NULL;
    aqi_spin_unlock(&single->lock);
    while (agreement != NULL) {
        struct single_agreement *next = agreement->next;
        struct aqi_boot_event event = {.type = AQI_BOOT_AGREED,
                                       .name = {agreement->name[0], agreement->name[1]},
                                       .status = agreement->status,
                                       .set = &me,
                                       .text = ""};
        free(agreement);
        atomic_fetch_add_explicit(&boot->seen, 1, memory_order_relaxed);
        fn(arg, &event);
        agreement = next;
    }
    return AQ_OK;
}

static void single_exit(struct aqi_boot *boot, int code, const char *why)
{
    (void)boot, (void)code, (void)why;
}

/* There are no other ranks. */
static bool single_ending(struct aqi_boot *boot, int code, uint64_t wait_ns)
{
    (void)boot, (void)code, (void)wait_ns;
    return false;
}

static void single_depart(struct aqi_boot *boot)
{
    (void)boot;
}

static void single_close(struct aqi_boot *boot)
{
    struct single_boot *single = single_of(boot);
    while (single->agreements != NULL) {
        struct single_agreement *agreement = single->agreements;
        single->agreements = agreement->next;
        free(agreement);
    }
}

const struct aqi_boot_kind aqi_boot_single = {
    .bytes = sizeof(struct single_boot),
    .open = single_open,
    .allgather = single_allgather,
    .table = single_table,
    .share = single_share,
    .reach = single_reach,
    .agree = single_agree,
    .show = single_show,
    .progress = single_progress,
    .exit = single_exit,
    .ending = single_ending,
    .depart = single_depart,
    .close = single_close,
};
