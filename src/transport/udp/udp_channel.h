/*
 * Control channels of connections over UDP: each has a connected socket, and an engine with two ids
 * that makes it reliable. One message is in flight at a time, so they arrive in order.
 *
 * If the program makes no call for long, a thread of the rendezvous answers for the channels, so
 * that peers see that it is alive. Their messages are parked until its next call. It also takes
 * calls at the listeners.
 */
#ifndef UDP_CHANNEL_H
#define UDP_CHANNEL_H

#include "dgram/ports/address.h"
#include "dgram/ports/interface.h"
#include "dgram/ports/port.h"
#include "transport/rendezvous.h"
#include "transport/udp/udp_call.h"

#include <netdb.h>
#include <pthread.h>

/* The data of epoll events: the first member of a listener and of a channel. */
struct udp_end {
    bool listener;
    int fd;
};

/* For udp_interfaces.c: where a listener is. */
struct udp_interface {
    bool watched;
    union aqi_sockaddr at;
    char name[IF_NAMESIZE]; /* of the interface that last had the address */
    uint32_t index;
    enum ports_interface_state state;
};

struct aqi_listener {
    struct udp_end end;
    struct aqi_rendezvous *rendezvous;
    void *user;
    struct aqi_listener *next;
    struct udp_interface interface;
};

/*
 * ns for which the last messages are retransmitted if they are not acknowledged: while this process
 * goes on, and when it closes the rendezvous, where that must be only as long as retransmitting
 * makes up for lost packets.
 */
#define UDP_CHANNEL_LINGERS 10000000000ull
#define UDP_CHANNEL_LEAVES  500000000ull

struct udp_written; /* a message that waits for those before it */

enum udp_channel_state {
    UDP_CHANNEL_CALLS, /* the caller's, until its call is taken */
    UDP_CHANNEL_TAKEN, /* the listener's, until the first message */
    UDP_CHANNEL_OPEN,
    UDP_CHANNEL_OVER /* the other side has closed it or is lost, and that has been reported */
};

struct aqi_control_channel {
    struct udp_end end;
    struct aqi_rendezvous *rendezvous;
    struct aqi_listener *listener; /* TAKEN */
    void *user;
    enum udp_channel_state state;
    bool caller;
    bool closed;                   /* by us: freed once everything has been sent */
    bool ended;                    /* the other side's last message has arrived */
    bool refused;                  /* its socket no longer exists, as the network reports */
    struct aqi_port *port, *wire;  /* the same, unless AQ_UDP_LOSSY wraps it */
    struct aqi_dgram *dgram;       /* NULL: CALLS */
    struct udp_call call;          /* identifies it, and is retransmitted */
    union aqi_sockaddr host;       /* the caller's; its port is 0 */
    struct addrinfo *names, *name; /* CALLS: the addresses of the URI, and the next one to call */
    struct udp_written *first, *last; /* messages that wait */
    bool pinging;                     /* the latest message sent is a PING */
    bool busy;                        /* CALLS: the listener has answered BUSY */
    unsigned tries, refusals;
    uint64_t due;        /* when it next needs a turn */
    uint64_t ping_at;    /* when to send the next PING */
    uint64_t refused_at; /* when that was last reported */
    uint64_t owed;       /* since when the other side has owed a response; 0: it does not */
    uint64_t until;      /* TAKEN, or closed: the latest time for it to end */
    uint64_t called;     /* the caller's: when it began; 0: no warning is due */
    struct aqi_control_channel *next, **at;
};

/* udp_answer.c: the thread that answers. */
struct udp_answer {
    pthread_mutex_t lock; /* protects the whole rendezvous; recursive, since hooks call it */
    pthread_cond_t changed;
    pthread_t thread;
    bool running, stop;
    uint32_t calls; /* of progress, so far */
    pid_t owner;    /* that has the thread: a forked child has none */
};

struct aqi_rendezvous {
    struct aqi_rendezvous_hooks hooks;
    struct udp_answer answer;
    int epoll, timer;
    struct udp_end changes; /* of interfaces, if the kernel announces any */
    bool hears_changes;
    uint64_t now, timer_at;
    unsigned happened; /* events in this call of progress */
    bool warned;       /* the user, of an unanswered call */
    bool inside;       /* progress is running: nothing that it may access is freed */
    bool leaving;      /* it is being closed */
    struct aqi_macs macs;
    struct udp_secret secret;
    uint8_t cookies[16]; /* the key of cookies */
    struct aqi_listener *listeners;
    struct aqi_control_channel *channels;
};

