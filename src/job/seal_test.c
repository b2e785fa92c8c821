/* Authenticated streams: valid frames get through, and nothing else does. */
#include "job/seal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CALLER = AQI_SEAL_CALLER, LISTENER = AQI_SEAL_LISTENER };
enum { CHALLENGE_LEN = 24, CALL_LEN = 52, ACCEPT_LEN = 20, MOST = 64 };
enum { DATA = 1, OTHER = 7 };

static const uint8_t key[AQI_SEAL_KEY_BYTES] = "sixteen secrets";
static const uint8_t other_key[AQI_SEAL_KEY_BYTES] = "sixteen secretz";
static const struct aqi_seal_call to_five = {.from = 3, .to = 5, .want = 9};
static const struct aqi_seal_call host_five = {.to = 5};
static struct aqi_seal_job job, other_job;

/* Two ends, and the messages of the handshake. */
struct pair {
    struct aqi_seal end[2];
    uint8_t said[3][MOST]; /* CHALLENGE, CALL, ACCEPT */
};

/* Open an end with a fixed nonce. */
static void open_end(struct aqi_seal *seal, const struct aqi_seal_job *of, enum aqi_seal_role role,
                     const struct aqi_seal_call *call)
{
    static uint8_t counter;
    uint8_t nonce[AQI_SEAL_NONCE];
    memset(nonce, role == AQI_SEAL_CALLER ? 0x11 : 0x22, sizeof(nonce));
    nonce[0] = counter++;
    aqi_seal_open(seal, of, role, call, nonce);
}

static size_t hear(struct aqi_seal *from, uint8_t bytes[MOST])
{
    size_t len = from->out_len;
    memcpy(bytes, from->out, len);
    from->out_len = 0;
    return len;
}

/* All of it, in one piece; returns the last result, or AQ_OK for READY. */
static aq_status tell(struct aqi_seal *seal, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    struct aqi_seal_frame frame;
    aq_status status = aqi_seal_take(seal, &at, &len, &frame);
    if (status == AQ_OK) assert_int_equal(frame.kind, AQI_SEAL_READY);
    if (status == AQ_OK || status == AQ_AGAIN) assert_int_equal(len, 0);
    return status;
}

static void open_pair(struct pair *pair)
{
    open_end(&pair->end[CALLER], &job, AQI_SEAL_CALLER, &to_five);
    open_end(&pair->end[LISTENER], &job, AQI_SEAL_LISTENER, &host_five);
    assert_int_equal(hear(&pair->end[LISTENER], pair->said[0]), CHALLENGE_LEN);
}

static void close_pair(struct pair *pair)
{
    aqi_seal_close(&pair->end[CALLER]);
    aqi_seal_close(&pair->end[LISTENER]);
}

static void shake(struct pair *pair)
{
    open_pair(pair);
    assert_int_equal(tell(&pair->end[CALLER], pair->said[0], CHALLENGE_LEN), AQ_AGAIN);
    assert_int_equal(hear(&pair->end[CALLER], pair->said[1]), CALL_LEN);
    assert_int_equal(tell(&pair->end[LISTENER], pair->said[1], CALL_LEN), AQ_OK);
    assert_int_equal(hear(&pair->end[LISTENER], pair->said[2]), ACCEPT_LEN);
    assert_int_equal(tell(&pair->end[CALLER], pair->said[2], ACCEPT_LEN), AQ_OK);
}

/* Append a frame to `bytes`; returns its length. */
static size_t frame_of(struct aqi_seal *seal, uint8_t kind, const void *payload, size_t len,
                       uint8_t *bytes)
{
    if (len != 0) memcpy(bytes + AQI_SEAL_HEAD, payload, len);
    aqi_seal_frame(seal, kind, payload, len, bytes, bytes + AQI_SEAL_HEAD + len);
    return AQI_SEAL_HEAD + len + AQI_SEAL_TAG;
}

