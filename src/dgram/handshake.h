/* How connections are made: the packets of a handshake, and the ways by which they travel. */
#ifndef AQI_DGRAM_HANDSHAKE_H
#define AQI_DGRAM_HANDSHAKE_H

#include "dgram/dgram_impl.h"

enum connect_kind {
    CONNECT_HELLO = 1,
    CONNECT_CHALLENGE,
    CONNECT_CONFIRM,
    CONNECT_ACCEPT,
    CONNECT_CLOSE,  /* nothing more to send; numbers: packets sent */
    CONNECT_CLOSED, /* the answer: likewise; the connection has been freed */
    CONNECT_RESET,  /* nonces[0]: an unknown cookie */
    CONNECT_MOVE,   /* send to `address` from now on; numbers: the way, the number of this MOVE */
    CONNECT_MOVED,  /* the answer; the same numbers */
    CONNECT_PROBE,  /* `packet` bytes long, to test the path; numbers: the way, the search */
    CONNECT_PROBED, /* the answer: it has arrived; the same numbers */
    CONNECT_KINDS
};

struct connect_hello {
    uint64_t magic;
    uint8_t version, kind;
    uint16_t packet; /* bytes of the largest packet that the sender handles */
    uint32_t source, target;
    uint32_t numbers[2]; /* packets sent; HELLO and CHALLENGE: the way being tried */
    uint32_t agreed;     /* 1 in CONFIRM and ACCEPT: larger packets do not pass */
    uint64_t epoch;
    uint64_t nonces[2];            /* the initiator's, the other side's */
    uint64_t begun;                /* the nonce of the connection that the sender last began */
    struct aqi_dgram_addr address; /* where the sender receives by this way */
    uint8_t tag[DGRAM_TAG];
};
static_assert(sizeof(struct connect_hello) == 112, "no padding");

/* Whether a packet is of the connection that the peer has now. */
static inline bool connect_is_current(const struct dgram_peer *peer,
                                      const struct connect_hello *hello)
{
    return dgram_is_connected(peer) &&
           memcmp(peer->conn->nonces, hello->nonces, sizeof(hello->nonces)) == 0;
}

/* For one way: where to send, our address for answers, and the numbers to send. */
struct connect_by {
    struct aqi_dgram_addr to, own;
    uint32_t numbers[2];
};

/* connect.c. `by` NULL: use the current way, with the numbers of packets sent. `fill`: the least
 * length, on DATA; 0: unpadded, on COMMAND. Returns false if the port has no room. */
bool dgram_say(struct aqi_dgram *dgram, struct dgram_peer *peer, const struct connect_by *by,
               enum connect_kind kind, const uint64_t nonces[2], size_t packet, size_t fill);

/* ways.c. Returns false if there is no such way, or if peers have only one. */
bool dgram_way(const struct aqi_dgram *dgram, const struct dgram_peer *peer, unsigned way,
               struct connect_by *by);
/* Answer by the way that the peer has used. */
bool dgram_way_answer(struct aqi_dgram *dgram, struct dgram_peer *peer,
                      const struct connect_hello *hello, enum connect_kind kind,
                      const uint64_t nonces[2], size_t packet, size_t fill);
/* Send to the address that the peer requests. */
void dgram_way_adopt(const struct aqi_dgram *dgram, struct dgram_peer *peer,
                     const struct connect_hello *hello);
bool dgram_way_hello(struct aqi_dgram *dgram, struct dgram_peer *peer);
bool dgram_way_close(struct aqi_dgram *dgram, struct dgram_peer *peer);
void dgram_way_on_move(struct aqi_dgram *dgram, struct dgram_peer *peer,
                       const struct connect_hello *hello, size_t len);
void dgram_way_on_moved(struct aqi_dgram *dgram, struct dgram_peer *peer,
                        const struct connect_hello *hello, size_t len);

/* shrink.c */
void dgram_shrink_on_probe(struct aqi_dgram *dgram, struct dgram_peer *peer,
                           const struct connect_hello *hello, size_t len);
void dgram_shrink_on_probed(struct aqi_dgram *dgram, struct dgram_peer *peer,
                            const struct connect_hello *hello, size_t len);

#endif
