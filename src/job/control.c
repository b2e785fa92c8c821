/* Encoding of the control messages: a table of the fields of each type, and one loop over it in
 * each direction. */
#include "job/control.h"

#include "job/fields.h"

#include <string.h>

#define CONTROL_START 4u /* bytes of version and type */

#define CONTROL_FIELD(name) AQI_FIELD(struct aqi_control, name)

struct control_row {
    size_t max_data;
    struct aqi_field fields[8];
};

/* HELLO, BYE, READY and LEAVING have neither fields nor data. */
static const struct control_row control_rows[AQI_CONTROL_TYPES] = {
    [AQI_CONTROL_JOB] = {0,
                         {CONTROL_FIELD(rank), CONTROL_FIELD(size), CONTROL_FIELD(host),
                          CONTROL_FIELD(hosts), CONTROL_FIELD(local_rank),
                          CONTROL_FIELD(local_size), CONTROL_FIELD(key)}},
    [AQI_CONTROL_REFUSE] = {AQI_CONTROL_TEXT, {CONTROL_FIELD(status)}},
    [AQI_CONTROL_CALL] = {AQI_CONTROL_CHUNK,
                          {CONTROL_FIELD(seq), CONTROL_FIELD(call), CONTROL_FIELD(bytes),
                           CONTROL_FIELD(offset)}},
    [AQI_CONTROL_RESULT] = {AQI_CONTROL_CHUNK,
                            {CONTROL_FIELD(seq), CONTROL_FIELD(status), CONTROL_FIELD(bytes)}},
    [AQI_CONTROL_EVENT] = {AQI_CONTROL_TEXT,
                           {CONTROL_FIELD(event), CONTROL_FIELD(rank), CONTROL_FIELD(code)}},
    [AQI_CONTROL_EXIT] = {AQI_CONTROL_TEXT, {CONTROL_FIELD(code)}},
    [AQI_CONTROL_ENDING] = {0, {CONTROL_FIELD(code), CONTROL_FIELD(wait)}},
    [AQI_CONTROL_AGREE] = {AQI_CONTROL_SET, {CONTROL_FIELD(status), CONTROL_FIELD(name)}},
    [AQI_CONTROL_CLAIM] = {0, {CONTROL_FIELD(rank), CONTROL_FIELD(key)}},
    [AQI_CONTROL_SHOW] = {0, {CONTROL_FIELD(call), CONTROL_FIELD(bytes)}},
    [AQI_CONTROL_AGREED] = {AQI_CONTROL_SET, {CONTROL_FIELD(status), CONTROL_FIELD(name)}},
};
static_assert(CONTROL_START + 6 * sizeof(uint32_t) + AQI_JOB_KEY_BYTES <= AQI_CONTROL_HEAD,
              "JOB is the longest head");

size_t aqi_control_encode(const struct aqi_control *message, uint8_t head[AQI_CONTROL_HEAD])
{
    if (message->type == 0 || message->type >= AQI_CONTROL_TYPES) return 0;
    const struct control_row *row = &control_rows[message->type];
    if (message->len > row->max_data) return 0;
    const uint16_t start[] = {aqi_wire_version(AQI_WIRE_CONTROL), message->type};
    memcpy(head, start, CONTROL_START);
    return (size_t)(aqi_fields_write(row->fields, message, head + CONTROL_START) - head);
}

/* Check values that index tables or size memory; all others are unrestricted. */
static bool control_valid(const struct aqi_control *message)
{
    switch (message->type) {
    case AQI_CONTROL_JOB:
        return message->size >= 1 && message->size <= AQI_MAX_RANKS &&
               message->rank < message->size && message->hosts >= 1 &&
               message->host < message->hosts && message->local_rank < message->local_size &&
               message->local_size <= message->size;
    case AQI_CONTROL_CALL:
        return message->call < AQI_CALLS;
    case AQI_CONTROL_SHOW:
        return message->call < AQI_SHOWS;
    case AQI_CONTROL_EVENT:
        return message->event <= AQI_BOOT_ENDING;
    case AQI_CONTROL_RESULT:
        return message->len <= message->bytes;
    default:
        return true;
    }
}

aq_status aqi_control_decode(const void *buf, size_t len, struct aqi_control *message)
{
    const uint8_t *at = buf;
    uint16_t start[2];
    if (len < CONTROL_START) return AQ_EPROTO;
    memcpy(start, at, CONTROL_START);
    struct aqi_control read = {.version = start[0], .type = start[1]};
    if (read.version != aqi_wire_version(AQI_WIRE_CONTROL) && read.type != AQI_CONTROL_REFUSE) {
        message->version = read.version;
        message->type = read.type;
        return AQ_EMISMATCH;
    }
    if (read.type == 0 || read.type >= AQI_CONTROL_TYPES) return AQ_EPROTO;
    const struct control_row *row = &control_rows[read.type];
    size_t fixed = CONTROL_START + aqi_fields_bytes(row->fields);
    if (len < fixed || len - fixed > row->max_data) return AQ_EPROTO;
    read.data = aqi_fields_read(row->fields, at + CONTROL_START, &read);
    read.len = len - fixed;
    if (!control_valid(&read)) return AQ_EPROTO;
    *message = read;
    return AQ_OK;
}

const char *aqi_control_text(const struct aqi_control *message, char text[AQI_CONTROL_TEXT + 1])
{
    size_t len = aqi_min(message->len, AQI_CONTROL_TEXT);
    const unsigned char *from = message->data;
    for (size_t i = 0; i < len; i++)
        text[i] = from[i] < ' ' || from[i] == 0x7f ? '?' : (char)from[i];
    text[len] = '\0';
    return text;
}
