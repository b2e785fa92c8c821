/* The engine: all connections of a process. */
#ifndef AQI_DGRAM_IMPL_H
#define AQI_DGRAM_IMPL_H

#include "dgram/conn.h"
#include "dgram/park.h"

/* A request that arrived while no request may be handled. */
struct dgram_kept {
    struct dgram_kept *next;
    uint32_t source;
    bool whole;           /* `bytes` is one message, made of fragments; else a packet */
    unsigned char *bytes; /* from malloc; NULL: it has no whole messages */
    size_t len;
};

struct aqi_dgram {
    struct dgram_env env;
    struct dgram_peer **peers; /* by id */
    uint64_t looked;           /* when progress last ran */
    bool receives;             /* packets are being taken, so progress will follow */
    bool gathers;              /* hooks.gathers was called since the last progress */
    uint64_t heard;            /* when the last packet of any peer arrived */
    uint64_t nonce;            /* that of the last connection that we began */
    uint8_t way; /* the way of the latest connection, by which others are likely to be reachable */
    struct dgram_wheel wheel;
    unsigned conns;
    uint32_t own, busy; /* connections with something of ours outstanding; with anything */
    struct dgram_kept *kept, **kept_end;
    uint32_t wanting;
    uint64_t turns;
    struct dgram_park park;
    struct aqi_pool incoming_pool;
};

/* engine.c */
struct dgram_peer *dgram_peer_of(const struct aqi_dgram *dgram, uint32_t id);
/* After any change: update the counts, and set the timer to the earliest time at which something is
 * due. */
void dgram_set_timer(struct aqi_dgram *dgram, struct dgram_peer *peer);
/* Update the counts of connections with something of ours, or anything, outstanding. */
void dgram_note(struct aqi_dgram *dgram, struct dgram_conn *conn);
/* Send what was queued: at once if little or nothing is in flight, else with progress. */
void dgram_send_soon(struct aqi_dgram *dgram, struct dgram_peer *peer);

/* connect.c: handshakes, and the state of a connection. */
aq_status dgram_conn_make(struct aqi_dgram *dgram, struct dgram_peer *peer);
void dgram_conn_free(struct aqi_dgram *dgram, struct dgram_peer *peer, aq_status status);
void dgram_connect_step(struct aqi_dgram *dgram, struct dgram_peer *peer);
void dgram_connect_input(struct aqi_dgram *dgram, const unsigned char *packet, size_t len);
/* When to close it if it stays idle; AQI_DGRAM_NEVER: not yet, or never. */
uint64_t dgram_connect_idle_at(const struct aqi_dgram *dgram, const struct dgram_conn *conn);
void dgram_connect_close(struct aqi_dgram *dgram, struct dgram_peer *peer);
/*
 * Until when to wait for the peer to use the connection, as packets on the other channel could
 * overtake our ACCEPT; 0: no need.
 */
uint64_t dgram_connect_wait(const struct dgram_conn *conn);
/* A packet of the connection has arrived: the peer also has it. */
void dgram_connect_proved(struct aqi_dgram *dgram, struct dgram_peer *peer);
bool dgram_tag_ok(const struct aqi_dgram *dgram, const struct dgram_conn *conn,
                  const unsigned char *packet, size_t len);
/* A packet of an unknown connection has arrived: notify its sender, but not too often. */
void dgram_connect_reset(struct aqi_dgram *dgram, struct dgram_peer *peer, uint64_t cookie);
void dgram_lose(struct aqi_dgram *dgram, struct dgram_peer *peer, enum aqi_dgram_loss loss,
                const char *why);

/* ways.c: nothing arrives now; probe other ways to the peer. */
void dgram_way_ask(struct aqi_dgram *dgram, struct dgram_peer *peer);
/* shrink.c: large packets are retransmitted repeatedly; check the path. */
void dgram_shrink_look(struct aqi_dgram *dgram, struct dgram_peer *peer);

/* receive.c: the records that peers send. */
void dgram_receive_free(struct aqi_dgram *dgram, struct dgram_conn *conn);
void dgram_receive_forget_slices(struct dgram_conn *conn);
/* Deliver the whole messages in a packet. Does not access the connection, which may be freed. */
void dgram_receive_messages(struct aqi_dgram *dgram, uint32_t source, unsigned char *packet,
                            size_t len);

/*
 * keep.c: keep a copy of a packet with requests; `loose`: one that is not sent again, so that no
 * room is reserved for it. Return false if it is not its sender's turn, or out of memory.
 */
bool dgram_keep_packet(struct aqi_dgram *dgram, struct dgram_peer *peer, unsigned char *packet,
                       size_t len);
bool dgram_keep_loose(struct aqi_dgram *dgram, struct dgram_peer *peer, unsigned char *packet,
                      size_t len);
/* Keep a message from malloc whose fragments are counted by dgram_keep_packet. */
bool dgram_keep_message(struct aqi_dgram *dgram, struct dgram_peer *peer, unsigned char *message,
                        size_t len);
/* Deliver everything kept; returns how much that was. */
unsigned dgram_kept_deliver(struct aqi_dgram *dgram);
void dgram_kept_forget(struct aqi_dgram *dgram, struct dgram_peer *peer);

#endif
