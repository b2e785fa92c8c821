/* Notes and frames as bytes: encoded ones can be decoded, truncated ones cannot. */
#include "job/hub/note.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct hub_note full(uint16_t type)
{
    return (struct hub_note){.type = type,
                             .rank = 1,
                             .count = 2,
                             .seq = 3,
                             .call = 4,
                             .event = 5,
                             .status = -6,
                             .code = -7,
                             .pid = 8,
                             .bytes = 1ull << 40,
                             .wait = 1ull << 41,
                             .name = {10, 11},
                             .data = "data",
                             .len = 4};
}

/* Decoding and encoding a note reproduces it, whichever fields it has. */
static void notes_are_decoded_as_encoded(void **state)
{
    for (uint16_t type = HUB_HERE; type < HUB_NOTES; type++) {
        struct hub_note note = full(type), read, again;
        struct aqi_parcel *parcel = hub_note_encode(&note);
        assert_non_null(parcel);
        const uint8_t *bytes = parcel->bytes + HUB_FRAME_HEAD;
        size_t len = parcel->len - HUB_FRAME_HEAD;
        assert_true(hub_note_decode(bytes, len, &read));
        assert_int_equal(read.type, type);
        assert_int_equal(read.len, note.len);
        assert_memory_equal(read.data, note.data, note.len);
        struct aqi_parcel *second = hub_note_encode(&read);
        assert_non_null(second);
        assert_int_equal(second->len, parcel->len);
        assert_memory_equal(second->bytes + HUB_FRAME_HEAD, bytes, len);
        assert_true(hub_note_decode(second->bytes + HUB_FRAME_HEAD, len, &again));
        aqi_parcel_release(second);
        aqi_parcel_release(parcel);
    }
}

/* Without its last byte of data, a note is shorter; without one before, it is malformed. */
static void truncated_notes_are_rejected(void **state)
{
    for (uint16_t type = HUB_HERE; type < HUB_NOTES; type++) {
        struct hub_note note = full(type), read;
        struct aqi_parcel *parcel = hub_note_encode(&note);
        assert_non_null(parcel);
        size_t whole = parcel->len - HUB_FRAME_HEAD;
        for (size_t len = 0; len <= whole; len++) {
            uint8_t *copy = malloc(len + 1); /* a sanitizer detects a read beyond the end */
            assert_non_null(copy);
            memcpy(copy, parcel->bytes + HUB_FRAME_HEAD, len);
            assert_int_equal(hub_note_decode(copy, len, &read), len + note.len >= whole);
            free(copy);
        }
        aqi_parcel_release(parcel);
    }
}

static void unknown_notes_are_rejected(void **state)
{
    static const uint16_t types[] = {0, HUB_NOTES, UINT16_MAX};
    uint8_t bytes[64] = {0};
    struct hub_note note;
    for (size_t i = 0; i < AQI_COUNT_OF(types); i++) {
        memcpy(bytes, &types[i], sizeof(types[i]));
        assert_false(hub_note_decode(bytes, sizeof(bytes), &note));
    }
}

static void frames_are_decoded_as_encoded(void **state)
{
    uint8_t bytes[HUB_FRAME_HEAD + 3] = {0};
    for (uint8_t kind = 1; kind < HUB_FRAMES; kind++) {
        const struct hub_frame frame = {.kind = kind, .agent = 77, .number = 1ull << 50};
        struct hub_frame read;
        hub_frame_head(&frame, bytes);
        for (size_t len = 0; len < HUB_FRAME_HEAD; len++)
            assert_false(hub_frame_decode(bytes, len, &read));
        assert_true(hub_frame_decode(bytes, sizeof(bytes), &read));
        assert_int_equal(read.kind, kind);
        assert_int_equal(read.agent, 77);
        assert_true(read.number == 1ull << 50);
        assert_int_equal(read.len, 3);
        assert_ptr_equal(read.data, bytes + HUB_FRAME_HEAD);
        assert_ptr_equal(read.raw, bytes);
    }
    bytes[0] = HUB_FRAMES;
    assert_false(hub_frame_decode(bytes, sizeof(bytes), &(struct hub_frame){0}));
}

static void texts_are_one_line(void **state)
{
    char text[AQI_CONTROL_TEXT + 1], large[2 * AQI_CONTROL_TEXT];
    struct hub_note note = {.data = "a\nb\033c", .len = 5};
    hub_note_text(&note, text);
    assert_string_equal(text, "a?b?c");
    memset(large, 'x', sizeof(large));
    note = (struct hub_note){.data = large, .len = sizeof(large)};
    hub_note_text(&note, text);
    assert_int_equal(strlen(text), AQI_CONTROL_TEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_are_decoded_as_encoded),
        cmocka_unit_test(truncated_notes_are_rejected),
        cmocka_unit_test(unknown_notes_are_rejected),
        cmocka_unit_test(frames_are_decoded_as_encoded),
        cmocka_unit_test(texts_are_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
