/*
 * The messages between a rank and aqrun: their contents and encoding.
 *
 * A rank creates its own socket pair, sends one end with HELLO over the socket that aqrun passed in
 * AQ_BOOT_FD, and uses the other from then on. If two programs claim the same rank, each thus gets
 * its own answer.
 *
 *   rank -> aqrun                             aqrun -> rank
 *   HELLO    request to join (with a socket)  JOB     rank and size of the job (with the job page)
 *   CLAIM    claim of a rank, with a proof
 *                                             REFUSE  the reason why the rank cannot join
 *   CALL     its part of a collective call    RESULT  the result, or why the call failed
 *   READY    the rank has started             EVENT   a death, a request to end, or the job's end
 *   AGREE    call of an agreement             AGREED  its result, once all members have called
 *   LEAVING  it makes no more collective calls
 *   ENDING   it ends once all other ranks do
 *   SHOW     its counters, or data for the job's files (with a descriptor)
 *   EXIT     end the job with this code
 *   BYE      it leaves in good order
 *
 * Every message is one packet: version u16, type u16, then the fields of control.c's table, then
 * `len` bytes of data, all little-endian. HELLO and REFUSE have the same format in every version,
 * so that both sides can report a mismatch.
 */
#ifndef AQI_CONTROL_H
#define AQI_CONTROL_H

#include "base/wire.h"
#include "job/boot.h"

#define AQI_CONTROL_CHUNK  32768u /* maximum data bytes in one message */
#define AQI_CONTROL_HEAD   64u    /* maximum bytes before the data */
#define AQI_CONTROL_MAX    (AQI_CONTROL_HEAD + AQI_CONTROL_CHUNK)
#define AQI_CONTROL_TEXT   512u                /* maximum bytes of a text, without NUL */
#define AQI_CONTROL_NAME   64u                 /* maximum bytes of the name of a shared object */
#define AQI_CONTROL_PART   (1u << 20)          /* maximum bytes of a rank in an allgather */
#define AQI_CONTROL_GATHER (1ull << 30)        /* maximum bytes of the result of an allgather */
#define AQI_CONTROL_SET    (AQI_MAX_RANKS / 8) /* maximum bytes of a set: a bit per rank */

enum aqi_control_type {
    AQI_CONTROL_HELLO = 1,
    AQI_CONTROL_JOB,
    AQI_CONTROL_REFUSE,
    AQI_CONTROL_CALL,
    AQI_CONTROL_RESULT,
    AQI_CONTROL_EVENT,
    AQI_CONTROL_EXIT,
    AQI_CONTROL_BYE,
    AQI_CONTROL_READY,
    AQI_CONTROL_AGREE,
    AQI_CONTROL_AGREED,
    AQI_CONTROL_LEAVING,
    AQI_CONTROL_ENDING,
    AQI_CONTROL_CLAIM,
    AQI_CONTROL_SHOW,
    AQI_CONTROL_TYPES
};

/* ALLGATHER returns its result in messages, TABLE as a descriptor. */
enum aqi_control_call { AQI_CALL_ALLGATHER, AQI_CALL_TABLE, AQI_CALL_SHARE, AQI_CALLS };

/* Any message. The comment of a field names the types that have it. */
struct aqi_control {
    uint16_t version; /* decode only */
    uint16_t type;
    uint32_t rank; /* JOB, EVENT, CLAIM */
    uint32_t size; /* JOB, as the next four */
    uint32_t host;
    uint32_t hosts;
    uint32_t local_rank;
    uint32_t local_size;
    uint32_t seq;    /* CALL, RESULT: the number of the collective call */
    uint32_t call;   /* CALL: enum aqi_control_call; SHOW: enum aqi_show */
    uint32_t event;  /* EVENT: enum aqi_boot_event_type */
    int32_t status;  /* REFUSE, RESULT, AGREE, AGREED: aq_status */
    int32_t code;    /* EVENT, EXIT, ENDING: exit code of the job */
    uint64_t wait;   /* ENDING: maximum wait for the other ranks, ns */
    uint64_t bytes;  /* CALL: of the part or object; RESULT: of the result; SHOW: their form */
    uint64_t offset; /* CALL: of this piece */
    uint8_t key[AQI_JOB_KEY_BYTES]; /* JOB; CLAIM: the secret of the host's agent */
    uint64_t name[2];               /* AGREE, AGREED: of the agreement */
    /* CALL: piece or name; RESULT: bytes or text; EVENT, EXIT, REFUSE: text, no NUL; AGREE: set of
     * ranks */
    const void *data;
    size_t len;
};

/*
 * Encode all of `message` but its data, which follows these bytes in the packet. Returns their
 * number, 0 if the type does not exist or there is too much data. Async-signal-safe.
 */
size_t aqi_control_encode(const struct aqi_control *message, uint8_t head[AQI_CONTROL_HEAD]);

/*
 * Decode a message; `message->data` points into `buf`. Logs nothing.
 *
 * @return AQ_EMISMATCH  Another version: only `version` and `type` are set.
 * @return AQ_EPROTO     Malformed.
 */
aq_status aqi_control_decode(const void *buf, size_t len, struct aqi_control *message);

/* Copy the text of a message as a string, with unprintable bytes replaced by '?'. Returns `text`.
 */
const char *aqi_control_text(const struct aqi_control *message, char text[AQI_CONTROL_TEXT + 1]);

#endif
