/* Values as text for any PMI, in pieces that are short enough for it. */
#include "base/fail.h"
#include "manager_impl.h"

#include <stdio.h>
#include <string.h>

static const char values_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static bool values_is_key(const char *key)
{
    size_t len = strlen(key);
    return len != 0 && len <= AQI_MANAGER_KEY && strspn(key, values_digits) == len;
}

aq_status manager_check_put(const char *key, size_t len)
{
    if (!values_is_key(key))
        return aqi_fail(
            AQ_EINVAL, "job",
            "'%s' is not a valid key for a manager: give at most %u letters, digits, '-' and '_'",
            key, AQI_MANAGER_KEY);
    if (len > AQI_MANAGER_VALUE)
        return aqi_fail(AQ_ESIZE, "job",
                        "the value of %s is too long: it has %zu bytes, and the maximum is %u", key,
                        len, AQI_MANAGER_VALUE);
    return AQ_OK;
}

size_t manager_encode(const void *value, size_t len, char text[MANAGER_TEXT])
{
    const uint8_t *bytes = value;
    size_t used = (size_t)sprintf(text, "%zu.", len);
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | bytes[i];
        for (have += 8; have >= 6; have -= 6)
            text[used++] = values_digits[bits >> (have - 6) & 63];
    }
    if (have != 0) text[used++] = values_digits[bits << (6 - have) & 63];
    text[used] = '\0';
    return used;
}

/* Parse the number of bytes; `*digits` is set to the text after it. */
static bool values_head(const char *text, size_t *len, const char **digits)
{
    uint32_t number;
    bool padded = text[0] == '0' && text[1] != '.'; /* longer than MANAGER_TEXT allows */
    *digits = text;
    if (padded || !manager_number_before(digits, '.', &number) || number > AQI_MANAGER_VALUE)
        return false;
    *len = number;
    return true;
}

static size_t values_digits_of(size_t len)
{
    return (len * 4 + 2) / 3;
}

size_t manager_encoded_length(const char *text)
{
    const char *digits;
    size_t len;
    if (!values_head(text, &len, &digits)) return 0;
    return (size_t)(digits - text) + values_digits_of(len);
}

bool manager_decode(const char *text, uint8_t *value, size_t *len)
{
    const char *digits;
    size_t bytes, used = 0;
    uint32_t bits = 0;
    unsigned have = 0;
    if (!values_head(text, &bytes, &digits) || strlen(digits) != values_digits_of(bytes))
        return false;
    for (; *digits != '\0'; digits++) {
        const char *digit = strchr(values_digits, *digits);
        if (digit == NULL) return false;
        bits = (bits << 6 | (uint32_t)(digit - values_digits)) & 0xfff;
        have += 6;
        if (have < 8) continue;
        have -= 8;
        value[used++] = (uint8_t)(bits >> have & 255);
    }
    *len = used;
    return used == bytes;
}

static void values_wire_key(char wire[MANAGER_WIRE_KEY], const char *key, uint32_t rank,
                            size_t piece)
{
    snprintf(wire, MANAGER_WIRE_KEY, "aq.%s.%u.%zu", key, rank, piece);
}

aq_status manager_put_texts(struct aqi_manager *manager, const struct manager_texts *texts,
                            const char *key, const void *value, size_t len)
{
    char text[MANAGER_TEXT], wire[MANAGER_WIRE_KEY];
    aq_status status = manager_check_put(key, len);
    if (status != AQ_OK) return status;
    size_t all = manager_encode(value, len, text), at = 0;
    for (size_t piece = 0; at < all && status == AQ_OK; piece++) {
        size_t part = aqi_min(all - at, texts->piece);
        values_wire_key(wire, key, manager->info.rank, piece);
        status = texts->put(manager, wire, text + at, part);
        at += part;
    }
    return status;
}

aq_status manager_no_value(uint32_t rank, const char *key)
{
    return aqi_fail(AQ_EINVAL, "job", "rank %u did not put '%s' before the last fence", rank, key);
}

aq_status manager_long_value(uint32_t rank, const char *key, size_t len, size_t room)
{
    return aqi_fail(AQ_ESIZE, "job",
                    "the value of rank %u for '%s' has %zu bytes, but there is room for only %zu",
                    rank, key, len, room);
}

static aq_status values_invalid(const struct aqi_manager *manager, uint32_t rank, const char *key)
{
    return aqi_fail(AQ_EPROTO, "job",
                    "%s returned an invalid value of rank %u for '%s': all ranks must use the "
                    "same version of the library",
                    manager->kind->name, rank, key);
}

/* Get all pieces of a value, in sequence. */
static aq_status values_collect(struct aqi_manager *manager, const struct manager_texts *texts,
                                uint32_t rank, const char *key, char text[MANAGER_TEXT])
{
    char wire[MANAGER_WIRE_KEY];
    size_t all = 1, used = 0;
    for (size_t piece = 0; used < all; piece++) {
        values_wire_key(wire, key, rank, piece);
        aq_status status = texts->get(manager, rank, wire, text + used, MANAGER_TEXT - used);
        if (status == AQ_AGAIN && piece == 0) return manager_no_value(rank, key);
        if (status == AQ_AGAIN) return values_invalid(manager, rank, key);
        if (status != AQ_OK) return status;
        size_t got = strlen(text + used);
        if (piece == 0) all = manager_encoded_length(text);
        if (got == 0 || got > all - used) return values_invalid(manager, rank, key);
        used += got;
    }
    return AQ_OK;
}

aq_status manager_get_texts(struct aqi_manager *manager, const struct manager_texts *texts,
                            uint32_t rank, const char *key, void *value, size_t room, size_t *len)
{
    char text[MANAGER_TEXT];
    uint8_t bytes[AQI_MANAGER_VALUE];
    size_t got;
    if (rank >= manager->info.size || !values_is_key(key)) return manager_no_value(rank, key);
    aq_status status = values_collect(manager, texts, rank, key, text);
    if (status != AQ_OK) return status;
    if (!manager_decode(text, bytes, &got)) return values_invalid(manager, rank, key);
    if (got > room) return manager_long_value(rank, key, got, room);
    memcpy(value, bytes, got);
    *len = got;
    return AQ_OK;
}
