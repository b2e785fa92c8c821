/* INI files: see ini.h. */
#include "base/ini.h"

#include <ctype.h>
#include <string.h>

static char *ini_trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    for (size_t len = strlen(text); len != 0 && isspace((unsigned char)text[len - 1]);)
        text[--len] = '\0';
    return text;
}

/* The rest of a line that is too long must not be taken for another line. */
static void ini_skip_line(FILE *file)
{
    for (int c; (c = getc(file)) != EOF && c != '\n';)
        ;
}

/* Split the line. Returns false if it is neither a section nor a key. */
static bool ini_split(struct aqi_ini *ini)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf"; /* of some editors, in the first line */
    size_t skip = strncmp(ini->line, byte_order_mark, 3) == 0 ? 3 : 0;
    char *text = ini_trim(ini->line + skip), *end = strchr(text, ']'), *equals = strchr(text, '=');
    ini->value = NULL;
    if (*text == '[' && end != NULL) {
        *end = '\0';
        ini->name = text + 1;
        return true;
    }
    if (equals == NULL) return false;
    *equals = '\0';
    char *value = ini_trim(equals + 1);
    value[strcspn(value, " \t")] = '\0';
    ini->value = value;
    ini->name = ini_trim(text);
    return *ini->name != '\0';
}

bool aqi_ini_next(struct aqi_ini *ini)
{
    while (fgets(ini->line, sizeof(ini->line), ini->file) != NULL) {
        if (strchr(ini->line, '\n') == NULL) ini_skip_line(ini->file);
        ini->line[strcspn(ini->line, "#\n")] = '\0';
        if (ini_split(ini)) return true;
    }
    return false;
}
