/*
 * Any bytes as an active message from a peer, and any message encoded and decoded. The first two
 * bytes are the maximum payload, the rest is the frame.
 */
#include "fuzz.h"
#include "transport/am.h"

#include <string.h>

static void check_same(const struct aqi_am *a, const struct aqi_am *b)
{
    fuzz_require(a->kind == b->kind && a->handler == b->handler && a->nargs == b->nargs &&
                     a->flags == b->flags && a->nbytes == b->nbytes && a->addr == b->addr,
                 "an encoded and decoded message has the same header");
    fuzz_require(memcmp(a->args, b->args, 4u * a->nargs) == 0,
                 "an encoded and decoded message has the same arguments");
}

static void check_encode(const struct aqi_am *am, uint32_t source, size_t max_payload)
{
    struct aqi_am again;
    uint32_t source_again = ~source;
    /* Exactly the room that the encoder may use, so that a sanitizer detects a write beyond it. */
    size_t room = sizeof(struct aqi_am_wire) + 4u * am->nargs;
    void *frame = malloc(room);
    if (frame == NULL) abort();
    memset(frame, 0xee, room);
    aqi_am_encode(frame, am, source);
    fuzz_require(((struct aqi_am_wire *)frame)->stamp == 0xeeeeeeee, "the stamp is unchanged");
    fuzz_require(aqi_am_decode(frame, room, max_payload, &again, &source_again) == AQ_OK,
                 "an encoded message can be decoded");
    fuzz_require(source_again == source, "an encoded and decoded message has the same source");
    check_same(am, &again);
    free(frame);
}

static void check_decoded(const struct aqi_am *am, const uint8_t *frame, size_t len,
                          size_t max_payload)
{
    fuzz_require(am->kind != AQI_AM_NONE && am->kind <= AQI_AM_LONG_LATE && am->kind != AQI_AM_LONG,
                 "a message has a kind");
    unsigned word = (am->flags & AQI_AM_CREDITS) != 0;
    fuzz_require(am->nargs >= word && am->nargs <= AQI_AM_WIRE_ARGS,
                 "a message has at most 16 arguments and those of two layers");
    fuzz_require(am->kind != AQI_AM_LONG_LATE || (am->flags & AQI_AM_IS_REPLY) == 0,
                 "a late message travels as a request");
    fuzz_require((aqi_am_to(aqi_am_to_ep(am->flags)) | aqi_am_from(aqi_am_from_ep(am->flags))) ==
                     (am->flags & AQI_AM_EPS),
                 "the remaining flags are two endpoints");
    fuzz_require(!aqi_am_has_payload(am->kind) || am->nbytes <= max_payload,
                 "a payload in the message is bounded");
    fuzz_require(am->payload == NULL, "the transport sets the payload");
    size_t from = (size_t)((const uint8_t *)am->args - frame);
    fuzz_require(from + 4u * am->nargs <= len, "the arguments are inside the frame");
}

static void check_frame(const uint8_t *data, size_t len, size_t max_payload)
{
    struct aqi_am am, before;
    uint32_t source = 0x12345678;
    memset(&am, 0xa5, sizeof(am));
    memcpy(&before, &am, sizeof(am));
    /* Aligned as frames are in rings and packets, and not a byte longer than the frame. */
    uint8_t *frame = malloc(aqi_max(len, 1));
    if (frame == NULL) abort();
    memcpy(frame, data, len);
    if (aqi_am_decode(frame, len, max_payload, &am, &source) == AQ_OK) {
        check_decoded(&am, frame, len, max_payload);
        check_encode(&am, source, max_payload);
    } else {
        fuzz_require(memcmp(&am, &before, sizeof(am)) == 0 && source == 0x12345678,
                     "a refused frame leaves the outputs unchanged");
    }
    free(frame);
}

/* A valid message whose fields are the bytes of the input. */
static void check_message(const uint8_t *data, size_t len, size_t max_payload)
{
    static const uint8_t kinds[] = {AQI_AM_SHORT,       AQI_AM_MEDIUM,   AQI_AM_LONG_PACKED,
                                    AQI_AM_LONG_HEADER, AQI_AM_INTERNAL, AQI_AM_LONG_LATE};
    struct aqi_am_wire raw;
    int32_t args[AQI_AM_WIRE_ARGS] = {0};
    memset(&raw, 0, sizeof(raw));
    memcpy(&raw, data, aqi_min(len, sizeof(raw)));
    if (len > sizeof(raw))
        memcpy(args, data + sizeof(raw), aqi_min(len - sizeof(raw), sizeof(args)));
    struct aqi_am am = {
        .kind = kinds[raw.kind % AQI_COUNT_OF(kinds)],
        .handler = raw.handler,
        .nargs = raw.nargs % (AQI_AM_MAX_ARGS + 1),
        .flags = raw.flags,
        .nbytes = raw.nbytes,
        .addr = raw.addr,
        .args = args,
    };
    if (am.flags & AQI_AM_CREDITS) am.nargs++;
    if (aqi_am_has_payload(am.kind)) am.nbytes = (uint32_t)(raw.nbytes % (max_payload + 1));
    if (am.kind == AQI_AM_SHORT) am.nbytes = 0;
    if (am.kind == AQI_AM_LONG_LATE) am.flags &= (uint8_t)~AQI_AM_IS_REPLY;
    check_encode(&am, raw.source, max_payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    size_t max_payload = (size_t)data[0] | (size_t)data[1] << 8;
    check_frame(data + 2, size - 2, max_payload);
    check_message(data + 2, size - 2, max_payload);
    return 0;
}