static void test_wire(void **state)
{
    /* Computed with Python's hmac and with "openssl mac". */
    static const uint8_t proof[] = {0xef, 0xe7, 0x6e, 0xbb, 0x2c, 0xa0, 0xc3, 0x8d,
                                    0x5a, 0xf0, 0x19, 0xf3, 0x43, 0xb4, 0xd9, 0x06};
    static const uint8_t accept_proof[] = {0x49, 0x94, 0x5e, 0x2f, 0xe9, 0x68, 0x81, 0x7f,
                                           0x2f, 0xf0, 0x4e, 0xc4, 0x4b, 0x93, 0x61, 0x19};
    static const uint8_t frame[] = {5,    0,    0,    7,    'h',  'e',  'l',  'l',  'o',
                                    0x47, 0xef, 0x32, 0x65, 0x11, 0xaa, 0x03, 0xa3, 0xa1,
                                    0x97, 0xf8, 0xe9, 0xc7, 0x9b, 0xf7, 0x54};
    struct aqi_seal caller, listener;
    uint8_t nonce[AQI_SEAL_NONCE], bytes[MOST];
    memset(nonce, 'c', sizeof(nonce));
    aqi_seal_open(&caller, &job, AQI_SEAL_CALLER, &to_five, nonce);
    memset(nonce, 'l', sizeof(nonce));
    aqi_seal_open(&listener, &job, AQI_SEAL_LISTENER, &host_five, nonce);
    assert_memory_equal(listener.out, "aqlink\2\0llllllllllllllll", CHALLENGE_LEN);
    assert_int_equal(tell(&caller, bytes, hear(&listener, bytes)), AQ_AGAIN);
    assert_int_equal(caller.out_len, CALL_LEN);
    assert_memory_equal(caller.out, "aqlink\2\0\3\0\0\0\5\0\0\0\11\0\0\0cccccccccccccccc", 36);
    assert_memory_equal(caller.out + 36, proof, sizeof(proof));
    assert_int_equal(tell(&listener, bytes, hear(&caller, bytes)), AQ_OK);
    assert_int_equal(listener.out_len, ACCEPT_LEN);
    assert_memory_equal(listener.out, "\5\0\0\0", 4);
    assert_memory_equal(listener.out + 4, accept_proof, sizeof(accept_proof));
    assert_int_equal(tell(&caller, bytes, hear(&listener, bytes)), AQ_OK);
    assert_int_equal(frame_of(&caller, OTHER, "hello", 5, bytes), sizeof(frame));
    assert_memory_equal(bytes, frame, sizeof(frame));
    aqi_seal_close(&caller);
    aqi_seal_close(&listener);
}

/* Bytes go in pieces of `step`; the resulting frames are compared with `sent`. */
static void move(struct aqi_seal *to, const uint8_t *stream, size_t len, size_t step,
                 const uint8_t *sent, const size_t *sizes, unsigned frames)
{
    unsigned seen = 0;
    for (size_t done = 0; done < len;) {
        const uint8_t *at = stream + done;
        size_t n = aqi_min(step, len - done), left = n;
        struct aqi_seal_frame frame;
        aq_status status;
        while ((status = aqi_seal_take(to, &at, &left, &frame)) == AQ_OK) {
            assert_true(seen < frames);
            assert_int_equal(frame.kind, DATA + seen % 250);
            assert_int_equal(frame.len, sizes[seen]);
            assert_memory_equal(frame.bytes, sent, frame.len);
            seen++;
        }
        assert_int_equal(status, AQ_AGAIN);
        assert_int_equal(left, 0);
        done += n;
    }
    assert_int_equal(seen, frames);
}

