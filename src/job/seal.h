/*
 * One end of an authenticated stream between the agents of a job: turns bytes into frames, and
 * frames into bytes. Makes no system call and reads no clock. Nothing is encrypted;
 * docs/security.md describes the protection.
 *
 *   CHALLENGE  the listener's:  magic, version, nonce
 *   CALL       the caller's:    magic, version, caller, called host, purpose, nonce, proof
 *   ACCEPT     the listener's:  its host, proof
 *
 * A proof is an HMAC, keyed with the job's key, over its sender and everything exchanged so far. A
 * key for each direction is derived in the same way; from then on, each frame is
 *
 *   length u24, kind u8, payload, tag
 *
 * where the tag is a SipHash, with that key, over the number and the contents of the frame. A
 * frame that is modified, omitted, repeated, reordered or reflected thus ends the stream. All
 * integers are little-endian. Magic and version have the same format in every version, so that
 * both sides can report a mismatch.
 */
#ifndef AQI_SEAL_H
#define AQI_SEAL_H

#include "base/mac.h"
#include "base/wire.h"

#define AQI_SEAL_KEY_BYTES AQI_MAC_BYTES
#define AQI_SEAL_NONCE     16u
#define AQI_SEAL_HEAD      4u /* bytes that precede the payload of a frame */
#define AQI_SEAL_TAG       16u
#define AQI_SEAL_FRAME_MAX (1u << 20) /* maximum bytes of a payload */
#define AQI_SEAL_SMALL     64u        /* maximum bytes of a message of the handshake */
#define AQI_SEAL_WHY       192u       /* of a reason, with NUL */

/* State shared by all streams of a process. */
struct aqi_seal_job {
    uint8_t key[AQI_SEAL_KEY_BYTES]; /* the job's */
    struct aqi_macs macs;
};

/* @return AQ_ENOTSUP  libcrypto is missing: aq_error_message() says what to install. */
aq_status aqi_seal_job_open(struct aqi_seal_job *job, const uint8_t key[AQI_SEAL_KEY_BYTES]);
void aqi_seal_job_close(struct aqi_seal_job *job);

enum aqi_seal_role { AQI_SEAL_CALLER, AQI_SEAL_LISTENER };

/* The caller, the called host and the purpose of a connection; authenticated. */
struct aqi_seal_call {
    uint32_t from; /* host number of the caller */
    uint32_t to;   /* the called host */
    uint32_t want; /* a number from the caller for the listener */
};

enum aqi_seal_state {
    AQI_SEAL_CALLS,   /* caller, waits for CHALLENGE */
    AQI_SEAL_PROVES,  /* caller that has answered, waits for ACCEPT */
    AQI_SEAL_LISTENS, /* listener, waits for CALL */
    AQI_SEAL_OPEN,
    AQI_SEAL_FAILED
};

/*
 * Public: `state`, `call` and `answered` once it is open, `why` once it has failed, and `out`.
 */
struct aqi_seal {
    const struct aqi_seal_job *job;
    enum aqi_seal_role role;
    enum aqi_seal_state state;
    aq_status failed; /* the error returned by aqi_seal_take */
    struct aqi_seal_call call;
    uint32_t answered; /* the listener's host */
    /* Handshake bytes to send: the user of the stream sends them, and sets out_len to 0. Even a
     * failed stream may have some. */
    uint8_t out[AQI_SEAL_SMALL];
    uint32_t out_len;
    uint32_t held_len; /* bytes of a handshake message, or of a frame's head */
    uint8_t held[AQI_SEAL_SMALL];
    uint8_t nonce[2][AQI_SEAL_NONCE];   /* by role */
    uint8_t key[2][AQI_SEAL_KEY_BYTES]; /* by sender */
    uint64_t count[2];
    uint8_t *frame; /* a frame received in pieces: payload and tag; NULL: none */
    uint32_t frame_got;
    char why[AQI_SEAL_WHY];
};

/* Begin. A listener has handshake bytes to send immediately. The nonce is random and used only
 * once. A caller uses all of `call`; a listener only `to`, its own host. */
void aqi_seal_open(struct aqi_seal *seal, const struct aqi_seal_job *job, enum aqi_seal_role role,
                   const struct aqi_seal_call *call, const uint8_t nonce[AQI_SEAL_NONCE]);
/* Erase the keys and free all memory. */
void aqi_seal_close(struct aqi_seal *seal);

struct aqi_seal_frame {
    uint8_t kind; /* AQI_SEAL_READY: the other side has authenticated, and frames may be sent */
    const uint8_t *bytes;
    size_t len;
};
#define AQI_SEAL_READY 0u

/*
 * Consume received bytes: `*at` and `*left` advance past them.
 *
 * @return AQ_OK         `frame` is the next one; its bytes are valid until the next call.
 * @return AQ_AGAIN      All bytes have been consumed.
 * @return AQ_EPROTO     The other side, or an intermediary, violates the protocol, or uses another
 *                     version of it: close the connection. `why` says what was received.
 * @return AQ_EACCESS    It does not know the key of the job: the same.
 * @return AQ_EMISMATCH  It belongs to the job, but is not the called host: the same.
 * @return AQ_ENOMEM     The same.
 */
aq_status aqi_seal_take(struct aqi_seal *seal, const uint8_t **at, size_t *left,
                        struct aqi_seal_frame *frame);

/* The other side has closed the stream. Returns a description of why that is premature. */
const char *aqi_seal_cut_reason(const struct aqi_seal *seal);

/*
 * Make the head and the tag of the next frame, which is sent as head, bytes, tag. `kind` is not
 * AQI_SEAL_READY, and `len` at most AQI_SEAL_FRAME_MAX. Frames are sent in the order of these
 * calls.
 */
void aqi_seal_frame(struct aqi_seal *seal, uint8_t kind, const void *bytes, size_t len,
                    uint8_t head[AQI_SEAL_HEAD], uint8_t tag[AQI_SEAL_TAG]);

#endif
