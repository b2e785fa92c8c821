/* The text form of settings: parsing values, and printing values, ranges and types. */
#include "base/fail.h"
#include "base/settings.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct value_unit {
    const char *name;
    uint64_t factor;
};

/* Largest first: a value is printed in the first unit that divides it. */
static const struct value_unit byte_units[] = {
    {"T", 1ull << 40}, {"G", 1ull << 30}, {"M", 1ull << 20}, {"K", 1ull << 10}, {"", 1}};
static const struct value_unit time_units[] = {
    {"m", 60000000000u}, {"s", 1000000000u}, {"ms", 1000000u}, {"us", 1000u}, {"ns", 1u}};

/* Alternating no and yes. */
static const char *const value_bools[] = {"0",     "1",    "no", "yes", "off", "on",
                                          "false", "true", "n",  "y",   NULL};

/* The name of each type, and how to write a value of it, for error messages. */
static const struct {
    const char *name, *how;
} value_types[] = {
    [AQI_SET_BOOL] = {"bool", "give one of"},
    [AQI_SET_COUNT] = {"count", "give a plain number,"},
    [AQI_SET_BYTES] = {"bytes", "give a size such as 4096, 64K or 1G,"},
    [AQI_SET_TIME] = {"time", "give a time such as 500us, 10ms or 2.5s,"},
    [AQI_SET_CHOICE] = {"choice", "give one of"},
    [AQI_SET_TEXT] = {"text", "give"},
};
static_assert(AQI_COUNT_OF(value_types) == AQI_SET_TEXT + 1, "a row for each type");

const char *aqi_setting_type_name(enum aqi_setting_type type)
{
    return value_types[type].name;
}

/* Accept digits only. strtoull also takes signs, blanks and prefixes. */
static bool setting_value_parse_digits(const char **text, uint64_t *number)
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

#define VALUE_PARTS 1000000000u

/* ".25", in units of 1 / VALUE_PARTS; digits beyond the ninth are ignored. */
static bool setting_value_parse_fraction(const char **text, uint64_t *parts)
{
    const char *c = *text;
    uint64_t place = VALUE_PARTS;
    if (c[0] != '.' || c[1] < '0' || c[1] > '9') return false;
    *parts = 0;
    for (c++; *c >= '0' && *c <= '9'; c++) {
        place /= 10;
        *parts += place * (uint64_t)(*c - '0');
    }
    *text = c;
    return true;
}

static bool setting_value_scale(const struct value_unit *units, size_t count, const char *name,
                                uint64_t *number)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(units[i].name, name) == 0)
            return !__builtin_mul_overflow(*number, units[i].factor, number);
    return false;
}

/* "K", "KB", "KiB" and "B": once "B" or "iB" is removed, nothing or a known letter is left. */
static bool setting_value_scale_bytes(const char *suffix, uint64_t *number)
{
    size_t len = strlen(suffix);
    char letter[2] = "";
    if (len > 3) return false;
    if (len > 0 && strcasecmp(suffix, "B") != 0) {
        letter[0] = suffix[0];
        if (len > 1 && strcasecmp(suffix + 1, "B") != 0 && strcasecmp(suffix + 1, "iB") != 0)
            return false;
    }
    return setting_value_scale(byte_units, AQI_COUNT_OF(byte_units), letter, number);
}

static const char *setting_value_bare_time_unit(const struct aqi_setting *row)
{
    return row->unit == NULL ? "ns" : row->unit;
}

static uint64_t setting_value_max(const struct aqi_setting *row)
{
    return row->min == 0 && row->max == 0 ? UINT64_MAX : row->max;
}

/* Rounds a maximum near the end of 64 bits down to the largest unit, so that it is readable. */
static uint64_t setting_value_max_shown(const struct aqi_setting *row)
{
    uint64_t max = setting_value_max(row), unit = 1;
    if (row->type == AQI_SET_BYTES) unit = byte_units[0].factor;
    if (row->type == AQI_SET_TIME) unit = time_units[0].factor;
    return max >= INT64_MAX ? max / unit * unit : max;
}