static void test_frames(void **state)
{
    static const size_t sizes[] = {0,   1,    15,    16,    17,    0,
                                   100, 4096, 65535, 65536, 3,     AQI_SEAL_FRAME_MAX,
                                   2,   20,   64,    10000, 70000, 0};
    static const size_t steps[] = {1, 2, 3, 4, 5, 19, 20, 21, 1000, 65536, 4u << 20};
    size_t room = 0, largest = AQI_SEAL_FRAME_MAX;
    for (unsigned i = 0; i < AQI_COUNT_OF(sizes); i++)
        room += sizes[i] + AQI_SEAL_HEAD + AQI_SEAL_TAG;
    uint8_t *stream = malloc(room), *payload = malloc(largest);
    assert_true(stream != NULL && payload != NULL);
    for (size_t i = 0; i < largest; i++)
        payload[i] = (uint8_t)(i * 7 + i / 251);
    for (unsigned s = 0; s < AQI_COUNT_OF(steps); s++)
        for (unsigned role = 0; role < 2; role++) {
            struct pair pair;
            size_t len = 0;
            shake(&pair);
            for (unsigned i = 0; i < AQI_COUNT_OF(sizes); i++)
                len +=
                    frame_of(&pair.end[role], (uint8_t)(DATA + i), payload, sizes[i], stream + len);
            assert_int_equal(len, room);
            move(&pair.end[1 - role], stream, len, steps[s], payload, sizes, AQI_COUNT_OF(sizes));
            assert_null(pair.end[1 - role].frame);
            close_pair(&pair);
        }
    free(stream);
    free(payload);
}

/*
 * The handshake byte by byte: nothing is sent before a message is complete, and READY comes with
 * the last byte. Frames may follow ACCEPT at once.
 */
static void test_handshake_in_pieces(void **state)
{
    struct pair pair;
    open_pair(&pair);
    struct aqi_seal *caller = &pair.end[CALLER], *listener = &pair.end[LISTENER];
    for (unsigned i = 0; i < CHALLENGE_LEN; i++) {
        assert_int_equal(caller->out_len, 0);
        assert_int_equal(tell(caller, &pair.said[0][i], 1), AQ_AGAIN);
    }
    assert_int_equal(hear(caller, pair.said[1]), CALL_LEN);
    for (unsigned i = 0; i < CALL_LEN; i++) {
        assert_int_equal(listener->out_len, 0);
        assert_int_equal(tell(listener, &pair.said[1][i], 1), i + 1 < CALL_LEN ? AQ_AGAIN : AQ_OK);
    }
    assert_int_equal(listener->call.from, 3);
    assert_int_equal(listener->call.to, 5);
    assert_int_equal(listener->call.want, 9);
    uint8_t both[MOST + 100];
    size_t len = hear(listener, both);
    assert_int_equal(len, ACCEPT_LEN);
    len += frame_of(listener, DATA, "first", 5, both + len);
    const uint8_t *at = both;
    struct aqi_seal_frame frame;
    assert_int_equal(aqi_seal_take(caller, &at, &len, &frame), AQ_OK);
    assert_int_equal(frame.kind, AQI_SEAL_READY);
    assert_int_equal(caller->answered, 5);
    assert_int_equal(aqi_seal_take(caller, &at, &len, &frame), AQ_OK);
    assert_int_equal(frame.kind, DATA);
    assert_memory_equal(frame.bytes, "first", 5);
    assert_int_equal(aqi_seal_take(caller, &at, &len, &frame), AQ_AGAIN);
    close_pair(&pair);
}

