/*
 * Shared by the files of udp. The protocol is in src/dgram, the sockets are in src/dgram/ports;
 * this folder has the encoding of messages, the rules for receiving, and the behavior of an idle
 * process.
 *
 * Locking: one lock around the engine, if there are several threads: those of the program, or the
 * one that helps (udp_idle.c). It is released while a handler runs and while the port receives.
 *
 * Receiving: a port lets one thread receive, and one more from inside the first one's handlers: the
 * same thread, waiting for room for its reply, or another, which delivers only replies and keeps
 * requests until it has left the port. So a handler that takes long stalls no peer, and a thread
 * that returns from one waits for the other at most as long as the handler of a reply takes.
 */
#ifndef UDP_IMPL_H
#define UDP_IMPL_H

#include "base/mac.h"
#include "base/spin.h"
#include "dgram/ports/address.h"
#include "dgram/ports/port.h"
#include "transport/udp/udp.h"
#include "transport/udp/udp_call.h"

#include <pthread.h>
#include <unistd.h>

struct udp_config {
    const char *interface;
    const char *lossy;
    uint64_t auth, port;
    uint64_t mtu, buffer, rto_max_ns;
    uint64_t idle_close_ns, dead_after_ns;
    const char *secret;
    uint64_t keepalive_ns;
    uint64_t multicast_ttl;
};
extern struct udp_config udp_config;
enum { UDP_AUTH_COOKIE, UDP_AUTH_MAC };
enum { UDP_PORT_SOCKET, UDP_PORT_XDP };

/* Parse AQ_UDP_LOSSY. Returns false if it is malformed. */
bool udp_read_weather(const char *text, struct aqi_port_weather *weather);
/* Wrap a port accordingly, if that is set. On failure the port is unchanged. */
aq_status udp_port_weather(struct aqi_port **port, uint64_t seed);

struct udp_peer {
    struct aqi_peer peer;
    uint32_t host;
    bool lost; /* reported once, by way of udp_tp.lost */
    bool unreached;
    char why[560];
    struct udp_peer *next; /* in udp_tp.lost */
};

/* Threads in the port: none, one, and one more from inside its handlers. */
enum { UDP_OUTER, UDP_NESTED, UDP_RECEIVERS, UDP_NOT_RECEIVING = UDP_RECEIVERS };

/* udp_idle.c */
struct udp_idle {
    struct aqi_watch watch;
    _Atomic uint32_t raised; /* the watch word: 0 while there is nothing to do */
    bool resting;            /* progress makes no system calls */
    bool armed;              /* the caller itself sleeps on the descriptors */
    bool listed;             /* the sockets are in `arrivals`, which is needed while armed */
    uint32_t awake;          /* rounds since it was armed that found something */
    bool helped; /* there is a thread that watches the sockets, and helps while the program does not
                  * poll */
    bool helping;                 /* it is calling the engine */
    bool gathers;                 /* the tick is for messages that the engine has gathered */
    bool alone;                   /* the program has not polled since the thread helped */
    bool left;                    /* the thread has left something for progress to take */
    uint32_t looks, seen;         /* polls so far; their number when the thread last checked */
    uint64_t pause;               /* ns to which the tick was set; 0: it is not set */
    _Atomic uint64_t last;        /* when something last happened */
    _Atomic uint64_t rests_until; /* until then polls need not read the sockets, if the word is 0 */
    int arrivals;                 /* epoll of `leftover` and, if listed, of the sockets: wait_fd */
    int leftover;                 /* eventfd: readable if `left` */
    int watched, tick;            /* the thread's epoll; its timer for this transport */
    uint32_t place, generation;   /* in the thread's list */
    pid_t owner;                  /* the process that has the thread: a forked child has none */
    int sockets[2];               /* the port's descriptors */
    unsigned socket_count;
};

/* A completion that the thread has seen, for progress to report. */
struct udp_completion {
    void (*report)(void *arg, void *user, aq_status status);
    void *user;
    aq_status status;
};

/* The addresses at which a process of a job receives. */
struct udp_job_addr {
    unsigned char magic[4];
    uint8_t count, unused[3];
    struct aqi_dgram_addr at[AQI_DGRAM_WAYS];
};
static_assert(sizeof(struct udp_job_addr) == 136, "addresses have no padding");

/* The address at which one end of a connection receives. */
struct udp_addr {
    unsigned char magic[4];
    struct aqi_dgram_addr at;
};
static_assert(sizeof(struct udp_addr) == 36, "addresses have no padding");
extern const unsigned char udp_magic[4], udp_job_magic[4];

/* The same for a connection by URI. */
struct udp_connection_addr {
    struct udp_addr base;
    uint8_t nonce[UDP_CALL_BYTES]; /* the client's, from which the key is derived */
    uint8_t authenticate, unused[3];
};
static_assert(sizeof(struct udp_connection_addr) == 56, "addresses have no padding");

