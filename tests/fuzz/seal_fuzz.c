/*
 * Any bytes to either end of an authenticated stream; and a stream between two ends whose frames
 * are altered, dropped and repeated in transit, as the input says.
 */
#include "fuzz.h"
#include "job/seal.h"

#include <string.h>

enum { PENDING = 1 << 14, FRAMES = 256, KIND = 3 };

static const struct aqi_seal_call call = {3, 5, 9};
static struct aqi_seal_job job;

static void open_end(struct aqi_seal *seal, enum aqi_seal_role role)
{
    static const uint8_t nonces[2][AQI_SEAL_NONCE] = {"random of caller", "and of listener."};
    aqi_seal_open(seal, &job, role, &call, nonces[role]);
}

/* Pass one side's output to the other. Returns the status of receiving it. */
static aq_status pass(struct aqi_seal *from, struct aqi_seal *to)
{
    const uint8_t *at = from->out;
    size_t left = from->out_len;
    struct aqi_seal_frame frame;
    from->out_len = 0;
    return aqi_seal_take(to, &at, &left, &frame);
}

static void shake(struct aqi_seal end[2])
{
    open_end(&end[0], AQI_SEAL_CALLER);
    open_end(&end[1], AQI_SEAL_LISTENER);
    if (pass(&end[1], &end[0]) != AQ_AGAIN || pass(&end[0], &end[1]) != AQ_OK ||
        pass(&end[1], &end[0]) != AQ_OK)
        abort();
}

/* Whether the bytes begin with those that a peer with the key would send. */
static bool is_proof(enum aqi_seal_role role, const uint8_t *bytes, size_t len)
{
    struct aqi_seal end[2];
    uint8_t said[2 * AQI_SEAL_SMALL];
    size_t n = 0;
    open_end(&end[0], AQI_SEAL_CALLER);
    open_end(&end[1], AQI_SEAL_LISTENER);
    for (unsigned turn = 1; turn < 4; turn++) {
        struct aqi_seal *from = &end[turn % 2];
        if (from->role != role) memcpy(said + n, from->out, from->out_len);
        if (from->role != role) n += from->out_len;
        (void)pass(from, &end[1 - turn % 2]);
    }
    return len >= n && memcmp(bytes, said, n) == 0;
}

static void check_stranger(enum aqi_seal_role role, const uint8_t *bytes, size_t len, size_t step)
{
    struct aqi_seal seal;
    struct aqi_seal_frame frame;
    aq_status status = AQ_AGAIN;
    size_t ready = 0, used = 0;
    open_end(&seal, role);
    seal.out_len = 0;
    while (used < len && status == AQ_AGAIN) {
        const uint8_t *at = bytes + used;
        size_t n = aqi_min(step, len - used), left = n;
        while ((status = aqi_seal_take(&seal, &at, &left, &frame)) == AQ_OK)
            fuzz_require(ready++ == 0 && frame.kind == AQI_SEAL_READY, "no frame is forged");
        used += n - left;
        fuzz_require(status != AQ_AGAIN || left == 0, "all was used");
        fuzz_require(ready != 0 || used <= 128, "a stranger is limited in what it may send");
    }
    fuzz_require(ready == is_proof(role, bytes, used), "only a peer with the key is admitted");
    fuzz_require(role == AQI_SEAL_CALLER || ready != 0 || seal.out_len == 0,
                 "a listener reveals nothing to strangers");
    fuzz_require(status == AQ_AGAIN || (status < 0 && seal.why[0] != '\0'),
                 "a failure has a reason");
    aqi_seal_close(&seal);
}

/* Frames in transit, treated according to the input. */
struct way {
    struct aqi_seal end[2];
    uint8_t bytes[PENDING];
    size_t len;
    size_t sizes[FRAMES];
    unsigned sent, arrived;
    bool tampered;
};

static void fill(uint8_t *bytes, size_t len, unsigned number)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(number * 31 + i);
}

