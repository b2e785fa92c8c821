/* Authenticated streams: the handshake, and frames with their tags. */
#include "job/seal.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char seal_magic[6] = {'a', 'q', 'l', 'i', 'n', 'k'};

struct seal_head {
    char magic[sizeof(seal_magic)];
    uint16_t version;
};
struct seal_challenge {
    struct seal_head head;
    uint8_t nonce[AQI_SEAL_NONCE];
};
struct seal_call {
    struct seal_head head;
    uint32_t from, to, want;
    uint8_t nonce[AQI_SEAL_NONCE];
    uint8_t proof[AQI_MAC_BYTES];
};
struct seal_accept {
    uint32_t answered;
    uint8_t proof[AQI_MAC_BYTES];
};
/* The hash input of proofs and keys. */
struct seal_transcript {
    struct seal_head head;
    uint32_t from, to, want, answered;
    uint8_t nonce[2][AQI_SEAL_NONCE];
};
static_assert(sizeof(struct seal_challenge) == 24 && sizeof(struct seal_call) == 52 &&
                  sizeof(struct seal_accept) == 20 && sizeof(struct seal_transcript) == 56,
              "hashed and sent structs have no padding");
static_assert(sizeof(struct seal_call) <= AQI_SEAL_SMALL, "all messages of the handshake fit");

static const char *const seal_proof_uses[] = {
    [AQI_SEAL_CALLER] = "link caller",
    [AQI_SEAL_LISTENER] = "link listener",
};
static const char *const seal_key_uses[] = {
    [AQI_SEAL_CALLER] = "link key caller",
    [AQI_SEAL_LISTENER] = "link key listen",
};

aq_status aqi_seal_job_open(struct aqi_seal_job *job, const uint8_t key[AQI_SEAL_KEY_BYTES])
{
    aq_status status = aqi_macs_open(&job->macs);
    if (status == AQ_OK) memcpy(job->key, key, sizeof(job->key));
    return status;
}

void aqi_seal_job_close(struct aqi_seal_job *job)
{
    aqi_macs_close(&job->macs);
    explicit_bzero(job, sizeof(*job));
}

static struct seal_head seal_our_head(void)
{
    struct seal_head head = {.version = htole16(aqi_wire_version(AQI_WIRE_LINK))};
    memcpy(head.magic, seal_magic, sizeof(head.magic));
    return head;
}

/* A proof or a key: a hash of the handshake. */
static void seal_hash(const struct aqi_seal *seal, const char *use, uint8_t tag[AQI_MAC_BYTES])
{
    struct seal_transcript transcript = {.head = seal_our_head(),
                                         .from = htole32(seal->call.from),
                                         .to = htole32(seal->call.to),
                                         .want = htole32(seal->call.want),
                                         .answered = htole32(seal->answered)};
    memcpy(transcript.nonce, seal->nonce, sizeof(transcript.nonce));
    aqi_mac_bytes(seal->job->macs.proofs, use, seal->job->key, &transcript, sizeof(transcript),
                  tag);
}

static void seal_put(struct aqi_seal *seal, const void *bytes, size_t len)
{
    memcpy(seal->out, bytes, len);
    seal->out_len = (uint32_t)len;
}

static AQI_COLD AQI_PRINTF(3, 4) aq_status
    seal_fail(struct aqi_seal *seal, aq_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(seal->why, sizeof(seal->why), fmt, args);
    va_end(args);
    seal->state = AQI_SEAL_FAILED;
    seal->failed = status;
    return status;
}

void aqi_seal_open(struct aqi_seal *seal, const struct aqi_seal_job *job, enum aqi_seal_role role,
                   const struct aqi_seal_call *call, const uint8_t nonce[AQI_SEAL_NONCE])
{
    memset(seal, 0, sizeof(*seal));
    seal->job = job;
    seal->role = role;
    seal->state = role == AQI_SEAL_CALLER ? AQI_SEAL_CALLS : AQI_SEAL_LISTENS;
    seal->call = *call;
    memcpy(seal->nonce[role], nonce, AQI_SEAL_NONCE);
    if (role == AQI_SEAL_CALLER) return;
    seal->answered = call->to;
    struct seal_challenge challenge = {.head = seal_our_head()};
    memcpy(challenge.nonce, nonce, sizeof(challenge.nonce));
    seal_put(seal, &challenge, sizeof(challenge));
}

