/* Chained hash tables that double when they are full. */
#include "reg/table.h"

#include <stdlib.h>

enum { TABLE_ROWS = 64 };

aq_status reg_table_open(struct reg_table *table)
{
    *table = (struct reg_table){.rows = calloc(TABLE_ROWS, sizeof(*table->rows)),
                                .mask = TABLE_ROWS - 1};
    return table->rows != NULL ? AQ_OK : AQ_ENOMEM;
}

void reg_table_close(struct reg_table *table)
{
    free(table->rows);
    table->rows = NULL;
}

static void table_link(struct reg_table *table, struct reg_entry *entry)
{
    struct reg_entry **row = &table->rows[entry->hash & table->mask];
    entry->next = *row;
    *row = entry;
}

static void table_grow(struct reg_table *table)
{
    struct reg_table more = {.mask = 2 * table->mask + 1, .count = table->count};
    more.rows = calloc(more.mask + 1, sizeof(*more.rows));
    if (more.rows == NULL) return;
    for (size_t row = 0; row <= table->mask; row++) {
        for (struct reg_entry *next, *entry = table->rows[row]; entry != NULL; entry = next) {
            next = entry->next;
            table_link(&more, entry);
        }
    }
    free(table->rows);
    *table = more;
}

void reg_table_put(struct reg_table *table, struct reg_entry *entry, uint64_t hash)
{
    if (table->count > table->mask) table_grow(table);
    entry->hash = hash;
    table_link(table, entry);
    table->count++;
}

void reg_table_take(struct reg_table *table, struct reg_entry *entry)
{
    struct reg_entry **at = &table->rows[entry->hash & table->mask];
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    table->count--;
}

struct reg_entry *reg_table_next(const struct reg_table *table, uint64_t hash,
                                 const struct reg_entry *after)
{
    struct reg_entry *entry = after != NULL ? after->next : table->rows[hash & table->mask];
    while (entry != NULL && entry->hash != hash)
        entry = entry->next;
    return entry;
}
