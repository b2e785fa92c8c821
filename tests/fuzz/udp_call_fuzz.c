/* Any bytes as a packet of a call, also with the right check value, and any text as a URI. */
#include "fuzz.h"
#include "transport/udp/udp_call.h"

#include <string.h>

static void check_packet(struct aqi_mac *mac, const uint8_t *exact, size_t len)
{
    static const struct udp_secret none;
    struct udp_call call, before;
    memset(&call, 0xa5, sizeof(call));
    before = call;
    if (udp_call_read_other(mac, exact, len, &call)) {
        fuzz_require(len == sizeof(call) &&
                         memcmp(&call, exact, offsetof(struct udp_call, listener)) == 0,
                     "the fields common to all versions are read");
        fuzz_require(call.version != aqi_wire_version(AQI_WIRE_CALL) ||
                         call.packets != aqi_wire_version(AQI_WIRE_UDP),
                     "another version differs from ours");
        fuzz_require(!udp_call_read(mac, exact, len, &call),
                     "it is not accepted as this version, too");
    } else if (!udp_call_read(mac, exact, len, &call)) {
        fuzz_require(memcmp(&call, &before, sizeof(call)) == 0, "a refusal writes nothing");
    } else {
        fuzz_require(len == sizeof(call) && memcmp(&call, exact, len) == 0, "it is unchanged");
        fuzz_require(call.kind != 0 && call.kind < UDP_CALL_KINDS, "it has a kind");
    }
    if (len < sizeof(call)) return;
    memcpy(&before, exact, sizeof(before));
    uint8_t kind = before.kind;
    udp_call_seal(mac, &none, (enum udp_call_kind)kind, &before);
    fuzz_require(udp_call_read(mac, &before, sizeof(before), &call) ==
                     (kind != 0 && kind < UDP_CALL_KINDS),
                 "a sealed packet of a valid kind is accepted");
    fuzz_require(udp_call_proved(mac, &none, &before), "its proof is valid");
}

static void check_uri(const char *text)
{
    struct udp_uri uri, again;
    char copy[2 * AQI_URI_MAX];
    if (!udp_uri_read(text, &uri)) return;
    fuzz_require(strlen(uri.host) < sizeof(uri.host) && strlen(uri.port) < sizeof(uri.port),
                 "both end");
    fuzz_require(strlen(text) >= strlen(uri.host) + 6, "the host is part of the text");
    fuzz_require(strspn(uri.port, "0123456789") == strlen(uri.port), "a port is a number");
    snprintf(copy, sizeof(copy), strchr(uri.host, ':') != NULL ? "udp://[%s]:%s" : "udp://%s:%s",
             uri.host, uri.port);
    fuzz_require(udp_uri_read(copy, &again) && strcmp(again.host, uri.host) == 0 &&
                     strcmp(again.port, uri.port) == 0,
                 "a parsed address can be formatted and parsed again");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct aqi_mac *mac;
    if (mac == NULL && aqi_mac_open(AQI_MAC_HMAC, &mac) != AQ_OK) fuzz_missing();
    /* An exact copy, so that a sanitizer detects a read beyond it. */
    uint8_t *exact = malloc(len != 0 ? len : 1);
    char *text = malloc(len + 1);
    if (exact == NULL || text == NULL) abort();
    if (len != 0) memcpy(exact, data, len);
    if (len != 0) memcpy(text, data, len);
    text[len] = 0;
    check_packet(mac, exact, len);
    check_uri(text);
    free(text);
    free(exact);
    return 0;
}
