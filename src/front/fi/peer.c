/* fi: listening, and connections to other endpoints: how they begin and end. */
#include "front/fi/fi.h"

#include "base/array.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/mac.h"
#include "lib/alone.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PEER_DUPLICATE = 1, /* code of a rejected call: another call is used */
    PEER_STRANGER = 2,
    PEER_CALLS = 64, /* maximum concurrent calls: listeners reject more */
    PEER_LOST = 64,  /* lost peers before those without an address are forgotten */
    PEER_PORTS = 64  /* free ports to try, which others may take first */
};

#define PEER_TIMEOUT_NS UINT64_C(600000000000) /* for one peer, over all its addresses */
#define PEER_ROOM_NS    UINT64_C(10000000000)  /* to close other connections */
#define PEER_WARN_NS    UINT64_C(5000000000)   /* before a warning */
#define PEER_TRY_NS     UINT64_C(3000000000)   /* for one of several addresses */
#define PEER_RETRY_NS   UINT64_C(500000000)    /* for a call of the peer to arrive */
#define PEER_CLOSE_NS   UINT64_C(2000000000)   /* for all peers, to send before a close */

/*
 * Sent with a call and with its answer. Calls are numbered: a call that was abandoned in favor of
 * the peer's call may arrive after that connection has been opened.
 */
struct peer_hello {
    uint32_t call; /* number of this call; in an answer, of the last call to the caller */
    uint32_t unused;
    uint8_t proof[AFI_SECRET];
    struct afi_name name;
};

/* --- lookup ---------------------------------------------------------------------------------- */

static struct aqi_node *peer_bucket(struct afi_ep *ep, const struct afi_ident *ident)
{
    uint64_t hash = aqi_hash_spread(aqi_hash(AQI_HASH_SEED, (uintptr_t)ident));
    return &ep->peers[hash % AFI_PEERS];
}

static bool peer_is_local(const struct afi_ident *ident)
{
    for (struct aqi_node *at = afi.eps.next; at != &afi.eps; at = at->next)
        if (afi_name_same(&AQI_OF(at, struct afi_ep, link)->name, &ident->name)) return true;
    return false;
}

static struct afi_peer *peer_new(struct afi_ep *ep, struct afi_ident *ident)
{
    struct afi_peer *peer = calloc(1, sizeof(*peer));
    if (peer == NULL) return NULL;
    *peer = (struct afi_peer){.ep = ep,
                              .ident = ident,
                              .left = AFI_WINDOW,
                              .calls = ep->past_calls,
                              .self = afi_name_same(&ident->name, &ep->name),
                              .local = peer_is_local(ident),
                              .by_shm = afi_name_by_shm(&ep->name, &ident->name)};
    aqi_list_init(&peer->active);
    aqi_list_init(&peer->caller_link);
    aqi_list_init(&peer->notes);
    aqi_list_init(&peer->waiting);
    aqi_list_init(&peer->under_way);
    aqi_list_append(peer_bucket(ep, ident), &peer->link);
    ident->users++;
    if (peer->self) {
        peer->state = AFI_UP;
        peer->eager = 16384;
    }
    return peer;
}

struct afi_peer *afi_peer_get(struct afi_ep *ep, struct afi_ident *ident)
{
    struct aqi_node *bucket = peer_bucket(ep, ident);
    for (struct aqi_node *at = bucket->next; at != bucket; at = at->next)
        if (AQI_OF(at, struct afi_peer, link)->ident == ident)
            return AQI_OF(at, struct afi_peer, link);
    return peer_new(ep, ident);
}

/* Make room for all addresses of the vector. */
static bool peer_make_room(struct afi_ep *ep)
{
    size_t had = ep->peer_of_room, size = sizeof(ep->peer_of[0]);
    if (!aqi_array_reserve(&ep->peer_of, &ep->peer_of_room, ep->av->count, size)) return false;
    memset(ep->peer_of + had, 0, (ep->peer_of_room - had) * size);
    return true;
}

struct afi_peer *afi_peer_of(struct afi_ep *ep, fi_addr_t addr)
{
    struct afi_peer *known = afi_peer_known(ep, addr);
    if (known != NULL) return known;
    struct afi_ident *ident = afi_av_ident(ep->av, addr);
    if (ident == NULL || (addr >= ep->peer_of_room && !peer_make_room(ep))) return NULL;
    return ep->peer_of[addr] = afi_peer_get(ep, ident);
}

