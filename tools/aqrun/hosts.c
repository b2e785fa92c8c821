/* The list of hosts of a job, and the syntax of hosts in lists and files. */
#include "hosts.h"

#include "job/boot.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static_assert(HOSTS_MAX == AQI_MAX_RANKS, "each host has at least one rank");

#define HOSTS_DIGITS 9 /* maximum digits of a number in a range */

bool hosts_error(struct hosts *hosts, const char *fmt, ...)
{
    va_list args;
    int n = snprintf(hosts->why, sizeof(hosts->why), "%s: ", hosts->source);
    size_t used = aqi_min((size_t)n, sizeof(hosts->why) - 1);
    va_start(args, fmt);
    vsnprintf(hosts->why + used, sizeof(hosts->why) - used, fmt, args);
    va_end(args);
    return false;
}

const char *hosts_show(const char *text, size_t len, char shown[HOSTS_SHOWN])
{
    size_t n = aqi_min(len, HOSTS_SHOWN - 4);
    for (size_t i = 0; i < n; i++)
        shown[i] = (unsigned char)text[i] >= ' ' && (unsigned char)text[i] < 0x7f ? text[i] : '?';
    strcpy(shown + n, n < len ? "..." : "");
    return shown;
}

bool hosts_number(const char *text, size_t len, uint32_t *number)
{
    uint32_t sum = 0;
    if (len == 0) return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        sum = sum * 10 + (uint32_t)(text[i] - '0');
        if (sum > AQI_MAX_RANKS) return false;
    }
    *number = sum;
    return sum > 0;
}

static uint32_t hosts_hash(const char *name)
{
    uint64_t hash = AQI_HASH_SEED;
    for (; *name != '\0'; name++)
        hash = aqi_hash(hash, (uint64_t)tolower((unsigned char)*name));
    return (uint32_t)(hash ^ hash >> 32);
}

/* The position of a name in the index, or where to insert it. All names of this machine are
 * equal. */
static uint32_t *hosts_find(const struct hosts *hosts, const char *name, bool here)
{
    uint32_t mask = hosts->index_size - 1;
    uint32_t at = (here ? 0 : hosts_hash(name)) & mask;
    for (;; at = (at + 1) & mask) {
        uint32_t number = hosts->index[at];
        if (number == 0) return &hosts->index[at];
        const struct host *host = &hosts->list[number - 1];
        if (host->here ? here : !here && strcasecmp(host->name, name) == 0)
            return &hosts->index[at];
    }
}

/* Make room for one more host: the index is at most half full. */
static bool hosts_grow(struct hosts *hosts)
{
    if (hosts->count < hosts->room) return true;
    uint32_t room = hosts->room == 0 ? 16 : 2 * hosts->room;
    struct host *list = realloc(hosts->list, room * sizeof(*list));
    if (list != NULL) hosts->list = list;
    uint32_t *index = calloc(2 * (size_t)room, sizeof(*index));
    if (list == NULL || index == NULL) {
        free(index);
        return hosts_error(hosts, "no memory for %u hosts", room);
    }
    free(hosts->index);
    hosts->index = index;
    hosts->index_size = 2 * room;
    hosts->room = room;
    for (uint32_t i = 0; i < hosts->count; i++)
        *hosts_find(hosts, list[i].name, list[i].here) = i + 1;
    return true;
}

static bool hosts_append(struct hosts *hosts, const char *name, bool here)
{
    if (hosts->count == HOSTS_MAX)
        return hosts_error(hosts, "more than %u hosts, which is the maximum for a job", HOSTS_MAX);
    char *copy = strdup(name);
    if (copy == NULL) return hosts_error(hosts, "no memory for %u hosts", hosts->count + 1);
    hosts->list[hosts->count++] = (struct host){.name = copy, .here = here};
    return true;
}

/* Add a host by its literal name. `slots` 0: not specified. */
static bool hosts_add(struct hosts *hosts, const char *name, uint32_t slots)
{
    bool here = hosts_is_here(name);
    if (++hosts->mentions > HOSTS_MENTIONS)
        return hosts_error(hosts, "more than %u host names: write HOST*SLOTS", HOSTS_MENTIONS);
    if (!hosts_grow(hosts)) return false;
    uint32_t *at = hosts_find(hosts, name, here);
    if (*at == 0) {
        if (!hosts_append(hosts, name, here)) return false;
        *at = hosts->count;
    }
    struct host *host = &hosts->list[*at - 1];
    host->slots += slots;
    host->bare += slots == 0;
    if (host->slots + host->bare > AQI_MAX_RANKS)
        return hosts_error(hosts, "%s has more than %u slots, which is the maximum for a job",
                           host->name, AQI_MAX_RANKS);
    return true;
}

void hosts_settle(struct hosts *hosts)
{
    for (uint32_t i = 0; i < hosts->count; i++)
        hosts->counted = hosts->counted || hosts->list[i].slots > 0 || hosts->list[i].bare > 1;
    for (uint32_t i = 0; i < hosts->count; i++) {
        struct host *host = &hosts->list[i];
        if (hosts->counted) host->slots += host->bare;
        host->bare = 0;
    }
}

uint64_t hosts_slots(const struct hosts *hosts, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += hosts->list[i].slots;
    return sum;
}

void hosts_free(struct hosts *hosts)
{
    for (uint32_t i = 0; i < hosts->count; i++)
        free(hosts->list[i].name);
    free(hosts->list);
    free(hosts->index);
    *hosts = (struct hosts){0};
}

/* An item to parse, which may specify several hosts, such as n[1-3]. */
struct hosts_item {
    struct hosts *hosts;
    const char *text, *end; /* excluding the slots */
    uint32_t slots;
    char name[HOSTS_NAME + 1];
};

