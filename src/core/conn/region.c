/*
 * Regions: memory of this process that peers of connections access by handles. A handle contains a
 * ticket, an index in the owner's table and a secret, which is in each message of an access. So the
 * owner checks every message, and revoking a region takes effect at once.
 */
#include "core/conn/region.h"

#include "base/array.h"
#include "base/mac.h"
#include "base/pool.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * From a pool: a revoked region stays an object with its place in the table, so that regions are
 * found, created and revoked in constant time.
 */
struct aq_region {
    unsigned char *addr; /* first: the pool overwrites it */
    size_t size;
    uint32_t ticket[AQI_TICKET]; /* the place, and the secret */
    bool placed, valid;
    bool orphan; /* its connection is closed */
    unsigned rights;
    const aq_connection *only; /* NULL: for all connections */
};

/* A handle as bytes, little-endian. */
struct region_handle {
    uint32_t magic, rights;
    uint64_t size;
    uint32_t ticket[AQI_TICKET];
};
static_assert(sizeof(struct region_handle) == sizeof(aq_region_handle), "it is that of programs");
static const uint32_t region_magic = 0x52717141; /* "AqqR" */

enum { REGION_RIGHTS = AQ_REGION_READ | AQ_REGION_WRITE };

static struct {
    struct aqi_spin lock;
    struct aqi_pool pool;
    aq_region **table;
    size_t count, room;
} regions;

/* --- at the owner ---------------------------------------------------------------------------- */

/* Take a region of the pool. NULL: out of memory. */
static aq_region *region_get(void)
{
    enum { CHUNK = 64 };
    if (regions.pool.object_size == 0)
        aqi_pool_init(&regions.pool, sizeof(aq_region), CHUNK, false);
    aq_region *region = aqi_pool_get(&regions.pool);
    if (region == NULL || region->placed) return region;
    size_t place = regions.count;
    if (place > UINT32_MAX - 1 ||
        !aqi_array_reserve(&regions.table, &regions.room, place + 1, sizeof(aq_region *))) {
        aqi_pool_put(&regions.pool, region);
        return NULL;
    }
    region->placed = true;
    region->ticket[0] = (uint32_t)place;
    regions.table[regions.count++] = region;
    return region;
}

static aq_status region_check(const void *addr, size_t size, unsigned rights, const void *out)
{
    if (out == NULL)
        return aqi_fail(AQ_EINVAL, "core", "aq_region_create: the pointer to the region is NULL");
    if (addr == NULL || size == 0 || (uintptr_t)addr + size < (uintptr_t)addr)
        return aqi_fail(AQ_EINVAL, "core",
                        "aq_region_create: %zu bytes at %p are not a valid range", size, addr);
    if ((rights & ~(unsigned)REGION_RIGHTS) != 0 || rights == 0)
        return aqi_fail(
            AQ_EINVAL, "core",
            "aq_region_create: rights %#x: give AQ_REGION_READ, AQ_REGION_WRITE or both", rights);
    return AQ_OK;
}

aq_status aq_region_create(aq_connection *conn, void *addr, size_t size, unsigned rights,
                           aq_region **out)
{
    aq_status st = aqi_core_callable(__func__);
    if (st == AQ_OK) st = region_check(addr, size, rights, out);
    if (st != AQ_OK) return st;
    uint32_t secret[AQI_TICKET];
    st = aqi_random(secret, sizeof(secret), "core");
    if (st != AQ_OK) return st;
    aqi_spin_lock(&regions.lock);
    aq_region *region = region_get();
    if (region != NULL) {
        memcpy(region->ticket + 1, secret + 1, sizeof(secret) - sizeof(secret[0]));
        region->addr = addr;
        region->size = size;
        region->rights = rights;
        region->only = conn;
        region->orphan = false;
        region->valid = true;
    }
    aqi_spin_unlock(&regions.lock);
    if (region == NULL) return aqi_fail(AQ_ENOMEM, "core", "%s: out of memory", __func__);
    *out = region;
    return AQ_OK;
}

aq_status aq_region_handle_of(const aq_region *region, aq_region_handle *handle)
{
    if (region == NULL || handle == NULL)
        return aqi_fail(AQ_EINVAL, "core", "%s: %s is NULL", __func__,
                        region == NULL ? "the region" : "the place for the handle");
    struct region_handle out = {
        .magic = region_magic, .rights = region->rights, .size = region->size};
    memcpy(out.ticket, region->ticket, sizeof(out.ticket));
    memcpy(handle, &out, sizeof(out));
    return AQ_OK;
}

