/* fi: posted receives and unexpected messages. */
#include "front/fi/match.h"

#include <stdlib.h>

enum { MATCH_LEAST = 64, MATCH_LOAD = 2 /* receives per bucket before it grows */ };

static struct afi_want *match_want(struct aqi_node *link)
{
    return AQI_OF(link, struct afi_want, link);
}

static size_t match_hash(uint64_t tag, const void *source)
{
    return (size_t)aqi_hash_spread(aqi_hash(aqi_hash(AQI_HASH_SEED, tag), (uintptr_t)source));
}

static struct aqi_node *match_bucket(const struct afi_class *class, uint64_t tag,
                                     const void *source)
{
    size_t hash = match_hash(tag & ~class->ignore, class->any ? NULL : source);
    return &class->buckets[hash & (class->size - 1)];
}

static struct aqi_node *match_sources(struct afi_match *match, const void *source)
{
    return &match->strays_by_source[match_hash(0, source) % AFI_SOURCES];
}

void afi_match_init(struct afi_match *match)
{
    *match = (struct afi_match){.stamp = 0};
    aqi_list_init(&match->others);
    aqi_list_init(&match->strays);
    for (unsigned i = 0; i < AFI_SOURCES; i++)
        aqi_list_init(&match->strays_by_source[i]);
}

void afi_match_close(struct afi_match *match)
{
    for (unsigned i = 0; i < match->class_count; i++)
        free(match->classes[i].buckets);
    match->class_count = 0;
}

/* --- receives -------------------------------------------------------------------------------- */

/* The order within a bucket is preserved, since each new bucket gets receives of one old bucket
 * only. */
static bool match_grow(struct afi_class *class)
{
    struct afi_class grown = *class;
    grown.size = class->size != 0 ? 2 * class->size : MATCH_LEAST;
    grown.buckets = malloc(grown.size * sizeof(*grown.buckets));
    if (grown.buckets == NULL) return class->size != 0;
    for (size_t i = 0; i < grown.size; i++)
        aqi_list_init(&grown.buckets[i]);
    for (size_t i = 0; i < class->size; i++)
        while (!aqi_list_is_empty(&class->buckets[i])) {
            struct afi_want *want = match_want(class->buckets[i].next);
            aqi_list_remove(&want->link);
            aqi_list_append(match_bucket(&grown, want->tag, want->source), &want->link);
        }
    free(class->buckets);
    *class = grown;
    return true;
}

/* NULL: too many classes, or out of memory. */
static struct afi_class *match_class(struct afi_match *match, const struct afi_want *want)
{
    struct afi_class *unused = NULL;
    for (unsigned i = 0; i < match->class_count; i++) {
        struct afi_class *class = &match->classes[i];
        if (class->ignore == want->ignore && class->any == (want->source == NULL)) return class;
        if (class->count == 0) unused = class;
    }
    if (match->class_count < AFI_CLASSES) {
        unused = &match->classes[match->class_count];
        *unused = (struct afi_class){.size = 0};
        if (!match_grow(unused)) return NULL;
        match->class_count++;
    }
    if (unused == NULL) return NULL;
    unused->ignore = want->ignore;
    unused->any = want->source == NULL;
    return unused;
}

void afi_match_post(struct afi_match *match, struct afi_want *want)
{
    struct afi_class *class = match_class(match, want);
    want->stamp = match->stamp++;
    want->class = AFI_CLASSES;
    if (class == NULL) {
        aqi_list_append(&match->others, &want->link);
        return;
    }
    if (class->count >= MATCH_LOAD * class->size) (void)match_grow(class);
    class->count++;
    want->class = (unsigned)(class - match->classes);
    aqi_list_append(match_bucket(class, want->tag, want->source), &want->link);
}

static bool match_agrees(const struct afi_want *want, uint64_t tag, const void *source)
{
    return ((want->tag ^ tag) & ~want->ignore) == 0 &&
           (want->source == NULL || want->source == source);
}

static struct afi_want *match_in(struct aqi_node *list, uint64_t tag, const void *source)
{
    for (struct aqi_node *at = list->next; at != list; at = at->next)
        if (match_agrees(match_want(at), tag, source)) return match_want(at);
    return NULL;
}

struct afi_want *afi_match_find(struct afi_match *match, uint64_t tag, const void *source)
{
    struct afi_want *best = match_in(&match->others, tag, source);
    for (unsigned i = 0; i < match->class_count; i++) {
        const struct afi_class *class = &match->classes[i];
        if (class->count == 0) continue;
        struct afi_want *want = match_in(match_bucket(class, tag, source), tag, source);
        if (want != NULL && (best == NULL || want->stamp < best->stamp)) best = want;
    }
    return best;
}

/* --- messages -------------------------------------------------------------------------------- */

void afi_match_keep(struct afi_match *match, struct afi_stray *stray)
{
    aqi_list_append(&match->strays, &stray->all);
    aqi_list_append(match_sources(match, stray->source), &stray->by_source);
}

void afi_match_drop(struct afi_stray *stray)
{
    aqi_list_remove(&stray->all);
    aqi_list_remove(&stray->by_source);
}

struct afi_stray *afi_match_find_stray(struct afi_match *match, uint64_t tag, uint64_t ignore,
                                       const void *source)
{
    struct aqi_node *list = source != NULL ? match_sources(match, source) : &match->strays;
    for (struct aqi_node *at = list->next; at != list; at = at->next) {
        struct afi_stray *stray = source != NULL ? AQI_OF(at, struct afi_stray, by_source)
                                                 : AQI_OF(at, struct afi_stray, all);
        if (((stray->tag ^ tag) & ~ignore) == 0 && (source == NULL || stray->source == source))
            return stray;
    }
    return NULL;
}
