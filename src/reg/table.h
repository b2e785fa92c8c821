/* Hash tables of records that contain their link; the caller compares records with equal hashes. */
#ifndef AQI_REG_TABLE_H
#define AQI_REG_TABLE_H

#include "base/base.h"

struct reg_entry {
    struct reg_entry *next;
    uint64_t hash;
};

struct reg_table {
    struct reg_entry **rows;
    size_t mask, count;
};

aq_status reg_table_open(struct reg_table *table);
void reg_table_close(struct reg_table *table);
/* Grows when it is full; without memory for that it becomes slower. */
void reg_table_put(struct reg_table *table, struct reg_entry *entry, uint64_t hash);
void reg_table_take(struct reg_table *table, struct reg_entry *entry);
/* The next record with this hash after `after` (NULL: the first); NULL if there is none. */
struct reg_entry *reg_table_next(const struct reg_table *table, uint64_t hash,
                                 const struct reg_entry *after);

#endif
