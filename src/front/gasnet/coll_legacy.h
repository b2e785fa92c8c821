/* A call of the GASNet-1 collectives, by a process or by one of its images (threads). */
#ifndef AQGI_COLL_LEGACY_H
#define AQGI_COLL_LEGACY_H

#include "aqg.h"

#include <gasnet_coll.h>

enum aqgi_coll_kind {
    AQGI_BROADCAST,
    AQGI_SCATTER,
    AQGI_GATHER,
    AQGI_GATHER_ALL,
    AQGI_EXCHANGE,
    AQGI_REDUCE
};

struct aqgi_coll {
    enum aqgi_coll_kind kind;
    gasnet_team_handle_t team;
    gasnet_image_t root;
    void *dst;
    const void *src;
    void *const *dsts, *const *srcs; /* used instead of dst and src by the forms with lists */
    size_t nbytes;                   /* of a block, or of an element of a reduction */
    size_t count, blksz, offset;     /* this and the following: for reductions */
    gasnet_coll_fn_handle_t fn;
    int arg;
    int flags;
};

/* coll_legacy.c: convert the flags of a call to Aqueduct's. */
unsigned aqgi_coll_flags(int flags);
/* Reduce the data of all processes of a team; rank `root` receives the result. */
aq_status aqgi_coll_reduce(const struct aqgi_coll *c, aq_team *team, gex_Rank_t root, void *dst,
                           const void *src, unsigned flags, aq_event *event);
/* Apply the function of the call: right_and_out = left op right_and_out. */
void aqgi_coll_fold(const struct aqgi_coll *c, const void *left, void *right_and_out);

/* --- coll_images.c --------------------------------------------------------------------------- */

/* For gasnet_coll_init: sets the number of images of each process; the calling thread is image
 * `mine`. */
void aqgi_images_init(const gasnet_image_t images[], gasnet_image_t mine);
/* Called when a team is created, which is collective, as calls on it need not be. */
void aqgi_images_learn(gex_TM_t tm);
/* Start the calling image's part. Returns a handle that is not an event. */
gasnet_coll_handle_t aqgi_images_start(const struct aqgi_coll *c);
/* Like gasnet_coll_try_sync_all or, with `some`, gasnet_coll_try_sync_some; also for events. */
int aqgi_images_test(gasnet_coll_handle_t *handles, size_t count, bool some);

#endif
