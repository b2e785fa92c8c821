/* The texts of settings: parsing a value, and writing value, range and type. */
#include "base/fail.h"
#include "base/settings.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct value_unit {
    const char *name;
    uint64_t factor;
};

/* Largest first: a value is written in the first unit that divides it. */
static const struct value_unit byte_units[] = {
    {"T", 1ull << 40}, {"G", 1ull << 30}, {"M", 1ull << 20}, {"K", 1ull << 10}, {"", 1}};
static const struct value_unit time_units[] = {
    {"m", 60000000000u}, {"s", 1000000000u}, {"ms", 1000000u}, {"us", 1000u}, {"ns", 1u}};

static const struct {
    const char *name;
    bool value;
} value_bools[] = {{"0", false}, {"1", true},      {"no", false},  {"yes", true}, {"off", false},
                   {"on", true}, {"false", false}, {"true", true}, {"n", false},  {"y", true}};

static const char *const value_type_names[] = {
    [AQI_SET_BOOL] = "bool",  [AQI_SET_COUNT] = "count",   [AQI_SET_BYTES] = "bytes",
    [AQI_SET_TIME] = "time",  [AQI_SET_CHOICE] = "choice", [AQI_SET_TEXT] = "text",
    [AQI_SET_SHARE] = "share"};
static_assert(AQI_COUNT_OF(value_type_names) == AQI_SET_SHARE + 1, "a name for each type");

const char *aqi_setting_type_name(enum aqi_setting_type type)
{
    return value_type_names[type];
}

/* A share is bytes, or with this bit a fraction in parts of VALUE_PARTS. */
#define VALUE_FRACTION (1ull << 63)
#define VALUE_PARTS    1000000000u
enum { VALUE_PLACES = 9 };

uint64_t aqi_share_of(uint64_t share, uint64_t whole)
{
    if ((share & VALUE_FRACTION) == 0) return aqi_min(share, whole);
    uint64_t parts = share & ~VALUE_FRACTION;
    return whole / VALUE_PARTS * parts + whole % VALUE_PARTS * parts / VALUE_PARTS;
}

/* Digits only: no sign, no blank, no base; what strtoull lets through is wider. */
static bool setting_value_value_parse_digits(const char **text, uint64_t *number)
{
    const char *c = *text;
    uint64_t sum = 0;
    for (; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(sum, 10u, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*c - '0'), &sum))
            return false;
    if (c == *text) return false;
    *text = c;
    *number = sum;
    return true;
}

/*
 * ".25", in parts of VALUE_PARTS; what is beyond the ninth place is cut off, and `*cut` says if it
 * was more than zeros.
 */
static bool setting_value_value_parse_fraction(const char **text, uint64_t *parts, bool *cut)
{
    const char *c = *text;
    uint64_t place = VALUE_PARTS;
    if (c[0] != '.' || c[1] < '0' || c[1] > '9') return false;
    *parts = 0;
    *cut = false;
    for (c++; *c >= '0' && *c <= '9'; c++) {
        place /= 10;
        *parts += place * (uint64_t)(*c - '0');
        if (place == 0 && *c != '0') *cut = true;
    }
    *text = c;
    return true;
}

static bool setting_value_value_scale(const struct value_unit *units, size_t count,
                                      const char *name, uint64_t *number)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(units[i].name, name) == 0)
            return !__builtin_mul_overflow(*number, units[i].factor, number);
    return false;
}

/* "K", "KB", "KiB" and "B" all end in nothing or a known letter once "B" or "iB" is gone. */
static bool setting_value_value_scale_bytes(const char *suffix, uint64_t *number)
{
    size_t len = strlen(suffix);
    char letter[2] = "";
    if (len > 3) return false;
    if (len > 0 && strcasecmp(suffix, "B") != 0) {
        letter[0] = suffix[0];
        if (len > 1 && strcasecmp(suffix + 1, "B") != 0 && strcasecmp(suffix + 1, "iB") != 0)
            return false;
    }
    return setting_value_value_scale(byte_units, AQI_COUNT_OF(byte_units), letter, number);
}

static const char *setting_value_value_bare_time_unit(const struct aqi_setting *row)
{
    return row->unit == NULL ? "ns" : row->unit;
}

static uint64_t setting_value_value_max(const struct aqi_setting *row)
{
    uint64_t held = row->type == AQI_SET_SHARE ? VALUE_FRACTION - 1 : UINT64_MAX;
    return row->min == 0 && row->max == 0 ? held : aqi_min(row->max, held);
}

/* What is no more than the end of 64 bits is told in a unit that people know. */
static uint64_t setting_value_value_max_told(const struct aqi_setting *row)
{
    uint64_t max = setting_value_value_max(row), unit = 1;
    if (row->type == AQI_SET_BYTES || row->type == AQI_SET_SHARE) unit = byte_units[0].factor;
    if (row->type == AQI_SET_TIME) unit = time_units[0].factor;
    return max >= VALUE_FRACTION - 1 ? max / unit * unit : max;
}

