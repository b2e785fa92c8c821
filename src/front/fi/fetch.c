/* fi: fetching memory of peers directly to its destination. */
#include "front/fi/fi.h"

#include <stdlib.h>
#include <string.h>

enum { FETCH_PIECE = 4 << 20 };
#define FETCH_END_NS UINT64_C(1000000000)

struct afi_fetch *afi_fetch_new(struct afi_peer *peer, const void *pieces, size_t nbytes)
{
    struct afi_fetch *fetch = calloc(1, sizeof(*fetch));
    if (fetch == NULL) return NULL;
    fetch->peer = peer;
    fetch->epoch = peer->epoch;
    memcpy(fetch->from, pieces, nbytes);
    fetch->from_count = (unsigned)(nbytes / sizeof(fetch->from[0]));
    for (unsigned i = 0; i < AQI_COUNT_OF(fetch->events); i++)
        fetch->events[i] = AQ_EVENT_DONE;
    return fetch;
}

void afi_fetch_begin(struct afi_fetch *fetch)
{
    aqi_list_append(&afi.fetches, &fetch->link);
}

/* Start fetching the next piece. AQ_AGAIN: not possible now. */
static aq_status fetch_start(struct afi_fetch *fetch, aq_event *event)
{
    const struct afi_piece *from = &fetch->from[fetch->from_at];
    const struct iovec *to = &fetch->to[fetch->to_at];
    size_t len = aqi_min(from->len - fetch->from_off, to->iov_len - fetch->to_off);
    const void *src = (const void *)(uintptr_t)(from->addr + fetch->from_off);
    unsigned char *dst = (unsigned char *)to->iov_base + fetch->to_off;
    aq_status st = AQ_OK;
    len = aqi_min(aqi_min(len, fetch->len), FETCH_PIECE);
    if (len != 0 && fetch->peer->local)
        memmove(dst, src, len);
    else if (len != 0)
        st = aq_get_nb(fetch->peer->team, 1, dst, src, len, AQ_IMMEDIATE, event);
    if (st != AQ_OK) return st;
    fetch->len -= len;
    fetch->from_off += len;
    fetch->to_off += len;
    if (fetch->from_off == from->len) {
        fetch->from_at++;
        fetch->from_off = 0;
    }
    if (fetch->to_off == to->iov_len) {
        fetch->to_at++;
        fetch->to_off = 0;
    }
    return AQ_OK;
}

static bool fetch_is_started(const struct afi_fetch *fetch)
{
    return fetch->len == 0 || fetch->from_at == fetch->from_count ||
           fetch->to_at == fetch->to_count || fetch->status != AQ_OK;
}

/* Make progress. Returns true once it has ended. */
static bool fetch_move(struct afi_fetch *fetch)
{
    bool open = false;
    for (unsigned i = 0; i < AQI_COUNT_OF(fetch->events); i++) {
        aq_event *event = &fetch->events[i];
        aq_status st = aq_event_test(event);
        if (st != AQ_OK && st != AQ_AGAIN && fetch->status == AQ_OK) fetch->status = st;
        while (st != AQ_AGAIN && !fetch_is_started(fetch)) {
            st = fetch_start(fetch, event);
            if (st != AQ_OK && st != AQ_AGAIN) fetch->status = st;
            if (st == AQ_OK) st = aq_event_test(event);
            if (st == AQ_AGAIN) break;
        }
        open = open || st == AQ_AGAIN;
    }
    return !open && fetch_is_started(fetch);
}

static void fetch_end(struct afi_fetch *fetch)
{
    aqi_list_remove(&fetch->link);
    fetch->done(fetch);
    free(fetch);
}

void afi_fetch_progress(void)
{
    for (struct aqi_node *at = afi.fetches.next, *next; at != &afi.fetches; at = next) {
        struct afi_fetch *fetch = AQI_OF(at, struct afi_fetch, link);
        next = at->next;
        if (fetch_move(fetch)) fetch_end(fetch);
    }
}

static bool fetch_writes_to(const struct afi_fetch *fetch, const struct afi_mr *mr)
{
    for (unsigned i = 0; i < AQI_COUNT_OF(fetch->mrs); i++)
        if (fetch->mrs[i] == mr) return true;
    return false;
}

/* The next one to the memory of `mr`; NULL: none. */
static struct afi_fetch *fetch_to(const struct afi_mr *mr)
{
    for (struct aqi_node *at = afi.fetches.next; at != &afi.fetches; at = at->next)
        if (fetch_writes_to(AQI_OF(at, struct afi_fetch, link), mr))
            return AQI_OF(at, struct afi_fetch, link);
    return NULL;
}

void afi_fetch_revoke(const struct afi_mr *mr)
{
    struct afi_fetch *fetch;
    while ((fetch = fetch_to(mr)) != NULL) {
        aq_status st = aq_event_wait_all(fetch->events, AQI_COUNT_OF(fetch->events), FETCH_END_NS);
        fetch->status = AQ_EACCESS;
        if (st == AQ_AGAIN)
            afi_peer_fail(fetch->peer, FI_EIO); /* as only closing the connection ends it */
        else
            fetch_end(fetch);
    }
}

void afi_fetch_abort(const struct afi_peer *peer)
{
    for (struct aqi_node *at = afi.fetches.next, *next; at != &afi.fetches; at = next) {
        struct afi_fetch *fetch = AQI_OF(at, struct afi_fetch, link);
        next = at->next;
        if (fetch->peer != peer) continue;
        aq_status st = aq_event_wait_all(fetch->events, AQI_COUNT_OF(fetch->events), FETCH_END_NS);
        fetch->status = st == AQ_AGAIN ? AQ_ETIMEOUT : AQ_EPEER;
        fetch_end(fetch);
    }
}