/* With any bit of the handshake changed, one side detects it, and neither accepts the other. */
static void test_altered_handshake(void **state)
{
    static const unsigned lens[] = {CHALLENGE_LEN, CALL_LEN, ACCEPT_LEN};
    for (unsigned message = 0; message < 3; message++)
        for (unsigned bit = 0; bit < lens[message] * 8; bit++) {
            struct pair pair;
            open_pair(&pair);
            struct aqi_seal *caller = &pair.end[CALLER], *listener = &pair.end[LISTENER];
            uint8_t altered = (uint8_t)(1u << bit % 8);
            if (message == 0) pair.said[0][bit / 8] ^= altered;
            aq_status status = tell(caller, pair.said[0], CHALLENGE_LEN);
            if (status != AQ_AGAIN) { /* magic or version */
                assert_int_equal(status, AQ_EPROTO);
                assert_true(message == 0 && bit < 64);
                close_pair(&pair);
                continue;
            }
            assert_int_equal(hear(caller, pair.said[1]), CALL_LEN);
            if (message == 1) pair.said[1][bit / 8] ^= altered;
            status = tell(listener, pair.said[1], CALL_LEN);
            if (message != 2) {
                assert_int_equal(status, message == 1 && bit < 64 ? AQ_EPROTO : AQ_EACCESS);
                assert_int_equal(listener->out_len, 0);
                assert_int_equal(listener->state, AQI_SEAL_FAILED);
                assert_true(strlen(listener->why) > 10);
                close_pair(&pair);
                continue;
            }
            assert_int_equal(hear(listener, pair.said[2]), ACCEPT_LEN);
            pair.said[2][bit / 8] ^= altered;
            assert_int_equal(tell(caller, pair.said[2], ACCEPT_LEN), AQ_EACCESS);
            /* It stays failed. */
            pair.said[2][bit / 8] ^= altered;
            assert_int_equal(aqi_seal_take(caller, &(const uint8_t *){pair.said[2]},
                                           &(size_t){ACCEPT_LEN}, &(struct aqi_seal_frame){0}),
                             AQ_EACCESS);
            close_pair(&pair);
        }
}

enum { FRAMES = 4, PAYLOAD = 21, FRAME_LEN = PAYLOAD + AQI_SEAL_HEAD + AQI_SEAL_TAG };

static void make_stream(struct aqi_seal *from, uint8_t stream[FRAMES][FRAME_LEN])
{
    for (unsigned i = 0; i < FRAMES; i++) {
        uint8_t payload[PAYLOAD];
        memset(payload, 'a' + (int)i, sizeof(payload));
        assert_int_equal(frame_of(from, DATA, payload, PAYLOAD, stream[i]), FRAME_LEN);
    }
}

/* The number of frames received intact before the stream ends with `*status`. */
static unsigned count_frames(struct aqi_seal *to, const void *bytes, size_t len, aq_status *status)
{
    const uint8_t *at = bytes;
    struct aqi_seal_frame frame;
    unsigned seen = 0;
    while ((*status = aqi_seal_take(to, &at, &len, &frame)) == AQ_OK) {
        uint8_t expected[PAYLOAD];
        memset(expected, 'a' + (int)seen, sizeof(expected));
        assert_int_equal(frame.kind, DATA);
        assert_int_equal(frame.len, PAYLOAD);
        assert_memory_equal(frame.bytes, expected, PAYLOAD);
        seen++;
    }
    return seen;
}

static void test_altered_frames(void **state)
{
    uint8_t *more = calloc(1, 1u << 24);
    assert_non_null(more);
    for (unsigned role = 0; role < 2; role++)
        for (unsigned bit = 0; bit < sizeof(uint8_t[FRAMES][FRAME_LEN]) * 8; bit++) {
            struct pair pair;
            uint8_t stream[FRAMES][FRAME_LEN];
            aq_status status;
            shake(&pair);
            make_stream(&pair.end[role], stream);
            ((uint8_t *)stream)[bit / 8] ^= (uint8_t)(1u << bit % 8);
            unsigned seen = count_frames(&pair.end[1 - role], stream, sizeof(stream), &status);
            assert_int_equal(seen, bit / 8 / FRAME_LEN);
            /* A length that was increased is detected once that many bytes have arrived. */
            if (status == AQ_AGAIN)
                seen = count_frames(&pair.end[1 - role], more, AQI_SEAL_FRAME_MAX + 100, &status);
            assert_int_equal(status, AQ_EPROTO);
            assert_non_null(strstr(pair.end[1 - role].why, "modified"));
            close_pair(&pair);
        }
    free(more);
}

