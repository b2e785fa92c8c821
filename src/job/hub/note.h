/* Messages between hubs: facts (up), entries of the log (down), and frames on the links. */
#ifndef HUB_NOTE_H
#define HUB_NOTE_H

#include "job/hub/hub.h"

enum hub_note_type {
    /* facts */
    HUB_HERE = 1,    /* `rank`: an agent that has attached to the sender, its `seq`-th parent */
    HUB_HOST_LOST,   /* `rank`: the agent, `seq`: as in HERE, 0: it never attached; `code`: its
                      * link broke, but it may reconnect; text: why */
    HUB_STARTED,     /* `rank`, `pid` */
    HUB_JOINED,      /* `rank`, `pid`; text: its program, if not the one that was started */
    HUB_SAID,        /* `rank`; `event`: type of the message; `code`, `wait`; text */
    HUB_PART,        /* `count` ranks and their parts of a call: seq, call, bytes; or its name */
    HUB_ASK,         /* name, status; data: the members, then those that have called */
    HUB_ENDED,       /* `rank`, `code`, `event`: enum hub_end_flags; text: how */
    HUB_UNEXPLAINED, /* `rank`: ended under a shell that has not ended; text */
    HUB_FAILED,      /* `code`; text: the failure of this host; `rank`: the missing rank, or 0 */
    HUB_CLOSED,      /* no process of this host runs, or ever will */
    HUB_SAY,         /* `code`: whether to print always; text */
    HUB_OUTPUT,      /* `rank`, `event`: the stream; bytes */
    HUB_CONSUMED,    /* `bytes` of standard input */
    /* entries */
    HUB_RESULT, /* seq, call, status, bytes; data: all parts, the name, or why it failed */
    HUB_EVENT,  /* event, rank, code; text */
    HUB_AGREED, /* name, status; data: the set */
    HUB_END,    /* the end begins: `rank` that caused it; `code`; text: why */
    HUB_KILL,   /* kill immediately */
    HUB_PASS,   /* `code`: a signal to all ranks: the job stops or continues */
    HUB_INPUT,  /* bytes for rank 0 */
    HUB_SHUT,   /* `event`: the stream that no longer has a reader */
    HUB_WATCH,  /* `wait`: interval at which all ranks report their counters */
    HUB_LOST,   /* `rank`: an agent that is declared dead; text: why */
    HUB_OVER,   /* `code` */
    HUB_PEERS,  /* `seq`: number of a query about the ranks' peers */
    HUB_NOTES
};
#define HUB_IS_FACT(type) ((type) < HUB_RESULT)

enum hub_end_flags { HUB_END_SIGNALED = 1, HUB_END_TERMINATED = 2 };

struct hub_note {
    uint16_t type;
    uint32_t by; /* at the root, of a fact: the agent that reported it; not encoded */
    uint32_t rank;
    uint32_t count;
    uint32_t seq;
    uint32_t call;
    uint32_t event;
    int32_t status;
    int32_t code;
    int32_t pid;
    uint64_t bytes;
    uint64_t wait;
    uint64_t name[2];
    const void *data;
    size_t len;
    const char *text; /* encode only: instead of `data` and `len`, unless NULL */
};

/* A frame on a link: one of these as a byte, two numbers, and in some a note. */
enum hub_frame_kind {
    HUB_FRAME_ATTACH = 1, /* `agent` has the log up to `number`; data: number of this link, u32 */
    HUB_FRAME_FACT,       /* fact `number` of `agent` */
    HUB_FRAME_GOT,        /* the root has the facts of `agent` up to `number` */
    HUB_FRAME_ENTRY,      /* entry `number` of the log */
    HUB_FRAME_APPLIED,    /* the whole subtree of the sender has the log up to `number` */
    HUB_FRAME_RESEND,     /* resend all unacknowledged facts */
    HUB_FRAME_GONE,       /* `agent` no longer belongs to the job: text */
    HUB_FRAMES
};
#define HUB_FRAME_HEAD 13u /* kind u8, agent u32, number u64 */

struct hub_frame {
    uint8_t kind;
    uint32_t agent;
    uint64_t number;
    const void *data;
    size_t len;
    const void *raw; /* decode only: the whole frame */
    size_t raw_len;
};

/* Encode a note, preceded by HUB_FRAME_HEAD unused bytes for the head of a frame. NULL: out of
 * memory. */
struct aqi_parcel *hub_note_encode(const struct hub_note *note);
/* Returns false if malformed. `data` points into the bytes; text may contain unprintable bytes. */
bool hub_note_decode(const void *bytes, size_t len, struct hub_note *note);

void hub_frame_head(const struct hub_frame *frame, uint8_t head[HUB_FRAME_HEAD]);
bool hub_frame_decode(const void *bytes, size_t len, struct hub_frame *frame);

/* The data as text of at most AQI_CONTROL_TEXT bytes, with unprintable bytes replaced by '?'.
 * Returns `text`. */
const char *hub_note_text(const struct hub_note *note, char text[AQI_CONTROL_TEXT + 1]);

#endif
