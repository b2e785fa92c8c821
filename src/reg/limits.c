/* How much memory may be pinned: settings, the machine, and a trial if requested. */
#include "reg/limits.h"

#include "base/fail.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define LIMITS_MAX "2/3"

/*
 * The share of pinnable memory that peers may hold, in sixteenths: if segments are registered on
 * demand (as documented for vapi-conduit), else if they are registered from the start.
 */
enum { LIMITS_MAIN_ON_DEMAND = 12, LIMITS_MAIN_ELSE = 1, LIMITS_PARTS = 16, LIMITS_STEPS = 64 };

struct aqi_reg_config aqi_reg_config = {
    .max = LIMITS_MAX, .main = "", .victim = "", .region = 128 << 10, .ride = AQI_REG_RIDE_MAX};

/* In the order of enum aqi_reg_monitor. */
static const char *const limits_monitors[] = {"auto", "none", NULL};

/* 0 means "find out"; the limit is lowered when a registration fails. */
static const struct aqi_setting_word limits_max_words[] = {{"0", LIMITS_MAX}, {NULL, NULL}};
static const struct aqi_setting_word limits_noprobe_words[] = {AQI_SETTING_WORDS("yes", "no")};
/* Whether registrations of local memory are kept, which is only safe with the monitor. */
static const struct aqi_setting_word limits_keep_words[] = {AQI_SETTING_WORDS("none", "auto")};
static const char *const limits_keep_aliases[] = {"GASNET_USE_UDREG", NULL};

#define LIMITS_LEGAL                                                                               \
    "a fraction such as 0.8 or 5/8, or a size such as 512M or 4G; a number without a unit is in M"

/* Parses "0.8" or "5/8" of `whole`, "300" (M), "64K". */
static bool limits_share(const char *text, uint64_t whole, uint64_t *bytes)
{
    static const struct aqi_setting size = {.name = "", .type = AQI_SET_BYTES};
    char *end;
    if (text[strspn(text, "0123456789")] == '\0') {
        uint64_t number;
        if (!aqi_setting_read(&size, text, &number) || number > UINT64_MAX >> 20) return false;
        *bytes = number << 20;
        return true;
    }
    if (text[0] < '0' || text[0] > '9' || text[strspn(text, "0123456789./")] != '\0')
        return aqi_setting_read(&size, text, bytes);
    double part = strtod(text, &end), of = 1;
    if (*end == '/') of = strtod(end + 1, &end);
    if (*end != '\0' || !(part >= 0) || !(of > 0) || part > of) return false;
    *bytes = (uint64_t)(part / of * (double)whole);
    return true;
}

static bool limits_is_share(const char *text)
{
    uint64_t bytes;
    return limits_share(text, 0, &bytes);
}

static bool limits_is_share_or_nothing(const char *text)
{
    return *text == '\0' || limits_is_share(text);
}