/* Under an alias: the nearest valid number, if the row allows that. */
static uint64_t setting_value_clamp(const struct aqi_setting *row, uint64_t number)
{
    number = aqi_min(aqi_max(number, row->min), setting_value_max(row));
    if (row->power_of_two && number > 1) number = UINT64_C(1) << (63 - __builtin_clzll(number));
    return number;
}

static bool setting_value_in_range(const struct aqi_setting *row, uint64_t number)
{
    if (row->power_of_two && !aqi_is_power_of_two(number)) return false;
    return number >= row->min && number <= setting_value_max(row);
}

/* The rest of a time after the integer `number`: "", "ms" or ".25s"; cut to whole nanoseconds. */
static bool setting_value_scale_time(const struct aqi_setting *row, const char *text,
                                     uint64_t *number)
{
    uint64_t parts = 0, unit = 1;
    if (*text == '.' && !setting_value_parse_fraction(&text, &parts)) return false;
    if (*text == '\0') text = setting_value_bare_time_unit(row);
    if (!setting_value_scale(time_units, AQI_COUNT_OF(time_units), text, &unit) ||
        __builtin_mul_overflow(*number, unit, number))
        return false;
    /* In two steps, since parts of a minute times nanoseconds would overflow. */
    uint64_t of_parts = unit / VALUE_PARTS * parts + unit % VALUE_PARTS * parts / VALUE_PARTS;
    return !__builtin_add_overflow(*number, of_parts, number);
}

static bool setting_value_parse_number(const struct aqi_setting *row, const char *text,
                                       uint64_t *number)
{
    if (!setting_value_parse_digits(&text, number)) return false;
    switch (row->type) {
    case AQI_SET_BYTES:
        return setting_value_scale_bytes(text, number);
    case AQI_SET_TIME:
        return setting_value_scale_time(row, text, number);
    default:
        return *text == '\0';
    }
}

static bool setting_value_parse_choice(const char *const *choices, const char *text,
                                       uint64_t *number)
{
    for (size_t i = 0; choices[i] != NULL; i++) {
        if (strcasecmp(choices[i], text) != 0) continue;
        *number = i;
        return true;
    }
    return false;
}

/* Does not check the range, which only numbers have. */
static bool setting_value_parse(const struct aqi_setting *row, const char *text, void *value)
{
    uint64_t number = 0;
    bool legal = false;
    switch (row->type) {
    case AQI_SET_TEXT:
        if (row->check != NULL && !row->check(text)) return false;
        memcpy(value, &text, sizeof(text));
        return true;
    case AQI_SET_BOOL:
        legal = setting_value_parse_choice(value_bools, text, &number);
        number %= 2;
        break;
    case AQI_SET_CHOICE:
        legal = setting_value_parse_choice(row->choices, text, &number);
        break;
    case AQI_SET_COUNT:
    case AQI_SET_BYTES:
    case AQI_SET_TIME:
        legal = setting_value_parse_number(row, text, &number);
        break;
    }
    if (legal) memcpy(value, &number, sizeof(number));
    return legal;
}

static bool setting_value_is_number(const struct aqi_setting *row)
{
    return row->type == AQI_SET_COUNT || row->type == AQI_SET_BYTES || row->type == AQI_SET_TIME;
}

bool aqi_setting_read(const struct aqi_setting *row, const char *text, void *value)
{
    uint64_t number;
    if (!setting_value_is_number(row)) return setting_value_parse(row, text, value);
    if (!setting_value_parse(row, text, &number) || !setting_value_in_range(row, number))
        return false;
    memcpy(value, &number, sizeof(number));
    return true;
}

/* The text that a word under an alias stands for, or the word itself; NULL: not valid. */
static const char *setting_value_own_text(const struct aqi_setting *row, const char *text,
                                          bool *adjusted)
{
    const struct aqi_setting_word *word = row->alias_words;
    for (; word != NULL && word->alias != NULL; word++) {
        *adjusted = strcmp(word->alias, "*") == 0;
        if (*adjusted || strcasecmp(word->alias, text) == 0) return word->own;
    }
    return row->words_only ? NULL : text;
}

