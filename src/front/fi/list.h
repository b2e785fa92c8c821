/* Doubly linked lists whose links lie in the elements. */
#ifndef AFI_LIST_H
#define AFI_LIST_H

#include "base/base.h"

struct afi_link {
    struct afi_link *prev, *next;
};

/* A list is a link of its own; an element of no list points to itself. */
static inline void afi_list_init(struct afi_link *list)
{
    list->prev = list->next = list;
}

static inline bool afi_list_is_empty(const struct afi_link *list)
{
    return list->next == list;
}

static inline void afi_list_append(struct afi_link *list, struct afi_link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

/* No-op if it is in no list. */
static inline void afi_list_remove(struct afi_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    afi_list_init(link);
}

#define AFI_OF(link, type, member)                                                                 \
    ((type *)(void *)((unsigned char *)(link)-offsetof(type, member)))

#endif
