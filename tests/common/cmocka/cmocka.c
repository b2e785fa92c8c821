/* The part of cmocka that the tests use: groups of tests that continue after a failure. */
#include "cmocka.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PASSED, FAILED, SKIPPED };

static jmp_buf end_of_test;

void print_message(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
}

void aqt_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    longjmp(end_of_test, FAILED);
}

void aqt_skip(void)
{
    longjmp(end_of_test, SKIPPED);
}

void aqt_ints(uintmax_t a, uintmax_t b, int equal, const char *text, const char *file, int line)
{
    if ((a == b) != equal)
        aqt_fail(file, line, "%s are %s: %jd (%#jx) and %jd (%#jx)", text,
                 equal ? "not equal" : "equal", (intmax_t)a, a, (intmax_t)b, b);
}

void aqt_range(uintmax_t value, uintmax_t least, uintmax_t most, const char *text, const char *file,
               int line)
{
    if (value < least || value > most) aqt_fail(file, line, "not true: %s", text);
}

void aqt_strings(const char *a, const char *b, int equal, const char *file, int line)
{
    if ((strcmp(a, b) == 0) != equal)
        aqt_fail(file, line, "\"%s\" is %s \"%s\"", a, equal ? "not" : "also", b);
}

void aqt_memory(const void *a, const void *b, size_t size, int equal, const char *file, int line)
{
    if ((memcmp(a, b, size) == 0) != equal)
        aqt_fail(file, line, "the %zu bytes are %s", size, equal ? "not equal" : "equal");
}

static int run_test(const struct CMUnitTest *test, void *group_state)
{
    /* Not on the stack, where changes made between setjmp and longjmp could be lost. */
    static void *state;
    static int volatile result;
    state = test->initial_state != NULL ? test->initial_state : group_state;
    result = setjmp(end_of_test);
    if (result != PASSED) return result;
    if (test->setup_func != NULL && test->setup_func(&state) != 0)
        aqt_fail(test->name, 0, "its setup failed");
    test->test_func(&state);
    if (test->teardown_func != NULL && test->teardown_func(&state) != 0)
        aqt_fail(test->name, 0, "its teardown failed");
    return PASSED;
}

int _cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count,
                            CMFixtureFunction setup, CMFixtureFunction teardown)
{
    static const char *const said[] = {"      OK", " FAILED ", " SKIPPED"};
    static size_t results[3];
    static void *state;
    printf("[ %s: %zu tests ]\n", group, count);
    if (setup != NULL && setup(&state) != 0) return 1;
    for (size_t i = 0; i < count; i++) {
        printf("[ RUN      ] %s\n", tests[i].name);
        fflush(stdout);
        int result = run_test(&tests[i], state);
        results[result]++;
        printf("[ %s ] %s\n", said[result], tests[i].name);
        fflush(stdout);
    }
    if (teardown != NULL && teardown(&state) != 0) results[FAILED]++;
    printf("[ %zu passed, %zu failed, %zu skipped ]\n", results[PASSED], results[FAILED],
           results[SKIPPED]);
    return (int)results[FAILED];
}