static bool setting_value_value_in_range(const struct aqi_setting *row, uint64_t number)
{
    if (row->power_of_two && (number == 0 || (number & (number - 1)) != 0)) return false;
    return number >= row->min && number <= setting_value_value_max(row);
}

/* The rest of a time whose whole part is `number`: "", "ms", ".25s"; what is below 1 ns is cut. */
static bool setting_value_value_scale_time(const struct aqi_setting *row, const char *text,
                                           uint64_t *number)
{
    uint64_t parts = 0, unit = 1;
    bool cut;
    if (*text == '.' && !setting_value_value_parse_fraction(&text, &parts, &cut)) return false;
    if (*text == '\0') text = setting_value_value_bare_time_unit(row);
    if (!setting_value_value_scale(time_units, AQI_COUNT_OF(time_units), text, &unit) ||
        __builtin_mul_overflow(*number, unit, number))
        return false;
    /* In two steps, as the parts of minutes do not fit times their nanoseconds. */
    uint64_t of_parts = unit / VALUE_PARTS * parts + unit % VALUE_PARTS * parts / VALUE_PARTS;
    return !__builtin_add_overflow(*number, of_parts, number);
}

static bool setting_value_value_parse_number(const struct aqi_setting *row, const char *text,
                                             uint64_t *number)
{
    if (!setting_value_value_parse_digits(&text, number)) return false;
    switch (row->type) {
    case AQI_SET_BYTES:
    case AQI_SET_SHARE:
        if (!setting_value_value_scale_bytes(text, number)) return false;
        break;
    case AQI_SET_TIME:
        if (!setting_value_value_scale_time(row, text, number)) return false;
        break;
    default:
        if (*text != '\0') return false;
    }
    return setting_value_value_in_range(row, *number);
}

/* "5/8": parts of one, more than none and not more than all. */
static bool setting_value_value_parse_ratio(const char *text, uint64_t *parts)
{
    uint64_t over, under;
    if (!setting_value_value_parse_digits(&text, &over) || *text++ != '/') return false;
    if (!setting_value_value_parse_digits(&text, &under) || *text != '\0' || over > under)
        return false;
    while (over > UINT64_MAX / VALUE_PARTS) { /* beyond any precision that counts */
        over /= 2;
        under /= 2;
    }
    *parts = under == 0 ? 0 : over * VALUE_PARTS / under;
    return true;
}

/* "0.8", ".8" or "1.0". */
static bool setting_value_value_parse_decimal(const char *text, uint64_t *parts)
{
    uint64_t whole = 0, rest;
    bool cut;
    if (*text != '.' && !setting_value_value_parse_digits(&text, &whole)) return false;
    if (whole > 1 || !setting_value_value_parse_fraction(&text, &rest, &cut)) return false;
    *parts = whole * VALUE_PARTS + rest;
    return *text == '\0' && !(whole == 1 && cut);
}

static bool setting_value_value_parse_share(const struct aqi_setting *row, const char *text,
                                            uint64_t *number)
{
    if (strpbrk(text, "./") == NULL) return setting_value_value_parse_number(row, text, number);
    bool legal = strchr(text, '/') != NULL ? setting_value_value_parse_ratio(text, number)
                                           : setting_value_value_parse_decimal(text, number);
    if (!legal || *number == 0 || *number > VALUE_PARTS) return false;
    *number |= VALUE_FRACTION;
    return true;
}

static bool setting_value_value_parse_bool(const char *text, uint64_t *number)
{
    for (size_t i = 0; i < AQI_COUNT_OF(value_bools); i++) {
        if (strcasecmp(value_bools[i].name, text) != 0) continue;
        *number = value_bools[i].value;
        return true;
    }
    return false;
}

static bool setting_value_value_parse_choice(const struct aqi_setting *row, const char *text,
                                             uint64_t *number)
{
    for (size_t i = 0; row->choices[i] != NULL; i++) {
        if (strcasecmp(row->choices[i], text) != 0) continue;
        *number = i;
        return true;
    }
    return false;
}

bool aqi_setting_read(const struct aqi_setting *row, const char *text, void *value)
{
    uint64_t number = 0;
    bool legal = false;
    switch (row->type) {
    case AQI_SET_TEXT:
        memcpy(value, &text, sizeof(text));
        return true;
    case AQI_SET_BOOL:
        legal = setting_value_value_parse_bool(text, &number);
        break;
    case AQI_SET_CHOICE:
        legal = setting_value_value_parse_choice(row, text, &number);
        break;
    case AQI_SET_COUNT:
    case AQI_SET_BYTES:
    case AQI_SET_TIME:
        legal = setting_value_value_parse_number(row, text, &number);
        break;
    case AQI_SET_SHARE:
        legal = setting_value_value_parse_share(row, text, &number);
        break;
    }
    if (legal) memcpy(value, &number, sizeof(number));
    return legal;
}

/* snprintf after what is already there; counts on when the room is used up, as snprintf does. */
static AQI_PRINTF(4, 5) void value_add(char *buf, size_t len, int *used, const char *fmt, ...)
{
    size_t at = aqi_min((size_t)*used, len);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(at < len ? buf + at : NULL, len - at, fmt, args);
    va_end(args);
    if (n > 0) *used += n;
}

