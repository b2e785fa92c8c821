/* Lists of words, separated by commas or blanks, as in settings. */
#ifndef AQI_WORDS_H
#define AQI_WORDS_H

#include "base/base.h"

#include <string.h>

static inline bool aqi_words_have(const char *list, const char *word)
{
    for (size_t len; *list != '\0'; list += len + strspn(list + len, ", ")) {
        len = strcspn(list, ", ");
        if (len == strlen(word) && strncmp(list, word, len) == 0) return true;
    }
    return false;
}

#endif
