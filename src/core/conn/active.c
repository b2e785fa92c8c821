/*
 * Connections: which of them are polled. Each costs a few cache lines per poll, so those on which
 * nothing has arrived for a while *rest*: they are not polled until they ring the bell of this
 * process (base/bell.h), which is one word for all of them. Those that have work, or that cannot
 * rest, are *active*.
 *
 * A connection begins to rest in three steps: its peer is made to ring from now on, all processors
 * execute a barrier, and the connection is checked once more. This check finds anything that the
 * peer published before the barrier; for anything later it rings. So the peer needs no fence.
 *
 * If a peer dies after publishing and before ringing, the end of its control channel makes the
 * connection active, and its messages are delivered before the end is reported. A peer that does
 * not ring, or clears the rings of other processes of its user (bell.h), only delays those
 * messages: from time to time one resting connection is checked, in turn.
 */
#include "core/conn/conn.h"

#include "base/membarrier.h"

#include <poll.h>

enum {
    ACTIVE_MANY = 16,    /* if more are active, they rest sooner */
    ACTIVE_SHORTLY = 64, /* idle rounds before they rest then, ... */
    ACTIVE_LONG = 4096,  /* ... and otherwise */
    ACTIVE_BATCH = 64    /* connections that begin to rest behind one barrier */
};
/*
 * After this many idle rounds, messages are fetched ahead: fewer than pass between the messages of
 * a ping-pong of distant processors, and more than between those of a flood, or of close
 * processors, which gain nothing.
 */
enum { ACTIVE_SPARSE = 6 };
/*
 * Every ACTIVE_LOOK_NS the rendezvous is polled (in each round if a message is awaited), which
 * takes a system call, and one resting connection is checked. The clock is read in one of
 * ACTIVE_CHECK rounds.
 */
enum { ACTIVE_LOOK_NS = 50000, ACTIVE_CHECK = 64 };
/*
 * After this many empty rounds, an ended connection counts as delivered even if its transport
 * cannot say so: below it, messages to the peer may be held that the peer will never take.
 */
enum { ACTIVE_UNSURE = 20000 };

/* --- the list -------------------------------------------------------------------------------- */

static inline uint32_t active_count(void)
{
    return atomic_load_explicit(&conns.active_count, memory_order_acquire);
}

static inline uint32_t active_slot(uint32_t at)
{
    return atomic_load_explicit(&conns.active[at], memory_order_relaxed);
}

static inline uint32_t active_round(void)
{
    return atomic_load_explicit(&conns.rounds, memory_order_relaxed);
}

/* Other threads may be walking the list: they poll one connection twice or skip one. */
static void active_put(uint32_t at, uint32_t slot)
{
    atomic_load(&conns.slots[slot].conn)->at = at;
    atomic_store_explicit(&conns.active[at], slot, memory_order_relaxed);
}

static void active_remove(aq_connection *conn)
{
    uint32_t last = active_count() - 1;
    conn->active = false;
    if (conn->at != last) active_put(conn->at, active_slot(last));
    atomic_store_explicit(&conns.active_count, last, memory_order_release);
}

void conn_activate(aq_connection *conn)
{
    aqi_spin_lock(&conns.active_lock);
    if (!conn->active && !conn->retired) {
        uint32_t count = active_count();
        if (conn->rests) (void)conn->tp->ops.rest(conn->tp, AQI_REST_END);
        conn->rests = false;
        conn->active = true;
        atomic_store_explicit(&conn->last, active_round(), memory_order_relaxed);
        active_put(count, conn->slot);
        atomic_store_explicit(&conns.active_count, count + 1, memory_order_release);
        if (AQI_UNLIKELY(core.wakes)) conn_wait_disarmed();
    }
    aqi_spin_unlock(&conns.active_lock);
}

void conn_retire(aq_connection *conn)
{
    aqi_spin_lock(&conns.active_lock);
    conn->retired = true;
    if (conn->active) active_remove(conn);
    aqi_spin_unlock(&conns.active_lock);
}