static const struct aqi_setting limits_rows[] = {
    {.name = "AQ_REG_MAX",
     .alias_words = limits_max_words,
     .alias = "GASNET_PHYSMEM_MAX",
     .def = LIMITS_MAX,
     .check = limits_is_share,
     .legal = LIMITS_LEGAL,
     .doc = "The maximum memory of a host that all processes of the job there may have registered "
            "on demand, together: a fraction of it such as 0.8 or 5/8, or a size; a number without "
            "a unit is in M.",
     .advice = "Lower it if other programs need the memory. A limit on locked memory (ulimit -l) "
               "lowers it automatically.",
     AQI_SETTING_IN(TEXT, struct aqi_reg_config, max)},
    {.name = "AQ_REG_PROBE",
     .alias = "GASNET_PHYSMEM_NOPROBE",
     .alias_words = limits_noprobe_words,
     .words_only = true,
     .def = "no",
     .doc = "Register as much memory at startup as AQ_REG_VICTIM allows, to find out whether that "
            "is possible; otherwise the limit is lowered when a registration fails.",
     .advice = "Set yes if the first failures take long; the trial is slow, too.",
     AQI_SETTING_IN(BOOL, struct aqi_reg_config, probe)},
    {.name = "AQ_REG_MAIN",
     .alias = "GASNET_FIREHOSE_M",
     .def = "",
     .check = limits_is_share_or_nothing,
     .legal = "nothing, " LIMITS_LEGAL,
     .doc =
         "How much of its share of AQ_REG_MAX a process lends to its peers, in total: a fraction, "
         "or a size; a number without a unit is in M. If empty: three quarters if segments may be "
         "registered on demand (modes large and everything, ibv), otherwise a sixteenth.",
     .advice =
         "Raise it if peers repeatedly access more memory than that (counter reg_far_refused).",
     .same = true,
     AQI_SETTING_IN(TEXT, struct aqi_reg_config, main)},
    {.name = "AQ_REG_VICTIM",
     .alias = "GASNET_FIREHOSE_MAXVICTIM_M",
     .def = "",
     .check = limits_is_share_or_nothing,
     .legal = "nothing, " LIMITS_LEGAL,
     .doc = "How much of its share of AQ_REG_MAX a process may have registered for itself, or keep "
            "while unused: a fraction, or a size; a number without a unit is in M. If empty: the "
            "rest.",
     AQI_SETTING_IN(TEXT, struct aqi_reg_config, victim)},
    {.name = "AQ_REG_MAIN_REGIONS",
     .alias = "GASNET_FIREHOSE_R",
     .def = "0",
     .doc = "The maximum number of registrations that peers may hold; 0: as many as fit.",
     .same = true,
     AQI_SETTING_IN(COUNT, struct aqi_reg_config, main_regions)},
    {.name = "AQ_REG_VICTIM_REGIONS",
     .alias = "GASNET_FIREHOSE_MAXVICTIM_R",
     .def = "0",
     .doc = "The maximum number of other registrations of a process; 0: as many as fit.",
     AQI_SETTING_IN(COUNT, struct aqi_reg_config, victim_regions)},
    {.name = "AQ_REG_REGION",
     .alias = "GASNET_FIREHOSE_MAXREGION_SIZE",
     .def = "128K",
     .min = 4096,
     .max = UINT64_C(1) << 40,
     .clamp = true,
     .alias_unit = "M",
     .same = true,
     .doc = "The maximum size of one registration, rounded down to a power of two.",
     .advice = "Raise it if large buffers are used as a whole: the same memory then takes fewer "
               "registrations.",
     AQI_SETTING_IN(BYTES, struct aqi_reg_config, region)},
    {.name = "AQ_REG_PUT_IN_MOVE",
     .alias = "GASNET_PUTINMOVE_LIMIT",
     .def = "3K",
     .max = AQI_REG_RIDE_MAX,
     .same = true,
     .doc = "The largest put that is sent along with the request for its destination; over ibv, at "
            "most what AQ_IBV_MEDIUM leaves.",
     AQI_SETTING_IN(BYTES, struct aqi_reg_config, ride)},
    {.name = "AQ_REG_MONITOR",
     .alias = "GASNET_USE_FIREHOSE",
     .more_aliases = limits_keep_aliases,
     .alias_words = limits_keep_words,
     .words_only = true,
     .def = "auto",
     .doc =
         "How to detect that memory is unmapped, if a network pins it: auto (by userfaultfd, if "
         "available), or none: memory outside the segments is then registered for each transfer.",
     .advice = "Set none if a program with AQ_SEGMENT_MODE=everything unmaps memory all the time, "
               "since nothing is sent while a peer holds a key of unmapped memory; also if it "
               "moves memory mapped by several calls with one mremap, attaches SysV memory over "
               "other memory, or makes guard pages (MADV_GUARD_INSTALL).",
     .choices = limits_monitors,
     AQI_SETTING_IN(CHOICE, struct aqi_reg_config, monitor)},
};

