/* The owner's part: pieces of this process that peers hold. */
#include "reg/reg_impl.h"

#include "base/fail.h"

#include <inttypes.h>
#include <stdlib.h>

static struct reg_hold *lend_find(const struct aqi_reg *reg, uint32_t peer, uint64_t serial)
{
    struct reg_entry *entry = NULL;
    while ((entry = reg_table_next(&reg->holds, reg_hash(peer, serial), entry)) != NULL) {
        struct reg_hold *hold = AQI_OF(entry, struct reg_hold, entry);
        if (hold->peer == peer && hold->serial == serial) return hold;
    }
    return NULL;
}

/* The peer no longer holds the piece. */
static void lend_end(struct aqi_reg *reg, struct reg_hold *hold)
{
    struct reg_pin *pin = hold->pin;
    if (hold->revoked) reg->revoking--;
    hold->revoked = false;
    hold->pin = NULL;
    aqi_list_remove(&hold->revoke.link);
    aqi_list_remove(&hold->link);
    if (pin == NULL) return;
    reg_peer_of(reg, hold->peer)->lent--;
    reg_pin_unlend(reg, pin);
}

static void lend_free(struct aqi_reg *reg, struct reg_hold *hold)
{
    lend_end(reg, hold);
    aqi_list_remove(&hold->answer.link);
    reg_table_take(&reg->holds, &hold->entry);
    free(hold);
}

static aq_status lend_wrong(uint32_t peer, const char *what, uint64_t serial)
{
    return aqi_fail(AQ_EPROTO, "reg", "peer %" PRIu32 " %s %" PRIu64, peer, what, serial);
}

/* Check that the peer holds all pieces that it returns, and returns each once. */
static aq_status lend_check_serials(const struct aqi_reg *reg, uint32_t peer,
                                    const struct reg_message *message)
{
    for (unsigned i = 0; i < message->wire.serials; i++) {
        const struct reg_hold *hold = lend_find(reg, peer, message->serials[i]);
        if (hold == NULL || hold->pin == NULL || !aqi_list_is_empty(&hold->answer.link))
            return lend_wrong(peer, "returned a piece that it does not hold:", message->serials[i]);
        for (unsigned j = 0; j < i; j++)
            if (message->serials[j] == message->serials[i])
                return lend_wrong(peer, "returned a piece twice:", message->serials[i]);
    }
    return AQ_OK;
}

static void lend_take_back(struct aqi_reg *reg, uint32_t peer, const struct reg_message *message)
{
    for (unsigned i = 0; i < message->wire.serials; i++)
        lend_free(reg, lend_find(reg, peer, message->serials[i]));
}

aq_status reg_lend_drop(struct aqi_reg *reg, uint32_t peer, const struct reg_message *message)
{
    aq_status st = lend_check_serials(reg, peer, message);
    if (st == AQ_OK) lend_take_back(reg, peer, message);
    return st;
}

static aq_status lend_check(const struct aqi_reg *reg, uint32_t peer, const struct reg_peer *owner,
                            const struct reg_message *message)
{
    const struct reg_wire *wire = &message->wire;
    if (reg_region(reg, wire->addr) != reg_region(reg, wire->addr + (wire->len - 1)))
        return lend_wrong(
            peer,
            "requested more than a region (give all processes the same AQ_REG_REGION, "
            "on hosts with the same page size), with request",
            wire->serial);
    if (wire->nbytes > reg->params.limits.ride)
        return lend_wrong(peer, "sent more data than AQ_REG_PUT_IN_MOVE allows, with request",
                          wire->serial);
    if (lend_find(reg, peer, wire->serial) != NULL)
        return lend_wrong(peer, "repeated request", wire->serial);
    if (owner->owed >= AQI_REG_ASKED_MAX)
        return lend_wrong(peer, "has too many outstanding requests: the latest is", wire->serial);
    return lend_check_serials(reg, peer, message);
}