/* --- resting --------------------------------------------------------------------------------- */

static bool active_has_work(aq_connection *conn)
{
    return atomic_load(&conn->ending) != 0 || atomic_load(&conn->suspect) || aqi_tp_waits(conn->tp);
}

/* Let these connections rest, if they can. */
static void active_rest_these(aq_connection *const *these, unsigned n)
{
    if (n != 0) aqi_membarrier();
    for (unsigned i = 0; i < n; i++) {
        aq_connection *conn = these[i];
        if (conn->tp->ops.rest(conn->tp, AQI_REST_CHECK) != AQ_OK || active_has_work(conn)) {
            (void)conn->tp->ops.rest(conn->tp, AQI_REST_END);
            continue;
        }
        conn->rests = true;
        active_remove(conn);
    }
}

/* Let connections rest that have been idle for `rounds`. Called with the list's lock held. */
static void active_rest_idle(uint32_t rounds)
{
    aq_connection *these[ACTIVE_BATCH];
    unsigned n = 0;
    uint32_t now = active_round();
    for (uint32_t i = active_count(); i-- > 0 && n < ACTIVE_BATCH;) {
        aq_connection *conn = atomic_load(&conns.slots[active_slot(i)].conn);
        uint32_t last = atomic_load_explicit(&conn->last, memory_order_relaxed);
        if (!conn->may_rest || now - last < rounds || active_has_work(conn)) continue;
        if (conn->tp->ops.rest(conn->tp, AQI_REST_BEGIN) == AQ_OK) these[n++] = conn;
    }
    active_rest_these(these, n);
}

static void active_rest(uint32_t round)
{
    uint32_t count = active_count();
    bool rarely = round % ACTIVE_LONG == 0;
    if (count == 0 || (!rarely && count <= ACTIVE_MANY)) return;
    if (!aqi_spin_try(&conns.active_lock)) return;
    active_rest_idle(rarely ? ACTIVE_LONG : ACTIVE_SHORTLY);
    aqi_spin_unlock(&conns.active_lock);
}

void conn_rest_all(void)
{
    aqi_spin_lock(&conns.active_lock);
    for (uint32_t before = UINT32_MAX; active_count() != 0 && active_count() != before;) {
        before = active_count();
        active_rest_idle(0);
    }
    aqi_spin_unlock(&conns.active_lock);
}

/* Check the next resting connection. */
static void active_sweep(void)
{
    uint32_t high = atomic_load_explicit(&conns.high, memory_order_relaxed);
    if (high == 0) return;
    uint32_t slot = atomic_fetch_add_explicit(&conns.swept, 1, memory_order_relaxed) % high;
    aq_connection *conn = conn_hold(slot);
    if (conn == NULL) return;
    aqi_spin_lock(&conns.active_lock);
    bool more = conn->rests &&
                (conn->tp->ops.rest(conn->tp, AQI_REST_CHECK) != AQ_OK || active_has_work(conn));
    aqi_spin_unlock(&conns.active_lock);
    if (more) conn_activate(conn);
    conn_let_go(slot);
}

static void active_rung(uint32_t slot)
{
    aq_connection *conn = conn_hold(slot);
    if (conn == NULL) return;
    if (conn_state(conn) == AQ_CONNECTION_OPEN) conn_activate(conn);
    conn_let_go(slot);
}

static AQI_NOINLINE void active_answer(struct conn_bell *bell)
{
    aqi_bell_take(&bell->bell, atomic_load(&conns.high), active_rung);
}

static inline void active_listen(void)
{
    uint32_t bells = atomic_load_explicit(&conns.bell_count, memory_order_acquire);
    for (uint32_t i = 0; i < bells; i++)
        if (AQI_UNLIKELY(aqi_bell_is_rung(&conns.bells[i].bell))) active_answer(&conns.bells[i]);
}

/* --- progress -------------------------------------------------------------------------------- */

/*
 * Everything the peer sent has been delivered: end an open connection. Calls fail before the
 * program can see the event.
 */
