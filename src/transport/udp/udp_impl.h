/*
 * Shared by the files of udp. The protocol is in src/dgram, the sockets are in src/dgram/ports;
 * here are the encoding of messages, the rules for receiving, and what an idle process does.
 *
 * Lock: one around the engine, if there are several threads: those of the program, or the one that
 * helps (udp_idle.c). It is released while a handler runs and while the port is asked for packets.
 *
 * Receiving. A port lets one thread receive, and one more from inside the first one's handlers:
 * that is the same thread, waiting for room for its reply, or another, which then delivers replies
 * only and keeps requests until it has left the port. So a handler that takes long stalls no peer,
 * and a thread that returns from one waits for the other at most as long as the handler of a reply
 * takes.
 */
#ifndef UDP_IMPL_H
#define UDP_IMPL_H

#include "base/mac.h"
#include "base/spin.h"
#include "dgram/ports/port.h"
#include "transport/udp/udp.h"
#include "transport/udp/udp_call.h"

#include <pthread.h>
#include <unistd.h>

struct udp_config {
    const char *interface;
    const char *lossy;
    uint64_t auth, port;
    uint64_t mtu, buffer, window;
    uint64_t ack_delay_ns, rto_min_ns, rto_max_ns;
    uint64_t idle_close_ns, dead_after_ns;
    const char *secret;
    uint64_t keepalive_ns;
    uint64_t multicast_ttl;
};
extern struct udp_config udp_config;
enum { UDP_AUTH_COOKIE, UDP_AUTH_MAC };
enum { UDP_PORT_SOCKET, UDP_PORT_XDP };

/* AQ_UDP_LOSSY. False: malformed. */
bool udp_read_weather(const char *text, struct aqi_port_weather *weather);
/* Wrap a port accordingly, if it is set; if that fails the port stays as it is. */
aq_status udp_port_weather(struct aqi_port **port, uint64_t seed);

struct udp_peer {
    struct aqi_peer peer;
    uint32_t host;
    bool lost; /* yet to be reported */
    bool unreached;
    char why[560];
    struct udp_peer *next; /* of those */
};

/* Threads in the port: none, one, one more from inside its handlers. */
enum { UDP_OUTER, UDP_NESTED, UDP_RECEIVERS, UDP_NOT_RECEIVING = UDP_RECEIVERS };

/* udp_idle.c */
struct udp_idle {
    struct aqi_watch watch;
    _Atomic uint32_t raised; /* the watch word: 0 while there is nothing to do */
    bool resting;            /* no system calls are made */
    bool armed;              /* the caller sleeps on the descriptors itself */
    bool listed;             /* the sockets are in `arrivals`, as needed while armed */
    uint32_t awake;          /* rounds that found something since it was */
    bool helped;             /* there is a thread that watches them, and helps while the program
                                does not look */
    bool helping;            /* it calls the engine */
    bool gathers;            /* the tick is for what the engine has gathered */
    bool alone;              /* the program has not looked since the thread has helped */
    bool left;               /* what the thread has done progress is to take */
    uint32_t looks, seen;    /* calls of progress that looked; of them when the thread did */
    uint64_t pause;          /* that the tick was set to; 0: it is not */
    _Atomic uint64_t last;   /* when something happened */
    _Atomic uint64_t rests_until; /* polls need not look before, if the word is 0 */
    int arrivals;                 /* epoll of `leftover` and, if listed, of the sockets: wait_fd */
    int leftover;                 /* eventfd: as `left` */
    int watched, tick;            /* the thread's epoll; its timer for this transport */
    uint32_t place, generation;   /* in the thread's list */
    pid_t owner;                  /* the process of the thread: a forked child has none */
    int sockets[2];               /* the port's descriptors */
    unsigned socket_count;
};

/* An operation whose end the thread has seen, for progress to tell. */
struct udp_completion {
    void (*tell)(void *arg, void *user, aq_status status);
    void *user;
    aq_status status;
};

