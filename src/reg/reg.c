/* The registration cache as a whole: opening, incoming messages, and queued outgoing ones. */
#include "reg/reg_impl.h"

#include "base/fail.h"

#include <inttypes.h>
#include <stdlib.h>

/* The number of doomed registrations that one call of progress unpins. */
enum { REG_UNPIN_SOME = 4 };

static aq_status reg_check(const struct aqi_reg_limits *limits)
{
    if (!aqi_is_power_of_two(limits->page) || !aqi_is_power_of_two(limits->region) ||
        limits->region < limits->page)
        return aqi_fail(
            AQ_EINVAL, "reg",
            "regions of %" PRIu64
            " bytes: AQ_REG_REGION must be a power of two and at least a page, which has %" PRIu64,
            limits->region, limits->page);
    if (limits->ride > AQI_REG_RIDE_MAX)
        return aqi_fail(AQ_EINVAL, "reg",
                        "AQ_REG_PUT_IN_MOVE: %" PRIu32 " bytes exceed the maximum of %u",
                        limits->ride, AQI_REG_RIDE_MAX);
    return AQ_OK;
}

aq_status aqi_reg_open(const struct aqi_reg_params *params, struct aqi_reg **opened)
{
    const struct aqi_reg_limits *limits = &params->limits;
    aq_status st = reg_check(limits);
    if (st != AQ_OK) return st;
    struct aqi_reg *reg = calloc(1, sizeof(*reg));
    if (reg == NULL) goto no_memory;
    reg->params = *params;
    reg->most = limits->main.bytes + limits->victim.bytes;
    uint64_t pieces = aqi_min(limits->main.bytes / limits->region, limits->main.regions);
    reg->quota =
        (uint32_t)aqi_min(pieces / (params->peers > 1 ? params->peers - 1 : 1), UINT32_MAX);
    aqi_list_init(&reg->victims);
    aqi_list_init(&reg->doomed);
    aqi_list_init(&reg->owed);
    reg->peers = calloc(aqi_max(params->peers, 1), sizeof(struct reg_peer *));
    if (reg->peers == NULL || reg_table_open(&reg->pins) != AQ_OK ||
        reg_table_open(&reg->holds) != AQ_OK || reg_table_open(&reg->far) != AQ_OK ||
        reg_table_open(&reg->asked) != AQ_OK)
        goto no_memory;
    *opened = reg;
    return AQ_OK;
no_memory:
    if (reg != NULL) aqi_reg_close(reg);
    return aqi_fail(AQ_ENOMEM, "reg", "no memory for the registration cache");
}

void aqi_reg_close(struct aqi_reg *reg)
{
    reg_lend_close(reg);
    reg_borrow_close(reg);
    reg_pins_close(reg);
    for (uint32_t i = 0; reg->peers != NULL && i < reg->params.peers; i++)
        free(reg->peers[i]);
    free(reg->peers);
    free(reg);
}

struct reg_peer *reg_peer_of(struct aqi_reg *reg, uint32_t peer)
{
    if (reg->peers[peer] == NULL) {
        struct reg_peer *made = calloc(1, sizeof(*made));
        if (made == NULL) return NULL;
        made->may = reg->quota;
        aqi_list_init(&made->unused);
        reg->peers[peer] = made;
    }
    return reg->peers[peer];
}

void aqi_reg_invalidate(struct aqi_reg *reg, uint64_t addr, uint64_t len)
{
    if (len == 0) return;
    reg_pins_invalidate(reg, addr, aqi_min(len, UINT64_MAX - addr));
}

void reg_catch_up(struct aqi_reg *reg)
{
    uint64_t addr, len;
    while (reg->params.hooks.changed(reg->params.hooks.host, &addr, &len))
        aqi_reg_invalidate(reg, addr, len);
}