/* A path that carries small packets only, until it has been reported to the user. */
struct udp_small {
    uint64_t due; /* when to report it, ns; 0: there is none */
    uint32_t id;
    size_t usable;
    bool alone; /* the peer has not detected it, or reports it after us */
};

struct udp_own {
    bool is_connection;
    struct aqi_board *sheet; /* for aqinfo --peers; NULL: there is none */
    struct udp_connection_addr addr;
};

struct udp_tp {
    struct aqi_tp tp;
    struct aqi_tp_params params;
    struct aqi_spin lock;
    struct aqi_dgram *dgram;
    struct aqi_port *port;
    struct aqi_macs macs;
    struct udp_peer **peers; /* by id */
    struct udp_peer *lost;
    _Atomic uint64_t *paths; /* udp_paths.c, shared by this host's processes; or NULL */
    struct udp_small small;
    uint64_t now;
    uint64_t looked; /* when it last polled for packets */
    size_t sent;     /* bytes sent since then */
    unsigned receivers;
    bool outer_waits; /* the outer receiver runs a handler */
    unsigned place;   /* the receiver in which the engine is called */
    unsigned rounds;
    bool deep;
    bool unreadable;    /* the program's thread must touch memory that is to be sent */
    bool authenticate;  /* each packet has a MAC */
    uint32_t max_loose; /* with params.loose: bytes of the largest Medium, one packet; else 0 */
    struct udp_own own;
    struct udp_idle idle;
    bool silence_warned; /* the user was warned of some peer */
    bool loopback_up;
    bool locks;
    struct udp_completion *kept;
    size_t kept_count, kept_room;
    bool touching; /* a thread touches sources, which the program must not unmap meanwhile */
    pthread_t toucher;
    struct iovec *touched; /* kept for the next time, as a handler may jump out of this one */
    size_t touched_count, touched_room;
    uint64_t drops;            /* of the port, as counted so far */
    uint64_t shown, show_next; /* when udp_peers_show was last called, and is due */
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
/* Set the parameters of a port from the settings. */
aq_status udp_port_params(const char *towards, struct aqi_port_params *want);
aq_status udp_random_config(struct aqi_dgram_config *config); /* sets epoch and seed */
/* Packets dropped by the port. Counted only from time to time, as that takes a system call. */
uint64_t udp_count_drops(struct udp_tp *udp);

/* udp_ways.c: addresses. */
aq_status udp_address(struct aqi_tp *tp, void *out, size_t *len);
/* All addresses that a process of the job announces. AQ_ENOTSUP: none. AQ_EPROTO: malformed. */
aq_status udp_ways_announced(const struct udp_tp *udp, uint32_t id, struct udp_job_addr *announced);
/* The engine's hooks: the address of a peer, and the ways to it. */
aq_status udp_hook_lookup(void *arg, uint32_t id, struct aqi_dgram_addr *at);
bool udp_hook_way(void *arg, uint32_t id, unsigned way, struct aqi_dgram_addr *to,
                  struct aqi_dgram_addr *own);

/* udp_paths.c. Opened by all processes of a host or by none. */
void udp_paths_open(struct udp_tp *udp);
void udp_paths_close(struct udp_tp *udp);
/* The engine's hooks. */
size_t udp_hook_path(void *arg, uint32_t id);
void udp_hook_small_path(void *arg, uint32_t id, size_t usable, bool agreed);
/* Warn the user of it when that is due, unless another process of the job has. `last`: do not wait
 * any longer. */
void udp_paths_warn(struct udp_tp *udp, bool last);

/* Whether to warn of a silent peer: not if a process of this host has warned of the peer's host
 * before, unless that is this one. */
bool udp_paths_claim_warning(const struct udp_tp *udp, uint32_t id);

/* udp_silence.c. Check loopback, which packets to a peer on this host need. */
aq_status udp_check_loopback(struct udp_tp *udp, uint32_t id, const struct aqi_dgram_addr *addr);
/* The hooks of the engine that warn of peers that do not answer. */
void udp_hook_silent(void *arg, uint32_t id, uint64_t waited_ns);
void udp_hook_lost(void *arg, uint32_t id, enum aqi_dgram_loss loss, const char *why);
void udp_silence_lose_all(struct udp_tp *udp); /* the port is deaf; with the lock held */

/* udp_peers.c: the state of peers for observers, written by the thread or at the end. */
void udp_peers_open(struct udp_tp *udp);
void udp_peers_close(struct udp_tp *udp);
void udp_peers_show(struct udp_tp *udp, uint64_t now);

/* udp_am.c */
aq_status udp_am_send(struct aqi_tp *tp, struct aqi_peer *peer, const struct aqi_am *am,
                      struct aqi_comp *comp);
/* Encode the header and arguments of a message; returns their length. */
struct udp_head {
    alignas(16) unsigned char bytes[sizeof(struct aqi_am_wire) + 4 * AQI_AM_WIRE_ARGS];
};
size_t udp_am_head(const struct udp_tp *udp, const struct aqi_am *am, struct udp_head *head);
/* The engine's hook. */
void udp_am_deliver(void *arg, uint32_t source, bool request, unsigned char *message, size_t len);
unsigned udp_progress(struct aqi_tp *tp, enum aqi_progress_mode mode, uint64_t now);
/* For the thread that helps: receive and answer. With the lock held; it is released meanwhile. */
unsigned udp_receive_to_answer(struct udp_tp *udp);

/* udp_rma.c */
#define UDP_KEY 8 /* bytes */
/* The maximum length of a Long that travels as a message: copying more takes as long as the answer
 * that the caller must otherwise wait for. The same in all processes. */
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
 * that began it. Touch it in a thread of the program, so that the signal is raised there: a program
 * that watches pages by signals makes it readable, and it is sent again. Without the lock. Until
 * this returns completions are kept, as the program may then unmap memory still to be touched.
 * Returns how many were reported then.
 */
unsigned udp_rma_touch(struct udp_tp *udp);
/* With the lock held: end udp_rma_touch if a signal handler has jumped out of it. */
void udp_rma_left(struct udp_tp *udp);
/* The engine's hook: the thread that helps never reads the program's memory itself. */
const void *udp_rma_source(void *arg, const void *at, size_t len, void *copy);
/* Report the completions kept while the thread called the engine, or memory was touched. */
void udp_rma_report_kept(struct udp_tp *udp);

/* udp_idle.c */
/* The cost of an idle process. With the lock held unless noted. */
aq_status udp_idle_open(struct udp_tp *udp); /* without the lock */
void udp_idle_close(struct udp_tp *udp);     /* without the lock */
/* Called by the thread: a packet has arrived, or the timer may have expired. */
void udp_idle_wake(struct udp_tp *udp, bool tick);

/* Something was begun or has arrived: every poll reads the sockets from now on. */
void udp_idle_end(struct udp_tp *udp);
/*
 * Whether a thread that waits awake must read the sockets itself: only if there was traffic a short
 * time ago; otherwise each of its polls would be a system call for nothing.
 */
static inline bool udp_idle_is_awaited(const struct udp_tp *udp, uint64_t now)
{
    enum { SHORT_TIME_NS = 100000000 };
    return aqi_tp_is_awake(now) &&
           now - atomic_load_explicit(&udp->idle.last, memory_order_relaxed) < SHORT_TIME_NS;
}
/* Whether progress need not read the sockets. Without the lock. */
static inline bool udp_idle_rests(const struct udp_tp *udp, uint64_t now)
{
    return atomic_load_explicit(&udp->idle.raised, memory_order_relaxed) == 0 &&
           now < atomic_load_explicit(&udp->idle.rests_until, memory_order_relaxed) &&
           !udp_idle_is_awaited(udp, now);
}
/* Called when progress reads the sockets. */
void udp_idle_look(struct udp_tp *udp);
/* Take what the thread has left; the caller resumes parked packets. */
void udp_idle_take_left(struct udp_tp *udp);
/* A round of progress handled `n` events: rest if nothing has happened for a while. */
void udp_idle_begin(struct udp_tp *udp, unsigned n);
int udp_wait_fd(struct aqi_tp *tp);
aq_status udp_arm(struct aqi_tp *tp, bool on);
aq_status udp_rest(struct aqi_tp *tp, enum aqi_rest step);

/* The engine's hook: have the thread send gathered messages, if the program does not make progress
 * soon. */
void udp_hook_gathers(void *arg);

static inline void udp_began(struct udp_tp *udp)
{
    if (AQI_UNLIKELY(udp->idle.resting)) udp_idle_end(udp);
}

/* udp_helper.c: the thread of all transports. Join and leave without the lock of the transport. */
/* Returns 0 or an errno. */
int udp_helper_join(struct udp_tp *udp);
/* On return the thread no longer uses the transport. */
void udp_helper_leave(struct udp_tp *udp);
/* Let the thread wake once for packets at this socket, or never. Returns false with errno set. */
bool udp_helper_watch(const struct udp_tp *udp, int socket, bool on);

/* udp_connection.c: set the key of an end of a connection by URI, and `towards` to the host of the
 * other. */
aq_status udp_connection_begin(struct udp_tp *udp, char towards[AQI_URI_MAX]);
void udp_connection_set_secret(const struct udp_secret *secret); /* when a rendezvous opens */
/* As udp_secret_derive, with that secret. */
void udp_connection_derive(struct aqi_mac *mac, const char *what,
                           const uint8_t caller[UDP_CALL_BYTES],
                           const uint8_t listener[UDP_CALL_BYTES], uint8_t key[AQI_MAC_BYTES]);

/* udp_rendezvous.c */
extern const struct aqi_rendezvous_ops udp_rendezvous;

/* udp_group.c */
extern const struct aqi_transport udp_group;
/* Fail with AQ_EINVAL if this is the address of a group, for calls that need a host. */
aq_status udp_group_is_not(const char *uri, const struct udp_uri *read);

#endif