static AQI_COLD void active_finish(aq_connection *conn)
{
    aqi_spin_lock(&conns.lock);
    bool mine = conn_state(conn) == AQ_CONNECTION_OPEN && !conn->finished;
    conn->finished = true;
    aqi_spin_unlock(&conns.lock);
    if (!mine) return;
    aqi_tp_peer_down(conn->tp, conn->peer->id);
    core_asked_peer_down(conn->routes[1].rank);
    aqi_spin_lock(&conns.lock);
    conn_end(conn, (aq_connection_event_type)atomic_load(&conn->ending), conn->status, "");
    aqi_spin_unlock(&conns.lock);
    conn_retire(conn);
}

/*
 * Its transport reported the peer as lost: the control channel may report the cause; the connection
 * ends anyway.
 */
static AQI_COLD void active_check_suspect(aq_connection *conn)
{
    atomic_store(&conn->suspect, false);
    aqi_spin_lock(&conns.lock);
    /*
     * Until this control channel has had its turn, but no longer: others may have endless messages.
     */
    uint32_t turns = atomic_load(&conns.high) + 1;
    while (turns-- > 0 && atomic_load(&conn->ending) == 0 && conn_attend() != 0)
        ;
    conn_end_soon(conn, AQ_CONNECTION_LOST, AQ_EPEER, "the transport reports the peer as lost");
    aqi_spin_unlock(&conns.lock);
}

/* Whether everything that the peer of this ended connection sent has been delivered. */
static bool active_delivered(aq_connection *conn)
{
    const struct aqi_transport *ops = &conn->tp->ops;
    struct pollfd arrivals = {.fd = ops->wait_fd(conn->tp), .events = POLLIN};
    bool all = false;
    aqi_spin_lock(&conns.lock);
    if (arrivals.fd < 0 && conn->may_rest) {
        all = ops->rest(conn->tp, AQI_REST_BEGIN) == AQ_OK;
        aqi_membarrier();
        all = all && ops->rest(conn->tp, AQI_REST_CHECK) == AQ_OK;
        (void)ops->rest(conn->tp, AQI_REST_END);
    } else {
        all = (ops->caps & AQI_CAP_WAIT_FD) != 0 && ops->arm(conn->tp, true) == AQ_OK &&
              poll(&arrivals, 1, 0) == 0;
        (void)ops->arm(conn->tp, false);
        conn->armed = false;
    }
    aqi_spin_unlock(&conns.lock);
    return all;
}

/* Whether this thread is the only one that polls it. */
static bool active_alone(const aq_connection *conn)
{
    return !core.multi || atomic_load(&conns.slots[conn->slot].users) == 1;
}

/*
 * After an empty round: whether nothing is left, even though other threads also make progress. They
 * may still be running handlers of messages that they have taken, or have kept this thread from
 * taking more. A thread that is not alone returns at once: if all of them checked for more, none
 * would ever be alone.
 */
static bool active_is_idle(aq_connection *conn)
{
    bool shows = conn->may_rest || (conn->tp->ops.caps & AQI_CAP_WAIT_FD) != 0;
    if (!active_alone(conn)) return false;
    if (shows && !active_delivered(conn) &&
        atomic_fetch_add_explicit(&conn->unsure, 1, memory_order_relaxed) < ACTIVE_UNSURE)
        return false;
    return active_alone(conn);
}

void conn_finish_delivered(void)
{
    for (uint32_t i = 0; i < active_count(); i++) {
        uint32_t slot = active_slot(i);
        aq_connection *conn = conn_hold(slot);
        if (conn == NULL) continue;
        if (conn_state(conn) == AQ_CONNECTION_OPEN && atomic_load(&conn->ending) != 0 &&
            active_delivered(conn) && active_alone(conn))
            active_finish(conn);
        conn_let_go(slot);
    }
}

static bool active_look_is_due(uint32_t round)
{
    if (AQI_LIKELY(round % ACTIVE_CHECK != 0)) return false;
    uint64_t now = aqi_now_ns();
    if (now - atomic_load_explicit(&conns.looked_ns, memory_order_relaxed) < ACTIVE_LOOK_NS)
        return false;
    atomic_store_explicit(&conns.looked_ns, now, memory_order_relaxed);
    return true;
}

