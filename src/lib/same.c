/* Compares versions and settings of all ranks at the start: better an error now than a job that
 * hangs or corrupts data later. */
#include "base/fail.h"
#include "base/log.h"
#include "base/wire.h"
#include "lib/lib.h"

#include <aqueduct/version.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAME_ROWS = 32 };

/* A rank's value for a row: the text, truncated, and the hash of all of it. */
struct same_value {
    char text[24];
    uint64_t hash;
};

struct same_list {
    const struct aqi_setting *rows[SAME_ROWS];
    struct same_value values[SAME_ROWS];
    size_t count;
};

static struct same_value same_value_of(const struct aqi_settings_table *table, size_t row)
{
    char text[512];
    aqi_setting_format(table, row, text, sizeof(text));
    struct same_value value = {.hash = aqi_hash_text(AQI_HASH_SEED, text)};
    snprintf(value.text, sizeof(value.text), "%.23s", text);
    return value;
}

static void same_collect(struct same_list *list)
{
    size_t count;
    struct aqi_settings_table *const *tables = lib_tables(&count);
    list->count = 0;
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < tables[t]->count && list->count < SAME_ROWS; i++)
            if (tables[t]->rows[i].same) {
                list->rows[list->count] = &tables[t]->rows[i];
                list->values[list->count++] = same_value_of(tables[t], i);
            }
}

/* All ranks find the same difference. */
static aq_status same_differ(const struct aqi_setting *row, const struct same_value *first,
                             uint32_t rank, const struct same_value *other)
{
    return aqi_fail(AQ_ESETTING, "lib",
                    "the ranks disagree: %s%s%s is \"%s\" in rank 0 and \"%s\" in rank %u; give "
                    "all processes the same settings",
                    row->name, row->alias != NULL ? " or " : "",
                    row->alias != NULL ? row->alias : "", first->text, other->text, rank);
}

/* The hash of all values: all ranks detect a difference. */
static uint64_t same_hash(const struct same_list *list)
{
    uint64_t hash = list->count;
    for (size_t i = 0; i < list->count; i++)
        hash = aqi_hash(hash, list->values[i].hash);
    return hash;
}

static aq_status same_find(struct aqi_boot *boot, const struct same_list *list)
{
    const struct aqi_boot_info *info = &boot->info;
    const void *table;
    aq_status st =
        aqi_boot_table(boot, list->values, list->count * sizeof(list->values[0]), &table);
    const struct same_value *all = table;
    for (uint32_t rank = 1; rank < info->size && st == AQ_OK; rank++)
        for (size_t i = 0; i < list->count && st == AQ_OK; i++) {
            const struct same_value *other = &all[rank * list->count + i];
            if (other->hash != all[i].hash) st = same_differ(list->rows[i], &all[i], rank, other);
        }
    return st;
}

/* --- versions --------------------------------------------------------------------------------- */

static const char *same_version(const struct lib_mark *mark, char text[32])
{
    snprintf(text, 32, "%u.%u.%u", mark->major, mark->minor, mark->patch);
    return text;
}

static_assert(AQI_WIRE_OF_JOB <= sizeof(((struct lib_mark *)NULL)->wires), "room for each format");

/* Development builds of one release may also differ. */
static aq_status same_wires(const struct lib_mark *all, uint32_t rank)
{
    char first[32], second[32];
    for (unsigned i = 0; i < sizeof(all->wires); i++) {
        if (all[rank].wires[i] == all[0].wires[i]) continue;
        const char *name = i < AQI_WIRE_OF_JOB ? aqi_wires[i].name : "a newer one";
        return aqi_fail(AQ_EPROTO, "lib",
                        "the ranks have incompatible builds of libaqueduct: in format \"%s\", rank "
                        "0 (libaqueduct %s) uses version %u and rank %u (%s) uses version %u; "
                        "install the same build on all hosts, and check LD_LIBRARY_PATH",
                        name, same_version(&all[0], first), all[0].wires[i], rank,
                        same_version(&all[rank], second), all[rank].wires[i]);
    }
    return AQ_OK;
}

/* An incompatibility is an error, and other differences are one warning. */
static aq_status same_versions(const struct aqi_boot_info *info, const struct lib_mark *all)
{
    uint32_t others = 0, other = 0;
    char first[32], second[32];
    same_version(&all[0], first);
    for (uint32_t rank = 1; rank < info->size; rank++) {
        same_version(&all[rank], second);
        if (!aqi_versions_fit(all[0].major, all[0].minor, all[rank].major, all[rank].minor))
            return aqi_fail(
                AQ_EPROTO, "lib",
                "the ranks have incompatible versions of libaqueduct: rank 0 has %s and rank %u "
                "has %s; install the same version on all hosts, and check LD_LIBRARY_PATH",
                first, rank, second);
        aq_status st = same_wires(all, rank);
        if (st != AQ_OK) return st;
        if (all[rank].patch == all[0].patch && all[rank].minor == all[0].minor) continue;
        if (others++ == 0) other = rank;
    }
    if (others != 0 && info->rank == 0)
        aqi_log(AQI_LOG_WARN, "lib",
                "%u of the %u ranks have a different version of libaqueduct than rank 0, which has "
                "%s: rank %u has %s; these versions are compatible, but it is better to install "
                "the same one on all hosts",
                others, info->size, first, other, same_version(&all[other], second));
    return AQ_OK;
}

/* A hash of the names of the compared rows, since other versions may have other rows. */
static uint32_t same_rows(const struct same_list *list)
{
    uint64_t hash = AQI_HASH_SEED;
    for (size_t i = 0; i < list->count; i++)
        hash = aqi_hash_text(hash, list->rows[i]->name);
    return (uint32_t)(hash ^ hash >> 32);
}

aq_status lib_compare_ranks(struct aqi_boot *boot)
{
    const struct aqi_boot_info *info = &boot->info;
    struct same_list list;
    if (info->size == 1) return AQ_OK;
    same_collect(&list);
    struct lib_mark mine = {.settings = same_hash(&list),
                            .rows = same_rows(&list),
                            .major = AQ_VERSION_MAJOR,
                            .minor = AQ_VERSION_MINOR,
                            .patch = AQ_VERSION_PATCH};
    for (unsigned i = 0; i < AQI_WIRE_OF_JOB; i++)
        mine.wires[i] = aqi_wire_version(i);
    struct lib_mark *all = calloc(info->size, sizeof(mine));
    if (all == NULL) return aqi_fail(AQ_ENOMEM, "lib", "no memory to compare the settings");
    aq_status st = boot->kind->allgather(boot, &mine, sizeof(mine), all);
    bool same = true, rows = true;
    if (st == AQ_OK) st = same_versions(info, all);
    for (uint32_t rank = 1; rank < info->size && st == AQ_OK; rank++) {
        same = same && all[rank].settings == all[0].settings;
        rows = rows && all[rank].rows == all[0].rows;
    }
    free(all);
    return st == AQ_OK && !same && rows ? same_find(boot, &list) : st;
}
