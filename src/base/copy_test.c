/* Copies: every method with odd addresses and sizes, and the automatic choice. */
#include "base/copy.h"

#include "base/capture_test.h"
#include <stdlib.h>

enum { ROOM = 3 << 20, GUARD = 64 };

static unsigned char *pattern(void)
{
    unsigned char *bytes = malloc(ROOM);
    assert_non_null(bytes);
    for (size_t i = 0; i < ROOM; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    return bytes;
}

static void check(unsigned char *to, const unsigned char *from, size_t offset, size_t len)
{
    assert_memory_equal(to + offset, from, len);
    for (size_t i = 1; i <= GUARD; i++) {
        assert_int_equal(to[offset - i], 0xee);
        assert_int_equal(to[offset + len + i - 1], 0xee);
    }
}

static void every_method_copies_the_bytes_and_no_more(void **state)
{
    static const size_t sizes[] = {0,   1,   15,  16,   63,   64,    65,     127,
                                   128, 129, 255, 4096, 4097, 65536, 100003, 2000001};
    unsigned char *from = pattern(), *to = malloc(ROOM);
    assert_non_null(to);
    for (unsigned method = 0; method < AQI_COPY_METHODS; method++)
        for (size_t s = 0; s < AQI_COUNT_OF(sizes); s++)
            for (size_t shift = 0; shift < 67; shift += 11) {
                size_t offset = GUARD + shift;
                memset(to, 0xee, sizes[s] + offset + GUARD);
                aqi_copy_by((enum aqi_copy_method)method, to + offset, from + shift / 2, sizes[s]);
                check(to, from + shift / 2, offset, sizes[s]);
            }
    free(from);
    free(to);
}

static void a_few_bytes_are_copied_and_no_more(void **state)
{
    unsigned char *from = pattern(), to[3 * GUARD + AQI_COPY_FEW];
    for (size_t len = 0; len <= AQI_COPY_FEW; len++)
        for (size_t shift = 0; shift < 9; shift++) {
            memset(to, 0xee, sizeof(to));
            aqi_copy_few(to + GUARD + shift, from + 8 - shift, len);
            check(to, from + 8 - shift, GUARD + shift, len);
        }
    free(from);
}

/* Through the trials, the choice, and the next trials, for several size classes. */
static void finding_out_spoils_no_copy(void **state)
{
    unsigned char *from = pattern(), *to = malloc(ROOM);
    assert_non_null(to);
    aqi_copy_configure(AQI_COPY_AUTO, 1000);
    for (size_t i = 0; i < 9000; i++) {
        size_t len = i % 100 == 0 ? 2500000 + i : 900 + i % 300;
        memset(to, 0xee, len + 3 * GUARD);
        aqi_copy(to + GUARD + i % 5, from + i % 77, len);
        check(to, from + i % 77, GUARD + i % 5, len);
    }
    free(from);
    free(to);
    aqi_copy_configure(AQI_COPY_MEMCPY, 1000);
    assert_true(aqi_copy_least == SIZE_MAX);
}

/* A thread that polls a word sees either all of it or nothing. */
static void words_come_whole_and_others_as_they_are(void **state)
{
    for (size_t offset = 0; offset < 9; offset++)
        for (size_t len = 0; len < 17; len++) {
            _Alignas(8) unsigned char from[32], to[160];
            for (size_t i = 0; i < sizeof(from); i++)
                from[i] = (unsigned char)(i + 1);
            memset(to, 0xee, sizeof(to));
            aqi_copy_put(to + GUARD + offset, from + 3, len);
            check(to, from + 3, GUARD + offset, len);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_copies_the_bytes_and_no_more),
        cmocka_unit_test(a_few_bytes_are_copied_and_no_more),
        cmocka_unit_test(finding_out_spoils_no_copy),
        cmocka_unit_test(words_come_whole_and_others_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