aq_status reg_lend_take(struct aqi_reg *reg, uint32_t peer, const struct reg_message *message)
{
    const struct reg_wire *wire = &message->wire;
    const struct aqi_reg_hooks *hooks = &reg->params.hooks;
    struct reg_peer *borrower = reg_peer_of(reg, peer);
    aq_status st = lend_check(reg, peer, borrower, message);
    if (st != AQ_OK) return st;
    struct reg_hold *hold = calloc(1, sizeof(*hold));
    if (hold == NULL) return aqi_fail(AQ_ENOMEM, "reg", "no memory for the pieces that peers hold");
    lend_take_back(reg, peer, message);
    hold->peer = peer;
    hold->serial = wire->serial;
    aqi_list_init(&hold->link);
    aqi_list_init(&hold->answer.link);
    aqi_list_init(&hold->revoke.link);
    reg_table_put(&reg->holds, &hold->entry, reg_hash(peer, wire->serial));
    if (wire->nbytes != 0)
        hold->ride_status =
            hooks->ride(hooks->host, peer, wire->addr, wire->tag, message->bytes, wire->nbytes);
    struct reg_pin *pin;
    if (borrower->lent < reg->quota &&
        reg_pin_get(reg, peer, wire->addr, wire->len, &pin) == AQ_OK) {
        hold->pin = pin;
        aqi_list_append(&pin->holds, &hold->link);
        reg_pin_lend(reg, pin);
        borrower->lent++;
    }
    borrower->owed++;
    reg_owe(reg, &hold->answer, peer, REG_ANSWER);
    return AQ_OK;
}

void reg_lend_revoke(struct aqi_reg *reg, struct reg_pin *pin)
{
    struct aqi_node *next = pin->holds.next;
    while (next != &pin->holds) {
        struct reg_hold *hold = AQI_OF(next, struct reg_hold, link);
        next = next->next;
        if (!aqi_list_is_empty(&hold->answer.link)) {
            lend_end(reg, hold); /* the answer, not sent yet, becomes a refusal */
            continue;
        }
        hold->revoked = true;
        reg->revoking++;
        reg->counts.revoked++;
        reg_owe(reg, &hold->revoke, hold->peer, REG_REVOKE);
    }
}

static bool lend_send_answer(struct aqi_reg *reg, struct reg_hold *hold)
{
    struct reg_message message = {.wire = {.kind = REG_ANSWER,
                                           .serial = hold->serial,
                                           .quota = reg->quota,
                                           .status = hold->ride_status}};
    const struct reg_pin *pin = hold->pin;
    if (pin != NULL) {
        message.wire.addr = pin->addr;
        message.wire.len = pin->len;
        message.wire.tag = !pin->current;
        message.wire.nbytes = (uint32_t)pin->mem.key_len;
        message.bytes = pin->mem.key;
    }
    if (!reg_sent(reg, hold->peer, &message)) return false;
    reg_peer_of(reg, hold->peer)->owed--;
    if (pin == NULL) lend_free(reg, hold);
    return true;
}

bool reg_lend_send(struct aqi_reg *reg, struct reg_owed *owed)
{
    if (owed->kind == REG_ANSWER)
        return lend_send_answer(reg, AQI_OF(owed, struct reg_hold, answer));
    const struct reg_hold *hold = AQI_OF(owed, struct reg_hold, revoke);
    const struct reg_message message = {.wire = {.kind = REG_REVOKE, .serial = hold->serial}};
    return reg_sent(reg, owed->peer, &message);
}

void reg_lend_peer_down(struct aqi_reg *reg, uint32_t peer)
{
    for (size_t row = 0; row <= reg->holds.mask; row++) {
        struct reg_entry *next = reg->holds.rows[row];
        while (next != NULL) {
            struct reg_hold *hold = AQI_OF(next, struct reg_hold, entry);
            next = next->next;
            if (hold->peer == peer) lend_free(reg, hold);
        }
    }
    reg_peer_of(reg, peer)->owed = 0;
}

void reg_lend_close(struct aqi_reg *reg)
{
    for (size_t row = 0; reg->holds.rows != NULL && row <= reg->holds.mask; row++)
        while (reg->holds.rows[row] != NULL)
            lend_free(reg, AQI_OF(reg->holds.rows[row], struct reg_hold, entry));
    reg_table_close(&reg->holds);
}
