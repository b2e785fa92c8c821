/* Intrusive doubly linked lists. */
#ifndef AQI_LIST_H
#define AQI_LIST_H

#include "base/base.h"

struct aqi_node {
    struct aqi_node *prev, *next;
};

/* A list is itself a node; an element that is in no list points to itself. */
static inline void aqi_list_init(struct aqi_node *list)
{
    list->prev = list->next = list;
}

static inline bool aqi_list_is_empty(const struct aqi_node *list)
{
    return list->next == list;
}

static inline void aqi_list_append(struct aqi_node *list, struct aqi_node *node)
{
    node->prev = list->prev;
    node->next = list;
    list->prev->next = node;
    list->prev = node;
}

/* No-op if it is in no list. */
static inline void aqi_list_remove(struct aqi_node *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    aqi_list_init(node);
}

#define AQI_OF(node, type, member)                                                                 \
    ((type *)(void *)((unsigned char *)(node)-offsetof(type, member)))

#endif
