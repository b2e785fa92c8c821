/* Twin of packet.c: a packet of every kind of record, cut at every byte, and with wrong lengths. */
#include "dgram/packet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { HEAD = sizeof(struct dgram_head), MOST = 1024 };

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
    {DGRAM_SLICE, 1, 0, 32},
};

/* Memory of `len` bytes that ends at an unmapped page: reading one byte more ends the test. */
static unsigned char *before_the_end(size_t len)
{
    static unsigned char *memory;
    const size_t page = 65536;
    if (memory == NULL) {
        memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(memory != MAP_FAILED && mprotect(memory + page, page, PROT_NONE) == 0);
    }
    return memory + page - len;
}

static bool valid(const unsigned char *packet, size_t len, uint8_t flags)
{
    unsigned char *exact = before_the_end(len);
    memcpy(exact, packet, len);
    bool ok = dgram_records_valid(exact, len, flags);
    struct dgram_walk walk = DGRAM_WALK;
    while (ok && dgram_record_next(exact, len, &walk))
        assert_true(walk.bytes >= exact + HEAD && walk.bytes + walk.nbytes <= exact + len);
    return ok;
}

static void each_kind_cut_anywhere(void **state)
{
    for (unsigned i = 0; i < AQI_COUNT_OF(kinds); i++) {
        const struct kind *k = &kinds[i];
        unsigned char packet[MOST] = {0};
        size_t second = add(packet, HEAD, k->kind, k->flags, k->n);
        size_t end = add(packet, second, k->kind, k->flags, k->n);
        size_t record = k->n + (k->kind == DGRAM_MESSAGE ? 0 : sizeof(struct dgram_record));
        assert_true(valid(packet, end, k->head_flags));
        for (size_t len = HEAD; len < end; len++) {
            /* Valid if whole records are left, perhaps with padding behind them. */
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

/* The minimum and maximum length of each kind, and one byte beyond. */
static void each_kind_at_its_bounds(void **state)
{
    static const struct {
        uint8_t kind, flags, head_flags;
        size_t least, most; /* 0: as much as a packet has */
    } bounds[] = {
        {DGRAM_MESSAGE, 0, DGRAM_NUMBERED, 8, 0},
        {DGRAM_FRAGMENT, 0, DGRAM_NUMBERED, 1, 0},
        {DGRAM_PUT, 0, DGRAM_NUMBERED, 1, 0},
        {DGRAM_LONG, 0, DGRAM_NUMBERED, 8, 0},
        {DGRAM_GET, 0, DGRAM_NUMBERED, 8, 8},
        {DGRAM_BYTES, 0, DGRAM_NUMBERED, 1, 0},
        {DGRAM_REFUSED, 0, DGRAM_NUMBERED, 0, 0},
        {DGRAM_SACK, 1, 0, 8, 8 * DGRAM_SACK_WORDS},
        {DGRAM_SLICE, 0, 0, 1, 0},
    };
    for (unsigned i = 0; i < AQI_COUNT_OF(bounds); i++) {
        unsigned char packet[MOST] = {0};
        const uint8_t kind = bounds[i].kind, flags = bounds[i].flags;
        size_t most = kind == DGRAM_REFUSED ? 0 : bounds[i].most, end;
        end = add(packet, HEAD, kind, flags, bounds[i].least);
        assert_true(valid(packet, end, bounds[i].head_flags));
        if (bounds[i].least != 0) {
            end = add(packet, HEAD, kind, flags, bounds[i].least - 1);
            assert_false(valid(packet, end, bounds[i].head_flags));
        }
        if (most == 0 && kind != DGRAM_REFUSED) continue;
        end = add(packet, HEAD, kind, flags, most);
        assert_true(valid(packet, end, bounds[i].head_flags));
        end = add(packet, HEAD, kind, flags, most + 1);
        assert_false(valid(packet, end, bounds[i].head_flags));
    }
}

/* A record shorter than its head, the last in its packet. */
static void heads_cut_off(void **state)
{
    for (uint8_t kind = DGRAM_MESSAGE; kind < DGRAM_RECORDS; kind++)
        for (uint16_t len = 0; len < sizeof(struct dgram_record); len++) {
            unsigned char packet[MOST] = {0};
            bool whole = kind == DGRAM_MESSAGE && len >= 8;
            memcpy(packet + HEAD, &len, sizeof(len));
            packet[HEAD + 2] = kind;
            for (size_t there = 1; there <= 16; there++)
                if (there >= len)
                    assert_int_equal(valid(packet, HEAD + there, DGRAM_NUMBERED), whole);
        }
}

/* Padding has at least four bytes, like the shortest record. */
static void padding(void **state)
{
    unsigned char packet[MOST] = {0};
    for (size_t len = 0; len <= 16; len++)
        assert_int_equal(valid(packet, HEAD + len, DGRAM_NUMBERED), len == 0 || len >= 4);
}

static void a_message_is_all_its_own(void **state)
{
    struct dgram_walk walk = DGRAM_WALK;
    unsigned char packet[MOST];
    size_t end = add(packet, HEAD, DGRAM_MESSAGE, 0, 24);
    assert_true(dgram_record_next(packet, end, &walk));
    assert_true(walk.record.len == 24 && walk.record.id == 0 && walk.record.where == 0);
    assert_true(walk.bytes == packet + HEAD && walk.nbytes == 24 && walk.at == HEAD + 32);
    assert_false(dgram_record_next(packet, end, &walk));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_cut_anywhere),
        cmocka_unit_test(each_kind_where_it_may_be),
        cmocka_unit_test(each_kind_at_its_bounds),
        cmocka_unit_test(heads_cut_off),
        cmocka_unit_test(padding),
        cmocka_unit_test(a_message_is_all_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