static void seal_drop_frame(struct aqi_seal *seal)
{
    free(seal->frame);
    seal->frame = NULL;
    seal->frame_got = 0;
    seal->held_len = 0;
}

void aqi_seal_close(struct aqi_seal *seal)
{
    seal_drop_frame(seal);
    explicit_bzero(seal->key, sizeof(seal->key));
}

static void seal_make_keys(struct aqi_seal *seal)
{
    for (unsigned role = AQI_SEAL_CALLER; role <= AQI_SEAL_LISTENER; role++)
        seal_hash(seal, seal_key_uses[role], seal->key[role]);
    seal->state = AQI_SEAL_OPEN;
}

/* Check the beginning of CHALLENGE or CALL. */
static aq_status seal_check_head(struct aqi_seal *seal)
{
    struct seal_head head;
    memcpy(&head, seal->held, sizeof(head));
    if (memcmp(head.magic, seal_magic, sizeof(seal_magic)) != 0)
        return seal_fail(
            seal, AQ_EPROTO,
            "it does not use the protocol of links: another program is at that address");
    unsigned version = le16toh(head.version);
    if (version == aqi_wire_version(AQI_WIRE_LINK)) return AQ_OK;
    /* The listener has already sent its version; with this answer, both versions are known to
     * both. */
    if (seal->role == AQI_SEAL_CALLER) {
        head = seal_our_head();
        seal_put(seal, &head, sizeof(head));
    }
    return seal_fail(seal, AQ_EPROTO,
                     "it uses version %u of the protocol of links, but this host uses version %u: "
                     "install the same version of Aqueduct on all hosts",
                     version, aqi_wire_version(AQI_WIRE_LINK));
}

static aq_status seal_challenged(struct aqi_seal *seal)
{
    struct seal_challenge challenge;
    memcpy(&challenge, seal->held, sizeof(challenge));
    memcpy(seal->nonce[AQI_SEAL_LISTENER], challenge.nonce, AQI_SEAL_NONCE);
    struct seal_call call = {.head = seal_our_head(),
                             .from = htole32(seal->call.from),
                             .to = htole32(seal->call.to),
                             .want = htole32(seal->call.want)};
    memcpy(call.nonce, seal->nonce[AQI_SEAL_CALLER], AQI_SEAL_NONCE);
    seal->answered = seal->call.to; /* unknown until the answer: assume the called host */
    seal_hash(seal, seal_proof_uses[AQI_SEAL_CALLER], call.proof);
    seal_put(seal, &call, sizeof(call));
    seal->state = AQI_SEAL_PROVES;
    return AQ_OK;
}

static aq_status seal_called(struct aqi_seal *seal)
{
    struct seal_call call;
    struct seal_accept accept;
    uint8_t proof[AQI_MAC_BYTES];
    uint32_t own = seal->answered;
    memcpy(&call, seal->held, sizeof(call));
    seal->call = (struct aqi_seal_call){le32toh(call.from), le32toh(call.to), le32toh(call.want)};
    memcpy(seal->nonce[AQI_SEAL_CALLER], call.nonce, AQI_SEAL_NONCE);
    seal->answered = seal->call.to;
    seal_hash(seal, seal_proof_uses[AQI_SEAL_CALLER], proof);
    if (!aqi_mac_same(proof, call.proof))
        return seal_fail(seal, AQ_EACCESS, "it does not know the key of this job");
    seal->answered = own;
    accept.answered = htole32(own);
    seal_hash(seal, seal_proof_uses[AQI_SEAL_LISTENER], accept.proof);
    seal_put(seal, &accept, sizeof(accept));
    if (seal->call.to != own)
        return seal_fail(seal, AQ_EMISMATCH,
                         "host %u of this job expects host %u here, but this is host %u",
                         seal->call.from, seal->call.to, own);
    seal_make_keys(seal);
    return AQ_OK;
}

