/*
 * Private to this folder. pins.c: the memory pinned by this process, the pools, the victims.
 * lend.c: the pieces of it that peers hold. borrow.c: the pieces of peers that it holds. reg.c:
 * opening, input, progress. message.c: the encoding.
 */
#ifndef AQI_REG_IMPL_H
#define AQI_REG_IMPL_H

#include "base/list.h"
#include "reg/message.h"
#include "reg/reg.h"
#include "reg/table.h"

/* The kind of object that `use->piece` points to. */
enum reg_side { REG_HERE, REG_THERE };

/* Pinned memory of this process: part of a single region. */
struct reg_pin {
    enum reg_side side;     /* REG_HERE */
    struct reg_entry entry; /* by region */
    struct aqi_node unused; /* in victims or doomed */
    struct aqi_node holds;  /* the holds of peers */
    uint64_t addr, len;
    struct aqi_reg_mem mem;
    uint32_t users, holders;
    bool current; /* can be found; such pieces do not overlap */
    bool stale;   /* the memory has changed */
    bool pinned;  /* false: unpinned early (`cut`) */
};

/* A message that is sent when there is room. */
struct reg_owed {
    struct aqi_node link;
    uint32_t peer;
    enum reg_message_kind kind;
};

/* A piece held by a peer, or (without a pin) a refusal that has yet to be sent. */
struct reg_hold {
    struct reg_entry entry; /* by peer and serial */
    struct reg_owed answer, revoke;
    struct aqi_node link; /* in the list of the pin */
    struct reg_pin *pin;
    uint32_t peer;
    aq_status ride_status;
    uint64_t serial;
    bool revoked;
};

/* A piece of a peer that we hold or have requested. */
enum reg_far_state { REG_ASKED, REG_HELD, REG_GOING };
struct reg_far {
    enum reg_side side; /* REG_THERE */
    struct reg_entry by_region, by_serial;
    struct aqi_node unused; /* in the list of the peer, least recently used first */
    struct reg_owed drop;
    uint32_t peer;
    enum reg_far_state state;
    bool revoked; /* before the answer */
    uint32_t users;
    uint64_t serial, addr, len;
    struct aqi_reg_mem mem;
    struct aqi_reg_wait *first, **last;
    unsigned char key[]; /* of AQI_REG_KEY_MAX */
};

struct reg_peer {
    uint32_t held;   /* pieces of it that we hold or have requested */
    uint32_t asked;  /* those of them that it has not answered yet */
    uint32_t may;    /* number of pieces that it lends us */
    uint32_t lent;   /* pieces of ours that it holds */
    uint32_t owed;   /* answers to it that are waiting for room */
    uint32_t pause;  /* misses for which no request is sent, since the owner had no room */
    uint32_t pauses; /* initial value of `pause` after the last refusal */
    bool down;
    uint64_t serial; /* the last one used */
    struct aqi_node unused;
};

struct aqi_reg {
    struct aqi_reg_params params;
    struct aqi_reg_counts counts;
    struct reg_peer **peers; /* each allocated when it is needed */
    struct reg_table pins;   /* by region */
    struct reg_table holds;  /* by peer and serial */
    struct reg_table far;    /* by peer and region */
    struct reg_table asked;  /* by peer and serial: all that we hold or have requested */
    struct aqi_node victims, doomed, owed;
    uint32_t quota;    /* pieces lent to each peer */
    uint64_t most;     /* bytes that may be pinned: less once pinning has failed */
    uint32_t full;     /* pins since that limit was last lowered or raised */
    uint32_t revoking; /* revoked holds that have not been returned */
};

static inline uint64_t reg_region(const struct aqi_reg *reg, uint64_t addr)
{
    return addr & ~(reg->params.limits.region - 1);
}

static inline uint64_t reg_hash(uint64_t a, uint64_t b)
{
    uint64_t hash = aqi_hash(aqi_hash(AQI_HASH_SEED, a), b);
    return hash ^ hash >> 29;
}

static inline bool reg_overlap(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
    return a < b ? b - a < a_len : a - b < b_len;
}

/* reg.c */
struct reg_peer *reg_peer_of(struct aqi_reg *reg, uint32_t peer); /* NULL: out of memory */
void reg_catch_up(struct aqi_reg *reg);
/* Send it now or, without room, by progress. The record that contains it must stay until then. */
void reg_owe(struct aqi_reg *reg, struct reg_owed *owed, uint32_t peer, enum reg_message_kind kind);
bool reg_sent(struct aqi_reg *reg, uint32_t peer, const struct reg_message *message);

/* pins.c */
/*
 * Find or create the piece with `addr`, for a peer or AQI_REG_SELF; returns AQ_OK or AQ_ENOTSUP. It
 * must be used or lent at once.
 */
aq_status reg_pin_get(struct aqi_reg *reg, uint32_t process, uint64_t addr, uint64_t len,
                      struct reg_pin **pin);
void reg_pin_use(struct reg_pin *pin);
void reg_pin_unuse(struct aqi_reg *reg, struct reg_pin *pin);
void reg_pin_lend(struct aqi_reg *reg, struct reg_pin *pin);
void reg_pin_unlend(struct aqi_reg *reg, struct reg_pin *pin);
void reg_pins_invalidate(struct aqi_reg *reg, uint64_t addr, uint64_t len);
void reg_pins_unpin_some(struct aqi_reg *reg, unsigned most);
void reg_pins_close(struct aqi_reg *reg);

/* lend.c */
aq_status reg_lend_take(struct aqi_reg *reg, uint32_t peer, const struct reg_message *message);
aq_status reg_lend_drop(struct aqi_reg *reg, uint32_t peer, const struct reg_message *message);
void reg_lend_revoke(struct aqi_reg *reg, struct reg_pin *pin);
bool reg_lend_send(struct aqi_reg *reg, struct reg_owed *owed);
void reg_lend_peer_down(struct aqi_reg *reg, uint32_t peer);
void reg_lend_close(struct aqi_reg *reg);

/* borrow.c */
aq_status reg_borrow_answer(struct aqi_reg *reg, uint32_t peer, const struct reg_message *message);
aq_status reg_borrow_revoked(struct aqi_reg *reg, uint32_t peer, const struct reg_message *message);
void reg_borrow_release(struct aqi_reg *reg, struct reg_far *far);
bool reg_borrow_send(struct aqi_reg *reg, struct reg_owed *owed);
void reg_borrow_peer_down(struct aqi_reg *reg, uint32_t peer);
void reg_borrow_close(struct aqi_reg *reg);

#endif
