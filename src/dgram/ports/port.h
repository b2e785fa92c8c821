/*
 * Where packets of a datagram engine touch the world. A port is opened, tells its address, sends
 * bursts as the engine's hook `transmit` gets them, and hands over what has come. It keeps no state
 * of conversations and never waits.
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
    const char *towards;   /* a host that all peers can be reached through, or NULL; by an address
                            * of its own it may be this one, "localhost" means loopback */
    uint16_t ports[2];     /* of COMMAND and DATA to bind to; 0: any */
    size_t packet;         /* bytes of a datagram wanted; 0: as much as the interface carries */
    size_t buffer;         /* bytes of receive buffer to ask for; 0: 4 MB */
    bool several;          /* without `interface` and `towards`: at all addresses of one family */
    bool one_peer;         /* all is sent to one address, and of others nothing is expected */
    bool to_peer;          /* it is that of `towards` */
};

/* The properties of an open port. Constant while it is open. */
struct aqi_port_limits {
    size_t packet;      /* bytes of the largest datagram, a multiple of 16 */
    size_t room;        /* bytes of packets that it keeps until receive is called, with
                         * AQI_DGRAM_COST for each */
    char interface[32]; /* "eth0" */
    char text[96];      /* where it receives, for users: "10.0.0.7:4021" */
    const char *xdp;    /* NULL, or how AF_XDP is attached to the interface: "native", "generic" */
};

/* Pieces of `iov` in one call of send: at most so many. */
#define AQI_PORT_PIECES 1024u

/* One packet: 16-byte aligned, may be written to, valid until it returns. What is sent to `from` on
 * the same channel goes back; the port of the other channel is not in it. It has waited here for so
 * many ns, or AQI_DGRAM_NEVER: unknown. */
typedef void aqi_port_take(void *arg, enum aqi_dgram_channel channel,
                           const struct aqi_dgram_addr *from, unsigned char *packet, size_t len,
                           uint64_t waited);

/* How to look for packets. */
enum aqi_port_look {
    AQI_PORT_SHORT, /* the last look was just now, */
    AQI_PORT_DEEP,  /* also if nothing has come for some time: a system call more */
    AQI_PORT_RARE   /* the last look was long ago: for all there is, and since when */
};

struct aqi_port_ops {
    const char *name;
    aq_status (*open)(const struct aqi_port_params *params, struct aqi_port **port);
    void (*close)(struct aqi_port *port);
    /* As aqi_dgram_hooks.transmit. What the network refuses is lost (drops). */
    bool (*send)(struct aqi_port *port, enum aqi_dgram_channel channel,
                 const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov,
                 size_t segment, unsigned packets);
    /*
     * Hand over packets that are there, COMMAND's first; bounded work, so there may be more.
     * Returns how many.
     */
    unsigned (*receive)(struct aqi_port *port, enum aqi_port_look look, aqi_port_take *take,
                        void *arg);
    /* Readable while packets are there; to be waited for by poll(). At most two. */
    unsigned (*descriptors)(struct aqi_port *port, int fds[2]);
    /* "10.0.0.7:4021" of an address of a peer, for users. */
    void (*text)(const struct aqi_dgram_addr *addr, char *buf, size_t len);
    /*
     * Whether that is the address of a port of the same kind, which packets of this one can reach.
     */
    bool (*reaches)(const struct aqi_dgram_addr *own, const struct aqi_dgram_addr *peer);
    /* Whether `seen`, from take or refused, is a part of the address that a peer has announced. */
    bool (*same)(const struct aqi_dgram_addr *told, const struct aqi_dgram_addr *seen);
    /*
     * Report a fault of a peer that the port itself has noticed since the last call (a refused
     * connection means that its process has ended): its address as seen; false if there is none.
     * Must be called after receive until it returns false; until then the descriptors stay
     * readable.
     */
    bool (*refused)(struct aqi_port *port, struct aqi_dgram_addr *addr);
    /* Could some of what was to be sent not be read, since the last call? It counts as lost. */
    bool (*unreadable)(struct aqi_port *port);
    /* Packets that came and found no room, and that the network refused to take. */
    uint64_t (*drops)(struct aqi_port *port);
};

struct aqi_port {
    const struct aqi_port_ops *ops;
    atomic_bool deaf; /* nothing will be received any more: the program has closed a socket */
    struct aqi_dgram_addr address; /* as announced to peers */
    /* It receives at these, too: params.several. */
    struct aqi_dgram_addr others[AQI_DGRAM_WAYS - 1];
    unsigned other_count;
    struct aqi_port_limits limits;
};

static inline bool aqi_port_is_deaf(const struct aqi_port *port)
{
    return AQI_UNLIKELY(atomic_load_explicit(&port->deaf, memory_order_relaxed));
}

/* A port around another one is deaf if that is. */
static inline void aqi_port_pass_deaf(struct aqi_port *port, const struct aqi_port *inner)
{
    if (aqi_port_is_deaf(inner)) atomic_store_explicit(&port->deaf, true, memory_order_relaxed);
}

extern const struct aqi_port_ops aqi_port_socket; /* UDP, with GSO and GRO where there are */
/* AF_XDP for single packets of COMMAND, sockets for the rest; IPv4, with privileges. An interface
 * has room for one such port: the next is opened as aqi_port_socket. Not to be used in a child of
 * fork. */
extern const struct aqi_port_ops aqi_port_xdp;
/* Could that be opened? Found out without touching the interface; fails as open does. `*how`: in
 * which mode, for users. */
aq_status aqi_port_xdp_check(const struct aqi_port_params *params, const char **how);

/*
 * A decorator around an open port: from a seed, packets that are sent are dropped, repeated, held
 * back until some more are sent, and altered, in 1/1000. Closing it closes `inner`.
 */
struct aqi_port_weather {
    unsigned loss, duplication, reordering, corruption;
    uint64_t seed;
};
/* @return AQ_EINVAL  These are more than all packets. On failure `inner` stays open. */
aq_status aqi_port_lossy(struct aqi_port *inner, const struct aqi_port_weather *weather,
                         struct aqi_port **port);

#endif