/* Where a process of a job receives, as its port has it. */
struct udp_job_addr {
    unsigned char magic[4];
    uint8_t count, unused[3];
    struct aqi_dgram_addr at[AQI_DGRAM_WAYS];
};
static_assert(sizeof(struct udp_job_addr) == 136, "addresses have no padding");

/* Where an end of a connection does. */
struct udp_addr {
    unsigned char magic[4];
    struct aqi_dgram_addr at;
};
static_assert(sizeof(struct udp_addr) == 36, "addresses have no padding");
extern const unsigned char udp_magic[4], udp_job_magic[4];

/* The same of an end of a connection by URI. */
struct udp_connection_addr {
    struct udp_addr base;
    uint8_t nonce[UDP_CALL_BYTES]; /* the client's, which the key is made of */
    uint8_t authenticate, unused[3];
};
static_assert(sizeof(struct udp_connection_addr) == 56, "addresses have no padding");

/* A path that carries small packets only, yet to be reported to the user. */
struct udp_small {
    uint64_t due; /* ns; 0: there is none */
    uint32_t id;
    size_t usable;
    bool alone; /* the peer does not know it, or speaks after us */
};

struct udp_own {
    bool is_connection;
    struct aqi_board *sheet; /* what it shows of itself; NULL: nothing */
    struct udp_connection_addr addr;
};

struct udp_tp {
    struct aqi_tp tp;
    struct aqi_tp_params params;
    struct aqi_spin lock;
    struct aqi_dgram *dgram;
    struct aqi_port *port;
    struct aqi_mac *handshake, *packets;
    struct udp_peer **peers; /* by id */
    struct udp_peer *lost;
    _Atomic uint64_t *paths; /* of udp_paths.c, in memory of this host's processes; or NULL */
    struct udp_small small;
    uint64_t now;
    uint64_t looked; /* for packets, lately */
    size_t sent;     /* bytes since then */
    unsigned receivers;
    bool outer_waits; /* the outer receiver runs a handler */
    unsigned place;   /* in which receiver the engine is called */
    unsigned rounds;
    bool deep;
    bool unreadable;    /* the program's thread is to touch what is to be sent */
    bool authenticate;  /* a MAC in each packet */
    uint32_t max_loose; /* with params.loose: the largest Medium, which is one packet; else 0 */
    struct udp_own own;
    struct udp_idle idle;
    bool silence_told; /* to the user, of some peer */
    bool loopback_up;
    bool locks;
    struct udp_completion *ends;
    size_t end_count, end_room;
    bool touching; /* a thread touches sources, which its program must not unmap meanwhile: */
    pthread_t toucher;
    struct iovec *touched; /* kept for the next time: a handler may jump out of this one */
    size_t touched_count, touched_room;
    uint64_t drops;            /* of the port, as far as they are counted */
    uint64_t shown, show_next; /* when udp_peers_show was called, and is to be */
};

static inline void udp_lock(struct udp_tp *udp)
{
    if (udp->locks) aqi_spin_lock(&udp->lock);
}

static inline void udp_unlock(struct udp_tp *udp)
{
    if (udp->locks) aqi_spin_unlock(&udp->lock);
}

enum { UDP_IP_HEADERS = 28 };

/* udp.c */
/* Set the parameters of a port from the settings. AQ_ESETTING. */
aq_status udp_port_params(const char *towards, struct aqi_port_params *want);
aq_status udp_random_config(struct aqi_dgram_config *config); /* its epoch and seed */
/* Packets dropped by the port. Counted from time to time only: the kernel has to be asked. */
uint64_t udp_count_drops(struct udp_tp *udp);

/* udp_ways.c: addresses. */
aq_status udp_address(struct aqi_tp *tp, void *out, size_t *len);
/* All that a process of the job has announced. AQ_ENOTSUP: nothing. AQ_EPROTO: it is malformed. */
aq_status udp_ways_told(const struct udp_tp *udp, uint32_t id, struct udp_job_addr *told);
/* The engine's hooks: where a peer is, and by which ways it is reached. */
aq_status udp_hook_lookup(void *arg, uint32_t id, struct aqi_dgram_addr *at);
bool udp_hook_way(void *arg, uint32_t id, unsigned way, struct aqi_dgram_addr *to,
                  struct aqi_dgram_addr *own);

