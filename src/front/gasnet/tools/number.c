/* Parses and formats numbers as used in environment variables; see gasnet_tools.h. */
#include "tools.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>

static const struct number_unit {
    const char *name, *brief;
    int shift;
} number_units[] = {
    {"TB", "T", 40}, {"GB", "G", 30}, {"MB", "M", 20}, {"KB", "K", 10}, {"B", "B", 0},
};
enum { NUMBER_UNITS = sizeof(number_units) / sizeof(number_units[0]) };

/* The factor of a unit suffix; 0: unknown. */
static uint64_t number_factor(const char *suffix, uint64_t without)
{
    while (isspace((unsigned char)*suffix))
        suffix++;
    if (*suffix == '\0') return without;
    for (int i = 0; i < NUMBER_UNITS; i++) {
        const struct number_unit *unit = &number_units[i];
        if (strcasecmp(suffix, unit->name) == 0 || strcasecmp(suffix, unit->brief) == 0)
            return (uint64_t)1 << unit->shift;
    }
    return 0;
}

/* Whether the number has a decimal point or an exponent. */
static int number_fractional(const char *str, const char *end)
{
    if (strncasecmp(str, "0x", 2) == 0) return 0;
    for (; str < end; str++)
        if (*str == '.' || *str == 'e' || *str == 'E') return 1;
    return 0;
}

static int64_t number_integer(const char *str, char **end)
{
    const char *digits = str;
    while (isspace((unsigned char)*digits))
        digits++;
    if (*digits == '+' || *digits == '-') digits++;
    return strtoll(str, end, strncasecmp(digits, "0x", 2) == 0 ? 16 : 10);
}

static GASNETT_NORETURN void number_bad(const char *name, const char *str, const char *want)
{
    if (name == NULL) gasnett_fatalerror_nopos("\"%s\" is not a number: give %s", str, want);
    gasnett_fatalerror_nopos("the environment variable %s is \"%s\": give %s", name, str, want);
}

int64_t gasnett_parse_int(const char *str, uint64_t mem_size_multiplier)
{
    return aqgi_tools_parse_int(NULL, str, mem_size_multiplier);
}

int64_t aqgi_tools_parse_int(const char *name, const char *str, uint64_t mem_size_multiplier)
{
    char *end, *fraction_end;
    errno = 0;
    int64_t whole = number_integer(str, &end);
    int error = errno;
    if (mem_size_multiplier == 0) {
        while (isspace((unsigned char)*end))
            end++;
        if (end == str || *end != '\0' || error != 0)
            number_bad(name, str, "an integer, decimal or with 0x hexadecimal");
        return whole;
    }

    double value = strtod(str, &fraction_end);
    int fractional = fraction_end > end && number_fractional(str, fraction_end);
    if (fractional) end = fraction_end;
    uint64_t factor = number_factor(end, mem_size_multiplier);
    int64_t result;
    if (end == str || error != 0 || factor == 0)
        number_bad(name, str, "a size such as 65536, 64K, 1.5MB or 2GB");
    if (fractional) {
        value *= (double)factor;
        if (!(value > -9.2e18 && value < 9.2e18)) number_bad(name, str, "a size below 2^63 bytes");
        return (int64_t)value;
    }
    if (factor > INT64_MAX || __builtin_mul_overflow(whole, (int64_t)factor, &result))
        number_bad(name, str, "a size below 2^63 bytes");
    return result;
}

char *gasnett_format_number(int64_t val, char *buf, size_t bufsz, int is_mem_size)
{
    if (!is_mem_size) {
        snprintf(buf, bufsz, "%" PRId64, val);
        return buf;
    }
    int i = 0; /* the largest unit that is exact, so that it can be parsed again */
    while (i < NUMBER_UNITS - 1 && (val == 0 || val % ((int64_t)1 << number_units[i].shift) != 0))
        i++;
    snprintf(buf, bufsz, "%" PRId64 " %s", val / ((int64_t)1 << number_units[i].shift),
             number_units[i].name);
    return buf;
}
