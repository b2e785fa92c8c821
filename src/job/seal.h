/*
 * One end of an authenticated stream between the agents of a job: bytes come in, frames go out, and
 * the other way round. Makes no system call and reads no clock. Nothing is encrypted: what is held
 * against whom is in docs/security.md.
 *
 *   CHALLENGE  the listener's:  magic, version, nonce
 *   CALL       the caller's:    magic, version, who calls whom and what for, nonce, proof
 *   ACCEPT     the listener's:  its host, proof
 *
 * A proof is an HMAC, made with a key that follows from the job's, of who gives it and of all that
 * was said. With another such hash each direction gets a key of its own, and from then on each
 * frame is
 *
 *   length u24, kind u8, payload, tag
 *
 * where the tag is a SipHash, with that key, of the number of the frame and of all of it. So what
 * is altered, left out, repeated, reordered or sent back ends the stream. All is little-endian.
 * Magic and version look the same in every version, so that both sides of a mismatch can say so.
 */
#ifndef AQI_SEAL_H
#define AQI_SEAL_H

#include "base/base.h"
#include "base/mac.h"

#define AQI_SEAL_VERSION   1u
#define AQI_SEAL_KEY_BYTES AQI_MAC_BYTES
#define AQI_SEAL_NONCE     16u
#define AQI_SEAL_HEAD      4u /* bytes of a frame before the payload */
#define AQI_SEAL_TAG       16u
#define AQI_SEAL_FRAME_MAX (1u << 20) /* most bytes of a payload */
#define AQI_SEAL_ANY_HOST  UINT32_MAX
#define AQI_SEAL_SMALL     64u  /* most bytes of a message of the handshake */
#define AQI_SEAL_WHY       192u /* of a reason, with NUL */

/* What all streams of a process share. */
struct aqi_seal_job {
    uint8_t key[AQI_SEAL_KEY_BYTES]; /* follows from the job's */
    struct aqi_mac *proof, *frame;
};

/* @return AQ_ENOTSUP  There is no libcrypto: aq_error_message() says what to install. */
aq_status aqi_seal_job_open(struct aqi_seal_job *job, const uint8_t key[AQI_SEAL_KEY_BYTES]);
void aqi_seal_job_close(struct aqi_seal_job *job);

enum aqi_seal_role { AQI_SEAL_CALLER, AQI_SEAL_LISTENER };

/* Who calls whom, and what for; authenticated. */
struct aqi_seal_call {
    uint32_t from; /* host number of the caller; AQI_SEAL_ANY_HOST: it is none of the job's hosts */
    uint32_t to;   /* the one it wants; AQI_SEAL_ANY_HOST: whichever answers */
    uint32_t want; /* a number of the caller's, for the listener */
};

enum aqi_seal_state {
    AQI_SEAL_CALLS,   /* a caller: waits for CHALLENGE */
    AQI_SEAL_PROVES,  /* a caller that has answered: waits for ACCEPT */
    AQI_SEAL_LISTENS, /* a listener: waits for CALL */
    AQI_SEAL_OPEN,
    AQI_SEAL_FAILED
};

/* To look at: `state`, `call` and `answered` once it is open, `why` once it has failed, and `say`.
 */
struct aqi_seal {
    const struct aqi_seal_job *job;
    enum aqi_seal_role role;
    enum aqi_seal_state state;
    aq_status failed; /* what aqi_seal_take returned */
    struct aqi_seal_call call;
    uint32_t answered; /* the listener's host */
    /* What to send of the handshake: the caller takes it, and sets say_len to 0. Also one that has
     * failed may have something to say. */
    uint8_t say[AQI_SEAL_SMALL];
    uint32_t say_len;
    uint32_t held_len; /* of a message of the handshake, or of a frame's head */
    uint8_t held[AQI_SEAL_SMALL];
    uint8_t nonce[2][AQI_SEAL_NONCE];   /* by role */
    uint8_t key[2][AQI_SEAL_KEY_BYTES]; /* by who sends */
    uint64_t count[2];
    uint8_t *frame; /* one that comes in pieces: payload and tag; NULL: none */
    uint32_t frame_got;
    char why[AQI_SEAL_WHY];
};

/* Begin. A listener has something to say at once. The nonce is random, and used once. `call` is the
 * caller's; of the listener's `to` counts, which is its own host. */
void aqi_seal_open(struct aqi_seal *seal, const struct aqi_seal_job *job, enum aqi_seal_role role,
                   const struct aqi_seal_call *call, const uint8_t nonce[AQI_SEAL_NONCE]);
/* Forget the keys and free what it holds. */
void aqi_seal_close(struct aqi_seal *seal);

struct aqi_seal_frame {
    uint8_t kind; /* AQI_SEAL_READY: the other side has proved itself, and frames may be sent */
    const uint8_t *bytes;
    size_t len;
};
#define AQI_SEAL_READY 0u

/*
 * Take bytes that have come: `*at` and `*left` move past those that were used.
 *
 * @return AQ_OK       `frame` is the next one; its bytes are valid until the next call.
 * @return AQ_AGAIN    All bytes have been used.
 * @return AQ_EPROTO   The other side, or somebody between, does not keep to the protocol, or speaks
 *                     another version of it: give the connection up. `why` says what came.
 * @return AQ_EACCESS  It does not know the key of the job: the same.
 * @return AQ_EMISMATCH  It is of the job, but another host than the one that is wanted: the same.
 * @return AQ_ENOMEM   The same.
 */
aq_status aqi_seal_take(struct aqi_seal *seal, const uint8_t **at, size_t *left,
                        struct aqi_seal_frame *frame);

/* The other side has closed the stream: a sentence of why that is too early. */
const char *aqi_seal_cut(const struct aqi_seal *seal);

/*
 * The head and the tag of the next frame to be sent, which is head, bytes, tag. `kind` is not
 * AQI_SEAL_READY, and `len` at most AQI_SEAL_FRAME_MAX. Frames are sent in the order of these
 * calls.
 */
void aqi_seal_frame(struct aqi_seal *seal, uint8_t kind, const void *bytes, size_t len,
                    uint8_t head[AQI_SEAL_HEAD], uint8_t tag[AQI_SEAL_TAG]);

#endif
