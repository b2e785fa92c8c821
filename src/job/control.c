/* Bytes of the control messages: a table of fields per type, and one loop each way over it. */
#include "job/control.h"

#include <string.h>

enum control_width { CONTROL_U32 = 4, CONTROL_U64 = 8, CONTROL_KEY = AQI_JOB_KEY_BYTES };

struct control_field {
    uint16_t offset; /* in struct aqi_control */
    uint16_t width;  /* enum control_width */
};

#define CONTROL_FIELD(name, field_width)                                                           \
    {                                                                                              \
        .offset = offsetof(struct aqi_control, name), .width = (field_width)                       \
    }
#define CONTROL_START 4u /* bytes of version and type */

static const struct control_field control_job[] = {
    CONTROL_FIELD(rank, CONTROL_U32),       CONTROL_FIELD(size, CONTROL_U32),
    CONTROL_FIELD(host, CONTROL_U32),       CONTROL_FIELD(hosts, CONTROL_U32),
    CONTROL_FIELD(local_rank, CONTROL_U32), CONTROL_FIELD(local_size, CONTROL_U32),
    CONTROL_FIELD(key, CONTROL_KEY),
};
static const struct control_field control_refuse[] = {CONTROL_FIELD(status, CONTROL_U32)};
static const struct control_field control_call[] = {
    CONTROL_FIELD(seq, CONTROL_U32),
    CONTROL_FIELD(call, CONTROL_U32),
    CONTROL_FIELD(bytes, CONTROL_U64),
    CONTROL_FIELD(offset, CONTROL_U64),
};
static const struct control_field control_result[] = {
    CONTROL_FIELD(seq, CONTROL_U32),
    CONTROL_FIELD(status, CONTROL_U32),
    CONTROL_FIELD(bytes, CONTROL_U64),
};
static const struct control_field control_event[] = {
    CONTROL_FIELD(event, CONTROL_U32),
    CONTROL_FIELD(rank, CONTROL_U32),
    CONTROL_FIELD(code, CONTROL_U32),
};
static const struct control_field control_exit[] = {CONTROL_FIELD(code, CONTROL_U32)};
static const struct control_field control_ending[] = {
    CONTROL_FIELD(code, CONTROL_U32),
    CONTROL_FIELD(wait, CONTROL_U64),
};
static const struct control_field control_agree[] = {
    CONTROL_FIELD(status, CONTROL_U32),
    CONTROL_FIELD(name[0], CONTROL_U64),
    CONTROL_FIELD(name[1], CONTROL_U64),
};

struct control_row {
    const struct control_field *fields;
    size_t count;
    size_t max_data;
};

static const struct control_row control_rows[AQI_CONTROL_TYPES] = {
    [AQI_CONTROL_HELLO] = {.count = 0},
    [AQI_CONTROL_JOB] = {.fields = control_job, .count = AQI_COUNT_OF(control_job)},
    [AQI_CONTROL_REFUSE] = {.fields = control_refuse,
                            .count = AQI_COUNT_OF(control_refuse),
                            .max_data = AQI_CONTROL_TEXT},
    [AQI_CONTROL_CALL] = {.fields = control_call,
                          .count = AQI_COUNT_OF(control_call),
                          .max_data = AQI_CONTROL_CHUNK},
    [AQI_CONTROL_RESULT] = {.fields = control_result,
                            .count = AQI_COUNT_OF(control_result),
                            .max_data = AQI_CONTROL_CHUNK},
    [AQI_CONTROL_EVENT] = {.fields = control_event,
                           .count = AQI_COUNT_OF(control_event),
                           .max_data = AQI_CONTROL_TEXT},
    [AQI_CONTROL_EXIT] = {.fields = control_exit,
                          .count = AQI_COUNT_OF(control_exit),
                          .max_data = AQI_CONTROL_TEXT},
    [AQI_CONTROL_BYE] = {.count = 0},
    [AQI_CONTROL_READY] = {.count = 0},
    [AQI_CONTROL_LEAVING] = {.count = 0},
    [AQI_CONTROL_ENDING] = {.fields = control_ending, .count = AQI_COUNT_OF(control_ending)},
    [AQI_CONTROL_AGREE] = {.fields = control_agree,
                           .count = AQI_COUNT_OF(control_agree),
                           .max_data = AQI_CONTROL_SET},
    [AQI_CONTROL_AGREED] = {.fields = control_agree,
                            .count = AQI_COUNT_OF(control_agree),
                            .max_data = AQI_CONTROL_SET},
};

