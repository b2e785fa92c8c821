/* Encoding of notes and frames. */
#include "job/hub/note.h"

#include "job/fields.h"

#include <string.h>

#define NOTE_FIELD(name) AQI_FIELD(struct hub_note, name)

struct note_row {
    bool known;
    struct aqi_field fields[7];
};

static const struct note_row note_rows[HUB_NOTES] = {
    [HUB_HERE] = {true, {NOTE_FIELD(rank), NOTE_FIELD(seq)}},
    [HUB_HOST_LOST] = {true, {NOTE_FIELD(rank), NOTE_FIELD(seq), NOTE_FIELD(code)}},
    [HUB_STARTED] = {true, {NOTE_FIELD(rank), NOTE_FIELD(pid)}},
    [HUB_JOINED] = {true, {NOTE_FIELD(rank), NOTE_FIELD(pid)}},
    [HUB_SAID] = {true, {NOTE_FIELD(rank), NOTE_FIELD(event), NOTE_FIELD(code), NOTE_FIELD(wait)}},
    [HUB_PART] = {true, {NOTE_FIELD(count), NOTE_FIELD(seq), NOTE_FIELD(call), NOTE_FIELD(bytes)}},
    [HUB_ASK] = {true, {NOTE_FIELD(name), NOTE_FIELD(status)}},
    [HUB_ENDED] = {true, {NOTE_FIELD(rank), NOTE_FIELD(code), NOTE_FIELD(event)}},
    [HUB_UNEXPLAINED] = {true, {NOTE_FIELD(rank)}},
    [HUB_FAILED] = {true, {NOTE_FIELD(rank), NOTE_FIELD(code)}},
    [HUB_CLOSED] = {true, {{0}}},
    [HUB_SAY] = {true, {NOTE_FIELD(code)}},
    [HUB_OUTPUT] = {true, {NOTE_FIELD(rank), NOTE_FIELD(event)}},
    [HUB_TOOK] = {true, {NOTE_FIELD(bytes)}},
    [HUB_RESULT] = {true,
                    {NOTE_FIELD(seq), NOTE_FIELD(call), NOTE_FIELD(status), NOTE_FIELD(bytes)}},
    [HUB_EVENT] = {true, {NOTE_FIELD(event), NOTE_FIELD(rank), NOTE_FIELD(code)}},
    [HUB_AGREED] = {true, {NOTE_FIELD(name), NOTE_FIELD(status)}},
    [HUB_END] = {true, {NOTE_FIELD(rank), NOTE_FIELD(code)}},
    [HUB_KILL] = {true, {{0}}},
    [HUB_PASS] = {true, {NOTE_FIELD(code)}},
    [HUB_INPUT] = {true, {{0}}},
    [HUB_SHUT] = {true, {NOTE_FIELD(event)}},
    [HUB_WATCH] = {true, {NOTE_FIELD(wait)}},
    [HUB_LOST] = {true, {NOTE_FIELD(rank)}},
    [HUB_OVER] = {true, {NOTE_FIELD(code)}},
    [HUB_PEERS] = {true, {NOTE_FIELD(seq)}},
};

struct aqi_parcel *hub_note_encode(const struct hub_note *note)
{
    const struct note_row *row = &note_rows[note->type];
    size_t head = sizeof(note->type) + aqi_fields_bytes(row->fields);
    struct aqi_parcel *parcel = aqi_parcel_new(NULL, HUB_FRAME_HEAD + head + note->len);
    if (parcel == NULL) return NULL;
    uint8_t *at = parcel->bytes + HUB_FRAME_HEAD;
    memcpy(at, &note->type, sizeof(note->type));
    at = aqi_fields_write(row->fields, note, at + sizeof(note->type));
    if (note->len != 0) memcpy(at, note->data, note->len);
    return parcel;
}

bool hub_note_decode(const void *bytes, size_t len, struct hub_note *note)
{
    const uint8_t *at = bytes;
    struct hub_note read = {0};
    if (len < sizeof(read.type)) return false;
    memcpy(&read.type, at, sizeof(read.type));
    if (read.type >= HUB_NOTES || !note_rows[read.type].known) return false;
    const struct note_row *row = &note_rows[read.type];
    size_t head = sizeof(read.type) + aqi_fields_bytes(row->fields);
    if (len < head) return false;
    read.data = aqi_fields_read(row->fields, at + sizeof(read.type), &read);
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

void hub_note_text(const struct hub_note *note, char text[AQI_CONTROL_TEXT + 1])
{
    struct aqi_control message = {.data = note->data, .len = note->len};
    aqi_control_text(&message, text);
}
