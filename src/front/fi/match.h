/*
 * Matching of arriving messages with posted receives: pure bookkeeping without locks or I/O.
 *
 * A receive matches a message if their tags agree in all bits that are not in its `ignore`, and if
 * it specifies no source or that of the message. If several match, the first posted receive gets
 * the message, and a receive gets the message that arrived first.
 *
 * Receives are grouped into classes, which ignore the same bits and either all specify a source or
 * none does. A class is a hash table keyed by the remaining bits and the source, so a message
 * needs one lookup per class, however many receives are posted, and programs use few classes.
 * Receives beyond AFI_CLASSES classes share a list.
 */
#ifndef AFI_MATCH_H
#define AFI_MATCH_H

#include "base/list.h"

enum { AFI_CLASSES = 16 };

/* A posted receive, embedded in a struct of the caller. */
struct afi_posted {
    struct aqi_node link;
    uint64_t tag, ignore;
    const void *source; /* NULL: any */
    uint64_t stamp;     /* order of posting */
    unsigned class;     /* index; AFI_CLASSES: in the list without a class */
};

/* An unexpected message, embedded in a struct of the caller. */
struct afi_unexpected {
    struct aqi_node all;       /* in order of arrival */
    struct aqi_node by_source; /* the same, of sources with this hash */
    uint64_t tag;
    const void *source;
};

struct afi_class {
    uint64_t ignore;
    bool any;     /* whether its receives specify no source */
    size_t count; /* number of receives */
    size_t size;  /* of `buckets`: a power of two, or 0 */
    struct aqi_node *buckets;
};

enum { AFI_SOURCES = 64 };
struct afi_match {
    struct afi_class classes[AFI_CLASSES];
    unsigned class_count;
    struct aqi_node others;
    uint64_t stamp;
    struct aqi_node unexpected, unexpected_by_source[AFI_SOURCES];
};

void afi_match_init(struct afi_match *match);
void afi_match_close(struct afi_match *match); /* its entries still belong to the caller */

/* Post a receive, after afi_match_find_unexpected has found no message for it. */
void afi_match_post(struct afi_match *match, struct afi_posted *posted);
static inline void afi_match_cancel(struct afi_match *match, struct afi_posted *posted)
{
    if (posted->class < AFI_CLASSES) match->classes[posted->class].count--;
    aqi_list_remove(&posted->link);
}
/* The receive for this message, which stays posted; NULL: none. */
struct afi_posted *afi_match_find(struct afi_match *match, uint64_t tag, const void *source);

void afi_match_keep(struct afi_match *match, struct afi_unexpected *unexpected);
void afi_match_drop(struct afi_unexpected *unexpected);
/* The first message for this receive, which is not removed; NULL: none. */
struct afi_unexpected *afi_match_find_unexpected(struct afi_match *match, uint64_t tag,
                                                 uint64_t ignore, const void *source);

#endif