static aq_status seal_accepted(struct aqi_seal *seal)
{
    struct seal_accept accept;
    uint8_t proof[AQI_MAC_BYTES];
    memcpy(&accept, seal->held, sizeof(accept));
    seal->answered = le32toh(accept.answered);
    seal_hash(seal, seal_proof_uses[AQI_SEAL_LISTENER], proof);
    if (!aqi_mac_same(proof, accept.proof))
        return seal_fail(seal, AQ_EACCESS, "it does not know the key of this job");
    if (seal->answered != seal->call.to)
        return seal_fail(seal, AQ_EMISMATCH, "it is host %u of this job, not host %u",
                         seal->answered, seal->call.to);
    seal_make_keys(seal);
    return AQ_OK;
}

static const struct {
    size_t len;
    bool head; /* whether it begins with magic and version */
    aq_status (*serve)(struct aqi_seal *seal);
} seal_steps[] = {
    [AQI_SEAL_CALLS] = {sizeof(struct seal_challenge), true, seal_challenged},
    [AQI_SEAL_PROVES] = {sizeof(struct seal_accept), false, seal_accepted},
    [AQI_SEAL_LISTENS] = {sizeof(struct seal_call), true, seal_called},
};

/* Fill held[] up to `want` bytes. Returns false if more bytes are needed. */
static bool seal_hold(struct aqi_seal *seal, size_t want, const uint8_t **at, size_t *left)
{
    if (seal->held_len >= want) return true;
    size_t n = aqi_min(want - seal->held_len, *left);
    if (n != 0) memcpy(seal->held + seal->held_len, *at, n);
    seal->held_len += (uint32_t)n;
    *at += n;
    *left -= n;
    return seal->held_len == want;
}

static aq_status seal_handshake(struct aqi_seal *seal, const uint8_t **at, size_t *left)
{
    enum aqi_seal_state state = seal->state;
    if (seal_steps[state].head) {
        if (!seal_hold(seal, sizeof(struct seal_head), at, left)) return AQ_AGAIN;
        aq_status status = seal_check_head(seal);
        if (status != AQ_OK) return status;
    }
    if (!seal_hold(seal, seal_steps[state].len, at, left)) return AQ_AGAIN;
    seal->held_len = 0;
    return seal_steps[state].serve(seal);
}

static void seal_tag(struct aqi_seal *seal, unsigned sender, const uint8_t head[AQI_SEAL_HEAD],
                     const void *bytes, size_t len, uint8_t tag[AQI_SEAL_TAG])
{
    uint8_t first[sizeof(uint64_t) + AQI_SEAL_HEAD];
    uint64_t number = htole64(seal->count[sender]++);
    memcpy(first, &number, sizeof(number));
    memcpy(first + sizeof(number), head, AQI_SEAL_HEAD);
    const struct iovec pieces[] = {{first, sizeof(first)}, {(void *)(uintptr_t)bytes, len}};
    aqi_mac_of(seal->job->macs.packets, seal->key[sender], pieces, len != 0 ? 2 : 1, tag);
}

/* The payload length from the head received so far. */
static size_t seal_frame_len(const struct aqi_seal *seal)
{
    return (size_t)seal->held[0] | (size_t)seal->held[1] << 8 | (size_t)seal->held[2] << 16;
}

