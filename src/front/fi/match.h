/*
 * Matching of arriving messages with posted receives: pure bookkeeping without locks or I/O.
 *
 * A receive matches a message if their tags agree in all bits that are not in its `ignore`, and if
 * it names no source or the message's. Among several, the receive that was posted first gets the
 * message, and a receive gets the message that arrived first.
 *
 * Receives are kept by class: those that ignore the same bits and name a source, or not. A class is
 * a hash table of the remaining bits and the source, so a message is looked up once in each class,
 * however many receives are posted, and programs have few classes. Receives beyond AFI_CLASSES
 * classes share a list.
 */
#ifndef AFI_MATCH_H
#define AFI_MATCH_H

#include "base/list.h"

enum { AFI_CLASSES = 16 };

/* A posted receive: embedded in the caller's own. */
struct afi_want {
    struct aqi_node link;
    uint64_t tag, ignore;
    const void *source; /* NULL: any */
    uint64_t stamp;     /* the order of posting */
    unsigned class;     /* index; AFI_CLASSES: in the list of others */
};

/* A message without a receive: embedded in the caller's own. */
struct afi_stray {
    struct aqi_node all;       /* in order of arrival, ... */
    struct aqi_node by_source; /* ... and among those that may come from the same source */
    uint64_t tag;
    const void *source;
};

struct afi_class {
    uint64_t ignore;
    bool any;     /* its receives name no source */
    size_t count; /* of receives in it */
    size_t size;  /* of `buckets`: a power of two, or 0 */
    struct aqi_node *buckets;
};

enum { AFI_SOURCES = 64 };
struct afi_match {
    struct afi_class classes[AFI_CLASSES];
    unsigned class_count;
    struct aqi_node others;
    uint64_t stamp;
    struct aqi_node strays, strays_by_source[AFI_SOURCES];
};

void afi_match_init(struct afi_match *match);
void afi_match_close(struct afi_match *match); /* what is in it remains the caller's */

/* Post a receive; the caller has looked for a stray before. */
void afi_match_post(struct afi_match *match, struct afi_want *want);
static inline void afi_match_cancel(struct afi_match *match, struct afi_want *want)
{
    if (want->class < AFI_CLASSES) match->classes[want->class].count--;
    aqi_list_remove(&want->link);
}
/* The receive for this message, which stays posted; NULL: none. */
struct afi_want *afi_match_find(struct afi_match *match, uint64_t tag, const void *source);

void afi_match_keep(struct afi_match *match, struct afi_stray *stray);
void afi_match_drop(struct afi_stray *stray);
/* The first message for this receive, which stays kept; NULL: none. */
struct afi_stray *afi_match_find_stray(struct afi_match *match, uint64_t tag, uint64_t ignore,
                                       const void *source);

#endif
