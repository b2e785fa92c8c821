/* Tests values.c: any bytes to short texts and back, and malformed texts. */
#include "manager_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void encoding_and_decoding(void **state)
{
    static uint8_t value[AQI_MANAGER_VALUE], again[AQI_MANAGER_VALUE];
    static char text[MANAGER_TEXT];
    for (size_t i = 0; i < sizeof(value); i++)
        value[i] = (uint8_t)(i * 151 + i / 7);
    for (size_t len = 0; len <= sizeof(value); len += len < 300 ? 1 : 1973) {
        size_t got = 1, used = manager_encode(value, len, text);
        assert_int_equal(used, strlen(text));
        assert_true(used < MANAGER_TEXT);
        assert_int_equal(manager_encoded_length(text), used);
        assert_true(len == 0 || manager_is_word(text));
        assert_true(manager_decode(text, again, &got));
        assert_int_equal(got, len);
        assert_memory_equal(value, again, len);
    }
    assert_int_equal(manager_encode(value, sizeof(value), text), MANAGER_TEXT - 1);
}

static void malformed_texts(void **state)
{
    static const char *const bad[] = {
        "",       ".",       "x",         "3",       "3.",          "3.AAA",  "3.AAAAA", "3.AA=A",
        "3.AA A", "-3.AAAA", "8193.AAAA", "99999.A", "000003.AAAA", "1.AA\n", "0.A",     "03.AAAA",
    };
    uint8_t value[AQI_MANAGER_VALUE];
    size_t len;
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++)
        if (manager_decode(bad[i], value, &len)) fail_msg("taken: %s", bad[i]);
    assert_int_equal(manager_encoded_length("8193.A"), 0);
    assert_int_equal(manager_encoded_length("8192.A"), MANAGER_TEXT - 1);
    assert_int_equal(manager_encoded_length("08192.A"), 0);
}

/* A manager that keeps the pieces that it gets. */
static struct {
    char key[64][MANAGER_WIRE_KEY];
    char text[64][40];
    size_t count, refuse_after;
} kept;

static aq_status kept_put(struct aqi_manager *manager, const char *key, const char *text,
                          size_t len)
{
    if (kept.count == kept.refuse_after) return AQ_EREFUSED;
    strcpy(kept.key[kept.count], key);
    memcpy(kept.text[kept.count], text, len);
    kept.text[kept.count++][len] = '\0';
    return AQ_OK;
}

static aq_status kept_get(struct aqi_manager *manager, uint32_t rank, const char *key, char *text,
                          size_t room)
{
    for (size_t i = 0; i < kept.count; i++)
        if (strcmp(kept.key[i], key) == 0) {
            snprintf(text, room, "%s", kept.text[i]);
            return AQ_OK;
        }
    return AQ_AGAIN;
}

static const struct manager_texts texts = {32, kept_put, kept_get};
static struct aqi_manager manager = {.kind = &aqi_manager_pmi, .info = {.rank = 3, .size = 5}};

static aq_status get(uint32_t rank, const char *key, size_t room)
{
    uint8_t value[256];
    size_t len;
    return manager_get_texts(&manager, &texts, rank, key, value, room, &len);
}

static void values_in_pieces(void **state)
{
    uint8_t value[200], again[200];
    size_t len = 0;
    memset(&kept, 0, sizeof(kept));
    kept.refuse_after = 64;
    for (size_t i = 0; i < sizeof(value); i++)
        value[i] = (uint8_t)i;
    assert_int_equal(manager_put_texts(&manager, &texts, "key", value, sizeof(value)), AQ_OK);
    assert_int_equal(kept.count, 9); /* "200." and 267 digits, 32 at a time */
    assert_string_equal(kept.key[8], "aq.key.3.8");
    assert_int_equal(manager_get_texts(&manager, &texts, 3, "key", again, 200, &len), AQ_OK);
    assert_int_equal(len, 200);
    assert_memory_equal(value, again, 200);
    assert_int_equal(get(3, "key", 199), AQ_ESIZE);
    assert_int_equal(get(2, "key", 200), AQ_EINVAL);
    assert_int_equal(get(5, "key", 200), AQ_EINVAL);
    assert_int_equal(get(3, "ke.y", 200), AQ_EINVAL);
    assert_int_equal(manager_put_texts(&manager, &texts, "none", value, 0), AQ_OK);
    assert_int_equal(manager_get_texts(&manager, &texts, 3, "none", again, 0, &len), AQ_OK);
    assert_int_equal(len, 0);
}

