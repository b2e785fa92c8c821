/* The borrower's part: pieces of peers that this process holds or has requested. */
#include "reg/reg_impl.h"

#include "base/fail.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * After a refusal, some misses send no request: one, then about twice as many after each further
 * refusal in a row, up to this many.
 */
enum { BORROW_PAUSE_MOST = 64 };

static struct reg_far *borrow_asked(const struct aqi_reg *reg, uint32_t peer, uint64_t serial)
{
    struct reg_entry *entry = NULL;
    while ((entry = reg_table_next(&reg->asked, reg_hash(peer, serial), entry)) != NULL) {
        struct reg_far *far = AQI_OF(entry, struct reg_far, by_serial);
        if (far->peer == peer && far->serial == serial) return far;
    }
    return NULL;
}

static bool borrow_covers(const struct reg_far *far, uint64_t addr)
{
    return addr - far->addr < far->len;
}

/* Find a usable piece, or else one that has been requested in the same region. */
static struct reg_far *borrow_find(const struct aqi_reg *reg, uint32_t peer, uint64_t addr)
{
    uint64_t region = reg_region(reg, addr), hash = reg_hash(peer, region);
    struct reg_far *asked = NULL;
    struct reg_entry *entry = NULL;
    while ((entry = reg_table_next(&reg->far, hash, entry)) != NULL) {
        struct reg_far *far = AQI_OF(entry, struct reg_far, by_region);
        if (far->peer != peer || reg_region(reg, far->addr) != region) continue;
        if (far->state == REG_HELD && borrow_covers(far, addr)) return far;
        if (far->state == REG_ASKED && !far->revoked) asked = far;
    }
    return asked;
}

static void borrow_free(struct aqi_reg *reg, struct reg_far *far)
{
    aqi_list_remove(&far->unused);
    aqi_list_remove(&far->drop.link);
    reg_table_take(&reg->far, &far->by_region);
    reg_table_take(&reg->asked, &far->by_serial);
    reg_peer_of(reg, far->peer)->held--;
    free(far);
}

static void borrow_fill(struct reg_far *far, uint64_t addr, uint64_t len, struct aqi_reg_use *use)
{
    far->users++;
    aqi_list_remove(&far->unused);
    *use = (struct aqi_reg_use){.mem = &far->mem,
                                .addr = addr,
                                .len = aqi_min(len, far->len - (addr - far->addr)),
                                .mem_addr = far->addr,
                                .mem_len = far->len,
                                .piece = far};
}

void reg_borrow_release(struct aqi_reg *reg, struct reg_far *far)
{
    struct reg_peer *peer = reg_peer_of(reg, far->peer);
    if (--far->users != 0) return;
    if (peer->down)
        borrow_free(reg, far);
    else if (far->state == REG_GOING)
        reg_owe(reg, &far->drop, far->peer, REG_DROP);
    else
        aqi_list_append(&peer->unused, &far->unused);
}

bool reg_borrow_send(struct aqi_reg *reg, struct reg_owed *owed)
{
    struct reg_far *far = AQI_OF(owed, struct reg_far, drop);
    const struct reg_message message = {.wire = {.kind = REG_DROP, .serials = 1},
                                        .serials = {far->serial}};
    if (!reg_sent(reg, far->peer, &message)) return false;
    borrow_free(reg, far);
    return true;
}

static struct reg_far *borrow_new(struct aqi_reg *reg, uint32_t peer, uint64_t addr, uint64_t len,
                                  struct aqi_reg_wait *wait)
{
    struct reg_far *far = calloc(1, sizeof(*far) + AQI_REG_KEY_MAX);
    if (far == NULL) return NULL;
    struct reg_peer *owner = reg_peer_of(reg, peer);
    far->side = REG_THERE;
    far->peer = peer;
    far->serial = ++owner->serial;
    far->addr = addr;
    far->len = len;
    far->mem.key = far->key;
    far->first = wait;
    far->last = &wait->next;
    aqi_list_init(&far->unused);
    aqi_list_init(&far->drop.link);
    reg_table_put(&reg->far, &far->by_region, reg_hash(peer, reg_region(reg, addr)));
    reg_table_put(&reg->asked, &far->by_serial, reg_hash(peer, far->serial));
    owner->held++;
    return far;
}

