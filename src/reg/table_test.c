/* Tests table.c: thousands of records, several with one hash, through all growth. */
#include "reg/table.h"

#include "base/cmocka_test.h"

enum { RECORDS = 5000, SAME = 5 }; /* this many have the same hash */

static struct reg_entry records[RECORDS];

static unsigned found(const struct reg_table *table, uint64_t hash)
{
    unsigned count = 0;
    struct reg_entry *entry = NULL;
    while ((entry = reg_table_next(table, hash, entry)) != NULL) {
        assert_int_equal(entry->hash, hash);
        count++;
    }
    return count;
}

static void records_are_found_until_they_are_taken(void **unused)
{
    struct reg_table table;
    assert_int_equal(reg_table_open(&table), AQ_OK);
    for (unsigned i = 0; i < RECORDS; i++) {
        reg_table_put(&table, &records[i], i / SAME * 64);
        assert_int_equal(found(&table, i / SAME * 64), i % SAME + 1);
    }
    for (unsigned i = 0; i < RECORDS; i++) {
        reg_table_take(&table, &records[i]);
        assert_int_equal(found(&table, i / SAME * 64), SAME - 1 - i % SAME);
    }
    assert_int_equal(table.count, 0);
    reg_table_close(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(records_are_found_until_they_are_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
