/*
 * The interface between a datagram engine and the network. A port has an address, sends bursts as
 * the engine's hook `transmit` gets them, and hands over packets that have arrived. It keeps no
 * connection state and never blocks.
 *
 * Threads: send may be called by several threads at once, receive by one at a time and once more
 * from inside `take`.
 */
#ifndef AQI_DGRAM_PORT_H
#define AQI_DGRAM_PORT_H

#include "dgram/dgram.h"

struct aqi_port; /* an open port: the first member of the port's own struct */

struct aqi_port_params {
    const char *interface; /* name or address; NULL: the one that routes to `towards` */
    const char *towards;   /* a host by whose route all peers are reached, or NULL; it may be this
                            * host, named by one of its addresses; "localhost" means loopback */
    size_t packet;         /* bytes wanted in a datagram; 0: as many as the interface carries */
    size_t buffer;         /* bytes of receive buffer to request; 0: 4 MB */
    bool several;          /* without `interface` and `towards`: use all addresses of one family */
    bool one_peer;         /* there is only one address to send to and to receive from */
    bool to_peer;          /* and that is `towards` */
};

/* The properties of an open port. Constant while it is open. */
struct aqi_port_limits {
    size_t packet; /* bytes of the largest datagram, a multiple of 16 */
    size_t room;   /* bytes of packets that it queues until receive is called, plus AQI_DGRAM_COST
                    * each */
    char interface[32]; /* "eth0" */
    char text[96];      /* where it receives, for users: "10.0.0.7:4021" */
    const char *xdp;    /* NULL, or how AF_XDP is attached to the interface: "native", "generic" */
};

/* The maximum number of pieces of `iov` in one call of send. */
#define AQI_PORT_PIECES 1024u

/* Take one packet: it is 16-byte aligned, may be written to, and is valid until this returns.
 * Replies to `from` must use the same channel, as it lacks the port of the other one. `waited`: ns
 * since it arrived; AQI_DGRAM_NEVER: unknown. */
typedef void aqi_port_take(void *arg, enum aqi_dgram_channel channel,
                           const struct aqi_dgram_addr *from, unsigned char *packet, size_t len,
                           uint64_t waited);

/* How much to poll. */
enum aqi_port_look {
    AQI_PORT_SHORT, /* the last poll was just before: skip silent sockets */
    AQI_PORT_DEEP,  /* poll all sockets: one more system call */
    AQI_PORT_RARE /* the last poll was long ago: take all packets, and find out when they arrived */
};

struct aqi_port_ops {
    aq_status (*open)(const struct aqi_port_params *params, struct aqi_port **port);
    void (*close)(struct aqi_port *port);
    /* As aqi_dgram_hooks.transmit. Packets that the network refuses are lost (drops). */
    bool (*send)(struct aqi_port *port, enum aqi_dgram_channel channel,
                 const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov,
                 size_t segment, unsigned packets);
    /*
     * Hand over packets that have arrived, COMMAND's first; bounded, so there may be more. Returns
     * their number.
     */
    unsigned (*receive)(struct aqi_port *port, enum aqi_port_look look, aqi_port_take *take,
                        void *arg);
    /* Descriptors to poll(), at most two: readable while there are packets. */
    unsigned (*descriptors)(struct aqi_port *port, int fds[2]);
    /*
     * Report a peer's fault that the port has noticed since the last call, by the peer's address,
     * as seen. (A refused connection means that the peer's process has ended.) Returns false if
     * there is none. Must be called after receive until it returns false; until then the
     * descriptors stay readable.
     */
    bool (*refused)(struct aqi_port *port, struct aqi_dgram_addr *addr);
    /* Whether memory to be sent could not be read since the last call. It counts as lost. */
    bool (*unreadable)(struct aqi_port *port);
    /* Packets that arrived and found no room, and those that the network refused. */
    uint64_t (*drops)(struct aqi_port *port);
};

struct aqi_port {
    const struct aqi_port_ops *ops;
    struct aqi_port *inner; /* of a port around another one; else NULL */
    atomic_bool deaf;       /* nothing more will be received: the program has closed a socket */
    struct aqi_dgram_addr address; /* as announced to peers */
    /* Other addresses at which it receives (params.several). */
    struct aqi_dgram_addr others[AQI_DGRAM_WAYS - 1];
    unsigned other_count;
    struct aqi_port_limits limits;
};

static inline bool aqi_port_is_deaf(const struct aqi_port *port)
{
    return AQI_UNLIKELY(atomic_load_explicit(&port->deaf, memory_order_relaxed));
}

/* For a port around another one: receive from that one, and become deaf if it is. */
static inline unsigned aqi_port_inner_receive(struct aqi_port *port, enum aqi_port_look look,
                                              aqi_port_take *take, void *arg)
{
    unsigned n = port->inner->ops->receive(port->inner, look, take, arg);
    if (aqi_port_is_deaf(port->inner))
        atomic_store_explicit(&port->deaf, true, memory_order_relaxed);
    return n;
}

static inline bool aqi_port_inner_refused(struct aqi_port *port, struct aqi_dgram_addr *addr)
{
    return port->inner->ops->refused(port->inner, addr);
}

static inline bool aqi_port_inner_unreadable(struct aqi_port *port)
{
    return port->inner->ops->unreadable(port->inner);
}

extern const struct aqi_port_ops aqi_port_socket; /* UDP, with GSO and GRO if available */
/* AF_XDP for single packets of COMMAND, sockets for the rest; needs IPv4 and privileges. An
 * interface can have only one such port: the next is opened as aqi_port_socket. Not to be used in a
 * child of fork. */
extern const struct aqi_port_ops aqi_port_xdp;
/* Whether aqi_port_xdp can be opened, without touching the interface; fails as open would. `*how`:
 * in which mode, for users. */
aq_status aqi_port_xdp_check(const struct aqi_port_params *params, const char **how);

/*
 * A decorator around an open port. Packets that are sent are dropped, repeated, held back until
 * some more are sent, and altered, as determined by a seed, in 1/1000. Closing it closes `inner`.
 */
struct aqi_port_weather {
    unsigned loss, duplication, reordering, corruption;
    uint64_t seed;
};
/* Their sum is at most 1000. On failure `inner` stays open. */
aq_status aqi_port_lossy(struct aqi_port *inner, const struct aqi_port_weather *weather,
                         struct aqi_port **port);

#endif