uint64_t aq_region_handle_size(const aq_region_handle *handle)
{
    struct region_handle bytes;
    if (handle == NULL) return 0;
    memcpy(&bytes, handle, sizeof(bytes));
    return bytes.magic == region_magic ? bytes.size : 0;
}

/* Wait for threads that found the region before. */
static void region_await_accesses(void)
{
    for (uint32_t i = 0; core.multi && i < atomic_load(&conns.high); i++)
        conn_await_users(i);
}

aq_status aq_region_revoke(aq_region *region)
{
    aq_status st = aqi_core_callable(__func__);
    if (st != AQ_OK || region == NULL) return st;
    aqi_spin_lock(&regions.lock);
    bool was_valid = region->valid;
    region->valid = false;
    aqi_spin_unlock(&regions.lock);
    if (!was_valid)
        return aqi_fail(AQ_EINVAL, "core", "%s: the region is already revoked", __func__);
    region_await_accesses();
    aqi_spin_lock(&regions.lock);
    aqi_pool_put(&regions.pool, region);
    aqi_spin_unlock(&regions.lock);
    return AQ_OK;
}

void conn_regions_forget(const aq_connection *conn)
{
    aqi_spin_lock(&regions.lock);
    for (size_t i = 0; i < regions.count; i++)
        if (regions.table[i]->only == conn) regions.table[i]->orphan = true;
    aqi_spin_unlock(&regions.lock);
}

void conn_regions_close(void)
{
    if (regions.pool.object_size != 0) (void)aqi_pool_destroy(&regions.pool);
    free(regions.table);
    regions.table = NULL;
    regions.count = regions.room = 0;
}

static enum aqi_refusal region_judge(const aq_region *region, const uint32_t ticket[AQI_TICKET],
                                     const aq_connection *conn, bool write)
{
    if (region == NULL || !aqi_secret_same(region->ticket, ticket, sizeof(region->ticket)))
        return AQI_REFUSAL_UNKNOWN;
    if (!region->valid) return AQI_REFUSAL_REVOKED;
    if (region->orphan) return AQI_REFUSAL_CLOSED;
    if (region->only != NULL && region->only != conn) return AQI_REFUSAL_OTHER;
    bool may = (region->rights & (write ? AQ_REGION_WRITE : AQ_REGION_READ)) != 0;
    return may ? AQI_REFUSAL_NONE : AQI_REFUSAL_RIGHT;
}

enum aqi_refusal conn_region_find(void *conn, const uint32_t ticket[AQI_TICKET], uint64_t offset,
                                  size_t len, bool write, void **at)
{
    aqi_spin_lock(&regions.lock);
    const aq_region *region = ticket[0] < regions.count ? regions.table[ticket[0]] : NULL;
    enum aqi_refusal why = region_judge(region, ticket, conn, write);
    if (why == AQI_REFUSAL_NONE && !aqi_within(offset, len, 0, region->size))
        why = AQI_REFUSAL_RANGE;
    if (why == AQI_REFUSAL_NONE) *at = region->addr + offset;
    aqi_spin_unlock(&regions.lock);
    return why;
}

/* --- at the peer ----------------------------------------------------------------------------- */

struct region_access {
    const char *call;
    struct core_route *route;
    struct region_handle handle;
    uint64_t offset;
    void *local;
    size_t len;
    unsigned flags;
    bool get;
};

void conn_region_refused(void *host, const struct aqi_comp *comp, bool write, uint64_t offset,
                         size_t len, enum aqi_refusal why)
{
    static const char *const reasons[AQI_REFUSALS] = {
        [AQI_REFUSAL_UNKNOWN] = "it has no region with this handle: it was revoked, or its bytes "
                                "were changed",
        [AQI_REFUSAL_REVOKED] = "the region was revoked",
        [AQI_REFUSAL_CLOSED] = "the region was for a connection that is closed",
        [AQI_REFUSAL_OTHER] = "the region is for another connection",
        [AQI_REFUSAL_RIGHT] = "the region does not grant the right",
        [AQI_REFUSAL_RANGE] = "the region ends before"};
    const aq_connection *conn = host;
    char text[200], process[32] = "";
    if (conn->peer_id.pid > 0)
        snprintf(process, sizeof(process), " (process %lld)", (long long)conn->peer_id.pid);
    snprintf(text, sizeof(text),
             "the peer%s refuses to let this process %s %zu bytes at offset %llu: %s", process,
             write ? "write" : "read", len, (unsigned long long)offset, reasons[why]);
    core_event_note(comp, why == AQI_REFUSAL_RANGE ? AQ_ERANGE : AQ_EACCESS, text);
}

