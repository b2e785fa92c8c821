/* Combines lines that are equal except for the rank or host. */
#include "alike.h"
#include "base/array.h"
#include "base/fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long to collect repetitions after the first one. */
#define ALIKE_WAIT_NS 500000000u
#define ALIKE_HOST    "aqrun: host "
#define ALIKE_LAST    "; ending the job" /* only in the first message */
enum { ALIKE_TEXTS = 32, ALIKE_QUOTE = 70, ALIKE_NAMES = 4000 };

struct alike_who {
    uint32_t rank;
    char *host; /* NULL: a rank */
};

struct alike_text {
    char *text, *key;      /* as first printed, and without the name of the host; NULL: unused */
    uint64_t used;         /* sequence number of the last use */
    uint64_t due_ns;       /* when to list repetitions; 0: all have been printed */
    struct alike_who *who; /* the first source, then the others */
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

/* --- sources of lines ------------------------------------------------------------------------- */

static int alike_order(const void *a, const void *b)
{
    const struct alike_who *x = a, *y = b;
    if (x->host != NULL && y->host != NULL) return strcmp(x->host, y->host);
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The end of the run of consecutive ranks that begins at `i`; a host is a run by itself. */
static size_t alike_run(const struct alike_who *who, size_t count, size_t i)
{
    size_t end = i + 1;
    while (who[i].host == NULL && end < count && who[end].rank == who[end - 1].rank + 1)
        end++;
    return end;
}

/* List as "1-3,7" or "n2,n5". */
static void alike_name(const struct alike_who *who, size_t count, char text[ALIKE_NAMES])
{
    text[0] = '\0';
    for (size_t i = 0, end; i < count; i = end) {
        const char *comma = i != 0 ? "," : "";
        end = alike_run(who, count, i);
        if (strlen(text) > ALIKE_NAMES - 100) {
            aqi_append(text, ALIKE_NAMES, ",...");
            return;
        }
        if (who[i].host != NULL)
            aqi_append(text, ALIKE_NAMES, "%s%.60s", comma, who[i].host);
        else
            aqi_append(text, ALIKE_NAMES, "%s%u", comma, who[i].rank);
        if (end > i + 1) aqi_append(text, ALIKE_NAMES, "-%u", who[end - 1].rank);
    }
}

static bool alike_has(const struct alike_text *of, const struct alike_who *who)
{
    for (size_t i = 0; i < of->count; i++)
        if (alike_order(&of->who[i], who) == 0) return true;
    return false;
}

/* Returns false if out of memory. */
static bool alike_add(struct alike_text *of, const struct alike_who *who)
{
    struct alike_who own = *who;
    if (!aqi_array_reserve(&of->who, &of->room, of->count + 1, sizeof(*of->who))) return false;
    if (who->host != NULL && (own.host = strdup(who->host)) == NULL) return false;
    of->who[of->count++] = own;
    return true;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* List the sources that have not been listed yet. */
static void alike_say_others(struct alike_text *of)
{
    char names[ALIKE_NAMES], line[ALIKE_NAMES + 4 * ALIKE_QUOTE];
    const struct alike_who *first = &of->who[0];
    const char *quoted = of->text;
    size_t count = of->count - of->said;
    of->due_ns = 0;
    if (count == 0) return;
    qsort(of->who + of->said, count, sizeof(of->who[0]), alike_order);
    alike_name(of->who + of->said, count, names);
    of->said = of->count;
    if (first->host != NULL) {
        snprintf(line, sizeof(line), "aqrun: host%s %s: the same as host %.60s",
                 count > 1 ? "s" : "", names, first->host);
    } else {
        const char *colon = strstr(of->text, ": ");
        int folder = colon != NULL ? (int)aqi_min((size_t)(colon - of->text), ALIKE_QUOTE) : 0;
        if (colon != NULL) quoted = colon + 2;
        snprintf(line, sizeof(line), "aq[%s] %.*s: the same as rank %u", names, folder, of->text,
                 first->rank);
    }
    aqi_append(line, sizeof(line), ", from %zu other%s: \"%.*s%s\"", count, count > 1 ? "s" : "",
               ALIKE_QUOTE, quoted, strlen(quoted) > ALIKE_QUOTE ? "..." : "");
    alike.say(line);
}

static void alike_forget(struct alike_text *of)
{
    if (of->key != NULL) alike_say_others(of);
    for (size_t i = 0; i < of->count; i++)
        free(of->who[i].host);
    free(of->text);
    free(of->key);
    free(of->who);
    *of = (struct alike_text){0};
}

/* The entry of this text, or the least recently used one to replace. */
static struct alike_text *alike_find(const char *key)
{
    struct alike_text *oldest = &alike.texts[0];
    for (size_t i = 0; i < ALIKE_TEXTS; i++) {
        struct alike_text *of = &alike.texts[i];
        if (of->key != NULL && strcmp(of->key, key) == 0) return of;
        if (of->used < oldest->used) oldest = of;
    }
    return oldest;
}

/* Returns true if another rank or host has printed this text. Repetitions by the same one are
 * printed. */
static bool alike_is_other(struct alike_text *of, const char *key, const struct alike_who *who,
                           uint64_t now)
{
    if (of->key == NULL || strcmp(of->key, key) != 0 || alike_has(of, who) || !alike_add(of, who))
        return false;
    if (of->due_ns == 0) of->due_ns = now + ALIKE_WAIT_NS;
    return true;
}

static void alike_take(const char *line, const char *text, const char *key,
                       const struct alike_who *who, uint64_t now)
{
    struct alike_text *of = alike_find(key);
    of->used = ++alike.uses;
    if (alike_is_other(of, key, who, now)) return;
    alike_forget(of);
    alike.say(line);
    of->used = alike.uses;
    of->text = strdup(text);
    of->key = strdup(key);
    if (of->text == NULL || of->key == NULL || !alike_add(of, who)) {
        free(of->key);
        of->key = NULL; /* print repetitions from now on instead of listing them */
        alike_forget(of);
    }
    of->said = of->count;
}

/* Make the key: the text without the name of the host. Keys of ranks and hosts are distinct. */
static void alike_key(const char *text, const char *host, char *key)
{
    size_t len = strlen(host), used = 0;
    key[used++] = '\n';
    while (*text != '\0')
        if (strcmp(text, ALIKE_LAST) == 0)
            break;
        else if (len != 0 && strncmp(text, host, len) == 0)
            text += len;
        else
            key[used++] = *text++;
    key[used] = '\0';
}

static void alike_take_host(char *line, char *host, uint64_t now)
{
    char *colon = strstr(host, ": ");
    char *key = malloc(strlen(line) + 2), *whole = strdup(line);
    if (colon == NULL || key == NULL || whole == NULL) {
        alike.say(line);
    } else {
        *colon = '\0';
        const struct alike_who who = {.host = host};
        alike_key(colon + 2, host, key);
        alike_take(whole, colon + 2, key, &who, now);
    }
    free(key);
    free(whole);
}

void alike_came(const char *line, size_t len, uint64_t now)
{
    struct alike_who who = {0};
    int at = 0;
    char *copy = strndup(line, len);
    if (copy == NULL) return;
    if (sscanf(copy, "aq[%9u] %n", &who.rank, &at) == 1 && at != 0)
        alike_take(copy, copy + at, copy + at, &who, now);
    else if (strncmp(copy, ALIKE_HOST, sizeof(ALIKE_HOST) - 1) == 0)
        alike_take_host(copy, copy + sizeof(ALIKE_HOST) - 1, now);
    else
        alike.say(copy);
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