/* --- listening ------------------------------------------------------------------------------- */

/*
 * Any process that has a random name may connect. The name of a service is public; users can
 * restrict it to processes that know a secret.
 */
static bool peer_is_for_anybody(const struct afi_name *name)
{
    return (name->transports & AFI_SERVICE) == 0 || getenv("AQ_CONNECT_SECRET") == NULL;
}

static aq_status peer_listen_udp(struct afi_ep *ep, uint8_t by)
{
    char uri[64];
    unsigned flags = peer_is_for_anybody(&ep->name) ? AQ_LISTEN_ANYBODY : 0;
    snprintf(uri, sizeof(uri), "udp://%s:%u", by == AFI_BY_UDP6 ? "[::]" : "0.0.0.0",
             ep->name.port);
    aq_status st = aq_listen(uri, flags, ep, &ep->listeners[1]);
    if (st != AQ_OK) return st;
    const char *colon = strrchr(aq_listener_uri(ep->listeners[1]), ':');
    ep->name.port = (uint16_t)strtoul(colon + 1, NULL, 10);
    ep->name.transports |= by;
    return AQ_OK;
}

static aq_status peer_listen_shm(struct afi_ep *ep)
{
    char uri[128];
    ep->name.transports |= AFI_BY_SHM;
    (void)afi_name_uri(&ep->name, &ep->name, 0, uri, sizeof(uri));
    aq_status st = aq_listen(uri, 0, ep, &ep->listeners[0]);
    if (st != AQ_OK) ep->name.transports &= (uint8_t)~AFI_BY_SHM;
    return st;
}

static void peer_listen_no_more(struct afi_ep *ep)
{
    for (unsigned i = 0; i < AQI_COUNT_OF(ep->listeners); i++) {
        (void)aq_listener_close(ep->listeners[i]);
        ep->listeners[i] = NULL;
    }
}

static int peer_listen(struct afi_ep *ep)
{
    int err = afi_name_make(&ep->name, ep->service);
    uint8_t service = ep->name.transports & AFI_SERVICE, by = ep->name.transports ^ service;
    aq_status st = AQ_OK;
    if (err != 0) return err;
    ep->name.transports = service;
    if (lib_alone_may_use("shm")) st = peer_listen_shm(ep);
    bool failed = service != 0 && st != AQ_OK;
    if (!failed && lib_alone_may_use("udp") && by != 0) st = peer_listen_udp(ep, by);
    if (service != 0 && st == AQ_ESTATE) return -FI_EADDRINUSE; /* another endpoint has it */
    if (service != 0 && st != AQ_OK) return afi_error(st);
    if (ep->name.transports != service) return 0;
    if (st == AQ_OK)
        st = aqi_fail(AQ_ENOTSUP, "fi",
                      "no peer could reach an endpoint: AQ_TRANSPORTS allows neither shm nor udp, "
                      "or no interface that is up has an address");
    return afi_error(st);
}