/* Frames repeated, left out, swapped, reflected, and from another stream of the same two hosts. */
static void test_other_order(void **state)
{
    static const struct {
        unsigned good;
        int order[3]; /* of the frames; -1: the first of the other stream, -2: of the receiver */
    } cases[] = {{1, {0, 0, 1}}, {1, {0, 2, 1}},  {0, {1, 0, 2}},  {2, {0, 1, 3}},
                 {2, {0, 1, 0}}, {0, {-1, 0, 1}}, {0, {-2, 0, 1}}, {1, {0, -2, 1}}};
    for (unsigned role = 0; role < 2; role++)
        for (unsigned i = 0; i < AQI_COUNT_OF(cases); i++) {
            struct pair pair, other;
            uint8_t frames[FRAMES][FRAME_LEN], others[FRAMES][FRAME_LEN], back[FRAMES][FRAME_LEN];
            uint8_t stream[3][FRAME_LEN];
            aq_status status;
            shake(&pair);
            shake(&other);
            make_stream(&pair.end[role], frames);
            make_stream(&other.end[role], others);
            make_stream(&pair.end[1 - role], back);
            for (unsigned n = 0; n < 3; n++) {
                int which = cases[i].order[n];
                memcpy(stream[n],
                       which >= 0    ? frames[which]
                       : which == -1 ? others[0]
                                     : back[n],
                       FRAME_LEN);
            }
            assert_int_equal(count_frames(&pair.end[1 - role], stream, sizeof(stream), &status),
                             cases[i].good);
            assert_int_equal(status, AQ_EPROTO);
            close_pair(&pair);
            close_pair(&other);
        }
}

/* The stream ends after any of its bytes: only whole frames are delivered. */
static void test_cut_anywhere(void **state)
{
    for (size_t len = 0; len < sizeof(uint8_t[FRAMES][FRAME_LEN]); len++) {
        struct pair pair;
        uint8_t stream[FRAMES][FRAME_LEN];
        aq_status status;
        shake(&pair);
        make_stream(&pair.end[CALLER], stream);
        assert_int_equal(count_frames(&pair.end[LISTENER], stream, len, &status), len / FRAME_LEN);
        assert_int_equal(status, AQ_AGAIN);
        assert_non_null(strstr(aqi_seal_cut_reason(&pair.end[LISTENER]), "has ended"));
        close_pair(&pair);
    }
    struct pair whole;
    shake(&whole);
    for (size_t len = 0; len < CALL_LEN; len++) {
        struct pair pair;
        open_pair(&pair);
        if (len < CHALLENGE_LEN) {
            assert_int_equal(tell(&pair.end[CALLER], whole.said[0], len), AQ_AGAIN);
            assert_int_equal(pair.end[CALLER].out_len, 0);
            assert_non_null(strstr(aqi_seal_cut_reason(&pair.end[CALLER]), "without an answer"));
        }
        assert_int_equal(tell(&pair.end[LISTENER], whole.said[1], len), AQ_AGAIN);
        assert_int_equal(pair.end[LISTENER].out_len, 0);
        assert_non_null(strstr(aqi_seal_cut_reason(&pair.end[LISTENER]), "before it proved"));
        close_pair(&pair);
    }
    close_pair(&whole);
}

/* A recorded session, replayed to a new listener and to a new caller. */
static void test_replay(void **state)
{
    struct pair recorded, pair;
    uint8_t said[MOST];
    shake(&recorded);
    open_pair(&pair);
    assert_int_equal(tell(&pair.end[LISTENER], recorded.said[1], CALL_LEN), AQ_EACCESS);
    assert_int_equal(pair.end[LISTENER].out_len, 0);
    assert_int_equal(tell(&pair.end[CALLER], recorded.said[0], CHALLENGE_LEN), AQ_AGAIN);
    assert_int_equal(hear(&pair.end[CALLER], said), CALL_LEN);
    assert_int_equal(tell(&pair.end[CALLER], recorded.said[2], ACCEPT_LEN), AQ_EACCESS);
    close_pair(&pair);
    close_pair(&recorded);
}

