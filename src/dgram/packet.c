/* Packets on the wire: walking the records that a peer, or a stranger, has sent. */
#include "dgram/packet.h"

bool dgram_record_next(const unsigned char *packet, size_t len, struct dgram_walk *walk)
{
    struct dgram_record *record = &walk->record;
    *record = (struct dgram_record){0};
    if (walk->at + 4 > len) return false;
    memcpy(record, packet + walk->at, 4);
    if (record->kind == DGRAM_END || record->len > len - walk->at) return false;
    bool bare = record->kind == DGRAM_MESSAGE || record->kind == DGRAM_LOOSE;
    size_t head = bare ? 0 : sizeof(*record);
    if (record->len < head || record->len < 4) return false;
    memcpy(record, packet + walk->at, aqi_max(head, 4));
    walk->bytes = packet + walk->at + head;
    walk->nbytes = record->len - head;
    walk->at += dgram_round16(record->len);
    return true;
}

/*
 * For each kind: least and most bytes; whether requests, other numbered packets, unnumbered ones
 * may contain it.
 */
static const struct {
    uint16_t least, most;
    bool request, other, unnumbered;
} packet_shapes[DGRAM_RECORDS] = {
    [DGRAM_MESSAGE] = {.least = 8, .most = UINT16_MAX, .request = true, .other = true},
    [DGRAM_FRAGMENT] = {.least = 1, .most = UINT16_MAX, .request = true, .other = true},
    [DGRAM_PUT] = {.least = 1, .most = UINT16_MAX, .other = true},
    [DGRAM_LONG] = {.least = 8, .most = UINT16_MAX, .request = true, .other = true},
    [DGRAM_GET] = {.least = 8, .most = 8, .other = true},
    [DGRAM_BYTES] = {.least = 1, .most = UINT16_MAX, .other = true},
    [DGRAM_REFUSED] = {.other = true},
    [DGRAM_SACK] = {.least = 8, .most = 8 * DGRAM_SACK_WORDS, .unnumbered = true},
    [DGRAM_LOOSE] = {.least = 8, .most = UINT16_MAX, .unnumbered = true},
    [DGRAM_SLICE] = {.least = 1, .most = UINT16_MAX, .unnumbered = true},
};

static bool packet_record_valid(const struct dgram_record *record, size_t nbytes, uint8_t flags)
{
    if (record->kind >= DGRAM_RECORDS) return false;
    if (nbytes < packet_shapes[record->kind].least || nbytes > packet_shapes[record->kind].most)
        return false;
    if ((flags & DGRAM_NUMBERED) == 0) return packet_shapes[record->kind].unnumbered;
    if ((flags & DGRAM_REQUESTS) == 0)
        return packet_shapes[record->kind].other &&
               !(packet_shapes[record->kind].request && record->flags & DGRAM_IS_REQUEST);
    return packet_shapes[record->kind].request && record->flags & DGRAM_IS_REQUEST;
}

bool dgram_records_valid(const unsigned char *packet, size_t len, uint8_t flags)
{
    struct dgram_walk walk = DGRAM_WALK;
    while (dgram_record_next(packet, len, &walk))
        if (!packet_record_valid(&walk.record, walk.nbytes, flags)) return false;
    /* The walk must have ended at the end or at padding, not at a truncated record. */
    return walk.at >= len || (walk.at + 4 <= len && packet[walk.at + 2] == DGRAM_END);
}
