/* The words of a command: a list that grows. */
#include "words.h"

#include "base/array.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_BLANKS " \t\r\n"

void words_add(struct words *to, const char *fmt, ...)
{
    va_list args;
    if (!aqi_array_reserve(&to->argv, &to->room, to->used + 2, sizeof(*to->argv))) {
        to->failed = true;
        return;
    }
    va_start(args, fmt);
    if (vasprintf(&to->argv[to->used], fmt, args) < 0)
        to->failed = true;
    else
        to->used++;
    va_end(args);
    to->argv[to->used] = NULL;
}

void words_add_text(struct words *to, const char *prefix, char *text)
{
    words_add(to, "%s%s", prefix, text != NULL ? text : "");
    to->failed = to->failed || text == NULL;
    free(text);
}

/* Add the word at the start of a text. Returns its end. */
static const char *words_add_first(struct words *to, const char *text)
{
    char quote = '\0', *word = strdup(text), *end = word;
    for (; *text != '\0' && (quote != '\0' || strchr(WORDS_BLANKS, *text) == NULL); text++) {
        if (*text == quote) {
            quote = '\0';
        } else if (quote == '\0' && (*text == '\'' || *text == '"')) {
            quote = *text;
        } else {
            if (*text == '\\' && quote != '\'' && text[1] != '\0') text++;
            if (word != NULL) *end++ = *text;
        }
    }
    if (word != NULL) *end = '\0';
    words_add_text(to, "", word);
    return text;
}

void words_split(struct words *to, const char *text)
{
    while (*(text += strspn(text, WORDS_BLANKS)) != '\0')
        text = words_add_first(to, text);
}

char **words_finish(struct words *words)
{
    if (!words->failed) return words->argv;
    words_free(words->argv);
    return NULL;
}

void words_free(char **argv)
{
    for (char **word = argv; word != NULL && *word != NULL; word++)
        free(*word);
    free(argv);
}
