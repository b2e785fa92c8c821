/* Connections: opening the transport, connecting to the peer, and exchanging segments. */
#include "core/conn/region.h"

#include "base/shmem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* --- hooks of the transport ------------------------------------------------------------------ */

static void conn_join_broken(aq_connection *conn, const char *why)
{
    aqi_count(AQI_CTR_AM_DROPPED, 1);
    aqi_spin_lock(&conns.lock);
    conn_drop_channel(conn);
    conn_end_soon(conn, AQ_CONNECTION_LOST, AQ_EPROTO, why);
    aqi_spin_unlock(&conns.lock);
}

/* A program not started with this one must not be able to end it: it loses its connection. */
static void conn_join_hook_deliver(void *arg, uint32_t source, const struct aqi_am *am)
{
    aq_connection *conn = arg;
    (void)source;
    if (AQI_LIKELY(core_deliver_conn(&conn->routes[1], am))) return;
    conn_join_broken(
        conn, "the peer sent a message for a handler that is not registered for this connection");
}

/* An invalid message of a group is only dropped: the other members must not lose the connection. */
static void conn_join_hook_deliver_cast(void *arg, uint32_t source, const struct aqi_am *am)
{
    aq_connection *conn = arg;
    (void)source;
    if (am->handler < AQ_HANDLER_BASE || !core_deliver_conn(&conn->routes[1], am))
        aqi_count(AQI_CTR_AM_DROPPED, 1);
}

static void conn_join_hook_peer_lost(void *arg, uint32_t id, const char *why)
{
    aq_connection *conn = arg;
    (void)id;
    (void)why;
    atomic_store(&conn->suspect, true);
}

static aqi_core_range_filter *conn_join_filter;

void aqi_core_filter_ranges(aqi_core_range_filter *filter)
{
    conn_join_filter = filter;
}

/* Whether the peer's messages may access this range. */
static bool conn_join_hook_range_ok(void *arg, uint64_t addr, size_t len)
{
    const aq_connection *conn = arg;
    const aq_segment *shown = atomic_load_explicit(&conn->shown, memory_order_acquire);
    return shown != NULL && aqi_within(addr, len, (uintptr_t)shown->addr, shown->size) &&
           (conn_join_filter == NULL || conn_join_filter(conn->context, addr, len));
}

static bool conn_join_hide(aq_connection *conn, const aq_segment *segment)
{
    if (conn == NULL || conn->shown != segment) return false;
    conn->shown = NULL;
    if (conn->shown_mem != NULL) conn->tp->ops.mem_dereg(conn->tp, conn->shown_mem);
    conn->shown_mem = NULL;
    return true;
}

/*
 * Takes the lock, since another thread may close and free the connection meanwhile; and returns
 * only after the threads that serve its peer are done with the segment.
 */
void conn_hide(const aq_segment *segment)
{
    for (uint32_t i = 0; i < atomic_load(&conns.high); i++) {
        aqi_spin_lock(&conns.lock);
        bool hidden = conn_join_hide(atomic_load(&conns.slots[i].conn), segment);
        aqi_spin_unlock(&conns.lock);
        if (hidden) conn_await_users(i);
    }
}

aq_status conn_check_object(int fd, uint64_t size, bool exactly)
{
    struct stat info;
    struct statfs system;
    if (fstat(fd, &info) != 0 || fstatfs(fd, &system) != 0)
        return aqi_fail_errno(AQ_EPROTO, errno, "core",
                              "a peer passed a descriptor that is not memory");
    if (system.f_type == HUGETLBFS_MAGIC)
        return aqi_fail(AQ_EPROTO, "core",
                        "a peer passed memory in huge pages, which may be in short supply");
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return aqi_fail(
            AQ_EPROTO, "core",
            "a peer passed memory that is not sealed, so it could shrink it while it is in use");
    if (exactly ? (uint64_t)info.st_size != size : (uint64_t)info.st_size < size)
        return aqi_fail(AQ_EPROTO, "core",
                        "a peer passed %lld bytes of memory instead of the announced %llu",
                        (long long)info.st_size, (unsigned long long)size);
    return AQ_OK;
}

static aq_status conn_join_hook_lookup(void *arg, const struct aqi_tp *tp, uint32_t id, void *addr,
                                       size_t *len)
{
    const aq_connection *conn = arg;
    (void)tp, (void)id; /* there is one peer */
    *len = conn->addr_len;
    memcpy(addr, conn->addr, *len);
    return AQ_OK;
}

