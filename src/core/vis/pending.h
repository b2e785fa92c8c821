/*
 * Messages of scattered transfers that wait for their answers. An answer names its message by an
 * index and a generation, so that one which is late, repeated or invented finds nothing.
 */
#ifndef AQI_CORE_VIS_PENDING_H
#define AQI_CORE_VIS_PENDING_H

#include "base/pool.h"
#include "base/spin.h"
#include "core/vis/runs.h"
#include "transport/transport.h"

struct vis_pending {
    uint32_t index, generation;
    uint32_t rank; /* who answers */
    bool live, get;
    size_t bytes;
    struct aqi_comp *comp; /* its remote counter waits for the answer */
    struct vis_side local; /* of a get: where the bytes go */
    struct vis_pending *next;
};

struct vis_table {
    struct vis_pending **entries; /* by index; never freed before the table */
    uint32_t count, room;
    struct vis_pending *free;
    struct aqi_pool pool;
    struct aqi_spin lock;
    bool locked;
};

void vis_table_open(struct vis_table *table, bool locked);
void vis_table_close(struct vis_table *table);

/*
 * Enter a message to `rank`, of a get if it has a `local` side (copied). `cookie` is what its
 * answer must bring: index and generation. False: no memory.
 */
bool vis_pending_enter(struct vis_table *table, uint32_t rank, struct aqi_comp *comp, size_t bytes,
                       const struct vis_side *local, uint32_t cookie[2]);
/* Take the message out that an answer from `rank` names; NULL: there is none. Then put it back. */
struct vis_pending *vis_pending_take(struct vis_table *table, uint32_t index, uint32_t generation,
                                     uint32_t rank);
/* Take out any message to `rank`; NULL: there is none left. */
struct vis_pending *vis_pending_take_any(struct vis_table *table, uint32_t rank);
void vis_pending_put(struct vis_table *table, struct vis_pending *pending);

#endif