bool aqi_setting_read_alias(const struct aqi_setting *row, const char *text, void *value,
                            bool *adjusted)
{
    char with_unit[64];
    uint64_t number;
    *adjusted = false;
    text = setting_value_own_text(row, text, adjusted);
    if (text == NULL) return false;
    if (row->alias_unit != NULL && text[strspn(text, "0123456789")] == '\0' &&
        snprintf(with_unit, sizeof(with_unit), "%s%s", text, row->alias_unit) <
            (int)sizeof(with_unit))
        text = with_unit;
    if (!setting_value_is_number(row)) return aqi_setting_read(row, text, value);
    if (!setting_value_parse(row, text, &number)) return false;
    *adjusted = !setting_value_in_range(row, number);
    if (*adjusted && !row->clamp) return false;
    number = setting_value_clamp(row, number);
    memcpy(value, &number, sizeof(number));
    return true;
}

static void setting_value_add_scaled(char *buf, size_t len, const struct value_unit *units,
                                     uint64_t number)
{
    while (number % units->factor != 0)
        units++;
    aqi_append(buf, len, "%llu%s", (unsigned long long)(number / units->factor), units->name);
}

static void setting_value_add_number(char *buf, size_t len, const struct aqi_setting *row,
                                     uint64_t number)
{
    if (number != 0 && row->type == AQI_SET_BYTES)
        setting_value_add_scaled(buf, len, byte_units, number);
    else if (number != 0 && row->type == AQI_SET_TIME)
        setting_value_add_scaled(buf, len, time_units, number);
    else
        aqi_append(buf, len, "%llu", (unsigned long long)number);
}

static void setting_value_add_range(char *buf, size_t len, const struct aqi_setting *row)
{
    switch (row->type) {
    case AQI_SET_TEXT:
        aqi_append(buf, len, "%s", row->legal != NULL ? row->legal : "any text");
        return;
    case AQI_SET_BOOL:
        aqi_append(buf, len, "0 1 no yes off on false true");
        return;
    case AQI_SET_CHOICE:
        for (size_t i = 0; row->choices[i] != NULL; i++)
            aqi_append(buf, len, "%s%s", i == 0 ? "" : " ", row->choices[i]);
        return;
    default:
        setting_value_add_number(buf, len, row, row->min);
        aqi_append(buf, len, " to ");
        setting_value_add_number(buf, len, row, setting_value_max_shown(row));
        if (row->power_of_two) aqi_append(buf, len, ", a power of two");
    }
}

void aqi_setting_range(const struct aqi_setting *row, char *buf, size_t len)
{
    buf[0] = '\0';
    setting_value_add_range(buf, len, row);
}

void aqi_setting_complain(const struct aqi_setting *row, const char *variable, const char *text,
                          char *buf, size_t len)
{
    bool words = row->words_only && strcmp(variable, row->name) != 0;
    snprintf(buf, len, "%s=\"%.80s\" is not valid: %s ", variable, text,
             words ? "give one of" : value_types[row->type].how);
    for (size_t i = 0; words && row->alias_words[i].alias != NULL; i++)
        aqi_append(buf, len, "%s%s", i == 0 ? "" : " ", row->alias_words[i].alias);
    if (words) return;
    setting_value_add_range(buf, len, row);
    if (row->type == AQI_SET_TIME)
        aqi_append(buf, len, " (a number without a unit is in %s)",
                   setting_value_bare_time_unit(row));
    if (row->def != NULL && *row->def != '\0')
        aqi_append(buf, len, "; the default is %s", row->def);
}

void aqi_setting_format(const struct aqi_settings_table *table, size_t row_index, char *buf,
                        size_t len)
{
    const struct aqi_setting *row = &table->rows[row_index];
    const char *text, *field = (const char *)table->values + row->offset;
    uint64_t number;
    memcpy(&text, field, sizeof(text));
    memcpy(&number, field, sizeof(number));
    buf[0] = '\0';
    if (row->type == AQI_SET_TEXT)
        aqi_append(buf, len, "%s", text == NULL ? "" : text);
    else if (row->type == AQI_SET_CHOICE)
        aqi_append(buf, len, "%s", row->choices[number]);
    else if (row->type == AQI_SET_BOOL)
        aqi_append(buf, len, "%s", number != 0 ? "yes" : "no");
    else
        setting_value_add_number(buf, len, row, number);
}
