/* Every status in the public header has its name and a distinct text. */
#include "base/base.h"
#include "base/capture_test.h"

#include <stdio.h>
#include <string.h>

static void names_follow_the_header(void **state)
{
    FILE *header = fopen(AQI_TEST_STATUS_HEADER, "r");
    assert_non_null(header);
    char line[256], name[64];
    int value, found = 0;
    while (fgets(line, sizeof(line), header) != NULL) {
        if (sscanf(line, " AQ_%60[A-Z] = %d", name, &value) != 2) continue;
        found++;
        assert_memory_equal(aq_status_name((aq_status)value), "AQ_", 3);
        assert_string_equal(aq_status_name((aq_status)value) + 3, name);
    }
    fclose(header);
    assert_int_equal(found, AQ_AGAIN - AQ_EREFUSED + 1);
}

static void texts_are_distinct(void **state)
{
    for (int a = AQ_EREFUSED; a <= AQ_AGAIN; a++)
        for (int b = AQ_EREFUSED; b < a; b++)
            assert_string_not_equal(aq_status_text((aq_status)a), aq_status_text((aq_status)b));
}

static void other_numbers_are_unknown(void **state)
{
    static const int numbers[] = {AQ_AGAIN + 1, AQ_EREFUSED - 1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < AQI_COUNT_OF(numbers); i++) {
        assert_string_equal(aq_status_name((aq_status)numbers[i]), "AQ_UNKNOWN");
        assert_true(strlen(aq_status_text((aq_status)numbers[i])) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_the_header),
        cmocka_unit_test(texts_are_distinct),
        cmocka_unit_test(other_numbers_are_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
