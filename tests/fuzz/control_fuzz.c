/*
 * Any bytes as a message between a rank and aqrun: an accepted message is well-formed, and encodes
 * to the same bytes.
 */
#include "fuzz.h"
#include "job/control.h"

#include <string.h>

/* Properties on which later code relies without checking. */
static void check_sense(const struct aqi_control *m, const uint8_t *bytes, size_t size)
{
    fuzz_require(m->type > 0 && m->type < AQI_CONTROL_TYPES, "the type exists");
    fuzz_require((const uint8_t *)m->data + m->len == bytes + size,
                 "the data ends with the message");
    fuzz_require(m->len <= AQI_CONTROL_CHUNK, "the data is bounded");
    if (m->type == AQI_CONTROL_JOB)
        fuzz_require(m->rank < m->size && m->size <= AQI_MAX_RANKS && m->host < m->hosts &&
                         m->local_rank < m->local_size && m->local_size <= m->size,
                     "the rank is in the job");
    if (m->type == AQI_CONTROL_CALL) fuzz_require(m->call < AQI_CALLS, "the call exists");
    if (m->type == AQI_CONTROL_RESULT && m->status == AQ_OK)
        fuzz_require(m->offset <= m->bytes && m->len <= m->bytes - m->offset,
                     "a piece lies within its result");
}

/*
 * Encoding it again reproduces the message, except for the version in a REFUSE of another version.
 */
static void check_again(const struct aqi_control *m, const uint8_t *bytes, size_t size)
{
    uint8_t head[AQI_CONTROL_HEAD];
    size_t n = aqi_control_encode(m, head);
    fuzz_require(n > 0 && n + m->len == size, "a decoded message can be encoded");
    fuzz_require(memcmp(head + 2, bytes + 2, n - 2) == 0, "encoding reproduces the message");
}

static void check_text(const struct aqi_control *m)
{
    char text[AQI_CONTROL_TEXT + 2];
    memset(text, 0x7f, sizeof(text));
    aqi_control_text(m, text);
    fuzz_require((unsigned char)text[sizeof(text) - 1] == 0x7f, "a text fits its field");
    for (size_t i = 0; text[i] != '\0'; i++)
        fuzz_require((unsigned char)text[i] >= ' ' && text[i] != 0x7f, "a text is one line");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct aqi_control message, before;
    memset(&message, 0xa5, sizeof(message));
    before = message;
    /* In a block of its own, so that reads beyond its end are detected. */
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    if (bytes == NULL) abort();
    if (size > 0) memcpy(bytes, data, size);
    aq_status status = aqi_control_decode(bytes, size, &message);
    if (status == AQ_OK) {
        check_sense(&message, bytes, size);
        check_again(&message, bytes, size);
        check_text(&message);
    } else if (status == AQ_EMISMATCH) {
        fuzz_require(message.version != aqi_wire_version(AQI_WIRE_CONTROL),
                     "another version differs from ours");
    } else {
        fuzz_require(status == AQ_EPROTO, "a refused message is malformed or of another version");
        fuzz_require(memcmp(&message, &before, sizeof(message)) == 0,
                     "a refusal leaves the message unchanged");
    }
    free(bytes);
    return 0;
}
