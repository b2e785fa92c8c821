/* INI files: sections, keys, comments, and lines that are neither. */
#include "base/ini.h"

#include "base/capture_test.h"
#include <stdlib.h>
#include <string.h>

/* All sections and keys of a text, as "[name]" and "key=value", each followed by a semicolon. */
static const char *read_all(const char *text)
{
    static char all[4096];
    char *copy = strdup(text);
    struct aqi_ini ini = {.file = fmemopen(copy, strlen(text), "r")};
    assert_non_null(ini.file);
    all[0] = '\0';
    while (aqi_ini_next(&ini))
        snprintf(all + strlen(all), sizeof(all) - strlen(all),
                 ini.value == NULL ? "[%s];" : "%s=%s;", ini.name, ini.value);
    assert_int_equal(ferror(ini.file), 0);
    fclose(ini.file);
    free(copy);
    return all;
}

static void sections_and_keys_are_read(void **state)
{
    assert_string_equal(read_all("a=1\n[x]\nb = 2\n  c =3 \n[ y z ] ignored\nd e = 4=5"),
                        "a=1;[x];b=2;c=3;[ y z ];d e=4=5;");
    assert_string_equal(read_all("[x]\nempty =\n"), "[x];empty=;");
}

static void values_end_at_blanks_and_comments(void **state)
{
    assert_string_equal(read_all("a = 1 2\nb = 3\t4\nc = 5#6\n#d = 7\n[x] # [y]\n#[z]\n"),
                        "a=1;b=3;c=5;[x];");
}

static void other_lines_are_skipped(void **state)
{
    assert_string_equal(read_all("\n \nword\n = 1\n[open\n[open = 2\n]\n"), "[open=2;");
    assert_string_equal(read_all("\r\n[x]\r\na = 1\r\n"), "[x];a=1;");
}

static void a_byte_order_mark_is_skipped(void **state)
{
    assert_string_equal(read_all("\xef\xbb\xbf[x]\na = 1\n"), "[x];a=1;");
}

static void the_rest_of_a_long_line_is_skipped(void **state)
{
    char text[3000];
    memset(text, 'x', sizeof(text));
    memcpy(text, "a = ", 4);
    memcpy(text + 2000, "\n[y]\nb = ", 9);
    text[sizeof(text) - 1] = '\0';
    const char *all = read_all(text);
    assert_int_equal(strcspn(all, ";"), 1023 - 2); /* without the blanks around the "=" */
    assert_int_equal(strncmp(all + 1021, ";[y];b=x", 8), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_and_keys_are_read),
        cmocka_unit_test(values_end_at_blanks_and_comments),
        cmocka_unit_test(other_lines_are_skipped),
        cmocka_unit_test(a_byte_order_mark_is_skipped),
        cmocka_unit_test(the_rest_of_a_long_line_is_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