/* The client makes the objects that both sides share; the server takes what came with the call. */
static aq_status conn_join_hook_share(void *arg, const char *name, size_t bytes, int *fd)
{
    aq_connection *conn = arg;
    unsigned i = conn->object_next;
    if (conn->client) {
        if (i == AQI_RENDEZVOUS_FDS)
            return aqi_fail(AQ_ELIMIT, "core", "a connection cannot share more than %d objects",
                            AQI_RENDEZVOUS_FDS);
        aq_status st = aqi_shmem_create(name, bytes, &conn->objects[i]);
        if (st != AQ_OK) return st;
        conn->object_count = i + 1;
    } else {
        if (i == conn->object_count)
            return aqi_fail(AQ_EPROTO, "core", "a client's connection request lacks its \"%s\"",
                            name);
        aq_status st = conn_check_object(conn->objects[i], bytes, true);
        if (st != AQ_OK) return st;
    }
    int copy = fcntl(conn->objects[i], F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return aqi_fail_no_fd(errno, "core", "opening a connection");
    conn->object_next = i + 1;
    *fd = copy;
    return AQ_OK;
}

void conn_close_objects(aq_connection *conn)
{
    for (unsigned i = 0; i < conn->object_count; i++)
        close(conn->objects[i]);
    conn->object_count = conn->object_next = 0;
}

/* --- opening --------------------------------------------------------------------------------- */

aq_status conn_open_tp(aq_connection *conn)
{
    uint32_t self = conn->client ? 1 : 0;
    bool group = (conn->flags & CONN_GROUP) != 0;
    const struct aqi_transport *transport = aqi_transports[conn->t];
    struct aqi_tp *tp;
    struct aqi_tp_params params = core.tp_params;
    params.hooks.deliver = group ? conn_join_hook_deliver_cast : conn_join_hook_deliver;
    params.hooks.peer_lost = conn_join_hook_peer_lost;
    params.hooks.unreached = NULL;
    params.hooks.range_ok = conn_join_hook_range_ok;
    params.hooks.relax = core_hook_relax_pair;
    params.hooks.region = conn_region_find;
    params.hooks.refused = conn_region_refused;
    params.hooks.share = conn_join_hook_share;
    params.hooks.lookup = conn_join_hook_lookup;
    params.hooks.arg = params.hooks.host = conn;
    params.self = params.local_rank = self;
    params.size = params.local_size = 2;
    params.stranger = conn->client ? (conn->flags & AQ_CONNECT_ANYBODY) != 0
                                   : conn->peer_id.uid != (uint32_t)geteuid();
    bool ordered = (conn->flags & AQ_CONNECT_ORDERED) != 0;
    if (conn->client && ordered && !aqi_tp_keeps_order(transport)) conn->flags |= CONN_NUMBERED;
    params.numbered = (conn->flags & CONN_NUMBERED) != 0;
    params.loose = (conn->flags & AQ_CONNECT_UNRELIABLE) != 0;
    params.max_medium = conn->client ? core.max_medium : conn->peer_medium;
    params.like = conn->client ? NULL : conn->addr; /* the client has created the shared objects */
    params.like_len = conn->addr_len;
    params.towards = conn->client ? conn->uri : NULL;
    params.bell = conn_own_rope(conn);
    if ((conn->flags & AQ_CONNECT_GROUP_SEND) != 0) params.group |= AQI_GROUP_SEND;
    if ((conn->flags & AQ_CONNECT_GROUP_RECEIVE) != 0) params.group |= AQI_GROUP_RECEIVE;
    aq_status st = aqi_tp_open(group ? transport->rendezvous->group : transport, &params, &tp);
    if (st != AQ_OK) return st;
    conn->tp = tp;
    /* Cleared by conn_describe_bell if there is no bell for the peer. */
    conn->may_rest = (tp->ops.caps & AQI_CAP_REST) != 0;
    core.timers = core.timers || (tp->ops.caps & AQI_CAP_TIMERS) != 0;
    if (tp->limits.max_medium < params.max_medium || tp->limits.max_long < core.max_long)
        return aqi_fail(AQ_ENOTSUP, "core",
                        "a connection over %s cannot carry messages as large as those of the job",
                        tp->ops.name);
    return AQ_OK;
}

/* Rank 0 of the team is this process, as in the job, with the exposed segment. */
static void conn_join_set_own_route(aq_connection *conn)
{
    struct core_route *own = &conn->routes[0];
    *own = core.routes[core.params.rank];
    own->seg_addr = own->seg_size = 0;
    own->local = NULL;
    own->max_medium = (uint32_t)aqi_min(own->max_medium, conn->peer_medium);
    if (conn->shown == NULL) return;
    own->seg_addr = (uint64_t)(uintptr_t)conn->shown->addr;
    own->seg_size = conn->shown->size;
    if (own->seg_size == SIZE_MAX) return; /* everything: through the transport, as in the job */
    own->local = conn->shown->addr;
    own->rmem = NULL;
}

aq_status conn_join(aq_connection *conn, const void *addr, uint32_t len)
{
    uint32_t id = conn->client ? 0 : 1;
    conn->addr_len = len;
    memmove(conn->addr, addr, len);
    aq_status st = conn->tp->ops.connect(conn->tp, id, core.params.host, &conn->peer);
    if (st == AQ_ENOTSUP) return aqi_fail(AQ_EPROTO, "core", "the peer passed no address");
    if (st != AQ_OK) return st;
    conn_join_set_own_route(conn);
    struct core_route *route = &conn->routes[1];
    memset(route, 0, sizeof(*route));
    route->tp = conn->tp;
    route->peer = conn->peer;
    route->rank = conn_id(conn);
    route->max_medium = (uint32_t)aqi_min(conn->routes[0].max_medium, conn->peer->max_medium);
    conn->routes[0].max_medium = route->max_medium;
    conn->team = (struct aq_team){.rank = 0, .size = 2, .routes = conn->routes, .pair = true};
    return AQ_OK;
}

void conn_opened(aq_connection *conn)
{
    conn_close_objects(conn); /* they are mapped */
    conn_watch(conn);
    conn->was_open = true;
    conn_set_state(conn, AQ_CONNECTION_OPEN);
    conn_activate(conn);
    if (!conn->silent) conn_push(conn, AQ_CONNECTION_OPENED);
    conn->silent = false;
}

/* --- segments -------------------------------------------------------------------------------- */

/*
 * Our segment for the peer. Other ranks of the host may have theirs in the same memory: see mem_fd.
 */
void conn_describe_segment(aq_connection *conn, struct aqi_hello *hello, int *fd)
{
    aq_segment *segment = conn->shown;
    if (segment == NULL || segment->size == 0) return;
    struct aqi_mem **mem = &conn->shown_mem; /* may be described more than once */
    if (*mem == NULL && conn->tp->ops.mem_reg(conn->tp, segment->addr, segment->size, mem) != AQ_OK)
        *mem = NULL;
    if (*mem != NULL) {
        hello->key = (*mem)->key;
        hello->key_len = (uint32_t)(*mem)->key_len;
    }
    hello->segment_addr = (uint64_t)(uintptr_t)segment->addr;
    hello->segment_size = segment->size;
    /* A part that begins inside a page is reached like private memory. */
    if (!conn_rendezvous(conn)->objects || hello->segment_addr % aqi_page_size() != 0) return;
    if (core.params.local_size != 1 && conn->peer_id.uid != (uint32_t)geteuid()) return;
    for (unsigned t = 0; t < core.tp_count && !hello->memory; t++)
        hello->memory = core.tps[t]->ops.mem_fd(core.tps[t], segment->addr, segment->size, fd,
                                                &hello->segment_offset) == AQ_OK;
}

static aq_status conn_join_map_segment(aq_connection *conn, const struct aqi_hello *hello, int fd)
{
    aq_status st = conn_check_object(fd, hello->segment_offset + hello->segment_size, false);
    if (st != AQ_OK) return st;
    if ((hello->segment_offset | hello->segment_addr) % aqi_page_size() != 0)
        return aqi_fail(AQ_EPROTO, "core", "a peer's segment does not begin at a page boundary");
    void *at = mmap(NULL, hello->segment_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                    (off_t)hello->segment_offset);
    if (at == MAP_FAILED)
        return aqi_fail_errno(AQ_ENOMEM, errno, "core", "cannot map a peer's segment of %llu bytes",
                              (unsigned long long)hello->segment_size);
    conn->mapped = at;
    conn->mapped_len = hello->segment_size;
    return AQ_OK;
}

aq_status conn_learn_segment(aq_connection *conn, const struct aqi_hello *hello, int fd)
{
    struct core_route *route = &conn->routes[1];
    aq_status st = AQ_OK;
    if (hello->segment_size == 0) return AQ_OK;
    if (fd >= 0) st = conn_join_map_segment(conn, hello, fd);
    if (st == AQ_OK && hello->key_len != 0)
        st = conn->tp->ops.mem_map(conn->tp, conn->peer, hello->key, hello->key_len,
                                   hello->segment_addr, hello->segment_size, &conn->rmem);
    if (st != AQ_OK) return st;
    route->rmem = conn->rmem;
    route->local = conn->mapped != NULL ? conn->mapped
                   : conn->rmem != NULL ? conn->rmem->local
                                        : NULL;
    route->seg_addr = hello->segment_addr;
    route->seg_size = hello->segment_size;
    return AQ_OK;
}
