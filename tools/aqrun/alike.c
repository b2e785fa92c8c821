/* Lines of the library that differ in nothing but the rank. */
#include "alike.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Others are waited for as long, from the first of them on. */
#define ALIKE_WAIT_NS 500000000u
enum { ALIKE_TEXTS = 32, ALIKE_QUOTE = 70, ALIKE_RANKS = 4000 };

struct alike_text {
    char *text;      /* behind "aq[3] "; NULL: none */
    uint64_t used;   /* when, as a count */
    uint64_t due_ns; /* 0: all is said */
    uint32_t *ranks; /* that said it: the first of them, then others */
    size_t count, room, said;
};

static struct {
    alike_say_fn *say;
    struct alike_text texts[ALIKE_TEXTS];
    uint64_t uses;
} alike;

void alike_open(alike_say_fn *say)
{
    alike.say = say;
}

static int alike_order(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* "1-3,7" */
static void alike_name(const uint32_t *ranks, size_t count, char text[ALIKE_RANKS])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && ranks[end] == ranks[end - 1] + 1; end++)
            continue;
        if (used > ALIKE_RANKS - 40) {
            snprintf(text + used, ALIKE_RANKS - used, ",...");
            return;
        }
        used += (size_t)snprintf(text + used, ALIKE_RANKS - used, i != 0 ? ",%u" : "%u", ranks[i]);
        if (end > i + 1)
            used += (size_t)snprintf(text + used, ALIKE_RANKS - used, "-%u", ranks[end - 1]);
    }
}

/* Those that have not been named yet. */
static void alike_say_others(struct alike_text *of)
{
    char names[ALIKE_RANKS], line[ALIKE_RANKS + 3 * ALIKE_QUOTE];
    const char *colon = strstr(of->text, ": ");
    int folder = colon != NULL ? (int)(colon - of->text) : 0;
    const char *quoted = colon != NULL ? colon + 2 : of->text;
    size_t count = of->count - of->said;
    of->due_ns = 0;
    if (count == 0) return;
    qsort(of->ranks + of->said, count, sizeof(of->ranks[0]), alike_order);
    alike_name(of->ranks + of->said, count, names);
    of->said = of->count;
    snprintf(line, sizeof(line), "aq[%s] %.*s: the same as rank %u, from %zu other%s: \"%.*s%s\"",
             names, folder < ALIKE_QUOTE ? folder : ALIKE_QUOTE, of->text, of->ranks[0], count,
             count > 1 ? "s" : "", ALIKE_QUOTE, quoted, strlen(quoted) > ALIKE_QUOTE ? "..." : "");
    alike.say(line);
}

static void alike_forget(struct alike_text *of)
{
    if (of->text != NULL) alike_say_others(of);
    free(of->text);
    free(of->ranks);
    *of = (struct alike_text){0};
}

/* False: no memory. */
static bool alike_add(struct alike_text *of, uint32_t rank)
{
    if (of->count == of->room) {
        size_t room = aqi_max(2 * of->room, 8);
        uint32_t *larger = realloc(of->ranks, room * sizeof(*larger));
        if (larger == NULL) return false;
        of->ranks = larger;
        of->room = room;
    }
    of->ranks[of->count++] = rank;
    return true;
}

static bool alike_has(const struct alike_text *of, uint32_t rank)
{
    for (size_t i = 0; i < of->count; i++)
        if (of->ranks[i] == rank) return true;
    return false;
}

/* That of this text, or the one that was used least lately. */
static struct alike_text *alike_find(const char *text)
{
    struct alike_text *oldest = &alike.texts[0];
    for (size_t i = 0; i < ALIKE_TEXTS; i++) {
        struct alike_text *of = &alike.texts[i];
        if (of->text != NULL && strcmp(of->text, text) == 0) return of;
        if (of->used < oldest->used) oldest = of;
    }
    return oldest;
}

/* Another rank says it, too: true. A rank that says it again means it again. */
static bool alike_is_other(struct alike_text *of, const char *text, uint32_t rank, uint64_t now)
{
    if (of->text == NULL || strcmp(of->text, text) != 0 || alike_has(of, rank) ||
        !alike_add(of, rank))
        return false;
    if (of->due_ns == 0) of->due_ns = now + ALIKE_WAIT_NS;
    return true;
}

void alike_came(const char *line, size_t len, uint64_t now)
{
    unsigned rank;
    int at = 0;
    char *copy = strndup(line, len);
    if (copy == NULL) return;
    if (sscanf(copy, "aq[%9u] %n", &rank, &at) != 1 || at == 0) {
        alike.say(copy);
        free(copy);
        return;
    }
    struct alike_text *of = alike_find(copy + at);
    of->used = ++alike.uses;
    if (!alike_is_other(of, copy + at, rank, now)) {
        alike_forget(of);
        alike.say(copy);
        of->used = alike.uses;
        of->text = strdup(copy + at);
        if (of->text == NULL || !alike_add(of, rank)) alike_forget(of);
        of->said = of->count;
    }
    free(copy);
}

uint64_t alike_tick(uint64_t now)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < ALIKE_TEXTS; i++) {
        struct alike_text *of = &alike.texts[i];
        if (of->due_ns != 0 && of->due_ns <= now) alike_say_others(of);
        if (of->due_ns != 0) next = aqi_min(next, of->due_ns);
    }
    return next;
}

void alike_close(void)
{
    for (size_t i = 0; i < ALIKE_TEXTS; i++)
        alike_forget(&alike.texts[i]);
    alike.uses = 0;
}
