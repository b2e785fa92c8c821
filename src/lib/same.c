/* Comparing settings at the start: better a sentence now than a job that hangs or corrupts later.
 */
#include "base/fail.h"
#include "lib/lib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAME_ROWS = 32 };

/* What a rank has for a row: the text, cut off, and the hash of all of it. */
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
    struct same_value value = {.hash = AQI_HASH_SEED};
    aqi_setting_format(table, row, text, sizeof(text));
    snprintf(value.text, sizeof(value.text), "%.23s", text);
    for (const char *c = text; *c != '\0'; c++)
        value.hash = aqi_hash(value.hash, (unsigned char)*c);
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
    return aqi_fail(
        AQ_ESETTING, "lib",
        "the ranks disagree: %s is \"%s\" in rank 0 and \"%s\" in rank %u; give all processes "
        "the same settings",
        row->name, first->text, other->text, rank);
}

/* What all values hash to: all ranks give the same, or all see that they do not. */
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

aq_status lib_compare_settings(struct aqi_boot *boot)
{
    const struct aqi_boot_info *info = &boot->info;
    struct same_list list;
    if (info->size == 1) return AQ_OK;
    same_collect(&list);
    uint64_t mine = same_hash(&list), *all = malloc(info->size * sizeof(mine));
    if (all == NULL) return aqi_fail(AQ_ENOMEM, "lib", "no memory to compare the settings");
    aq_status st = boot->kind->allgather(boot, &mine, sizeof(mine), all);
    bool same = true;
    for (uint32_t rank = 1; rank < info->size && st == AQ_OK; rank++)
        same = same && all[rank] == all[0];
    free(all);
    return st == AQ_OK && !same ? same_find(boot, &list) : st;
}