/* Two callers on two connections: the messages of one are useless on the other's. */
static void test_two_callers(void **state)
{
    struct pair a, b;
    open_pair(&a);
    open_pair(&b);
    assert_int_equal(tell(&a.end[CALLER], a.said[0], CHALLENGE_LEN), AQ_AGAIN);
    assert_int_equal(tell(&b.end[CALLER], b.said[0], CHALLENGE_LEN), AQ_AGAIN);
    hear(&a.end[CALLER], a.said[1]);
    hear(&b.end[CALLER], b.said[1]);
    assert_int_equal(tell(&b.end[LISTENER], a.said[1], CALL_LEN), AQ_EACCESS);
    assert_int_equal(tell(&a.end[LISTENER], a.said[1], CALL_LEN), AQ_OK);
    hear(&a.end[LISTENER], a.said[2]);
    assert_int_equal(tell(&b.end[CALLER], a.said[2], ACCEPT_LEN), AQ_EACCESS);
    close_pair(&a);
    close_pair(&b);
}

/* Each side's own message is reflected to it. */
static void test_reflected_handshake(void **state)
{
    struct pair pair;
    uint8_t said[MOST];
    open_pair(&pair);
    uint8_t padded[CALL_LEN] = {0};
    memcpy(padded, pair.said[0], CHALLENGE_LEN);
    assert_int_equal(tell(&pair.end[LISTENER], padded, CALL_LEN), AQ_EACCESS);
    assert_int_equal(pair.end[LISTENER].out_len, 0);
    assert_int_equal(tell(&pair.end[CALLER], pair.said[0], CHALLENGE_LEN), AQ_AGAIN);
    assert_int_equal(hear(&pair.end[CALLER], said), CALL_LEN);
    /* Its own proof as that of the listener. */
    uint8_t accept[ACCEPT_LEN] = {5};
    memcpy(accept + 4, said + CALL_LEN - 16, 16);
    assert_int_equal(tell(&pair.end[CALLER], accept, ACCEPT_LEN), AQ_EACCESS);
    close_pair(&pair);
}

static void test_wrong_key(void **state)
{
    struct aqi_seal caller, listener;
    uint8_t said[MOST];
    open_end(&caller, &other_job, AQI_SEAL_CALLER, &to_five);
    open_end(&listener, &job, AQI_SEAL_LISTENER, &host_five);
    assert_int_equal(tell(&caller, said, hear(&listener, said)), AQ_AGAIN);
    assert_int_equal(tell(&listener, said, hear(&caller, said)), AQ_EACCESS);
    assert_non_null(strstr(listener.why, "does not know the key"));
    assert_int_equal(listener.out_len, 0);
    assert_non_null(strstr(aqi_seal_cut_reason(&caller), "another one"));
    aqi_seal_close(&caller);
    aqi_seal_close(&listener);
}

/* Each side learns the version of the other, whichever is newer, and reports both. */
static void test_wrong_version(void **state)
{
    struct pair pair;
    uint8_t said[MOST];
    open_pair(&pair);
    pair.said[0][6] = 3;
    assert_int_equal(tell(&pair.end[CALLER], pair.said[0], CHALLENGE_LEN), AQ_EPROTO);
    assert_non_null(strstr(pair.end[CALLER].why, "uses version 3"));
    assert_non_null(strstr(pair.end[CALLER].why, "this host uses version 2"));
    /* It sends its version, and nothing that the other could use. */
    assert_int_equal(hear(&pair.end[CALLER], said), 8);
    assert_memory_equal(said, "aqlink\2\0", 8);
    said[6] = 3;
    assert_int_equal(tell(&pair.end[LISTENER], said, 8), AQ_EPROTO);
    assert_non_null(strstr(pair.end[LISTENER].why, "uses version 3"));
    assert_int_equal(pair.end[LISTENER].out_len, 0);
    close_pair(&pair);
}

