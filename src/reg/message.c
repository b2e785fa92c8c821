/* Encoding and decoding the messages of the registration cache. */
#include "reg/message.h"

#include "base/fail.h"
#include "reg/reg.h"

#include <string.h>

static_assert(sizeof(struct reg_wire) + sizeof(uint64_t) * REG_SERIALS_MAX + AQI_REG_RIDE_MAX <=
                  AQI_REG_MESSAGE_MAX,
              "the largest message");

/* The permitted contents of each kind of message. */
static const struct {
    uint32_t serials_least, serials_most, bytes_most;
    bool serial, range, tag, status, quota;
} message_shapes[REG_MESSAGE_KINDS] = {
    [REG_ASK] = {.serials_most = REG_SERIALS_MAX,
                 .bytes_most = AQI_REG_RIDE_MAX,
                 .serial = true,
                 .range = true,
                 .tag = true},
    [REG_ANSWER] = {.bytes_most = AQI_REG_KEY_MAX,
                    .serial = true,
                    .range = true,
                    .tag = true,
                    .status = true,
                    .quota = true},
    [REG_REVOKE] = {.serial = true},
    [REG_DROP] = {.serials_least = 1, .serials_most = REG_SERIALS_MAX},
};

size_t reg_message_encode(const struct reg_message *message, void *bytes)
{
    struct reg_wire wire = message->wire;
    unsigned char *at = bytes;
    size_t serials = sizeof(uint64_t) * wire.serials;
    wire.version = aqi_wire_version(AQI_WIRE_LENDING);
    memcpy(at, &wire, sizeof(wire));
    memcpy(at + sizeof(wire), message->serials, serials);
    at += sizeof(wire) + serials;
    if (wire.nbytes != 0) memcpy(at, message->bytes, wire.nbytes);
    return sizeof(wire) + serials + wire.nbytes;
}

static const char *message_wrong(const struct reg_wire *wire, size_t len)
{
    if (wire->version != aqi_wire_version(AQI_WIRE_LENDING))
        return "is from another version of the library";
    if (wire->kind == REG_MESSAGE_NONE || wire->kind >= REG_MESSAGE_KINDS)
        return "has no valid kind";
    if (wire->serials < message_shapes[wire->kind].serials_least ||
        wire->serials > message_shapes[wire->kind].serials_most)
        return "returns more pieces than possible, or none";
    if (wire->nbytes > message_shapes[wire->kind].bytes_most) return "has too many bytes";
    if (len != sizeof(*wire) + sizeof(uint64_t) * wire->serials + wire->nbytes)
        return "does not have the stated length";
    if ((wire->serial != 0) != message_shapes[wire->kind].serial) return "names the wrong pieces";
    /* A refusal has neither key nor range. */
    bool range =
        message_shapes[wire->kind].range && (wire->kind != REG_ANSWER || wire->nbytes != 0);
    if ((wire->len != 0) != range || (wire->addr != 0 && !range)) return "has the wrong range";
    if (wire->len != 0 && wire->addr > UINT64_MAX - wire->len) return "has a range that wraps";
    if ((wire->tag != 0 && !message_shapes[wire->kind].tag) ||
        (wire->status != 0 && !message_shapes[wire->kind].status) ||
        (wire->quota != 0 && !message_shapes[wire->kind].quota))
        return "has fields that must be zero";
    return NULL;
}

aq_status reg_message_decode(const void *bytes, size_t len, struct reg_message *message)
{
    struct reg_wire wire;
    if (len < sizeof(wire))
        return aqi_fail(AQ_EPROTO, "reg", "a message of %zu bytes is shorter than its header", len);
    memcpy(&wire, bytes, sizeof(wire));
    const char *wrong = message_wrong(&wire, len);
    if (wrong != NULL)
        return aqi_fail(AQ_EPROTO, "reg", "a message of kind %u and %zu bytes %s", wire.kind, len,
                        wrong);
    const unsigned char *at = (const unsigned char *)bytes + sizeof(wire);
    message->wire = wire;
    memcpy(message->serials, at, sizeof(uint64_t) * wire.serials);
    message->bytes = at + sizeof(uint64_t) * wire.serials;
    return AQ_OK;
}
