/* Twin of packet.c: a packet of every kind of record, cut at every byte, and with wrong lengths. */
#include "dgram/packet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HEAD = sizeof(struct dgram_head), MOST = 512 };

/* Append a record with `n` bytes; returns where the next begins. */
static size_t add(unsigned char *packet, size_t at, uint8_t kind, uint8_t flags, size_t n)
{
    size_t head = kind == DGRAM_MESSAGE ? 0 : sizeof(struct dgram_record);
    struct dgram_record record = {
        .len = (uint16_t)(head + n), .kind = kind, .flags = flags, .id = 7, .where = 9};
    memset(packet + at, kind, dgram_round16(record.len));
    memcpy(packet + at, &record, head != 0 ? head : 4);
    return at + dgram_round16(record.len);
}

static const struct kind {
    uint8_t kind, flags, head_flags;
    size_t n;
} kinds[] = {
    {DGRAM_MESSAGE, 0, DGRAM_NUMBERED, 24},
    {DGRAM_MESSAGE, DGRAM_IS_REQUEST, DGRAM_NUMBERED | DGRAM_REQUESTS, 21},
    {DGRAM_FRAGMENT, 0, DGRAM_NUMBERED, 33},
    {DGRAM_FRAGMENT, DGRAM_IS_REQUEST, DGRAM_NUMBERED | DGRAM_REQUESTS, 16},
    {DGRAM_PUT, DGRAM_OF_LONG, DGRAM_NUMBERED, 5},
    {DGRAM_LONG, 0, DGRAM_NUMBERED, 40},
    {DGRAM_LONG, DGRAM_IS_REQUEST, DGRAM_NUMBERED | DGRAM_REQUESTS, 40},
    {DGRAM_GET, 0, DGRAM_NUMBERED, 8},
    {DGRAM_BYTES, 0, DGRAM_NUMBERED, 17},
    {DGRAM_REFUSED, 0, DGRAM_NUMBERED, 0},
    {DGRAM_SACK, 1, 0, 16},
};

/* An allocation of exactly so many bytes: a sanitizer sees a read of one more. */
static bool valid(const unsigned char *packet, size_t len, uint8_t flags)
{
    unsigned char *exact = malloc(len);
    assert_non_null(exact);
    memcpy(exact, packet, len);
    bool ok = dgram_records_valid(exact, len, flags);
    struct dgram_record record;
    const unsigned char *bytes;
    size_t at = HEAD, nbytes;
    while (ok && dgram_record_next(exact, len, &at, &record, &bytes, &nbytes))
        assert_true(bytes >= exact + HEAD && bytes + nbytes <= exact + len);
    free(exact);
    return ok;
}

static void each_kind_cut_anywhere(void **state)
{
    (void)state;
    for (unsigned i = 0; i < AQI_COUNT_OF(kinds); i++) {
        const struct kind *k = &kinds[i];
        unsigned char packet[MOST] = {0};
        size_t second = add(packet, HEAD, k->kind, k->flags, k->n);
        size_t end = add(packet, second, k->kind, k->flags, k->n);
        size_t record = k->n + (k->kind == DGRAM_MESSAGE ? 0 : sizeof(struct dgram_record));
        assert_true(valid(packet, end, k->head_flags));
        for (size_t len = HEAD; len < end; len++) {
            /* Whole records and padding behind them are left, or part of one. */
            bool whole =
                len == HEAD || (len >= HEAD + record && len <= second) || len >= second + record;
            assert_int_equal(valid(packet, len, k->head_flags), whole);
        }
        for (unsigned n = 0; n < MOST; n++) {
            uint16_t wrong = (uint16_t)(n * n);
            memcpy(packet + HEAD, &wrong, sizeof(wrong));
            (void)valid(packet, end, k->head_flags);
            if (wrong < 4) assert_false(valid(packet, end, k->head_flags));
        }
    }
}

static void each_kind_where_it_may_be(void **state)
{
    (void)state;
    for (unsigned i = 0; i < AQI_COUNT_OF(kinds); i++) {
        const struct kind *k = &kinds[i];
        unsigned char packet[MOST] = {0};
        size_t end = add(packet, HEAD, k->kind, k->flags, k->n);
        static const uint8_t flags[] = {0, DGRAM_NUMBERED, DGRAM_NUMBERED | DGRAM_REQUESTS};
        for (unsigned f = 0; f < AQI_COUNT_OF(flags); f++)
            assert_int_equal(valid(packet, end, flags[f]), flags[f] == k->head_flags);
        packet[HEAD + 2] = DGRAM_RECORDS;
        assert_false(valid(packet, end, k->head_flags));
        packet[HEAD + 2] = DGRAM_END;
        assert_true(valid(packet, end, k->head_flags));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_cut_anywhere),
        cmocka_unit_test(each_kind_where_it_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
