/* PMI messages: names and values between separators, and the length that precedes them. */
#include "manager_impl.h"

#include <string.h>

bool manager_number_before(const char **at, char end, uint32_t *number)
{
    uint64_t value = 0;
    size_t digits = 0;
    for (; **at >= '0' && **at <= '9' && digits < 10; digits++, (*at)++)
        value = value * 10 + (uint64_t)(**at - '0');
    if (digits == 0 || value > UINT32_MAX || **at != end) return false;
    ++*at;
    *number = (uint32_t)value;
    return true;
}

bool manager_number(const char *text, uint32_t *number)
{
    return text != NULL && manager_number_before(&text, '\0', number);
}

bool manager_is_word(const char *text)
{
    if (*text == '\0') return false;
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~' || *text == ';' || *text == '=') return false;
    return true;
}

/* Terminate the value at `text` at its separator. Returns the text that follows; NULL: none. */
static char *fields_end(char *text, char separator)
{
    char *to = text;
    for (; *text != '\0'; text++) {
        if (*text == separator) {
            if (separator != ';' || text[1] != ';') {
                *to = '\0';
                return text + 1;
            }
            text++; /* a doubled separator is part of the value */
        }
        *to++ = *text;
    }
    *to = '\0';
    return NULL;
}

bool manager_cut(char *text, char separator, struct manager_fields *fields)
{
    fields->count = 0;
    while (text != NULL) {
        while (*text == separator)
            text++;
        if (*text == '\0') break;
        char *next = fields_end(text, separator);
        char *equals = strchr(text, '=');
        /* Words without a value are part of a message for users. */
        if (equals != NULL && fields->count == MANAGER_FIELDS) return false;
        if (equals != NULL) {
            *equals = '\0';
            fields->name[fields->count] = text;
            fields->value[fields->count++] = equals + 1;
        }
        text = next;
    }
    return fields->count != 0;
}

const char *manager_field(const struct manager_fields *fields, const char *name)
{
    for (size_t i = 0; i < fields->count; i++)
        if (strcmp(fields->name[i], name) == 0) return fields->value[i];
    return NULL;
}

bool manager_read_length(const char head[6], size_t *len)
{
    size_t at = 0, value = 0, digits = 0;
    while (at < 6 && head[at] == ' ')
        at++;
    for (; at < 6 && head[at] >= '0' && head[at] <= '9'; at++, digits++)
        value = value * 10 + (size_t)(head[at] - '0');
    while (at < 6 && head[at] == ' ')
        at++;
    if (at != 6 || digits == 0) return false;
    *len = value;
    return true;
}
