/* Tests mac.c: published vectors, and that it does not matter how the input is divided. */
#include "base/mac.h"

#include "base/cmocka_test.h"

#include <stdio.h>
#include <string.h>

/* Key 00 01 .. 0f, message 00 01 .. */
static const struct {
    enum aqi_mac_kind kind;
    size_t len;
    const char *tag;
} vectors[] = {
    /* From the authors of SipHash. */
    {AQI_MAC_SIPHASH, 0, "a3817f04ba25a8e66df67214c7550293"},
    {AQI_MAC_SIPHASH, 1, "da87c1d86b99af44347659119b22fc45"},
    {AQI_MAC_SIPHASH, 15, "5493e99933b0a8117e08ec0f97cfc3d9"},
    /* From Python's hmac. */
    {AQI_MAC_HMAC, 0, "07eff8b326b7798c9ccfcbdbe579489a"},
    {AQI_MAC_HMAC, 1, "ec5ad48c9c1522495560b70a0a05729c"},
    {AQI_MAC_HMAC, 64, "e0c723677ca44416485805cd4478cae2"},
    {AQI_MAC_HMAC, 200, "9badaa052d5241e904f18588b7e2589c"},
};

/* As HMAC above, with the name of a use before the message. */
static const struct {
    const char *use;
    size_t len;
    const char *tag;
} uses[] = {
    {"links", 0, "f65cf989fa2041944e8c91bbe2e67cf6"},
    {"links", 64, "785e91b17b1c6784eca917c6f0fe5c39"},
    {"sixteen letters.", 0, "ad7e620c5fc1372dea042aa3f7ca2243"},
    {"sixteen letters.", 64, "a08327dd8745dd7e07849af62b7aa6d0"},
};

static void check_tag(const struct aqi_macs *macs, enum aqi_mac_kind kind, const char *use,
                      size_t len, size_t cut, const char *want)
{
    uint8_t key[AQI_MAC_BYTES], message[256], tag[AQI_MAC_BYTES];
    char text[2 * AQI_MAC_BYTES + 1];
    for (size_t i = 0; i < sizeof(message); i++)
        message[i] = (uint8_t)i;
    memcpy(key, message, sizeof(key));
    struct iovec iov[2] = {{message, cut}, {message + cut, len - cut}};
    if (use != NULL || kind == AQI_MAC_SIPHASH)
        aqi_macs_of(macs, use, key, iov, 2, tag);
    else
        aqi_mac_of(macs->proofs, key, iov, 2, tag);
    for (size_t i = 0; i < sizeof(tag); i++)
        snprintf(text + 2 * i, 3, "%02x", tag[i]);
    assert_string_equal(text, want);
}

static void vectors_of_others(void **state)
{
    struct aqi_macs macs;
    assert_int_equal(aqi_macs_open(&macs), AQ_OK);
    for (size_t i = 0; i < AQI_COUNT_OF(vectors); i++)
        for (size_t cut = 0; cut <= vectors[i].len; cut++)
            check_tag(&macs, vectors[i].kind, NULL, vectors[i].len, cut, vectors[i].tag);
    for (size_t i = 0; i < AQI_COUNT_OF(uses); i++)
        for (size_t cut = 0; cut <= uses[i].len; cut++)
            check_tag(&macs, AQI_MAC_HMAC, uses[i].use, uses[i].len, cut, uses[i].tag);
    aqi_macs_close(&macs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors_of_others)};
    if (aqi_mac_missing() != NULL) {
        printf("skipped: %s\n", aqi_mac_missing());
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