/* udp_paths.c. Opened by all processes of a host or by none. */
void udp_paths_open(struct udp_tp *udp);
void udp_paths_close(struct udp_tp *udp);
/* Bytes of packets that the path to a peer is known to carry; SIZE_MAX: nothing is known. */
size_t udp_paths_find(const struct udp_tp *udp, uint32_t id);
/* We have found that it carries so many only. */
void udp_paths_small(struct udp_tp *udp, uint32_t id, size_t usable, bool agreed);
/* Tell the user of it, when it is time, unless another process of the job has. `last`: there will
 * be no other time. */
void udp_paths_say(struct udp_tp *udp, bool last);

/* Nothing arrives from this peer; false: a process of this host has warned of its host, which is
 * another one. */
bool udp_paths_tell_silent(const struct udp_tp *udp, uint32_t id);

/* udp_silence.c. Can packets come to a peer that has our address? */
aq_status udp_check_loopback(struct udp_tp *udp, uint32_t id, const struct aqi_dgram_addr *addr);
/* The hooks of the engine that warn of peers that do not answer. */
void udp_hook_silent(void *arg, uint32_t id, uint64_t waited_ns);
void udp_hook_lost(void *arg, uint32_t id, const char *why);
void udp_silence_lose_all(struct udp_tp *udp); /* the port is deaf; with the lock held */

/* udp_peers.c: the state of peers for observers; it needs the caller's thread only at the end. */
void udp_peers_open(struct udp_tp *udp);
void udp_peers_close(struct udp_tp *udp);
void udp_peers_show(struct udp_tp *udp, uint64_t now);

/* udp_am.c */
aq_status udp_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                      struct aqi_comp *comp);
/* Header and arguments of a message; returns their length. */
struct udp_head {
    alignas(16) unsigned char bytes[sizeof(struct aqi_am_wire) + 4 * AQI_AM_WIRE_ARGS];
};
size_t udp_am_head(const struct udp_tp *udp, const struct aqi_am *am, struct udp_head *head);
/* The engine's hook. */
void udp_am_deliver(void *arg, uint32_t source, bool request, unsigned char *message, size_t len);
unsigned udp_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now);
/* Of the thread that helps: receive and answer. With the lock held, which is released meanwhile. */
unsigned udp_receive_to_answer(struct udp_tp *udp);

/* udp_rma.c */
#define UDP_KEY 8 /* bytes */
/* Bytes of a Long that travels as a message: to copy more takes as long as an answer, for which
 * the caller would have to wait otherwise. Alike in all processes. */
#define UDP_PACKED_LONG (64u << 10)
aq_status udp_am_long(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                      const struct aqi_rmem *rmem, const struct aqi_mem *mem,
                      struct aqi_comp *comp);
aq_status udp_put(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, const void *src, size_t len, const struct aqi_mem *mem,
                  struct aqi_comp *comp);
aq_status udp_get(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_rmem *rmem,
                  uint64_t addr, void *dst, size_t len, const struct aqi_mem *mem,
                  struct aqi_comp *comp);
aq_status udp_mem_reg(struct aqi_tp *tp, void *addr, size_t len, struct aqi_mem **out);
void udp_mem_dereg(struct aqi_tp *tp, struct aqi_mem *mem);
aq_status udp_mem_map(struct aqi_tp *tp, struct aqi_peer *peer, const void *key, size_t key_len,
                      uint64_t addr, size_t len, struct aqi_rmem **out);
void udp_mem_unmap(struct aqi_tp *tp, struct aqi_rmem *rmem);
/* The engine's hooks. */
void udp_rma_local(void *arg, void *user, aq_status status);
void udp_rma_remote(void *arg, void *user, aq_status status);
/*
 * The kernel could not read some of the data to send, because a page was protected after the call
 * that began it. Touch it in a thread of the program, so that the signal arrives there: a program
 * that watches pages by signals makes it readable, and it is sent again. Without the lock. Until it
 * returns no end is reported, as the program may then unmap memory that is still to be touched.
 * Returns how many were reported then.
 */