/* Choose pieces to return so that one more may be held. Returns false if too few are unused. */
static bool borrow_choose(const struct reg_peer *owner, struct reg_message *message)
{
    struct aqi_node *at = owner->unused.next;
    for (uint32_t held = owner->held; held >= owner->may; held--) {
        if (at == &owner->unused || message->wire.serials == REG_SERIALS_MAX) return false;
        message->serials[message->wire.serials++] = AQI_OF(at, struct reg_far, unused)->serial;
        at = at->next;
    }
    return true;
}

static aq_status borrow_ask(struct aqi_reg *reg, uint32_t peer, struct aqi_reg_wait *wait)
{
    struct reg_peer *owner = reg_peer_of(reg, peer);
    uint64_t region = reg->params.limits.region;
    struct reg_message message = {
        .wire = {.kind = REG_ASK,
                 .addr = wait->addr,
                 .len = aqi_min(wait->len, region - (wait->addr & (region - 1))),
                 .tag = wait->tag,
                 .nbytes = (uint32_t)wait->nbytes},
        .bytes = wait->bytes};
    assert(wait->nbytes <= reg->params.limits.ride);
    if (owner->pause != 0) {
        owner->pause--;
        return AQ_ENOTSUP;
    }
    if (owner->asked >= AQI_REG_ASKED_MAX || !borrow_choose(owner, &message)) return AQ_ENOTSUP;
    struct reg_far *far = borrow_new(reg, peer, wait->addr, message.wire.len, wait);
    if (far == NULL) return AQ_ENOTSUP;
    message.wire.serial = far->serial;
    if (!reg_sent(reg, peer, &message)) {
        borrow_free(reg, far);
        return AQ_ENOTSUP;
    }
    for (unsigned i = 0; i < message.wire.serials; i++)
        borrow_free(reg, borrow_asked(reg, peer, message.serials[i]));
    owner->asked++;
    wait->rode = wait->nbytes != 0;
    reg->counts.rides += wait->rode;
    reg->counts.far_asked++;
    return AQ_AGAIN;
}

aq_status aqi_reg_remote(struct aqi_reg *reg, uint32_t peer, uint64_t addr, uint64_t len,
                         struct aqi_reg_wait *wait)
{
    assert(len != 0 && addr <= UINT64_MAX - len && peer < reg->params.peers);
    struct reg_peer *owner = reg_peer_of(reg, peer);
    reg_catch_up(reg);
    wait->rode = false;
    wait->addr = addr;
    wait->len = len;
    wait->next = NULL;
    if (owner == NULL) return AQ_ENOTSUP;
    if (owner->down) return AQ_EPEER;
    struct reg_far *far = borrow_find(reg, peer, addr);
    if (far == NULL) {
        aq_status st = borrow_ask(reg, peer, wait);
        reg->counts.far_refused += st == AQ_ENOTSUP;
        return st;
    }
    if (far->state == REG_HELD) {
        reg->counts.far_hits++;
        borrow_fill(far, addr, len, &wait->use);
        return AQ_OK;
    }
    reg->counts.far_joined++;
    *far->last = wait;
    far->last = &wait->next;
    return AQ_AGAIN;
}

/* Call `ready` of all waits for the piece; a wait may be freed when its `ready` returns. */
static void borrow_notify(struct reg_far *far, aq_status status, aq_status ride_status)
{
    struct aqi_reg_wait *wait = far->first;
    far->first = NULL;
    while (wait != NULL) {
        struct aqi_reg_wait *next = wait->next;
        aq_status st = status;
        if (st == AQ_OK && !borrow_covers(far, wait->addr)) st = AQ_AGAIN;
        if (st == AQ_OK) borrow_fill(far, wait->addr, wait->len, &wait->use);
        wait->ride_status = wait->rode ? ride_status : AQ_OK;
        wait->ready(wait, st);
        wait = next;
    }
}

