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
#define ALIKE_ENDING  "; ending the job" /* only in the first message */
enum { ALIKE_ENTRIES = 32, ALIKE_QUOTE = 70, ALIKE_NAMES = 4000 };

struct alike_source {
    uint32_t rank;
    char *host; /* NULL: a rank */
};

struct alike_entry {
    char *text, *key; /* as first printed, and without the name of the host; NULL: unused */
    uint64_t used;    /* sequence number of the last use */
    uint64_t due_ns;  /* when to list repetitions; 0: all have been printed */
    struct alike_source *sources; /* the first one, then the others */
    size_t count, room, listed;
};

static struct {
    alike_say_fn *say;
    struct alike_entry entries[ALIKE_ENTRIES];
    uint64_t uses;
} alike;

void alike_open(alike_say_fn *say)
{
    alike.say = say;
}

/* --- sources of lines ------------------------------------------------------------------------- */

static int alike_order(const void *a, const void *b)
{
    const struct alike_source *x = a, *y = b;
    if (x->host != NULL && y->host != NULL) return strcmp(x->host, y->host);
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The end of the run of consecutive ranks that begins at `i`; a host is a run by itself. */
static size_t alike_run(const struct alike_source *sources, size_t count, size_t i)
{
    size_t end = i + 1;
    while (sources[i].host == NULL && end < count && sources[end].rank == sources[end - 1].rank + 1)
        end++;
    return end;
}

/* List as "1-3,7" or "n2,n5". */
static void alike_write_names(const struct alike_source *sources, size_t count,
                              char text[ALIKE_NAMES])
{
    text[0] = '\0';
    for (size_t i = 0, end; i < count; i = end) {
        const char *comma = i != 0 ? "," : "";
        end = alike_run(sources, count, i);
        if (strlen(text) > ALIKE_NAMES - 100) {
            aqi_append(text, ALIKE_NAMES, ",...");
            return;
        }
        if (sources[i].host != NULL)
            aqi_append(text, ALIKE_NAMES, "%s%.60s", comma, sources[i].host);
        else
            aqi_append(text, ALIKE_NAMES, "%s%u", comma, sources[i].rank);
        if (end > i + 1) aqi_append(text, ALIKE_NAMES, "-%u", sources[end - 1].rank);
    }
}

static bool alike_has(const struct alike_entry *entry, const struct alike_source *source)
{
    for (size_t i = 0; i < entry->count; i++)
        if (alike_order(&entry->sources[i], source) == 0) return true;
    return false;
}

/* Returns false if out of memory. */
static bool alike_add(struct alike_entry *entry, const struct alike_source *source)
{
    struct alike_source own = *source;
    if (!aqi_array_reserve(&entry->sources, &entry->room, entry->count + 1,
                           sizeof(*entry->sources)))
        return false;
    if (source->host != NULL && (own.host = strdup(source->host)) == NULL) return false;
    entry->sources[entry->count++] = own;
    return true;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* List the sources that have not been listed yet. */
static void alike_list_others(struct alike_entry *entry)
{
    char names[ALIKE_NAMES], line[ALIKE_NAMES + 4 * ALIKE_QUOTE];
    const struct alike_source *first = &entry->sources[0];
    const char *quoted = entry->text;
    size_t count = entry->count - entry->listed;
    entry->due_ns = 0;
    if (count == 0) return;
    qsort(entry->sources + entry->listed, count, sizeof(entry->sources[0]), alike_order);
    alike_write_names(entry->sources + entry->listed, count, names);
    entry->listed = entry->count;
    if (first->host != NULL) {
        snprintf(line, sizeof(line), "aqrun: host%s %s: the same as host %.60s",
                 count > 1 ? "s" : "", names, first->host);
    } else {
        const char *colon = strstr(entry->text, ": ");
        int folder = colon != NULL ? (int)aqi_min((size_t)(colon - entry->text), ALIKE_QUOTE) : 0;
        if (colon != NULL) quoted = colon + 2;
        snprintf(line, sizeof(line), "aq[%s] %.*s: the same as rank %u", names, folder, entry->text,
                 first->rank);
    }
    aqi_append(line, sizeof(line), " (%zu other %s%s): \"%.*s%s\"", count,
               first->host != NULL ? "host" : "rank", count > 1 ? "s" : "", ALIKE_QUOTE, quoted,
               strlen(quoted) > ALIKE_QUOTE ? "..." : "");
    alike.say(line);
}

static void alike_forget(struct alike_entry *entry)
{
    if (entry->key != NULL) alike_list_others(entry);
    for (size_t i = 0; i < entry->count; i++)
        free(entry->sources[i].host);
    free(entry->text);
    free(entry->key);
    free(entry->sources);
    *entry = (struct alike_entry){0};
}

/* The entry with this key, or the least recently used one, to be replaced. */
static struct alike_entry *alike_find(const char *key)
{
    struct alike_entry *oldest = &alike.entries[0];
    for (size_t i = 0; i < ALIKE_ENTRIES; i++) {
        struct alike_entry *entry = &alike.entries[i];
        if (entry->key != NULL && strcmp(entry->key, key) == 0) return entry;
        if (entry->used < oldest->used) oldest = entry;
    }
    return oldest;
}

/* Returns true if another rank or host has printed this text. Repetitions by the same one are
 * printed. */
static bool alike_is_other(struct alike_entry *entry, const char *key,
                           const struct alike_source *source, uint64_t now)
{
    if (entry->key == NULL || strcmp(entry->key, key) != 0 || alike_has(entry, source) ||
        !alike_add(entry, source))
        return false;
    if (entry->due_ns == 0) entry->due_ns = now + ALIKE_WAIT_NS;
    return true;
}

static void alike_take(const char *line, const char *text, const char *key,
                       const struct alike_source *source, uint64_t now)
{
    struct alike_entry *entry = alike_find(key);
    entry->used = ++alike.uses;
    if (alike_is_other(entry, key, source, now)) return;
    alike_forget(entry);
    alike.say(line);
    entry->used = alike.uses;
    entry->text = strdup(text);
    entry->key = strdup(key);
    if (entry->text == NULL || entry->key == NULL || !alike_add(entry, source)) {
        free(entry->key);
        entry->key = NULL; /* print repetitions from now on instead of listing them */
        alike_forget(entry);
    }
    entry->listed = entry->count;
}

/* Make the key: the text without the name of the host. Keys of ranks and hosts are distinct. */
static void alike_key(const char *text, const char *host, char *key)
{
    size_t len = strlen(host), used = 0;
    key[used++] = '\n';
    while (*text != '\0')
        if (strcmp(text, ALIKE_ENDING) == 0)
            break;
        else if (len != 0 && strncmp(text, host, len) == 0)
            text += len;
        else
            key[used++] = *text++;
    key[used] = '\0';
}

static void alike_take_host(const char *line, const char *host, uint64_t now)
{
    const char *colon = strstr(host, ": ");
    char *name = colon != NULL ? strndup(host, (size_t)(colon - host)) : NULL;
    char *key = malloc(strlen(line) + 2);
    if (name == NULL || key == NULL) {
        alike.say(line);
    } else {
        const struct alike_source source = {.host = name};
        alike_key(colon + 2, name, key);
        alike_take(line, colon + 2, key, &source, now);
    }
    free(key);
    free(name);
}

void alike_line(const char *line, size_t len, uint64_t now)
{
    struct alike_source source = {0};
    int at = 0;
    char *copy = strndup(line, len);
    if (copy == NULL) return;
    if (sscanf(copy, "aq[%9u] %n", &source.rank, &at) == 1 && at != 0)
        alike_take(copy, copy + at, copy + at, &source, now);
    else if (strncmp(copy, ALIKE_HOST, sizeof(ALIKE_HOST) - 1) == 0)
        alike_take_host(copy, copy + sizeof(ALIKE_HOST) - 1, now);
    else
        alike.say(copy);
    free(copy);
}

uint64_t alike_tick(uint64_t now)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < ALIKE_ENTRIES; i++) {
        struct alike_entry *entry = &alike.entries[i];
        if (entry->due_ns != 0 && entry->due_ns <= now) alike_list_others(entry);
        if (entry->due_ns != 0) next = aqi_min(next, entry->due_ns);
    }
    return next;
}

void alike_close(void)
{
    for (size_t i = 0; i < ALIKE_ENTRIES; i++)
        alike_forget(&alike.entries[i]);
    alike.uses = 0;
}
