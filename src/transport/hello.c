/* Messages of connections to bytes and back. */
#include "transport/hello.h"

#include <endian.h>
#include <string.h>

#define MAGIC UINT64_C(0x316f6c6c65487141) /* "AqHello1" */

/* What AQ_AM_MAX_MEDIUM may be, in the unit that it travels in. */
enum { LINE = 64, LINES_LEAST = 512 / LINE, LINES_MOST = (1 << 20) / LINE };

/* As it travels; all little-endian. The address and the data follow without a gap. */
struct hello_wire {
    uint64_t magic;
    uint16_t version;
    uint8_t type, objects, memory, unused[3];
    uint32_t code, status;
    uint64_t segment_addr, segment_size, segment_offset;
    unsigned char segment_key[AQI_KEY_MAX];
    uint16_t uri_len, medium_lines;
    uint32_t nbytes;
};
static_assert(sizeof(struct hello_wire) == AQI_HELLO_HEADER, "the header has no padding");
static_assert(offsetof(struct hello_wire, version) == 8 &&
                  offsetof(struct hello_wire, code) == 16 &&
                  offsetof(struct hello_wire, segment_key) == 48 &&
                  offsetof(struct hello_wire, nbytes) == 84,
              "fields are where other versions look for them");

size_t aqi_hello_encode(const struct aqi_hello *hello, void *buf)
{
    size_t uri_len = strlen(hello->uri);
    struct hello_wire wire = {.magic = htole64(MAGIC),
                              .version = htole16(AQI_HELLO_VERSION),
                              .type = hello->type,
                              .objects = hello->objects,
                              .memory = hello->memory,
                              .code = htole32(hello->code),
                              .status = htole32((uint32_t)hello->status),
                              .segment_addr = htole64(hello->segment_addr),
                              .segment_size = htole64(hello->segment_size),
                              .segment_offset = htole64(hello->segment_offset),
                              .uri_len = htole16((uint16_t)uri_len),
                              .medium_lines = htole16((uint16_t)(hello->max_medium / LINE)),
                              .nbytes = htole32(hello->nbytes)};
    unsigned char *at = buf;
    memcpy(wire.segment_key, hello->segment_key, AQI_KEY_MAX);
    memcpy(at, &wire, sizeof(wire));
    memcpy(at + sizeof(wire), hello->uri, uri_len);
    if (hello->nbytes != 0) memcpy(at + sizeof(wire) + uri_len, hello->data, hello->nbytes);
    return sizeof(wire) + uri_len + hello->nbytes;
}

/* Do the fields make sense together? */
static bool plausible(const struct aqi_hello *hello)
{
    if (hello->type == 0 || hello->type >= AQI_HELLO_END) return false;
    if (hello->objects > AQI_RENDEZVOUS_FDS || hello->memory > 1) return false;
    if ((hello->type == AQI_HELLO_REFUSE) != (hello->status < 0) || hello->status > 0) return false;
    if (hello->memory && hello->segment_size == 0) return false;
    uint32_t lines = hello->max_medium / LINE;
    if ((hello->type == AQI_HELLO_CALL || hello->type == AQI_HELLO_ACCEPT) &&
        (lines < LINES_LEAST || lines > LINES_MOST))
        return false;
    return hello->segment_size <= UINT64_MAX - hello->segment_addr &&
           hello->segment_size <= UINT64_MAX - hello->segment_offset;
}

aq_status aqi_hello_decode(const void *buf, size_t len, struct aqi_hello *hello)
{
    struct hello_wire wire;
    if (len < sizeof(wire)) return AQ_EPROTO;
    memcpy(&wire, buf, sizeof(wire));
    if (le64toh(wire.magic) != MAGIC) return AQ_EPROTO;
    if (le16toh(wire.version) != AQI_HELLO_VERSION) return AQ_EMISMATCH;
    size_t uri_len = le16toh(wire.uri_len), nbytes = le32toh(wire.nbytes);
    if (uri_len >= AQI_URI_MAX || nbytes > AQI_HELLO_DATA_MAX ||
        len != sizeof(wire) + uri_len + nbytes)
        return AQ_EPROTO;
    const unsigned char *at = (const unsigned char *)buf + sizeof(wire);
    struct aqi_hello out = {.type = wire.type,
                            .objects = wire.objects,
                            .memory = wire.memory,
                            .code = le32toh(wire.code),
                            .status = (int32_t)le32toh(wire.status),
                            .max_medium = (uint32_t)le16toh(wire.medium_lines) * LINE,
                            .segment_addr = le64toh(wire.segment_addr),
                            .segment_size = le64toh(wire.segment_size),
                            .segment_offset = le64toh(wire.segment_offset),
                            .data = at + uri_len,
                            .nbytes = (uint32_t)nbytes};
    memcpy(out.segment_key, wire.segment_key, AQI_KEY_MAX);
    memcpy(out.uri, at, uri_len);
    if (strlen(out.uri) != uri_len || !plausible(&out)) return AQ_EPROTO;
    *hello = out;
    return AQ_OK;
}