static void setting_value_value_add_scaled(char *buf, size_t len, int *used,
                                           const struct value_unit *units, uint64_t number)
{
    while (number % units->factor != 0)
        units++;
    value_add(buf, len, used, "%llu%s", (unsigned long long)(number / units->factor), units->name);
}

/* At least one place, so that it is not taken for bytes; no zeros at the end. */
static void setting_value_value_add_fraction(char *buf, size_t len, int *used, uint64_t parts)
{
    int places = VALUE_PLACES;
    uint64_t rest = parts % VALUE_PARTS;
    for (; places > 1 && rest % 10 == 0; places--)
        rest /= 10;
    value_add(buf, len, used, "%llu.%0*llu", (unsigned long long)(parts / VALUE_PARTS), places,
              (unsigned long long)rest);
}

static void setting_value_value_add_number(char *buf, size_t len, int *used,
                                           const struct aqi_setting *row, uint64_t number)
{
    if (row->type == AQI_SET_SHARE && (number & VALUE_FRACTION) != 0)
        setting_value_value_add_fraction(buf, len, used, number & ~VALUE_FRACTION);
    else if (number != 0 && (row->type == AQI_SET_BYTES || row->type == AQI_SET_SHARE))
        setting_value_value_add_scaled(buf, len, used, byte_units, number);
    else if (number != 0 && row->type == AQI_SET_TIME)
        setting_value_value_add_scaled(buf, len, used, time_units, number);
    else
        value_add(buf, len, used, "%llu", (unsigned long long)number);
}

static void setting_value_value_add_choices(char *buf, size_t len, int *used,
                                            const struct aqi_setting *row)
{
    for (size_t i = 0; row->choices[i] != NULL; i++)
        value_add(buf, len, used, "%s%s", i == 0 ? "" : " ", row->choices[i]);
}

int aqi_setting_range(const struct aqi_setting *row, char *buf, size_t len)
{
    int used = 0;
    value_add(buf, len, &used, "%s", "");
    if (row->type == AQI_SET_TEXT) {
        value_add(buf, len, &used, "any text");
        return used;
    }
    if (row->type == AQI_SET_BOOL) {
        value_add(buf, len, &used, "0 1 no yes off on false true");
        return used;
    }
    if (row->type == AQI_SET_CHOICE) {
        setting_value_value_add_choices(buf, len, &used, row);
        return used;
    }
    if (row->type == AQI_SET_SHARE) value_add(buf, len, &used, "a fraction above 0 up to 1.0, or ");
    setting_value_value_add_number(buf, len, &used, row, row->min);
    value_add(buf, len, &used, " to ");
    setting_value_value_add_number(buf, len, &used, row, setting_value_value_max_told(row));
    if (row->power_of_two) value_add(buf, len, &used, ", a power of two");
    return used;
}

/* How each type is written, for people who got it wrong. */
static const char *const value_how[] = {
    [AQI_SET_BOOL] = "give one of",
    [AQI_SET_COUNT] = "give a plain number,",
    [AQI_SET_BYTES] = "give a size such as 4096, 64K or 1G,",
    [AQI_SET_TIME] = "give a time such as 500us, 10ms or 2.5s,",
    [AQI_SET_CHOICE] = "give one of",
    [AQI_SET_TEXT] = "give",
    [AQI_SET_SHARE] = "give a share such as 0.8, 5/8 or 1G,",
};
static_assert(AQI_COUNT_OF(value_how) == AQI_SET_SHARE + 1, "a hint for each type");

int aqi_setting_complain(const struct aqi_setting *row, const char *variable, const char *text,
                         char *buf, size_t len)
{
    int used = 0;
    value_add(buf, len, &used, "%s=\"%.80s\" is not legal: %s ", variable, text,
              value_how[row->type]);
    size_t at = aqi_min((size_t)used, len);
    used += aqi_setting_range(row, at < len ? buf + at : NULL, len - at);
    if (row->type == AQI_SET_TIME)
        value_add(buf, len, &used, " (without a unit: %s)",
                  setting_value_value_bare_time_unit(row));
    if (row->def != NULL) value_add(buf, len, &used, "; the default is %s", row->def);
    return used;
}

int aqi_setting_format(const struct aqi_settings_table *table, size_t row_index, char *buf,
                       size_t len)
{
    const struct aqi_setting *row = &table->rows[row_index];
    const char *field = (const char *)table->values + row->offset;
    int used = 0;
    if (row->type == AQI_SET_TEXT) {
        const char *text;
        memcpy(&text, field, sizeof(text));
        value_add(buf, len, &used, "%s", text == NULL ? "" : text);
        return used;
    }
    uint64_t number;
    memcpy(&number, field, sizeof(number));
    if (row->type == AQI_SET_CHOICE)
        value_add(buf, len, &used, "%s", row->choices[number]);
    else if (row->type == AQI_SET_BOOL)
        value_add(buf, len, &used, "%s", number != 0 ? "yes" : "no");
    else
        setting_value_value_add_number(buf, len, &used, row, number);
    return used;
}
