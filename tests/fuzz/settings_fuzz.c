/*
 * Any text as the value of any kind of setting, as a log specification and as an unknown name. The
 * first byte selects the setting, the rest is the text.
 */
#include "base/fail.h"
#include "base/log.h"
#include "base/settings.h"
#include "fuzz.h"

#include <string.h>

#define UNTOUCHED 0xa5a5a5a5a5a5a5a5u

static const char *const choices[] = {"auto", "spin", "yield", "sleep", NULL};
static const struct aqi_setting rows[] = {
    {.name = "AQ_BOOL", .def = "no", .type = AQI_SET_BOOL},
    {.name = "AQ_COUNT", .type = AQI_SET_COUNT},
    {.name = "AQ_SLOTS", .type = AQI_SET_COUNT, .min = 2, .max = 65536, .power_of_two = true},
    {.name = "AQ_BYTES", .type = AQI_SET_BYTES},
    {.name = "AQ_SEGMENT", .type = AQI_SET_BYTES, .min = 4096, .max = 1ull << 40},
    {.name = "AQ_TIME", .type = AQI_SET_TIME},
    {.name = "AQ_TIMEOUT", .type = AQI_SET_TIME, .unit = "s", .min = 1, .max = UINT64_MAX},
    {.name = "AQ_WAIT", .def = "auto", .type = AQI_SET_CHOICE, .choices = choices},
    {.name = "AQ_TEXT", .type = AQI_SET_TEXT},
};

static struct aqi_settings_table all = {
    .group = "fuzz", .rows = rows, .count = AQI_COUNT_OF(rows), .values = NULL};
static struct aqi_settings_table *const tables[] = {&all};

static void check_in_range(const struct aqi_setting *row, uint64_t value)
{
    if (row->min != 0 || row->max != 0)
        fuzz_require(value >= row->min && value <= row->max, "an accepted value is in the range");
    if (row->power_of_two)
        fuzz_require((value & (value - 1)) == 0, "an accepted value is a power of two");
    if (row->type == AQI_SET_CHOICE) fuzz_require(value < 4, "a choice is one of the choices");
    if (row->type == AQI_SET_BOOL) fuzz_require(value < 2, "a bool is 0 or 1");
}

/* An accepted value is formatted as a text with the same meaning. */
static void check_written(const struct aqi_setting *row, uint64_t value)
{
    uint64_t again = ~value;
    char text[64];
    const struct aqi_settings_table table = {.rows = row, .count = 1, .values = &value};
    aqi_setting_format(&table, 0, text, sizeof(text));
    fuzz_require(aqi_setting_read(row, text, &again), "a formatted value is valid");
    fuzz_require(again == value, "a formatted value has the same meaning");
}

static void check_refused(const struct aqi_setting *row, const char *text, uint64_t value)
{
    char complaint[512], part[100];
    size_t room = 1 + strlen(text) % sizeof(part);
    fuzz_require(value == UNTOUCHED, "a refused text leaves the value unchanged");
    aqi_setting_complain(row, row->name, text, complaint, sizeof(complaint));
    fuzz_require(strncmp(complaint, row->name, strlen(row->name)) == 0,
                 "a complaint names the variable");
    aqi_setting_complain(row, row->name, text, part, room);
    fuzz_require(strlen(part) < room && strncmp(part, complaint, strlen(part)) == 0,
                 "a complaint that does not fit is cut off");
}

static void check_value(const struct aqi_setting *row, const char *text)
{
    if (row->type == AQI_SET_TEXT) {
        const char *value = NULL;
        fuzz_require(aqi_setting_read(row, text, &value) && value == text, "any text is a text");
        return;
    }
    uint64_t value = UNTOUCHED;
    if (aqi_setting_read(row, text, &value)) {
        check_in_range(row, value);
        check_written(row, value);
    } else {
        check_refused(row, text, value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    /* The last specification may have enabled the log: disable it, to avoid a flood of messages. */
    fuzz_require(aqi_log_configure("off") == AQ_OK, "off is valid");
    char *text = malloc(size);
    if (text == NULL) abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    check_value(&rows[data[0] % AQI_COUNT_OF(rows)], text);

    const char *nearest = aqi_settings_nearest(tables, AQI_COUNT_OF(tables), text);
    fuzz_require(nearest == NULL || strncmp(nearest, "AQ_", 3) == 0,
                 "a suggested name is a setting");
    aq_status status = aqi_log_configure(text);
    fuzz_require(status == AQ_OK || status == AQ_ESETTING,
                 "a log specification is valid or refused");
    free(text);
    return 0;
}