static void test_wrong_host(void **state)
{
    struct aqi_seal caller, listener;
    const struct aqi_seal_call host_six = {.to = 6};
    uint8_t said[MOST];
    open_end(&caller, &job, AQI_SEAL_CALLER, &to_five);
    open_end(&listener, &job, AQI_SEAL_LISTENER, &host_six);
    assert_int_equal(tell(&caller, said, hear(&listener, said)), AQ_AGAIN);
    assert_int_equal(tell(&listener, said, hear(&caller, said)), AQ_EMISMATCH);
    assert_non_null(strstr(listener.why, "host 3 of this job expects host 5"));
    assert_int_equal(tell(&caller, said, hear(&listener, said)), AQ_EMISMATCH);
    assert_non_null(strstr(caller.why, "host 6 of this job, not host 5"));
    aqi_seal_close(&caller);
    aqi_seal_close(&listener);
}

/* Before authentication, an end looks at few bytes and keeps none of the rest. */
static void test_strangers(void **state)
{
    static uint8_t much[1u << 20];
    struct pair pair;
    open_pair(&pair);
    struct aqi_seal_frame frame;
    for (unsigned role = 0; role < 2; role++) {
        const uint8_t *at = much;
        size_t left = sizeof(much);
        assert_int_equal(aqi_seal_take(&pair.end[role], &at, &left, &frame), AQ_EPROTO);
        assert_int_equal(sizeof(much) - left, 8);
        assert_non_null(strstr(pair.end[role].why, "another program"));
        assert_null(pair.end[role].frame);
        assert_int_equal(pair.end[role].out_len, 0);
    }
    open_pair(&pair);
    memcpy(much, pair.said[0], 8); /* the right magic and version */
    const uint8_t *at = much;
    size_t left = sizeof(much);
    assert_int_equal(aqi_seal_take(&pair.end[LISTENER], &at, &left, &frame), AQ_EACCESS);
    assert_int_equal(sizeof(much) - left, CALL_LEN);
    assert_null(pair.end[LISTENER].frame);
    close_pair(&pair);
}

static void test_too_long(void **state)
{
    struct pair pair;
    shake(&pair);
    static const uint8_t head[] = {1, 0, 0x10, DATA}, none[] = {1, 0, 0, AQI_SEAL_READY};
    assert_int_equal(tell(&pair.end[LISTENER], head, sizeof(head)), AQ_EPROTO);
    assert_int_equal(tell(&pair.end[CALLER], none, sizeof(none)), AQ_EPROTO);
    assert_null(pair.end[LISTENER].frame);
    close_pair(&pair);
}

static int group_setup(void **state)
{
    const char *missing = aqi_mac_missing();
    if (missing != NULL) {
        print_message("%s\n", missing);
        exit(77);
    }
    return aqi_seal_job_open(&job, key) == AQ_OK &&
                   aqi_seal_job_open(&other_job, other_key) == AQ_OK
               ? 0
               : -1;
}

static int group_teardown(void **state)
{
    aqi_seal_job_close(&job);
    aqi_seal_job_close(&other_job);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_handshake_in_pieces),
        cmocka_unit_test(test_altered_handshake),
        cmocka_unit_test(test_altered_frames),
        cmocka_unit_test(test_other_order),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_two_callers),
        cmocka_unit_test(test_reflected_handshake),
        cmocka_unit_test(test_wrong_key),
        cmocka_unit_test(test_wrong_version),
        cmocka_unit_test(test_wrong_host),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_too_long),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
