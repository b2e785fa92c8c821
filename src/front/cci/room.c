/*
 * cci: memory for messages. Programs hold many messages at a time and return them soon: free()
 * would return that much memory to the kernel, and malloc() would fault it in again. Freed memory
 * is therefore cached, in a list per size class. Each size is twice the previous one, and the
 * bytes per list are limited.
 */
#include "front/cci/impl.h"

#include <stdlib.h>

enum { ROOM_LEAST = 512, ROOM_KEPT = 1 << 20 };
static_assert(AQC_MESSAGE + sizeof(struct aqc_event) + 64 <= (size_t)ROOM_LEAST
                                                                 << (AQC_ROOM_SIZES - 1),
              "there is a size for the largest message");

struct aqc_room {
    struct aqc_room *next;
};

static size_t room_bytes(uint8_t size)
{
    return (size_t)ROOM_LEAST << size;
}

void *aqc_room_get(size_t len, uint8_t *size)
{
    uint8_t fits = 0;
    while (room_bytes(fits) < len)
        fits++;
    *size = fits;
    struct aqc_room *room = aqc.rooms[fits];
    if (room == NULL) return malloc(room_bytes(fits));
    aqc.rooms[fits] = room->next;
    aqc.room_counts[fits]--;
    return room;
}

void aqc_room_put(void *memory, uint8_t size)
{
    struct aqc_room *room = memory;
    if (room == NULL) return;
    if (aqc.room_counts[size] * room_bytes(size) >= ROOM_KEPT) {
        free(room);
        return;
    }
    room->next = aqc.rooms[size];
    aqc.rooms[size] = room;
    aqc.room_counts[size]++;
}

void aqc_rooms_close(void)
{
    for (unsigned i = 0; i < AQC_ROOM_SIZES; i++) {
        for (struct aqc_room *next; aqc.rooms[i] != NULL; aqc.rooms[i] = next) {
            next = aqc.rooms[i]->next;
            free(aqc.rooms[i]);
        }
        aqc.room_counts[i] = 0;
    }
}
