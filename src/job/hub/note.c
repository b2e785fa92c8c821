/* Encoding of notes and frames. */
#include "job/hub/note.h"

#include "job/fields.h"

#include <string.h>

#define NOTE_FIELD(name) AQI_FIELD(struct hub_note, name)

/* CLOSED, KILL and INPUT have no fields. */
static const struct aqi_field note_fields[HUB_NOTES][7] = {
    [HUB_HERE] = {NOTE_FIELD(rank), NOTE_FIELD(seq)},
    [HUB_HOST_LOST] = {NOTE_FIELD(rank), NOTE_FIELD(seq), NOTE_FIELD(code)},
    [HUB_STARTED] = {NOTE_FIELD(rank), NOTE_FIELD(pid)},
    [HUB_JOINED] = {NOTE_FIELD(rank), NOTE_FIELD(pid)},
    [HUB_SAID] = {NOTE_FIELD(rank), NOTE_FIELD(event), NOTE_FIELD(code), NOTE_FIELD(wait)},
    [HUB_PART] = {NOTE_FIELD(count), NOTE_FIELD(seq), NOTE_FIELD(call), NOTE_FIELD(bytes)},
    [HUB_ASK] = {NOTE_FIELD(name), NOTE_FIELD(status)},
    [HUB_ENDED] = {NOTE_FIELD(rank), NOTE_FIELD(code), NOTE_FIELD(event)},
    [HUB_UNEXPLAINED] = {NOTE_FIELD(rank)},
    [HUB_FAILED] = {NOTE_FIELD(rank), NOTE_FIELD(code)},
    [HUB_SAY] = {NOTE_FIELD(code)},
    [HUB_OUTPUT] = {NOTE_FIELD(rank), NOTE_FIELD(event)},
    [HUB_CONSUMED] = {NOTE_FIELD(bytes)},
    [HUB_RESULT] = {NOTE_FIELD(seq), NOTE_FIELD(call), NOTE_FIELD(status), NOTE_FIELD(bytes)},
    [HUB_EVENT] = {NOTE_FIELD(event), NOTE_FIELD(rank), NOTE_FIELD(code)},
    [HUB_AGREED] = {NOTE_FIELD(name), NOTE_FIELD(status)},
    [HUB_END] = {NOTE_FIELD(rank), NOTE_FIELD(code)},
    [HUB_PASS] = {NOTE_FIELD(code)},
    [HUB_SHUT] = {NOTE_FIELD(event)},
    [HUB_WATCH] = {NOTE_FIELD(wait)},
    [HUB_LOST] = {NOTE_FIELD(rank)},
    [HUB_OVER] = {NOTE_FIELD(code)},
    [HUB_PEERS] = {NOTE_FIELD(seq)},
};

struct aqi_parcel *hub_note_encode(const struct hub_note *note)
{
    const struct aqi_field *fields = note_fields[note->type];
    size_t head = sizeof(note->type) + aqi_fields_bytes(fields);
    const void *data = note->text != NULL ? note->text : note->data;
    size_t len = note->text != NULL ? strlen(note->text) : note->len;
    struct aqi_parcel *parcel = aqi_parcel_new(NULL, HUB_FRAME_HEAD + head + len);
    if (parcel == NULL) return NULL;
    uint8_t *at = parcel->bytes + HUB_FRAME_HEAD;
    memcpy(at, &note->type, sizeof(note->type));
    at = aqi_fields_write(fields, note, at + sizeof(note->type));
    if (len != 0) memcpy(at, data, len);
    return parcel;
}

bool hub_note_decode(const void *bytes, size_t len, struct hub_note *note)
{
    const uint8_t *at = bytes;
    struct hub_note read = {0};
    if (len < sizeof(read.type)) return false;
    memcpy(&read.type, at, sizeof(read.type));
    if (read.type == 0 || read.type >= HUB_NOTES) return false;
    const struct aqi_field *fields = note_fields[read.type];
    size_t head = sizeof(read.type) + aqi_fields_bytes(fields);
    if (len < head) return false;
    read.data = aqi_fields_read(fields, at + sizeof(read.type), &read);
    read.len = len - head;
    *note = read;
    return true;
}

void hub_frame_head(const struct hub_frame *frame, uint8_t head[HUB_FRAME_HEAD])
{
    head[0] = frame->kind;
    memcpy(head + 1, &frame->agent, sizeof(frame->agent));
    memcpy(head + 5, &frame->number, sizeof(frame->number));
}

bool hub_frame_decode(const void *bytes, size_t len, struct hub_frame *frame)
{
    const uint8_t *at = bytes;
    if (len < HUB_FRAME_HEAD || at[0] == 0 || at[0] >= HUB_FRAMES) return false;
    frame->kind = at[0];
    memcpy(&frame->agent, at + 1, sizeof(frame->agent));
    memcpy(&frame->number, at + 5, sizeof(frame->number));
    frame->data = at + HUB_FRAME_HEAD;
    frame->len = len - HUB_FRAME_HEAD;
    frame->raw = bytes;
    frame->raw_len = len;
    return true;
}

const char *hub_note_text(const struct hub_note *note, char text[AQI_CONTROL_TEXT + 1])
{
    struct aqi_control message = {.data = note->data, .len = note->len};
    return aqi_control_text(&message, text);
}
