/* Tests same.c: ranks whose libraries or settings differ, simulated by a bootstrap. */
#include "base/capture_test.h"
#include "base/fail.h"
#include "base/wire.h"
#include "lib/lib.h"

#include <aqueduct/version.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 4 };

static struct lib_mark marks[RANKS]; /* added to the mark of this rank */
static unsigned tables;              /* number of allgathers */

static aq_status same_gather(struct aqi_boot *boot, const void *mine, size_t len, void *all)
{
    struct lib_mark own, *to = all;
    assert_int_equal(len, sizeof(own));
    memcpy(&own, mine, sizeof(own));
    for (unsigned i = 0; i < RANKS; i++) {
        to[i] = own;
        to[i].settings += marks[i].settings;
        to[i].rows += marks[i].rows;
        to[i].major = (uint8_t)(to[i].major + marks[i].major);
        to[i].minor = (uint8_t)(to[i].minor + marks[i].minor);
        to[i].patch = (uint16_t)(to[i].patch + marks[i].patch);
        for (unsigned w = 0; w < sizeof(own.wires); w++)
            to[i].wires[w] = (uint8_t)(to[i].wires[w] + marks[i].wires[w]);
    }
    return AQ_OK;
}

static aq_status same_table(struct aqi_boot *boot, const void *mine, size_t len, void **memory)
{
    tables++;
    return AQ_EPEER;
}

static const struct aqi_boot_kind kind = {.allgather = same_gather, .table = same_table};

/* Compare as rank `rank`, expecting the result `wanted`; returns the output. */
static const char *compare(uint32_t rank, aq_status wanted)
{
    static struct capture capture;
    struct aqi_boot boot = {.kind = &kind, .info = {.size = RANKS, .rank = rank}};
    tables = 0;
    capture_start(&capture);
    aq_status st = lib_compare_ranks(&boot);
    capture_end(&capture);
    assert_int_equal(st, wanted);
    return capture.text;
}

static int begin(void **state)
{
    memset(marks, 0, sizeof(marks));
    return 0;
}

static void equal_ranks_print_nothing(void **state)
{
    assert_string_equal(compare(0, AQ_OK), "");
    assert_int_equal(tables, 0);
}

static void compatible_versions_are_one_warning(void **state)
{
    char text[128];
    marks[2].patch = marks[3].patch = 7;
    snprintf(text, sizeof(text),
             "2 of the 4 ranks have a different version of libaqueduct than rank 0, which has %s: "
             "rank 2 has %d.%d.%d;",
             aq_version(), AQ_VERSION_MAJOR, AQ_VERSION_MINOR, AQ_VERSION_PATCH + 7);
    assert_non_null(strstr(compare(0, AQ_OK), text));
    assert_string_equal(compare(2, AQ_OK), "");
}

static void incompatible_versions_are_an_error_everywhere(void **state)
{
    char text[128];
    marks[1].patch = 7;
    for (unsigned i = 0; i < 2; i++) {
        marks[3].minor = (uint8_t)(i == 0);
        marks[3].major = (uint8_t)(i == 1);
        snprintf(text, sizeof(text), "rank 0 has %s and rank 3 has %u.%u.%u;", aq_version(),
                 AQ_VERSION_MAJOR + i, AQ_VERSION_MINOR + 1 - i, AQ_VERSION_PATCH);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            (void)compare(rank, AQ_EPROTO);
            assert_non_null(strstr(aq_error_message(), text));
        }
    }
}

/* Including formats that this version does not know, or no longer has. */
static void formats_that_differ_are_an_error_everywhere(void **state)
{
    char text[256];
    for (unsigned i = 0; i < sizeof(marks[0].wires); i++) {
        bool known = i < AQI_WIRE_OF_JOB;
        unsigned ours = known ? aqi_wires[i].version : 0;
        marks[2].wires[i] = 5;
        snprintf(text, sizeof(text),
                 "in format \"%s\", rank 0 (libaqueduct %s) uses version %u and rank 2 (%s) uses "
                 "version %u;",
                 known ? aqi_wires[i].name : "a newer one", aq_version(), ours, aq_version(),
                 ours + 5);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            (void)compare(rank, AQ_EPROTO);
            assert_non_null(strstr(aq_error_message(), text));
        }
        marks[2].wires[i] = 0;
    }
}

/* Settings that only one of the versions has cannot be compared. */
static void other_rows_are_not_compared(void **state)
{
    marks[1].patch = 1;
    marks[1].settings = 5;
    marks[1].rows = 3;
    (void)compare(1, AQ_OK);
    assert_int_equal(tables, 0);
    marks[1].rows = 0;
    (void)compare(1, AQ_EPEER);
    assert_int_equal(tables, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(equal_ranks_print_nothing, begin),
        cmocka_unit_test_setup(compatible_versions_are_one_warning, begin),
        cmocka_unit_test_setup(incompatible_versions_are_an_error_everywhere, begin),
        cmocka_unit_test_setup(formats_that_differ_are_an_error_everywhere, begin),
        cmocka_unit_test_setup(other_rows_are_not_compared, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