struct aqi_settings_table aqi_reg_settings = {.group = "reg",
                                              .rows = limits_rows,
                                              .count = AQI_COUNT_OF(limits_rows),
                                              .values = &aqi_reg_config};

/* A share of `whole` as given by a setting, whose syntax was checked when it was loaded. */
static uint64_t limits_bytes(const char *text, uint64_t whole)
{
    uint64_t bytes = 0;
    (void)limits_share(text, whole, &bytes);
    return bytes;
}

void aqi_reg_machine_look(struct aqi_reg_machine *machine)
{
    struct rlimit locked;
    long page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES);
    machine->page = (uint64_t)page;
    machine->memory = machine->page * (uint64_t)(pages > 0 ? pages : 0);
    machine->locked = UINT64_MAX;
    if (geteuid() != 0 && getrlimit(RLIMIT_MEMLOCK, &locked) == 0 &&
        locked.rlim_cur != RLIM_INFINITY)
        machine->locked = locked.rlim_cur;
}

/* `most`: the maximum number of pieces of at least `piece` bytes; 0: as many as fit. */
static struct aqi_reg_pool limits_pool(uint64_t bytes, uint64_t piece, uint64_t most)
{
    uint64_t fit = bytes / piece;
    return (struct aqi_reg_pool){.bytes = bytes, .regions = most != 0 ? aqi_min(most, fit) : fit};
}

aq_status aqi_reg_limits_from(const struct aqi_reg_config *config,
                              const struct aqi_reg_machine *machine, struct aqi_reg_limits *limits)
{
    uint64_t parts = machine->on_demand ? LIMITS_MAIN_ON_DEMAND : LIMITS_MAIN_ELSE;
    uint64_t all = aqi_min(limits_bytes(config->max, machine->memory), machine->memory);
    all = aqi_min(all / aqi_max(machine->processes, 1), machine->locked);
    uint64_t main = all / LIMITS_PARTS * parts, victim = 0;
    if (*config->victim != '\0') {
        victim = limits_bytes(config->victim, all);
        main = all - aqi_min(all, victim);
    }
    if (*config->main != '\0') main = limits_bytes(config->main, all);
    if (*config->victim == '\0') victim = all - aqi_min(all, main);
    if (main > all || victim > all - main)
        return aqi_fail(AQ_ESETTING, "reg",
                        "%s (%llu bytes) and %s (%llu) together exceed the %llu bytes that a "
                        "process may register: lower them, or raise %s or ulimit -l",
                        aqi_setting_variable("AQ_REG_MAIN"), (unsigned long long)main,
                        aqi_setting_variable("AQ_REG_VICTIM"), (unsigned long long)victim,
                        (unsigned long long)all, aqi_setting_variable("AQ_REG_MAX"));
    /* A power of two, since regions are found by address bits. */
    uint64_t region = UINT64_C(1) << (63 - __builtin_clzll(aqi_max(config->region, machine->page)));
    /* Pieces outside the segments may be as small as a page. */
    *limits = (struct aqi_reg_limits){
        .page = machine->page,
        .region = region,
        .main = limits_pool(main, region, config->main_regions),
        .victim = limits_pool(victim, machine->page, config->victim_regions),
        .ride = (uint32_t)config->ride};
    return AQ_OK;
}

uint64_t aqi_reg_probe(const struct aqi_reg_hooks *hooks, uint64_t most)
{
    struct aqi_reg_mem mems[LIMITS_STEPS];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t step = most / LIMITS_STEPS / page * page;
    unsigned done = 0;
    if (step == 0) return most;
    char *at = mmap(NULL, step * LIMITS_STEPS, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return 0;
    while (done < LIMITS_STEPS && hooks->pin(hooks->host, (uint64_t)(uintptr_t)(at + step * done),
                                             step, &mems[done]) == AQ_OK)
        done++;
    for (unsigned i = 0; i < done; i++)
        hooks->unpin(hooks->host, &mems[i]);
    munmap(at, step * LIMITS_STEPS);
    return done == LIMITS_STEPS ? most : step * done;
}