static aq_status region_check_handle(const struct region_access *a)
{
    unsigned right = a->get ? AQ_REGION_READ : AQ_REGION_WRITE;
    if (a->handle.magic != region_magic)
        return aqi_fail(AQ_EINVAL, "core", "%s: these bytes are not the handle of a region",
                        a->call);
    if ((a->handle.rights & right) == 0)
        return aqi_fail(AQ_EACCESS, "core", "%s: the handle does not grant the right to %s",
                        a->call, a->get ? "read" : "write");
    if (!aqi_within(a->offset, a->len, 0, a->handle.size))
        return aqi_fail(AQ_ERANGE, "core",
                        "%s: %zu bytes at offset %llu are not inside the region of %llu bytes",
                        a->call, a->len, (unsigned long long)a->offset,
                        (unsigned long long)a->handle.size);
    return AQ_OK;
}

static aq_status region_check_access(struct region_access *a, aq_connection *conn,
                                     const aq_region_handle *there, const aq_event *ev)
{
    const unsigned known = AQ_IMMEDIATE | AQ_FENCE;
    aq_status st = aqi_core_callable(a->call);
    if (st != AQ_OK) return st;
    if (conn == NULL || there == NULL || ev == NULL || (a->local == NULL && a->len != 0))
        return aqi_fail(AQ_EINVAL, "core", "%s: %s is NULL", a->call,
                        conn == NULL    ? "the connection"
                        : there == NULL ? "the handle"
                        : ev == NULL    ? "the event"
                                        : "the local memory");
    if ((a->flags & ~known) != 0)
        return aqi_fail(AQ_EINVAL, "core", "%s: unknown flags %#x", a->call, a->flags & ~known);
    if (aq_connection_team(conn) == NULL)
        return aqi_fail(AQ_ESTATE, "core", "%s: the connection is not open", a->call);
    memcpy(&a->handle, there, sizeof(a->handle));
    a->route = &conn->routes[1];
    st = core_may_answer(a->route, a->call);
    return st == AQ_OK ? region_check_handle(a) : st;
}

static aq_status region_start(const struct region_access *a, struct aqi_comp *comp)
{
    struct core_wait wait = {0};
    aq_status st;
    do {
        struct aqi_tp *tp = a->route->tp;
        bool held = (a->flags & AQ_FENCE) != 0 && tp->ops.quiet(tp, a->route->peer) == AQ_AGAIN;
        st = held ? AQ_AGAIN
                  : aqi_tp_region(tp, a->route->peer, a->get, a->handle.ticket, a->offset, a->local,
                                  a->len, comp);
    } while (core_retry(&st, &wait, a->route, false, a->flags));
    return st;
}

static aq_status region_access(struct region_access *a, aq_connection *conn,
                               const aq_region_handle *there, aq_event *ev)
{
    aq_status st = region_check_access(a, conn, there, ev);
    if (st != AQ_OK) return st;
    struct aqi_op *op = core_op_get(core_self());
    if (op == NULL) return AQ_ENOMEM;
    struct aqi_comp *comp = a->get ? &op->set.get : &op->set.put;
    if (!a->get) comp->local = 1;
    comp->remote = 1;
    st = region_start(a, comp);
    if (st == AQ_OK) {
        *ev = op;
        return AQ_OK;
    }
    core_op_put(op);
    return st == AQ_EPEER ? core_lost(a->route, a->call) : st;
}

aq_status aq_region_put_nb(aq_connection *conn, const aq_region_handle *there, uint64_t offset,
                           const void *src, size_t nbytes, unsigned flags, aq_event *ev)
{
    struct region_access a = {.call = __func__,
                              .offset = offset,
                              .local = (void *)(uintptr_t)src,
                              .len = nbytes,
                              .flags = flags};
    return region_access(&a, conn, there, ev);
}

aq_status aq_region_get_nb(aq_connection *conn, void *dst, const aq_region_handle *there,
                           uint64_t offset, size_t nbytes, unsigned flags, aq_event *ev)
{
    struct region_access a = {.call = __func__,
                              .offset = offset,
                              .local = dst,
                              .len = nbytes,
                              .flags = flags,
                              .get = true};
    return region_access(&a, conn, there, ev);
}