static bool hosts_item_error(const struct hosts_item *item, const char *what)
{
    char shown[HOSTS_SHOWN];
    return hosts_error(item->hosts, "\"%s\" %s",
                       hosts_show(item->text, (size_t)(item->end - item->text), shown), what);
}

static bool hosts_expand(struct hosts_item *item, size_t used, const char *at);

static bool hosts_range_read(const char **at, const char *end, uint32_t *number, int *width)
{
    const char *from = *at;
    *number = 0;
    for (; *at < end && **at >= '0' && **at <= '9' && *at - from < HOSTS_DIGITS; ++*at)
        *number = *number * 10 + (uint32_t)(**at - '0');
    *width = (int)(*at - from);
    return *width > 0;
}

/*
 * Add all numbers of one range, such as 07-11 or 4, each followed by the expansion of `rest`,
 * which follows the brackets.
 */
static bool hosts_expand_range(struct hosts_item *item, size_t used, const char *at,
                               const char *end, const char *rest)
{
    uint32_t first, last;
    int width, ignored;
    bool legal = hosts_range_read(&at, end, &first, &width);
    last = first;
    if (legal && at < end && *at == '-') {
        at++;
        legal = hosts_range_read(&at, end, &last, &ignored);
    }
    if (!legal || at != end || last < first)
        return hosts_item_error(item, "is not a range of hosts: give a range such as n[1-3,07-11]");
    if (last - first >= HOSTS_MAX)
        return hosts_item_error(item, "has more than 65536 hosts, which is the maximum for a job");
    for (uint32_t number = first; number <= last; number++) {
        int n = snprintf(item->name + used, sizeof(item->name) - used, "%0*u", width, number);
        if (used + (size_t)n > HOSTS_NAME)
            return hosts_item_error(item, "is too long: a name has at most 255 characters");
        if (!hosts_expand(item, used + (size_t)n, rest)) return false;
    }
    return true;
}

static bool hosts_expand_brackets(struct hosts_item *item, size_t used, const char *at)
{
    const char *close = memchr(at, ']', (size_t)(item->end - at));
    if (close == NULL)
        return hosts_item_error(item, "has a [ without a ]: give a range such as n[1-3,07-11]");
    for (const char *end;; at = end + 1) {
        end = memchr(at, ',', (size_t)(close - at));
        if (end == NULL) end = close;
        if (!hosts_expand_range(item, used, at, end, close + 1)) return false;
        if (end == close) return true;
    }
}

static bool hosts_is_name_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("-._:%@", c) != NULL);
}

/* Expand an item whose name is complete up to `used`; the rest is at `at`. */
static bool hosts_expand(struct hosts_item *item, size_t used, const char *at)
{
    for (; at < item->end && *at != '['; at++) {
        if (!hosts_is_name_char(*at) || (used == 0 && *at == '-'))
            return hosts_item_error(
                item, "is not a host name: give NAME, NAME*SLOTS, NAME:SLOTS or NAME[1-3,07-11]");
        if (used == HOSTS_NAME)
            return hosts_item_error(item, "is too long: a name has at most 255 characters");
        item->name[used++] = *at;
    }
    if (at < item->end) return hosts_expand_brackets(item, used, at + 1);
    item->name[used] = '\0';
    if (used == 0) return hosts_item_error(item, "is empty: give a host name");
    return hosts_add(item->hosts, item->name, item->slots);
}

/* The position of the slots, at '*' or ':', or the end. An IPv6 address contains several ':'. */
static const char *hosts_item_slots(const char *text, const char *end)
{
    const char *star = memrchr(text, '*', (size_t)(end - text));
    if (star != NULL) return star;
    const char *colon = memrchr(text, ':', (size_t)(end - text));
    if (colon == NULL || (colon > text && colon[-1] == ']')) return colon != NULL ? colon : end;
    return memchr(text, ':', (size_t)(colon - text)) == NULL ? colon : end;
}

bool hosts_add_item(struct hosts *hosts, const char *text, size_t len, uint32_t extra)
{
    const char *end = text + len, *slots = hosts_item_slots(text, end);
    struct hosts_item item = {.hosts = hosts, .text = text, .end = slots, .slots = extra};
    if (slots < end && !hosts_number(slots + 1, (size_t)(end - slots) - 1, &item.slots)) {
        item.end = end;
        return hosts_item_error(
            &item,
            "does not end in a number of slots from 1 to 65536: give for example n1*4 or n1:4");
    }
    size_t name = (size_t)(slots - text);
    if (name > 2 && text[0] == '[' && slots[-1] == ']' && memchr(text, ':', name) != NULL) {
        item.text = text + 1;
        item.end = slots - 1;
    }
    return hosts_expand(&item, 0, item.text);
}

bool hosts_add_list(struct hosts *hosts, const char *source, const char *text)
{
    snprintf(hosts->source, sizeof(hosts->source), "%s", source);
    uint32_t before = hosts->mentions;
    while (*(text += strspn(text, ", \t\r\n")) != '\0') {
        size_t len = 0;
        for (bool inside = false; text[len] != '\0'; len++) {
            if (text[len] == '[' || text[len] == ']') inside = text[len] == '[';
            if (strchr(inside ? " \t\r\n" : ", \t\r\n", text[len]) != NULL) break;
        }
        if (!hosts_add_item(hosts, text, len, 0)) return false;
        text += len;
    }
    if (hosts->mentions != before) return true;
    return hosts_error(hosts, "it contains no host: give for example n1,n2*4 or n[1-16]");
}
