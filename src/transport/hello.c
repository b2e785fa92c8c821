/* Encoding and decoding the messages of connections. */
#include "transport/hello.h"

#include <endian.h>
#include <string.h>

#define MAGIC UINT64_C(0x316f6c6c65487141) /* "AqHello1" */

/* The range of AQ_AM_MAX_MEDIUM, in the unit used on the wire. */
enum { LINE = 64, LINES_LEAST = 512 / LINE, LINES_MOST = (1 << 20) / LINE };

/* On the wire; all little-endian. Address, key and data follow without gaps. */
struct hello_wire {
    uint64_t magic;
    uint16_t version;
    uint8_t type, objects, memory, traits, bell, unused;
    uint32_t code, status;
    uint64_t segment_addr, segment_size, segment_offset;
    uint32_t nbytes;
    uint16_t addr_len, key_len, medium_lines;
    uint8_t messages, transport;
    uint32_t bell_bit;
};
static_assert(sizeof(struct hello_wire) == AQI_HELLO_HEADER, "the header has no padding");
static_assert(offsetof(struct hello_wire, version) == 8 &&
                  offsetof(struct hello_wire, code) == 16 &&
                  offsetof(struct hello_wire, nbytes) == 48 &&
                  offsetof(struct hello_wire, medium_lines) == 56,
              "fields are where other versions look for them");

static unsigned char *hello_put_bytes(unsigned char *at, const void *from, size_t len)
{
    if (len != 0) memcpy(at, from, len);
    return at + len;
}

size_t aqi_hello_encode(const struct aqi_hello *hello, void *buf)
{
    struct hello_wire wire = {.magic = htole64(MAGIC),
                              .version = htole16(aqi_wire_version(AQI_WIRE_CONNECTION)),
                              .type = hello->type,
                              .objects = hello->objects,
                              .memory = hello->memory,
                              .traits = hello->traits,
                              .bell = hello->bell,
                              .bell_bit = htole32(hello->bell_bit),
                              .messages = hello->messages,
                              .transport = hello->transport,
                              .code = htole32(hello->code),
                              .status = htole32((uint32_t)hello->status),
                              .segment_addr = htole64(hello->segment_addr),
                              .segment_size = htole64(hello->segment_size),
                              .segment_offset = htole64(hello->segment_offset),
                              .addr_len = htole16((uint16_t)hello->addr_len),
                              .key_len = htole16((uint16_t)hello->key_len),
                              .medium_lines = htole16((uint16_t)(hello->max_medium / LINE)),
                              .nbytes = htole32(hello->nbytes)};
    unsigned char *at = hello_put_bytes(buf, &wire, sizeof(wire));
    at = hello_put_bytes(at, hello->addr, hello->addr_len);
    at = hello_put_bytes(at, hello->key, hello->key_len);
    at = hello_put_bytes(at, hello->data, hello->nbytes);
    return (size_t)(at - (unsigned char *)buf);
}

static bool hello_plausible(const struct aqi_hello *hello)
{
    if (hello->type == 0 || hello->type >= AQI_HELLO_END) return false;
    if (hello->objects > AQI_RENDEZVOUS_FDS || hello->memory > 1) return false;
    if ((hello->traits & ~(hello->type == AQI_HELLO_CALL ? AQI_HELLO_TRAITS : 0u)) != 0)
        return false;
    if (hello->bell > 1 || hello->bell_bit >= AQI_BELL_BITS) return false;
    if ((hello->type == AQI_HELLO_REFUSE) != (hello->status < 0) || hello->status > 0) return false;
    bool ordered = (hello->traits & AQI_HELLO_ORDERED) != 0;
    if (ordered && (hello->traits & AQI_HELLO_UNRELIABLE) != 0) return false;
    if (!ordered && (hello->traits & AQI_HELLO_NUMBERED) != 0) return false;
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
    if (len < offsetof(struct hello_wire, type)) return AQ_EPROTO;
    memcpy(&wire, buf, offsetof(struct hello_wire, type));
    if (le64toh(wire.magic) != MAGIC) return AQ_EPROTO;
    if (le16toh(wire.version) != aqi_wire_version(AQI_WIRE_CONNECTION)) {
        hello->version = le16toh(wire.version);
        return AQ_EMISMATCH;
    }
    if (len < sizeof(wire)) return AQ_EPROTO;
    memcpy(&wire, buf, sizeof(wire));
    size_t addr_len = le16toh(wire.addr_len), key_len = le16toh(wire.key_len),
           nbytes = le32toh(wire.nbytes);
    if (addr_len > AQI_ADDR_MAX || key_len > AQI_KEY_MAX || nbytes > AQI_HELLO_DATA_MAX ||
        len != sizeof(wire) + addr_len + key_len + nbytes)
        return AQ_EPROTO;
    const unsigned char *at = (const unsigned char *)buf + sizeof(wire);
    struct aqi_hello out = {.version = le16toh(wire.version),
                            .type = wire.type,
                            .objects = wire.objects,
                            .memory = wire.memory,
                            .traits = wire.traits,
                            .bell = wire.bell,
                            .bell_bit = le32toh(wire.bell_bit),
                            .messages = wire.messages,
                            .transport = wire.transport,
                            .code = le32toh(wire.code),
                            .status = (int32_t)le32toh(wire.status),
                            .max_medium = (uint32_t)le16toh(wire.medium_lines) * LINE,
                            .segment_addr = le64toh(wire.segment_addr),
                            .segment_size = le64toh(wire.segment_size),
                            .segment_offset = le64toh(wire.segment_offset),
                            .addr = at,
                            .key = at + addr_len,
                            .data = at + addr_len + key_len,
                            .addr_len = (uint32_t)addr_len,
                            .key_len = (uint32_t)key_len,
                            .nbytes = (uint32_t)nbytes};
    if (!hello_plausible(&out)) return AQ_EPROTO;
    *hello = out;
    return AQ_OK;
}