static void mismatched_pieces(void **state)
{
    static const char *const first[] = {"", "x", "40.AAAA", "3.AAAAAAAA"};
    for (size_t i = 0; i < AQI_COUNT_OF(first); i++) {
        memset(&kept, 0, sizeof(kept));
        strcpy(kept.key[0], "aq.key.3.0");
        strcpy(kept.text[0], first[i]);
        kept.count = 1;
        assert_int_equal(get(3, "key", 200), AQ_EPROTO); /* and piece 1 is missing */
        strcpy(kept.key[1], "aq.key.3.1");
        kept.count = 2;
        assert_int_equal(get(3, "key", 200), AQ_EPROTO); /* or is empty */
    }
}

/* The last piece may be a single byte. */
static void a_piece_of_one_byte(void **state)
{
    uint8_t value[22], again[22];
    size_t len = 0;
    memset(&kept, 0, sizeof(kept));
    kept.refuse_after = 64;
    memset(value, 5, sizeof(value));
    assert_int_equal(manager_put_texts(&manager, &texts, "key", value, sizeof(value)), AQ_OK);
    assert_int_equal(kept.count, 2);
    assert_int_equal(strlen(kept.text[1]), 1);
    assert_int_equal(manager_get_texts(&manager, &texts, 3, "key", again, 22, &len), AQ_OK);
    assert_int_equal(len, 22);
    assert_memory_equal(value, again, 22);
    kept.text[1][0] = '\0'; /* a manager that returns nothing is not asked again and again */
    strcpy(kept.key[2], "aq.key.3.2");
    strcpy(kept.text[2], "A");
    kept.count = 3;
    assert_int_equal(get(3, "key", 22), AQ_EPROTO);
}

/* They are rejected without asking the manager. */
static void invalid_requests_are_not_sent(void **state)
{
    memset(&kept, 0, sizeof(kept));
    strcpy(kept.key[0], "aq.key.5.0");
    strcpy(kept.key[1], "aq.ke.y.3.0");
    strcpy(kept.text[0], "0.");
    strcpy(kept.text[1], "0.");
    kept.count = 2;
    assert_int_equal(get(5, "key", 200), AQ_EINVAL);
    assert_int_equal(get(3, "ke.y", 200), AQ_EINVAL);
}

static void values_that_cannot_be_put(void **state)
{
    static const uint8_t value[64];
    memset(&kept, 0, sizeof(kept));
    kept.refuse_after = 1;
    assert_int_equal(manager_put_texts(&manager, &texts, "key", value, 64), AQ_EREFUSED);
    assert_int_equal(manager_check_put("a-Key_9", AQI_MANAGER_VALUE), AQ_OK);
    assert_int_equal(manager_check_put("abcdefghijklmnopqrstuvwx", 0), AQ_OK);
    assert_int_equal(manager_check_put("abcdefghijklmnopqrstuvwxy", 0), AQ_EINVAL);
    assert_int_equal(manager_check_put("", 0), AQ_EINVAL);
    assert_int_equal(manager_check_put("a b", 0), AQ_EINVAL);
    assert_int_equal(manager_check_put("key", AQI_MANAGER_VALUE + 1), AQ_ESIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoding_and_decoding),
        cmocka_unit_test(malformed_texts),
        cmocka_unit_test(values_in_pieces),
        cmocka_unit_test(mismatched_pieces),
        cmocka_unit_test(values_that_cannot_be_put),
        cmocka_unit_test(a_piece_of_one_byte),
        cmocka_unit_test(invalid_requests_are_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