static aq_status seal_check_frame(struct aqi_seal *seal, const uint8_t *bytes, size_t len,
                                  struct aqi_seal_frame *frame)
{
    uint8_t tag[AQI_SEAL_TAG];
    seal_tag(seal, 1 - seal->role, seal->held, bytes, len, tag);
    if (!aqi_mac_same(tag, bytes + len))
        return seal_fail(seal, AQ_EPROTO,
                         "data was modified in transit: frame %llu of %zu bytes has a wrong tag",
                         (unsigned long long)seal->count[1 - seal->role] - 1, len);
    *frame = (struct aqi_seal_frame){seal->held[3], bytes, len};
    return AQ_OK;
}

/* Frames that are received whole are not copied. */
static aq_status seal_take_frame(struct aqi_seal *seal, const uint8_t **at, size_t *left,
                                 struct aqi_seal_frame *frame)
{
    if (!seal_hold(seal, AQI_SEAL_HEAD, at, left)) return AQ_AGAIN;
    size_t len = seal_frame_len(seal), whole = len + AQI_SEAL_TAG;
    if (len > AQI_SEAL_FRAME_MAX || seal->held[3] == AQI_SEAL_READY)
        return seal_fail(
            seal, AQ_EPROTO,
            "data was modified in transit: a frame of kind %u with %zu bytes was announced",
            seal->held[3], len);
    const uint8_t *bytes = *at;
    size_t n = aqi_min(whole - seal->frame_got, *left);
    *at += n;
    *left -= n;
    if (n == whole) {
        seal->held_len = 0;
        return seal_check_frame(seal, bytes, len, frame);
    }
    if (n == 0) return AQ_AGAIN;
    if (seal->frame == NULL) seal->frame = malloc(whole);
    if (seal->frame == NULL)
        return seal_fail(seal, AQ_ENOMEM, "no memory for a frame of %zu bytes", len);
    memcpy(seal->frame + seal->frame_got, bytes, n);
    seal->frame_got += (uint32_t)n;
    return seal->frame_got < whole ? AQ_AGAIN : seal_check_frame(seal, seal->frame, len, frame);
}

aq_status aqi_seal_take(struct aqi_seal *seal, const uint8_t **at, size_t *left,
                        struct aqi_seal_frame *frame)
{
    if (seal->frame != NULL && seal->frame_got == seal_frame_len(seal) + AQI_SEAL_TAG)
        seal_drop_frame(seal); /* the frame returned by the last call */
    while (seal->state < AQI_SEAL_OPEN) {
        aq_status status = seal_handshake(seal, at, left);
        if (status != AQ_OK) return status;
        if (seal->state != AQI_SEAL_OPEN) continue;
        *frame = (struct aqi_seal_frame){AQI_SEAL_READY, *at, 0};
        return AQ_OK;
    }
    if (seal->state == AQI_SEAL_FAILED) return seal->failed;
    return seal_take_frame(seal, at, left, frame);
}

void aqi_seal_frame(struct aqi_seal *seal, uint8_t kind, const void *bytes, size_t len,
                    uint8_t head[AQI_SEAL_HEAD], uint8_t tag[AQI_SEAL_TAG])
{
    assert(seal->state == AQI_SEAL_OPEN && kind != AQI_SEAL_READY && len <= AQI_SEAL_FRAME_MAX);
    head[0] = (uint8_t)len;
    head[1] = (uint8_t)(len >> 8);
    head[2] = (uint8_t)(len >> 16);
    head[3] = kind;
    seal_tag(seal, seal->role, head, bytes, len, tag);
}

const char *aqi_seal_cut_reason(const struct aqi_seal *seal)
{
    static const char *const texts[] = {
        [AQI_SEAL_CALLS] = "it closed the connection without an answer: it may be too busy, or "
                           "another program is at that address",
        [AQI_SEAL_PROVES] = "it closed the connection instead of proving that it belongs to this "
                            "job: it may belong to another one, or be too busy",
        [AQI_SEAL_LISTENS] =
            "it closed the connection before it proved that it belongs to this job",
        [AQI_SEAL_OPEN] = "the connection was closed: the process there has ended, or something on "
                          "the path closed it",
    };
    return seal->state == AQI_SEAL_FAILED ? seal->why : texts[seal->state];
}
