/* Any bytes as an INI file. */
#include "base/ini.h"
#include "fuzz.h"

#include <string.h>

static void check_text(const struct aqi_ini *ini, const char *text)
{
    fuzz_require(text >= ini->line && text + strlen(text) < ini->line + sizeof(ini->line),
                 "a text is part of the line");
    fuzz_require(strpbrk(text, "\n#") == NULL, "a text is within one line, before the comment");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t items = 0, lines = 1;
    if (size == 0) return 0;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    struct aqi_ini ini = {.file = fmemopen((void *)(uintptr_t)data, size, "r")};
    if (ini.file == NULL) abort();
    for (; aqi_ini_next(&ini); items++) {
        check_text(&ini, ini.name);
        if (ini.value == NULL) continue;
        check_text(&ini, ini.value);
        fuzz_require(*ini.name != '\0', "a key has a name");
        fuzz_require(strpbrk(ini.value, " \t") == NULL, "a value ends at the first blank");
    }
    fuzz_require(items <= lines, "a line is at most one section or key");
    fuzz_require(feof(ini.file) != 0, "the whole file is read");
    fclose(ini.file);
    return 0;
}
