/* fi: posted receives and unexpected messages. */
#include "front/fi/match.h"

#include <stdlib.h>

enum { MATCH_LEAST = 64, MATCH_LOAD = 2 /* receives per bucket before it grows */ };

static struct afi_posted *match_posted(struct aqi_node *link)
{
    return AQI_OF(link, struct afi_posted, link);
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
    return &match->unexpected_by_source[match_hash(0, source) % AFI_SOURCES];
}

void afi_match_init(struct afi_match *match)
{
    *match = (struct afi_match){.stamp = 0};
    aqi_list_init(&match->others);
    aqi_list_init(&match->unexpected);
    for (unsigned i = 0; i < AFI_SOURCES; i++)
        aqi_list_init(&match->unexpected_by_source[i]);
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
            struct afi_posted *posted = match_posted(class->buckets[i].next);
            aqi_list_remove(&posted->link);
            aqi_list_append(match_bucket(&grown, posted->tag, posted->source), &posted->link);
        }
    free(class->buckets);
    *class = grown;
    return true;
}

/* NULL: too many classes, or out of memory. */
static struct afi_class *match_class(struct afi_match *match, const struct afi_posted *posted)
{
    struct afi_class *unused = NULL;
    for (unsigned i = 0; i < match->class_count; i++) {
        struct afi_class *class = &match->classes[i];
        if (class->ignore == posted->ignore && class->any == (posted->source == NULL)) return class;
        if (class->count == 0) unused = class;
    }
    if (match->class_count < AFI_CLASSES) {
        unused = &match->classes[match->class_count];
        *unused = (struct afi_class){.size = 0};
        if (!match_grow(unused)) return NULL;
        match->class_count++;
    }
    if (unused == NULL) return NULL;
    unused->ignore = posted->ignore;
    unused->any = posted->source == NULL;
    return unused;
}

void afi_match_post(struct afi_match *match, struct afi_posted *posted)
{
    struct afi_class *class = match_class(match, posted);
    posted->stamp = match->stamp++;
    posted->class = AFI_CLASSES;
    if (class == NULL) {
        aqi_list_append(&match->others, &posted->link);
        return;
    }
    if (class->count >= MATCH_LOAD * class->size) (void)match_grow(class);
    class->count++;
    posted->class = (unsigned)(class - match->classes);
    aqi_list_append(match_bucket(class, posted->tag, posted->source), &posted->link);
}

static bool match_agrees(const struct afi_posted *posted, uint64_t tag, const void *source)
{
    return ((posted->tag ^ tag) & ~posted->ignore) == 0 &&
           (posted->source == NULL || posted->source == source);
}

static struct afi_posted *match_in(struct aqi_node *list, uint64_t tag, const void *source)
{
    for (struct aqi_node *at = list->next; at != list; at = at->next)
        if (match_agrees(match_posted(at), tag, source)) return match_posted(at);
    return NULL;
}

struct afi_posted *afi_match_find(struct afi_match *match, uint64_t tag, const void *source)
{
    struct afi_posted *best = match_in(&match->others, tag, source);
    for (unsigned i = 0; i < match->class_count; i++) {
        const struct afi_class *class = &match->classes[i];
        if (class->count == 0) continue;
        struct afi_posted *posted = match_in(match_bucket(class, tag, source), tag, source);
        if (posted != NULL && (best == NULL || posted->stamp < best->stamp)) best = posted;
    }
    return best;
}

/* --- messages -------------------------------------------------------------------------------- */

void afi_match_keep(struct afi_match *match, struct afi_unexpected *unexpected)
{
    aqi_list_append(&match->unexpected, &unexpected->all);
    aqi_list_append(match_sources(match, unexpected->source), &unexpected->by_source);
}

void afi_match_drop(struct afi_unexpected *unexpected)
{
    aqi_list_remove(&unexpected->all);
    aqi_list_remove(&unexpected->by_source);
}

struct afi_unexpected *afi_match_find_unexpected(struct afi_match *match, uint64_t tag,
                                                 uint64_t ignore, const void *source)
{
    struct aqi_node *list = source != NULL ? match_sources(match, source) : &match->unexpected;
    for (struct aqi_node *at = list->next; at != list; at = at->next) {
        struct afi_unexpected *unexpected = source != NULL
                                                ? AQI_OF(at, struct afi_unexpected, by_source)
                                                : AQI_OF(at, struct afi_unexpected, all);
        if (((unexpected->tag ^ tag) & ~ignore) == 0 &&
            (source == NULL || unexpected->source == source))
            return unexpected;
    }
    return NULL;
}
