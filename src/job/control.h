/*
 * The messages between a rank and aqrun: their contents and encoding.
 *
 * A rank creates its own socket pair, sends one end with HELLO over the socket that aqrun passed in
 * AQ_BOOT_FD, and uses the other from then on. So if two programs claim the same rank, each gets
 * its own answer.
 *
 *   rank -> aqrun                          aqrun -> rank
 *   HELLO  let me join (with a socket)     JOB     you are rank r of n (with the job page)
 *   CLAIM  I am rank r, here is the proof
 *                                          REFUSE  you cannot join, because
 *   CALL   my part of a collective call    RESULT  its result, or why it failed
 *   READY  I have started                  EVENT   a rank died, others end, or the job does
 *   AGREE  which of these ranks live?      AGREED  all of them have asked: these live
 *   LEAVING  I make no more calls
 *   ENDING   I end when the others do
 *   SHOW   here are my counters, or what I write for the job's files (with a descriptor)
 *   EXIT   end the job with this code
 *   BYE    I leave in good order
 *
 * Every message is one packet: version u16, type u16, then the fields of control.c's table, then
 * `len` bytes of data, all little-endian. HELLO and REFUSE look the same in every version, so that
 * both sides of a mismatch can say so.
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

/* TABLE: an allgather whose result is a descriptor; ALLGATHER: one that fits into a message. */
enum aqi_control_call { AQI_CALL_ALLGATHER, AQI_CALL_TABLE, AQI_CALL_SHARE, AQI_CALLS };

/* Any message. The comment of a field names the types that use it. */
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
    uint64_t wait;   /* ENDING: how long the others may take, ns */
    uint64_t bytes;  /* CALL: of my part or of the object; RESULT: of the whole result; SHOW, of
                        counters: aqi_counters_form */
    uint64_t offset; /* CALL: of this piece */
    uint8_t key[AQI_JOB_KEY_BYTES]; /* JOB; CLAIM: the secret of the host's agent */
    uint64_t name[2];               /* AGREE, AGREED: of the agreement */
    /* CALL: piece or name; RESULT: bytes or text; EVENT, EXIT, REFUSE: text, no NUL; AGREE: set of
     * ranks */
    const void *data;
    size_t len;
};

/*
 * Write what precedes the data of `message`; the packet is these bytes and then the data. Returns
 * their number, 0 when the type does not exist or has too much data. Async-signal-safe.
 */
size_t aqi_control_encode(const struct aqi_control *message, uint8_t head[AQI_CONTROL_HEAD]);

/*
 * Read a message; `message->data` points into `buf`. Logs nothing.
 *
 * @return AQ_EMISMATCH  Another version: only `version` and `type` are set.
 * @return AQ_EPROTO     Malformed.
 */
aq_status aqi_control_decode(const void *buf, size_t len, struct aqi_control *message);

/* The text of a message as a string of at most AQI_CONTROL_TEXT bytes, unprintable bytes as '?'. */
void aqi_control_text(const struct aqi_control *message, char text[AQI_CONTROL_TEXT + 1]);

#endif
