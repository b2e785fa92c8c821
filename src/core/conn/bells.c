/* Connections: the bells of this process, and those of its peers. */
#include "core/conn/conn.h"

#include <unistd.h>

static struct conn_bell *bells_add(uint32_t uid)
{
    uint32_t n = atomic_load(&conns.bell_count);
    struct conn_bell *bell = &conns.bells[n];
    if (aqi_bell_open(&bell->bell) != AQ_OK) return NULL;
    if (!conn_watch_bell(bell)) {
        (void)core_wait_set_refused();
        aqi_bell_close(&bell->bell);
        return NULL;
    }
    bell->uid = uid;
    atomic_store_explicit(&conns.bell_count, n + 1, memory_order_release);
    return bell;
}

aq_status conn_bells_open(void)
{
    return bells_add((uint32_t)geteuid()) != NULL ? AQ_OK : AQ_ELIMIT;
}

void conn_bells_close(void)
{
    for (uint32_t i = 0; i < atomic_load(&conns.bell_count); i++)
        aqi_bell_close(&conns.bells[i].bell);
}

/*
 * One per user, since a process that maps a bell can clear its rings; the last is for all others.
 */
static struct conn_bell *bells_for(uint32_t uid)
{
    uint32_t n = atomic_load(&conns.bell_count);
    for (uint32_t i = 0; i < n; i++)
        if (conns.bells[i].uid == uid) return &conns.bells[i];
    return n < CONN_BELLS ? bells_add(uid) : &conns.bells[CONN_BELLS - 1];
}

struct aqi_bell_rope conn_own_rope(const aq_connection *conn)
{
    return (struct aqi_bell_rope){.memory = conns.bells[0].bell.memory,
                                  .bit = conn->slot,
                                  .socket = conns.bells[0].bell.socket,
                                  .wakes = true};
}

void conn_describe_bell(aq_connection *conn, struct aqi_hello *hello, int *fd)
{
    if (!conn->may_rest || !conn_rendezvous(conn)->objects) return;
    const struct conn_bell *bell = bells_for(conn->peer_id.uid);
    conn->may_rest = bell != NULL; /* otherwise the peer cannot ring, and we poll */
    if (bell == NULL) return;
    hello->bell = 1;
    hello->bell_bit = conn->slot;
    *fd = bell->bell.fd;
}

/* A peer that passes no bell polls. */
aq_status conn_learn_bell(aq_connection *conn, const struct aqi_hello *hello, int fd)
{
    if (!hello->bell) return AQ_OK;
    aq_status st = conn_check_object(fd, sizeof(struct aqi_bell_memory), true);
    if (st == AQ_OK) st = aqi_bell_map(fd, &conn->peer_bell);
    if (st != AQ_OK) return st;
    uint64_t own = conns.bells[0].bell.memory->network;
    bool apart = conn->peer_bell->network != own;
    conn->apart = apart;
    conns.apart += apart;
    conn->peer->bell = (struct aqi_bell_rope){.memory = conn->peer_bell,
                                              .bit = hello->bell_bit,
                                              .socket = conns.bells[0].bell.socket,
                                              .wakes = !apart};
    return AQ_OK;
}