/*
 * Make a port of one socket for both channels; it owns `fd` from then on. The socket may be
 * connected or not.
 */
aq_status udp_wire_open(int fd, struct aqi_port **port);
int udp_wire_error(const struct aqi_port *wire); /* the last error that the network reported */

/* Returns NULL if out of memory. */
struct aqi_control_channel *udp_channel_new(struct aqi_rendezvous *rendezvous, bool caller);
/* Give it a socket, and close the previous one. */
aq_status udp_channel_socket(struct aqi_control_channel *channel, int fd);
/* The call was taken: both random numbers are known. */
aq_status udp_channel_up(struct aqi_control_channel *channel);
aq_status udp_channel_write(struct aqi_control_channel *channel,
                            const struct aqi_handshake *message);
/* Close it: at once, or after everything has been sent. */
void udp_channel_close(struct aqi_control_channel *channel);
/* Likewise, as the whole rendezvous is being closed: do not wait for a silent peer. */
void udp_channel_leave(struct aqi_control_channel *channel);
/* The channel has ended for this reason: report it, once. */
void udp_channel_end(struct aqi_control_channel *channel, aq_status status, const char *why);
/* Take a packet for its engine; do what is due. */
void udp_channel_input(struct aqi_control_channel *channel, unsigned char *packet, size_t len);
void udp_channel_turn(struct aqi_control_channel *channel);
/* Send written messages, outside of progress. */
void udp_channel_flush(struct aqi_control_channel *channel);
/* Whether a packet has arrived on it, not only from the listener. */
bool udp_channel_reached(const struct aqi_control_channel *channel);
/* Whether it can be freed. */
bool udp_channel_done(const struct aqi_control_channel *channel);
void udp_channel_free(struct aqi_control_channel *channel);

/* Take a packet for its engine while the program makes no call. */
void udp_channel_answer(struct aqi_control_channel *channel, unsigned char *packet, size_t len);

/* udp_unanswered.c: the text for users about a call that has not been answered in time. */
void udp_channel_unanswered(const struct aqi_control_channel *channel, char *why, size_t len);
/* Warn of it, once, when it has waited longer than most calls may. */
void udp_channel_warn(struct aqi_control_channel *channel);

/* udp_answer.c. If the thread cannot be started, peers get answers only during calls. */
void udp_answer_open(struct aqi_rendezvous *rendezvous);
void udp_answer_close(struct aqi_rendezvous *rendezvous);
/* Answer all packets, as the thread does; with the lock held. Returns false if there were none. */
bool udp_answer_look(struct aqi_rendezvous *rendezvous);
/* ns until the next poll, if the last found `some` packets, or none after `last` ns. */
uint64_t udp_answer_pause(uint64_t last, bool some);

/* udp_interfaces.c: a listener was opened; the last one may have been closed; changes were
 * announced. */
void udp_interfaces_begin(struct aqi_listener *listener);
void udp_interfaces_end(struct aqi_rendezvous *rendezvous);
void udp_interfaces_progress(struct aqi_rendezvous *rendezvous);

static inline void udp_rendezvous_lock(struct aqi_rendezvous *rendezvous)
{
    if (rendezvous->answer.running) pthread_mutex_lock(&rendezvous->answer.lock);
}

static inline void udp_rendezvous_unlock(struct aqi_rendezvous *rendezvous)
{
    if (rendezvous->answer.running) pthread_mutex_unlock(&rendezvous->answer.lock);
}

/* udp_rendezvous.c: have a sleeping thread woken when the channel is due. */
void udp_rendezvous_needs_turn(struct aqi_control_channel *channel);
/* Do what is due for a call that has not been taken yet. */
void udp_rendezvous_call(struct aqi_control_channel *channel);
/* Answer callers while the program makes no call. Returns false if none called. */
bool udp_rendezvous_hear_all(struct aqi_rendezvous *rendezvous);
/* The first message of a channel has arrived: report the call to its listener. */
void udp_rendezvous_called(struct aqi_control_channel *channel, struct aqi_handshake *message);

#endif