static void control_store(uint8_t *to, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t control_load(const uint8_t *from, size_t width)
{
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

static void control_store_field(uint8_t *to, const uint8_t *from, size_t width)
{
    uint32_t small;
    uint64_t large;
    switch (width) {
    case CONTROL_U32:
        memcpy(&small, from, sizeof(small));
        control_store(to, small, width);
        break;
    case CONTROL_U64:
        memcpy(&large, from, sizeof(large));
        control_store(to, large, width);
        break;
    default:
        memcpy(to, from, width);
    }
}

static void control_load_field(uint8_t *to, const uint8_t *from, size_t width)
{
    uint64_t large = width <= CONTROL_U64 ? control_load(from, width) : 0;
    uint32_t small = (uint32_t)large;
    switch (width) {
    case CONTROL_U32:
        memcpy(to, &small, sizeof(small));
        break;
    case CONTROL_U64:
        memcpy(to, &large, sizeof(large));
        break;
    default:
        memcpy(to, from, width);
    }
}

static_assert(CONTROL_START + 6 * CONTROL_U32 + CONTROL_KEY <= AQI_CONTROL_HEAD,
              "JOB is the longest head");

static size_t control_fixed(const struct control_row *row)
{
    size_t bytes = CONTROL_START;
    for (size_t i = 0; i < row->count; i++)
        bytes += row->fields[i].width;
    return bytes;
}

size_t aqi_control_encode(const struct aqi_control *message, uint8_t head[AQI_CONTROL_HEAD])
{
    if (message->type == 0 || message->type >= AQI_CONTROL_TYPES) return 0;
    const struct control_row *row = &control_rows[message->type];
    if (message->len > row->max_data) return 0;
    uint8_t *at = head;
    control_store(at, AQI_CONTROL_VERSION, 2);
    control_store(at + 2, message->type, 2);
    at += CONTROL_START;
    for (size_t i = 0; i < row->count; i++) {
        const struct control_field *field = &row->fields[i];
        control_store_field(at, (const uint8_t *)message + field->offset, field->width);
        at += field->width;
    }
    return (size_t)(at - head);
}

/* The values that index tables or size memory later; the rest any value may have. */
static bool control_sane(const struct aqi_control *message)
{
    switch (message->type) {
    case AQI_CONTROL_JOB:
        return message->size >= 1 && message->size <= AQI_MAX_RANKS &&
               message->rank < message->size && message->hosts >= 1 &&
               message->host < message->hosts && message->local_rank < message->local_size &&
               message->local_size <= message->size;
    case AQI_CONTROL_CALL:
        return message->call < AQI_CALLS;
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
    if (len < CONTROL_START) return AQ_EPROTO;
    struct aqi_control read = {.version = (uint16_t)control_load(at, 2),
                               .type = (uint16_t)control_load(at + 2, 2)};
    if (read.version != AQI_CONTROL_VERSION && read.type != AQI_CONTROL_REFUSE) {
        message->version = read.version;
        message->type = read.type;
        return AQ_EMISMATCH;
    }
    if (read.type == 0 || read.type >= AQI_CONTROL_TYPES) return AQ_EPROTO;
    const struct control_row *row = &control_rows[read.type];
    size_t fixed = control_fixed(row);
    if (len < fixed || len - fixed > row->max_data) return AQ_EPROTO;
    at += CONTROL_START;
    for (size_t i = 0; i < row->count; i++) {
        control_load_field((uint8_t *)&read + row->fields[i].offset, at, row->fields[i].width);
        at += row->fields[i].width;
    }
    read.data = at;
    read.len = len - fixed;
    if (!control_sane(&read)) return AQ_EPROTO;
    *message = read;
    return AQ_OK;
}

void aqi_control_text(const struct aqi_control *message, char text[AQI_CONTROL_TEXT + 1])
{
    size_t len = aqi_min(message->len, AQI_CONTROL_TEXT);
    const unsigned char *from = message->data;
    for (size_t i = 0; i < len; i++)
        text[i] = from[i] < ' ' || from[i] == 0x7f ? '?' : (char)from[i];
    text[len] = '\0';
}

const char *aqi_control_call_name(uint32_t call)
{
    static const char *const names[AQI_CALLS] = {
        [AQI_CALL_ALLGATHER] = "allgather",
        [AQI_CALL_TABLE] = "allgather",
        [AQI_CALL_SHARE] = "share",
    };
    return call < AQI_CALLS ? names[call] : "unknown";
}