static unsigned active_look(void)
{
    uint32_t round = active_round() + 1;
    atomic_store_explicit(&conns.rounds, round, memory_order_relaxed);
    if (AQI_UNLIKELY(round % ACTIVE_SHORTLY == 0)) active_rest(round);
    bool busy = atomic_load_explicit(&conns.busy, memory_order_relaxed) != 0;
    bool slept = atomic_load_explicit(&conns.slept, memory_order_relaxed);
    bool due = active_look_is_due(round);
    if (AQI_LIKELY(!busy && !slept && !due)) return 0;
    if (due) active_sweep();
    if (!aqi_spin_try(&conns.lock)) return 0;
    unsigned n = conn_look();
    aqi_spin_unlock(&conns.lock);
    core_conns_sweep();
    return n;
}

/*
 * As for the transports of a job: pending work without a watched word needs a full round, which is
 * one in AQI_POLLS_PER_ROUND, counted over all threads.
 */
static bool active_by_words(enum aqi_progress_mode mode)
{
    return mode == AQI_PROGRESS_ALL && active_round() % AQI_POLLS_PER_ROUND != 0 &&
           atomic_load_explicit(&aqi_tp_pending, memory_order_relaxed) == 0;
}

static inline unsigned active_progress(aq_connection *conn, bool by_words,
                                       enum aqi_progress_mode mode, uint64_t now)
{
    struct aqi_tp *tp = conn->tp;
    uint32_t watch;
    if (!by_words || !tp->watched ||
        AQI_UNLIKELY(atomic_load_explicit(&conn->suspect, memory_order_relaxed) ||
                     atomic_load_explicit(&conn->ending, memory_order_relaxed) != 0))
        return tp->ops.progress(tp, mode, now);
    if (AQI_LIKELY(!aqi_tp_has_moved(tp, &watch))) return 0;
    return tp->moved != NULL ? tp->moved(tp, watch) : tp->ops.progress(tp, mode, now);
}

static inline bool active_is_sparse(const aq_connection *conn)
{
    uint32_t last = atomic_load_explicit(&conn->last, memory_order_relaxed);
    return active_round() - last >= ACTIVE_SPARSE;
}

static inline unsigned active_poll_one(aq_connection *conn, bool by_words,
                                       enum aqi_progress_mode mode, uint64_t now)
{
    unsigned got = active_progress(conn, by_words, mode, now);
    if (got != 0) {
        atomic_store_explicit(&conn->last, active_round(), memory_order_relaxed);
    } else if (mode == AQI_PROGRESS_ALL) {
        if (active_is_sparse(conn)) aqi_tp_fetch_ahead(conn->tp);
        if (AQI_UNLIKELY(atomic_load_explicit(&conn->suspect, memory_order_relaxed)))
            active_check_suspect(conn);
        if (AQI_UNLIKELY(atomic_load_explicit(&conn->ending, memory_order_acquire)) &&
            (!core.multi || active_is_idle(conn)))
            active_finish(conn);
    }
    return got;
}

unsigned conn_poll(enum aqi_progress_mode mode, uint64_t now)
{
    unsigned n = 0;
    active_listen();
    bool by_words = active_by_words(mode);
    for (uint32_t i = 0; i < active_count(); i++) {
        uint32_t slot = active_slot(i);
        aq_connection *conn = conn_hold(slot);
        if (conn == NULL) continue;
        if (AQI_LIKELY(conn_state(conn) == AQ_CONNECTION_OPEN))
            n += active_poll_one(conn, by_words, mode, now);
        conn_let_go(slot);
    }
    n += active_look();
    if (AQI_UNLIKELY(atomic_load_explicit(&conns.news, memory_order_relaxed)) &&
        atomic_exchange(&conns.news, false))
        n++; /* so that the program checks for events before it sleeps */
    return n;
}