aq_status aqi_reg_local(struct aqi_reg *reg, uint64_t addr, uint64_t len, struct aqi_reg_use *use)
{
    struct reg_pin *pin;
    assert(len != 0 && addr <= UINT64_MAX - len);
    reg_catch_up(reg);
    if (reg_pin_get(reg, AQI_REG_SELF, addr, len, &pin) != AQ_OK) {
        reg->counts.refused++;
        return AQ_ENOTSUP;
    }
    reg_pin_use(pin);
    *use = (struct aqi_reg_use){.mem = &pin->mem,
                                .addr = addr,
                                .len = aqi_min(len, pin->len - (addr - pin->addr)),
                                .mem_addr = pin->addr,
                                .mem_len = pin->len,
                                .piece = pin};
    return AQ_OK;
}

void aqi_reg_release(struct aqi_reg *reg, const struct aqi_reg_use *use)
{
    if (*(const enum reg_side *)use->piece == REG_HERE)
        reg_pin_unuse(reg, use->piece);
    else
        reg_borrow_release(reg, use->piece);
}

aq_status aqi_reg_input(struct aqi_reg *reg, uint32_t peer, const void *bytes, size_t len)
{
    static aq_status (*const take[REG_MESSAGE_KINDS])(struct aqi_reg * reg, uint32_t peer,
                                                      const struct reg_message *message) = {
        [REG_ASK] = reg_lend_take,
        [REG_ANSWER] = reg_borrow_answer,
        [REG_REVOKE] = reg_borrow_revoked,
        [REG_DROP] = reg_lend_drop,
    };
    struct reg_message message;
    const struct reg_peer *from = reg_peer_of(reg, peer);
    if (from == NULL) return aqi_fail(AQ_ENOMEM, "reg", "no memory for peer %" PRIu32, peer);
    if (from->down) return AQ_OK;
    aq_status st = reg_message_decode(bytes, len, &message);
    if (st != AQ_OK) return st;
    reg_catch_up(reg);
    return take[message.wire.kind](reg, peer, &message);
}

void aqi_reg_peer_down(struct aqi_reg *reg, uint32_t peer)
{
    struct reg_peer *gone = reg_peer_of(reg, peer);
    if (gone == NULL || gone->down) return;
    gone->down = true;
    reg_lend_peer_down(reg, peer);
    reg_borrow_peer_down(reg, peer);
}

bool reg_sent(struct aqi_reg *reg, uint32_t peer, const struct reg_message *message)
{
    unsigned char bytes[AQI_REG_MESSAGE_MAX];
    size_t len = reg_message_encode(message, bytes);
    if (reg->params.hooks.send(reg->params.hooks.host, peer, bytes, len) != AQ_OK) return false;
    reg->counts.sent++;
    return true;
}

/* Returns true if it was sent; then the record may have been freed. */
static bool reg_send_owed(struct aqi_reg *reg, struct reg_owed *owed)
{
    return owed->kind == REG_DROP ? reg_borrow_send(reg, owed) : reg_lend_send(reg, owed);
}

void reg_owe(struct aqi_reg *reg, struct reg_owed *owed, uint32_t peer, enum reg_message_kind kind)
{
    owed->peer = peer;
    owed->kind = kind;
    if (!reg_send_owed(reg, owed)) aqi_list_append(&reg->owed, &owed->link);
}

bool aqi_reg_progress(struct aqi_reg *reg)
{
    reg_catch_up(reg);
    struct aqi_node *next = reg->owed.next;
    while (next != &reg->owed) {
        struct reg_owed *owed = AQI_OF(next, struct reg_owed, link);
        struct aqi_node *at = next;
        next = next->next;
        /* Remove it from the list first, since sending may free it. */
        aqi_list_remove(at);
        if (reg_send_owed(reg, owed)) continue;
        aqi_list_append(next, at); /* before `next` */
    }
    reg_pins_unpin_some(reg, REG_UNPIN_SOME);
    return !aqi_list_is_empty(&reg->owed) || !aqi_list_is_empty(&reg->doomed);
}

bool aqi_reg_fenced(struct aqi_reg *reg)
{
    reg_catch_up(reg);
    return reg->revoking != 0;
}

const struct aqi_reg_counts *aqi_reg_counts(const struct aqi_reg *reg)
{
    return &reg->counts;
}
