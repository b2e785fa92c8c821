/* Any bytes as a message from a stranger, and any message encoded and decoded. */
#include "fuzz.h"
#include "transport/hello.h"

#include <string.h>

static void check_again(const struct aqi_hello *hello, const uint8_t *data, size_t len)
{
    struct aqi_hello again;
    unsigned char *copy = malloc(AQI_HELLO_MAX);
    if (copy == NULL) abort();
    size_t n = aqi_hello_encode(hello, copy);
    fuzz_require(n == len, "an encoded and decoded message has the same length");
    fuzz_require(aqi_hello_decode(copy, n, &again) == AQ_OK, "an encoded message can be decoded");
    fuzz_require(memcmp(copy + AQI_HELLO_HEADER, data + AQI_HELLO_HEADER, len - AQI_HELLO_HEADER) ==
                     0,
                 "address, key and data are the same");
    fuzz_require(again.type == hello->type && again.objects == hello->objects &&
                     again.memory == hello->memory && again.messages == hello->messages &&
                     again.transport == hello->transport && again.code == hello->code &&
                     again.status == hello->status && again.nbytes == hello->nbytes &&
                     again.max_medium == hello->max_medium &&
                     again.segment_addr == hello->segment_addr &&
                     again.segment_size == hello->segment_size &&
                     again.segment_offset == hello->segment_offset,
                 "the fields are the same");
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct aqi_hello hello, before;
    memset(&hello, 0xa5, sizeof(hello));
    before = hello;
    /* An exact copy, so that a sanitizer detects a read beyond it. */
    uint8_t *exact = malloc(len != 0 ? len : 1);
    if (exact == NULL) abort();
    if (len != 0) memcpy(exact, data, len);
    aq_status st = aqi_hello_decode(exact, len, &hello);
    if (st != AQ_OK) {
        fuzz_require(st == AQ_EPROTO || st == AQ_EMISMATCH, "a refusal has one of two causes");
        if (st == AQ_EMISMATCH) {
            fuzz_require(hello.version != aqi_wire_version(AQI_WIRE_CONNECTION),
                         "another version differs from ours");
            hello.version = before.version;
        }
        fuzz_require(memcmp(&hello, &before, sizeof(hello)) == 0, "a refusal writes nothing else");
    } else {
        fuzz_require(hello.type != 0 && hello.type < AQI_HELLO_END, "a message has a type");
        fuzz_require(hello.objects <= AQI_RENDEZVOUS_FDS && hello.memory <= 1, "few descriptors");
        fuzz_require(hello.addr_len <= AQI_ADDR_MAX && hello.key_len <= AQI_KEY_MAX,
                     "address and key are bounded");
        fuzz_require(hello.nbytes <= AQI_HELLO_DATA_MAX, "data is bounded");
        fuzz_require((const uint8_t *)hello.data + hello.nbytes == exact + len,
                     "data ends where the message ends");
        check_again(&hello, exact, len);
    }
    free(exact);
    return 0;
}