static aq_status borrow_check(const struct aqi_reg *reg, uint32_t peer, const struct reg_far *far,
                              const struct reg_wire *wire)
{
    const char *wrong = NULL;
    if (far == NULL || far->state != REG_ASKED)
        wrong = "matches no outstanding request";
    else if (wire->nbytes != 0 &&
             (far->addr - wire->addr >= wire->len ||
              reg_region(reg, wire->addr) != reg_region(reg, far->addr) ||
              reg_region(reg, wire->addr + (wire->len - 1)) != reg_region(reg, far->addr)))
        wrong = "is about memory that was not requested: give all processes the same "
                "AQ_REG_REGION";
    else if (wire->status != AQ_OK && (far->first == NULL || !far->first->rode))
        wrong = "is also about data that was not sent";
    if (wrong == NULL) return AQ_OK;
    return aqi_fail(AQ_EPROTO, "reg", "the answer of peer %" PRIu32 " to request %" PRIu64 " %s",
                    peer, wire->serial, wrong);
}

aq_status reg_borrow_answer(struct aqi_reg *reg, uint32_t peer, const struct reg_message *message)
{
    const struct reg_wire *wire = &message->wire;
    struct reg_peer *owner = reg_peer_of(reg, peer);
    struct reg_far *far = borrow_asked(reg, peer, wire->serial);
    aq_status st = borrow_check(reg, peer, far, wire);
    if (st != AQ_OK) return st;
    bool lent = wire->nbytes != 0, revoked = far->revoked;
    owner->asked--;
    owner->may = (uint32_t)aqi_min(wire->quota, reg->quota);
    /* Send fewer requests while the owner has no room, and resume as soon as it has some. */
    owner->pauses = lent ? 0 : (uint32_t)aqi_min(2 * owner->pauses + 1, BORROW_PAUSE_MOST);
    owner->pause = owner->pauses;
    far->users = 1; /* keeps it alive during the notifications */
    far->state = revoked || wire->tag != 0 || !lent ? REG_GOING : REG_HELD;
    if (lent) {
        far->addr = wire->addr;
        far->len = wire->len;
        far->mem.key_len = wire->nbytes;
        memcpy(far->key, message->bytes, wire->nbytes);
    }
    borrow_notify(far, !lent ? AQ_ENOTSUP : revoked ? AQ_AGAIN : AQ_OK, wire->status);
    if (lent)
        reg_borrow_release(reg, far);
    else
        borrow_free(reg, far);
    return AQ_OK;
}

aq_status reg_borrow_revoked(struct aqi_reg *reg, uint32_t peer, const struct reg_message *message)
{
    uint64_t serial = message->wire.serial;
    if (serial > reg_peer_of(reg, peer)->serial)
        return aqi_fail(AQ_EPROTO, "reg",
                        "peer %" PRIu32 " revokes a piece that was never requested: %" PRIu64, peer,
                        serial);
    struct reg_far *far = borrow_asked(reg, peer, serial);
    if (far == NULL) return AQ_OK; /* returned meanwhile */
    if (far->state == REG_ASKED) {
        far->revoked = true; /* the revocation has overtaken the answer */
    } else if (far->state == REG_HELD) {
        far->state = REG_GOING;
        far->users++;
        aqi_list_remove(&far->unused);
        reg_borrow_release(reg, far);
    }
    return AQ_OK;
}

void reg_borrow_peer_down(struct aqi_reg *reg, uint32_t peer)
{
    struct aqi_reg_wait *failed = NULL;
    for (size_t row = 0; row <= reg->asked.mask; row++) {
        struct reg_entry *next = reg->asked.rows[row];
        while (next != NULL) {
            struct reg_far *far = AQI_OF(next, struct reg_far, by_serial);
            next = next->next;
            if (far->peer != peer) continue;
            if (far->first != NULL) {
                *far->last = failed;
                failed = far->first;
                far->first = NULL;
            }
            far->state = REG_GOING;
            if (far->users == 0) borrow_free(reg, far);
        }
    }
    reg_peer_of(reg, peer)->asked = 0;
    while (failed != NULL) { /* last, since `ready` may release other pieces */
        struct aqi_reg_wait *wait = failed;
        failed = failed->next;
        wait->ride_status = AQ_EPEER;
        wait->ready(wait, AQ_EPEER);
    }
}

void reg_borrow_close(struct aqi_reg *reg)
{
    for (size_t row = 0; reg->asked.rows != NULL && row <= reg->asked.mask; row++)
        while (reg->asked.rows[row] != NULL)
            borrow_free(reg, AQI_OF(reg->asked.rows[row], struct reg_far, by_serial));
    reg_table_close(&reg->far);
    reg_table_close(&reg->asked);
}