/* A port that no socket has now; 0: none. */
static uint16_t peer_free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    if (bind(fd, (struct sockaddr *)&at, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        at.sin_port = 0;
    close(fd);
    return ntohs(at.sin_port);
}

/* The address of a socket is that of a service, so the endpoint is one, at any port. */
static int peer_listen_anywhere(struct afi_ep *ep)
{
    int err = -FI_EADDRINUSE;
    for (unsigned i = 0; i < PEER_PORTS && err == -FI_EADDRINUSE; i++) {
        ep->service = peer_free_port();
        if (ep->service == 0) return -FI_EADDRNOTAVAIL;
        err = peer_listen(ep);
        if (err == 0) return 0;
        peer_listen_no_more(ep);
    }
    ep->service = 0;
    return err;
}

/* On failure, no listener remains: the program may try again. */
int afi_peer_listen(struct afi_ep *ep)
{
    if (ep->service == 0 && ep->domain->sockets) return peer_listen_anywhere(ep);
    int err = peer_listen(ep);
    if (err != 0) peer_listen_no_more(ep);
    return err;
}

/* --- calling --------------------------------------------------------------------------------- */

static void peer_drop_connection(struct afi_peer *peer)
{
    aq_connection *connection = peer->connection;
    if (peer->state == AFI_CALLING) afi.calling--;
    if (peer->team != NULL) afi.up--;
    peer->state = AFI_IDLE;
    peer->connection = NULL;
    peer->team = NULL;
    afi_wire_forget(peer);
    if (connection == NULL) return;
    afi.lost += peer->ident->places == 0;
    uint64_t now = aqi_now_ns(), until = peer->ep->close_by;
    uint64_t usual = lib_alone_set_close_timeout(until > now ? until - now : 1);
    aq_connection_set_context(connection, NULL);
    (void)aq_connection_close(connection);
    (void)lib_alone_set_close_timeout(usual);
}

/* Reset to the state before the first connection. */
static void peer_reset(struct afi_peer *peer)
{
    peer_drop_connection(peer);
    peer->since = 0;
    peer->tries = 0;
    peer->epoch++;
    peer->sent = peer->received = 0;
    peer->left = AFI_WINDOW;
    peer->owed = peer->taken = 0;
}

/* Both ends have agreed to close the connection. Operations queued meanwhile need a new one. */
static void peer_part(struct afi_peer *peer)
{
    peer_reset(peer);
    aqi_list_remove(&peer->active);
    if (!aqi_list_is_empty(&peer->waiting)) afi_peer_call(peer);
}

/* Fail all operations to the peer. The next operation calls it again. */
void afi_peer_fail(struct afi_peer *peer, int err)
{
    struct aqi_node *lists[] = {&peer->under_way, &peer->waiting};
    /* Without the connection, its transfers have ended, and no message begins another one. */
    peer_reset(peer);
    afi_fetch_abort(peer);
    afi_receive_peer_gone(peer, false);
    for (unsigned i = 0; i < AQI_COUNT_OF(lists); i++)
        while (!aqi_list_is_empty(lists[i]))
            afi_op_end(AQI_OF(lists[i]->next, struct afi_op, link), err);
    peer->waiting_count = 0;
    aqi_list_remove(&peer->active);
    aqi_list_remove(&peer->caller_link);
}

/* --- forgetting ------------------------------------------------------------------------------ */

/* Whether nothing is lost with it: peers that call without being in a vector, and those removed
 * from it, would otherwise be kept as long as the endpoint. */
static bool peer_is_forgettable(const struct afi_peer *peer)
{
    return peer->state == AFI_IDLE && !peer->self && peer->ident->places == 0 && peer->kept == 0 &&
           aqi_list_is_empty(&peer->waiting) && aqi_list_is_empty(&peer->under_way) &&
           aqi_list_is_empty(&peer->notes) && aqi_list_is_empty(&peer->active) &&
           aqi_list_is_empty(&peer->caller_link);
}

static void peer_free(struct afi_peer *peer)
{
    aqi_list_remove(&peer->link);
    afi_ident_put(peer->ident);
    free(peer);
}

/* Later calls to the same peer must have higher numbers. */
static void peer_forget_in(struct afi_ep *ep)
{
    for (size_t i = 0; i < ep->peer_of_room; i++)
        if (ep->peer_of[i] != NULL && peer_is_forgettable(ep->peer_of[i])) ep->peer_of[i] = NULL;
    for (unsigned i = 0; i < AFI_PEERS; i++)
        for (struct aqi_node *at = ep->peers[i].next, *next; at != &ep->peers[i]; at = next) {
            struct afi_peer *peer = AQI_OF(at, struct afi_peer, link);
            next = at->next;
            if (!peer_is_forgettable(peer)) continue;
            if (peer->calls > ep->past_calls) ep->past_calls = peer->calls;
            peer_free(peer);
        }
}

void afi_peer_forget(void)
{
    if (AQI_LIKELY(afi.lost < PEER_LOST)) return;
    afi.lost = 0;
    for (struct aqi_node *at = afi.eps.next; at != &afi.eps; at = at->next) {
        struct afi_ep *ep = AQI_OF(at, struct afi_ep, link);
        if (ep->close_by == 0) peer_forget_in(ep);
    }
}

/* --- unused connections ---------------------------------------------------------------------- */

/* Close connections that have not been used since the last call. */
static void peer_sweep(struct afi_ep *ep)
{
    for (unsigned i = 0; i < AFI_PEERS; i++)
        for (struct aqi_node *at = ep->peers[i].next; at != &ep->peers[i]; at = at->next) {
            struct afi_peer *peer = AQI_OF(at, struct afi_peer, link);
            uint32_t used = peer->sent + peer->received;
            if (used == peer->seen) afi_wire_leave(peer);
            peer->seen = used;
        }
}

void afi_peer_sweep(void)
{
    uint64_t now = aqi_now_ns();
    if (now < afi.next_sweep) return;
    afi.next_sweep = now + afi.sweep_ns;
    for (struct aqi_node *at = afi.eps.next; at != &afi.eps; at = at->next)
        peer_sweep(AQI_OF(at, struct afi_ep, link));
}

/* Call again at time `ns`, as no event will trigger it. */
static void peer_call_at(struct afi_peer *peer, uint64_t ns)
{
    peer->state = AFI_CALLING;
    afi.calling++;
    peer->retry_at = ns;
    afi_peer_activate(peer);
}

static aq_status peer_start(struct afi_peer *peer, const char *uri, bool alone)
{
    struct peer_hello hello = {.call = ++peer->calls, .name = peer->ep->name};
    aq_connect_params params = aq_connect_defaults();
    if (afi_name_prove(&peer->ident->name, peer->ep->name.id, "call", hello.call, hello.proof) != 0)
        return AQ_ENOTSUP;
    params.data = &hello;
    params.nbytes = sizeof(hello);
    params.timeout_ns = alone ? PEER_TIMEOUT_NS : PEER_TRY_NS;
    if (strncmp(uri, "udp:", 4) == 0 && peer_is_for_anybody(&peer->ident->name))
        params.flags = AQ_CONNECT_ANYBODY;
    params.context = peer;
    return aq_connect_start(uri, &params, &peer->connection);
}

void afi_peer_call(struct afi_peer *peer)
{
    char uri[128], next[128];
    if (peer->state != AFI_IDLE) return;
    if (afi.calling >= PEER_CALLS) {
        if (aqi_list_is_empty(&peer->caller_link))
            aqi_list_append(&afi.callers, &peer->caller_link);
        return;
    }
    aqi_list_remove(&peer->caller_link);
    const struct afi_name *self = &peer->ep->name, *name = &peer->ident->name;
    if (peer->since == 0) peer->since = aqi_now_ns();
    bool alone = !afi_name_uri(self, name, 1, next, sizeof(next));
    if (!afi_name_uri(self, name, peer->tries, uri, sizeof(uri))) {
        peer->tries = 0;
        if (!afi_name_uri(self, name, 0, uri, sizeof(uri))) {
            afi_peer_fail(peer, FI_EHOSTUNREACH);
            return;
        }
    }
    peer->tries++;
    aq_status st = peer_start(peer, uri, alone);
    if (st == AQ_OK) {
        peer->caller = true;
        peer->state = AFI_CALLING;
        afi.calling++;
    } else if (st == AQ_ELIMIT && afi.up != 0 && aqi_now_ns() - peer->since < PEER_ROOM_NS) {
        peer->tries--;
        afi_peer_sweep();
        peer_call_at(peer, aqi_now_ns() + PEER_RETRY_NS);
    } else {
        afi_peer_fail(peer, -afi_error(st));
    }
}

void afi_peer_call_more(void)
{
    while (afi.calling < PEER_CALLS && !aqi_list_is_empty(&afi.callers)) {
        struct afi_peer *peer = AQI_OF(afi.callers.next, struct afi_peer, caller_link);
        aqi_list_remove(&peer->caller_link);
        if (!aqi_list_is_empty(&peer->waiting)) afi_peer_call(peer);
    }
}

/* --- accepting calls ------------------------------------------------------------------------- */

static void peer_reject(aq_connection *connection, uint32_t code, const char *why)
{
    if (aq_connection_reject(connection, code, why) != AQ_OK) (void)aq_connection_close(connection);
}

static const struct peer_hello *peer_read_hello(const struct afi_ep *ep, aq_connection *connection,
                                                const char *what)
{
    aq_connection_info info;
    uint8_t proof[AFI_SECRET];
    if (aq_connection_query(connection, &info) != AQ_OK || info.nbytes != sizeof(struct peer_hello))
        return NULL;
    const struct peer_hello *hello = info.data;
    if (!afi_name_is_valid(&hello->name) || (hello->name.transports & AFI_RESOLVED) != 0 ||
        afi_name_prove(&ep->name, hello->name.id, what, hello->call, proof) != 0)
        return NULL;
    return aqi_mac_same(proof, hello->proof) ? hello : NULL;
}

/*
 * If both ends call each other simultaneously, the call of the endpoint whose name comes first is
 * used; both ends decide this independently.
 */
static bool peer_mine_wins(const struct afi_peer *peer)
{
    return afi_name_before(&peer->ep->name, &peer->ident->name);
}

/* The peer has sent its name. */
static void peer_learn(struct afi_peer *peer, const struct afi_name *name)
{
    afi_name_learn(&peer->ident->name, name);
    peer->by_shm = afi_name_by_shm(&peer->ep->name, &peer->ident->name);
}

static void peer_requested(struct afi_ep *ep, aq_connection *connection)
{
    const struct peer_hello *hello = peer_read_hello(ep, connection, "call");
    aq_accept_params params = aq_accept_defaults();
    if (hello == NULL) {
        peer_reject(connection, PEER_STRANGER, "the caller does not know the name of the endpoint");
        return;
    }
    struct afi_ident *ident = afi_ident_get(ep->domain, &hello->name);
    struct afi_peer *peer = ident != NULL ? afi_peer_get(ep, ident) : NULL;
    if (peer != NULL) peer_learn(peer, &hello->name);
    if (peer == NULL) {
        peer_reject(connection, 0, "no memory for a peer");
    } else if ((int32_t)(hello->call - peer->void_calls) <= 0) {
        peer_reject(connection, PEER_DUPLICATE, "a later request is in use");
    } else if (peer->state == AFI_CALLING && peer->connection != NULL && peer_mine_wins(peer)) {
        peer_reject(connection, PEER_DUPLICATE, "this process is already connecting");
    } else {
        if (peer->state == AFI_AGREED || peer->state == AFI_PARTING)
            peer_reset(peer);
        else if (peer->team != NULL) /* the peer has lost this connection */
            afi_peer_fail(peer, FI_ECONNRESET);
        else
            peer_drop_connection(peer);
        struct peer_hello answer = {.call = peer->calls, .name = ep->name};
        peer->void_calls = hello->call;
        params.context = peer;
        params.data = &answer;
        params.nbytes = sizeof(answer);
        if (afi_name_prove(&hello->name, ep->name.id, "accept", answer.call, answer.proof) == 0 &&
            aq_connection_accept(connection, &params) == AQ_OK) {
            peer->connection = connection;
            peer->caller = false;
            peer->state = AFI_CALLING;
            afi.calling++;
        } else {
            (void)aq_connection_close(connection);
        }
    }
    if (ident != NULL) afi_ident_put(ident);
}

/* --- connection events ------------------------------------------------------------------------ */

static void peer_opened(struct afi_peer *peer)
{
    const struct peer_hello *answer = NULL;
    if (peer->state != AFI_CALLING) return; /* it has violated the protocol */
    if (peer->caller) answer = peer_read_hello(peer->ep, peer->connection, "accept");
    if (peer->caller && answer == NULL) {
        afi_peer_fail(peer, FI_EACCES);
        return;
    }
    if (answer != NULL) {
        peer->void_calls = answer->call;
        peer_learn(peer, &answer->name);
    }
    peer->state = AFI_UP;
    peer->seen = UINT32_MAX;
    afi.calling--;
    if (++afi.up > afi.most) afi_peer_sweep();
    peer->since = 0;
    peer->tries = 0;
    peer->team = aq_connection_team(peer->connection);
    peer->eager = aq_am_max_medium(peer->team);
    if (!aqi_list_is_empty(&peer->waiting)) afi_peer_activate(peer);
    afi_wire_take_early(peer);
}

/* An address did not answer; each is tried only for a short time. */
static void peer_warn(const struct afi_peer *peer, const char *reason)
{
    static atomic_bool once;
    uint64_t waited = aqi_now_ns() - peer->since;
    if (waited < PEER_WARN_NS) return;
    aqi_log_once(&once, AQI_LOG_WARN, "fi", "still connecting to a peer after %u s: %s",
                 (unsigned)(waited / 1000000000), reason);
}

static void peer_not_called(struct afi_peer *peer, aq_status status, uint32_t code,
                            const char *reason)
{
    if (status == AQ_ETIMEOUT) peer_warn(peer, reason);
    peer_drop_connection(peer);
    if (code == PEER_DUPLICATE) {
        peer_call_at(peer, aqi_now_ns() + PEER_RETRY_NS);
        return;
    }
    bool more = status == AQ_ETIMEOUT && aqi_now_ns() - peer->since < PEER_TIMEOUT_NS;
    char uri[128];
    if (status == AQ_EREFUSED || status == AQ_EPEER)
        more = afi_name_uri(&peer->ep->name, &peer->ident->name, peer->tries, uri, sizeof(uri));
    static atomic_bool once;
    if (status == AQ_EACCESS)
        aqi_log_once(&once, AQI_LOG_WARN, "fi", "cannot connect to a peer: %s", reason);
    if (more)
        afi_peer_call(peer);
    else
        afi_peer_fail(peer, -afi_error(status));
}

void afi_peer_progress(struct afi_peer *peer)
{
    bool waits = peer->state == AFI_CALLING && peer->connection == NULL;
    if (waits && aqi_now_ns() < peer->retry_at) return;
    aqi_list_remove(&peer->active);
    if (peer->state == AFI_CLOSING) {
        afi_peer_fail(peer, FI_EIO);
    } else if (peer->state == AFI_PARTING) {
        peer_part(peer);
    } else if (waits) {
        peer_drop_connection(peer);
        afi_peer_call(peer);
    }
}

bool afi_peer_may_access(void *context, uint64_t addr, size_t len)
{
    const struct afi_peer *peer = context;
    if (peer == NULL) return false;
    for (struct aqi_node *at = peer->under_way.next; at != &peer->under_way; at = at->next) {
        const struct afi_op *op = AQI_OF(at, const struct afi_op, link);
        if (op->type != AFI_SEND && op->type != AFI_WRITE) continue;
        for (unsigned i = 0; i < op->count; i++)
            if (aqi_within(addr, len, (uintptr_t)op->iov[i].iov_base, op->iov[i].iov_len))
                return true;
    }
    return afi_mr_covers(peer->ep->domain, addr, len, FI_REMOTE_READ);
}

void afi_peer_event(const aq_connection_event *event)
{
    aq_connection_info info;
    if (event->connection == NULL) return; /* a listener's */
    if (event->type == AQ_CONNECTION_REQUEST) {
        peer_requested(event->context, event->connection);
        return;
    }
    struct afi_peer *peer = event->context;
    if (peer == NULL || peer->connection != event->connection) {
        (void)aq_connection_close(event->connection);
        return;
    }
    bool known = aq_connection_query(event->connection, &info) == AQ_OK;
    uint32_t code = known ? info.code : 0;
    const char *reason = known ? info.reason : "";
    switch (event->type) {
    case AQ_CONNECTION_OPENED:
        peer_opened(peer);
        break;
    case AQ_CONNECTION_FAILED:
        peer_not_called(peer, event->status, code, reason);
        break;
    default:
        if (peer->state == AFI_AGREED || peer->state == AFI_PARTING)
            peer_part(peer);
        else
            afi_peer_fail(peer, FI_ECONNRESET);
        break;
    }
}

/* --- closing --------------------------------------------------------------------------------- */

/* Whether operations or notes are unsent or unanswered. Some may have been reported as complete. */
static bool peer_is_owed(const struct afi_peer *peer)
{
    if (peer->self || peer->team == NULL) return false;
    return !aqi_list_is_empty(&peer->notes) || !aqi_list_is_empty(&peer->waiting) ||
           !aqi_list_is_empty(&peer->under_way);
}

static void peer_drain(struct afi_peer *peer)
{
    while (peer_is_owed(peer) && aqi_now_ns() < peer->ep->close_by)
        afi_progress();
}

void afi_peer_close_all(struct afi_ep *ep)
{
    ep->close_by = aqi_now_ns() + PEER_CLOSE_NS;
    for (unsigned i = 0; i < AFI_PEERS; i++)
        for (struct aqi_node *at = ep->peers[i].next; at != &ep->peers[i]; at = at->next)
            peer_drain(AQI_OF(at, struct afi_peer, link));
    ep->closing = true;
    peer_listen_no_more(ep);
    for (unsigned i = 0; i < AFI_PEERS; i++)
        while (!aqi_list_is_empty(&ep->peers[i])) {
            struct afi_peer *peer = AQI_OF(ep->peers[i].next, struct afi_peer, link);
            afi_peer_fail(peer, FI_ECANCELED);
            afi_receive_peer_gone(peer, true);
            peer_free(peer);
        }
    free(ep->peer_of);
    ep->peer_of = NULL;
    ep->peer_of_room = 0;
}
