/* Tests fields.c: messages of PMI as managers write them, and malformed ones. */
#include "manager_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char text[4096];

static bool cut(const char *message, char separator, struct manager_fields *fields)
{
    snprintf(text, sizeof(text), "%s", message);
    return manager_cut(text, separator, fields);
}

static void lines_of_managers(void **state)
{
    struct manager_fields fields;
    uint32_t number = 7;
    assert_true(cut("cmd=get_result rc=0 msg=all is well value=(vector,(0,1,1))", ' ', &fields));
    assert_int_equal(fields.count, 4);
    assert_string_equal(manager_field(&fields, "cmd"), "get_result");
    assert_string_equal(manager_field(&fields, "msg"), "all");
    assert_string_equal(manager_field(&fields, "value"), "(vector,(0,1,1))");
    assert_true(manager_number(manager_field(&fields, "rc"), &number));
    assert_int_equal(number, 0);
    assert_null(manager_field(&fields, "val"));
    assert_false(manager_number(manager_field(&fields, "msg"), &number));
    assert_true(cut("  cmd=x   y=a=b  ", ' ', &fields));
    assert_string_equal(manager_field(&fields, "y"), "a=b");
    assert_true(cut("cmd=init pmi_version=2 empty= ", ' ', &fields));
    assert_string_equal(manager_field(&fields, "empty"), "");
}

static void messages_of_managers(void **state)
{
    struct manager_fields fields;
    assert_true(cut("cmd=a;rc=0;value=one;;two;last=x y;", ';', &fields));
    assert_int_equal(fields.count, 4);
    assert_string_equal(manager_field(&fields, "value"), "one;two");
    assert_string_equal(manager_field(&fields, "last"), "x y");
    assert_true(cut("cmd=a;;;b=1", ';', &fields)); /* a doubled one, then a separator */
    assert_string_equal(manager_field(&fields, "cmd"), "a;");
    assert_string_equal(manager_field(&fields, "b"), "1");
}

static void malformed_messages(void **state)
{
    struct manager_fields fields;
    char many[20 * MANAGER_FIELDS] = "";
    assert_false(cut("", ' ', &fields));
    assert_false(cut("   ", ' ', &fields));
    assert_false(cut("words alone", ' ', &fields));
    for (size_t i = 0; i <= MANAGER_FIELDS; i++)
        strcat(many, "f=1 ");
    assert_false(cut(many, ' ', &fields));
    assert_true(cut(many + 4, ' ', &fields));
    assert_int_equal(fields.count, MANAGER_FIELDS);
}

static void numbers(void **state)
{
    static const char *const bad[] = {"",   "-1",  "+1",         " 1",
                                      "1 ", "0x1", "4294967296", "99999999999999999"};
    uint32_t number = 7;
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++)
        assert_false(manager_number(bad[i], &number));
    assert_int_equal(number, 7);
    assert_false(manager_number(NULL, &number));
    assert_true(manager_number("4294967295", &number));
    assert_int_equal(number, UINT32_MAX);
}

static void words_that_can_be_sent(void **state)
{
    assert_true(manager_is_word("kvs_1:2.host"));
    assert_true(manager_is_word("!~"));
    assert_false(manager_is_word("\177"));
    assert_false(manager_is_word(""));
    assert_false(manager_is_word("a b"));
    assert_false(manager_is_word("a\nb"));
    assert_false(manager_is_word("a;b"));
    assert_false(manager_is_word("a=b"));
    assert_false(manager_is_word("\xc3\xa4"));
}

static void lengths(void **state)
{
    static const struct {
        const char *head;
        int len; /* -1: it is none */
    } cases[] = {{"    48", 48}, {"48    ", 48}, {"  48  ", 48}, {"000048", 48}, {"999999", 999999},
                 {"      ", -1}, {"4 8   ", -1}, {"  -48 ", -1}, {"cmd=in", -1}, {"48\0   ", -1}};
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        static const char next[] = {'\0', ' ', '7'}; /* the first byte of the message */
        for (size_t k = 0; k < sizeof(next); k++) {
            char head[7];
            size_t len = 0;
            memcpy(head, cases[i].head, 6);
            head[6] = next[k];
            assert_int_equal(manager_read_length(head, &len), cases[i].len >= 0);
            if (cases[i].len >= 0) assert_int_equal(len, cases[i].len);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_managers),      cmocka_unit_test(messages_of_managers),
        cmocka_unit_test(malformed_messages),     cmocka_unit_test(numbers),
        cmocka_unit_test(words_that_can_be_sent), cmocka_unit_test(lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