unsigned udp_rma_touch(struct udp_tp *udp);
/* With the lock held: a handler may have jumped out of that. */
void udp_rma_left(struct udp_tp *udp);
/* The engine's hook: the thread that helps never reads the program's memory itself. */
const void *udp_rma_source(void *arg, const void *at, size_t len, void *copy);
/* Report the ends kept while the thread called the engine, or memory was touched. */
void udp_rma_tell_ends(struct udp_tp *udp);

/* udp_idle.c */
/* The cost of an idle process. With the lock held unless noted. */
aq_status udp_idle_open(struct udp_tp *udp); /* without the lock */
void udp_idle_close(struct udp_tp *udp);     /* without the lock */
/* Called by the thread: a packet has arrived, or the timer may have expired. */
void udp_idle_wake(struct udp_tp *udp, bool tick);

/* Something was begun or has come: progress looks in every poll from now on. */
void udp_idle_end(struct udp_tp *udp);
/*
 * Whether a thread that waits awake has to look itself. Only while there was traffic a short time
 * ago: else each of its polls would ask the kernel for nothing.
 */
static inline bool udp_idle_is_awaited(const struct udp_tp *udp, uint64_t now)
{
    enum { SHORT_TIME_NS = 100000000 };
    return aqi_tp_is_awake(now) &&
           now - atomic_load_explicit(&udp->idle.last, memory_order_relaxed) < SHORT_TIME_NS;
}
/* Need progress not look? Without the lock. */
static inline bool udp_idle_rests(const struct udp_tp *udp, uint64_t now)
{
    return atomic_load_explicit(&udp->idle.raised, memory_order_relaxed) == 0 &&
           now < atomic_load_explicit(&udp->idle.rests_until, memory_order_relaxed) &&
           !udp_idle_is_awaited(udp, now);
}
/* Progress looks. */
void udp_idle_look(struct udp_tp *udp);
/* It takes what the thread has left; what is parked the caller resumes. */
void udp_idle_take_left(struct udp_tp *udp);
/* A round of progress brought `n` things: rest if there is nothing any more. */
void udp_idle_begin(struct udp_tp *udp, unsigned n);
int udp_wait_fd(struct aqi_tp *tp);
aq_status udp_arm(struct aqi_tp *tp, bool on);
aq_status udp_rest(struct aqi_tp *tp, enum aqi_rest step);

/* Have the thread send what the engine gathers, if the program does not make progress soon. */
void udp_idle_gather(struct udp_tp *udp);

static inline void udp_began(struct udp_tp *udp)
{
    if (AQI_UNLIKELY(udp->idle.resting)) udp_idle_end(udp);
}

/* udp_helper.c: the thread of all transports. Join and leave without the lock of the transport. */
/* Returns 0 or an errno. */
int udp_helper_join(struct udp_tp *udp);
/* On return the thread does not use the transport any more. */
void udp_helper_leave(struct udp_tp *udp);
/* Let the thread wake once for what arrives at this socket, or for nothing. False: see errno. */
bool udp_helper_watch(const struct udp_tp *udp, int socket, bool on);

/* udp_connection.c: is it an end of a connection by URI, the key is its own, and `towards` the host
 * of the other end. */
aq_status udp_connection_begin(struct udp_tp *udp, char towards[AQI_URI_MAX]);
void udp_connection_set_secret(const struct udp_secret *secret); /* when a rendezvous opens */
/* As udp_secret_derive, of that secret. */
void udp_connection_derive(struct aqi_mac *mac, const char *what,
                           const uint8_t caller[UDP_CALL_BYTES],
                           const uint8_t listener[UDP_CALL_BYTES], uint8_t key[AQI_MAC_BYTES]);

/* udp_rendezvous.c */
extern const struct aqi_rendezvous_ops udp_rendezvous;

/* udp_group.c */
extern const struct aqi_transport udp_group;
/* The error of a call that is for one host, if this is the address of a group: AQ_EINVAL. */
aq_status udp_group_is_not(const char *uri, const struct udp_uri *read);

#endif