static void way_send(struct way *way, size_t len)
{
    uint8_t *at = way->bytes + way->len;
    if (way->sent == FRAMES || way->len + len + AQI_SEAL_HEAD + AQI_SEAL_TAG > PENDING) return;
    fill(at + AQI_SEAL_HEAD, len, way->sent);
    aqi_seal_frame(&way->end[0], KIND, at + AQI_SEAL_HEAD, len, at, at + AQI_SEAL_HEAD + len);
    way->sizes[way->sent++] = len;
    way->len += AQI_SEAL_HEAD + len + AQI_SEAL_TAG;
}

static aq_status way_deliver(struct way *way, size_t len)
{
    uint8_t expected[UINT8_MAX * 16];
    len = aqi_min(len, way->len);
    uint8_t *exact = malloc(len != 0 ? len : 1);
    if (exact == NULL) abort();
    memcpy(exact, way->bytes, len);
    memmove(way->bytes, way->bytes + len, way->len - len);
    way->len -= len;
    const uint8_t *at = exact;
    struct aqi_seal_frame frame;
    aq_status status;
    while ((status = aqi_seal_take(&way->end[1], &at, &len, &frame)) == AQ_OK) {
        fuzz_require(way->arrived < way->sent, "no frame arrives that was not sent");
        fuzz_require(frame.kind == KIND && frame.len == way->sizes[way->arrived], "of its length");
        fill(expected, frame.len, way->arrived++);
        fuzz_require(memcmp(frame.bytes, expected, frame.len) == 0, "with its bytes");
    }
    fuzz_require(status == AQ_AGAIN || way->tampered, "an unaltered stream gets through");
    free(exact);
    return status;
}

static void way_tamper(struct way *way, unsigned how, size_t at)
{
    if (at >= way->len) return;
    if (how == 0) {
        way->bytes[at] ^= (uint8_t)(1u << at % 8);
    } else if (how == 1) {
        memmove(way->bytes, way->bytes + at, way->len - at);
        way->len -= at;
        if (at == 0) return;
    } else {
        if (way->len + at > PENDING || at == 0) return;
        memmove(way->bytes + at, way->bytes, way->len);
        way->len += at;
    }
    way->tampered = true;
}

static void check_way(const uint8_t *script, size_t len)
{
    static struct way way;
    memset(&way, 0, sizeof(way));
    shake(way.end);
    aq_status status = AQ_AGAIN;
    for (size_t i = 0; i + 1 < len && status == AQ_AGAIN; i += 2) {
        size_t n = script[i + 1];
        if (script[i] % 8 < 3)
            way_send(&way, script[i] % 8 == 0 ? n : n * 16);
        else if (script[i] % 8 < 5)
            status = way_deliver(&way, script[i] % 8 == 3 ? n : n * 64);
        else
            way_tamper(&way, script[i] % 8 - 5, n);
    }
    if (status == AQ_AGAIN) status = way_deliver(&way, way.len);
    fuzz_require(way.tampered || way.arrived == way.sent, "everything sent has arrived");
    aqi_seal_close(&way.end[0]);
    aqi_seal_close(&way.end[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (job.macs.proofs == NULL &&
        aqi_seal_job_open(&job, (const uint8_t *)"a key of the job") != AQ_OK)
        fuzz_missing();
    if (len < 2) return 0;
    /* An exact copy, so that a sanitizer detects a read beyond it. */
    uint8_t *exact = malloc(len - 1);
    if (exact == NULL) abort();
    memcpy(exact, data + 1, len - 1);
    if (data[0] % 3 == 2)
        check_way(exact, len - 1);
    else
        check_stranger(data[0] % 3 == 0 ? AQI_SEAL_CALLER : AQI_SEAL_LISTENER, exact, len - 1,
                       1 + (size_t)data[0] / 3);
    free(exact);
    return 0;
}
