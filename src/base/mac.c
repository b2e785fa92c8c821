/* Keyed hashes by libcrypto, with the few declarations of its API that are needed. */
#include "base/mac.h"

#include "base/fail.h"
#include "base/library.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MAC_LIBRARY "libcrypto.so.3"

/* OSSL_PARAM of <openssl/core.h>, whose layout is stable. */
struct mac_param {
    const char *key;
    unsigned type;
    const void *data;
    size_t size, returned;
};
enum { MAC_PARAM_TEXT = 4 };

static struct {
    const char *missing;
    void *(*fetch)(void *library, const char *algorithm, const char *properties);
    void (*forget)(void *algorithm);
    void *(*create)(void *algorithm);
    void (*destroy)(void *context);
    int (*init)(void *context, const unsigned char *key, size_t len,
                const struct mac_param *params);
    int (*update)(void *context, const unsigned char *data, size_t len);
    int (*final)(void *context, unsigned char *out, size_t *len, size_t room);
} mac_calls;

static const struct aqi_symbol mac_symbols[] = {
    {"EVP_MAC_fetch", &mac_calls.fetch},    {"EVP_MAC_free", &mac_calls.forget},
    {"EVP_MAC_CTX_new", &mac_calls.create}, {"EVP_MAC_CTX_free", &mac_calls.destroy},
    {"EVP_MAC_init", &mac_calls.init},      {"EVP_MAC_update", &mac_calls.update},
    {"EVP_MAC_final", &mac_calls.final},
};

static const struct {
    const char *algorithm, *digest;
} mac_kinds[] = {
    [AQI_MAC_HMAC] = {"HMAC", "SHA256"},
    [AQI_MAC_SIPHASH] = {"SIPHASH", NULL},
};

struct aqi_mac {
    void *context;
    struct mac_param params[2];
};

static void mac_load(void)
{
    static char why[320];
    const char *missing = aqi_library_load(MAC_LIBRARY, mac_symbols, AQI_COUNT_OF(mac_symbols));
    if (missing == NULL) return;
    if (strcmp(missing, MAC_LIBRARY) == 0)
        aqi_library_advice("libssl3 (OpenSSL 3)", sizeof(why), why);
    else
        snprintf(why, sizeof(why), MAC_LIBRARY " has no %s: install libssl3 (OpenSSL 3)", missing);
    mac_calls.missing = why;
}

const char *aqi_mac_missing(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, mac_load);
    return mac_calls.missing;
}

aq_status aqi_mac_open(enum aqi_mac_kind kind, struct aqi_mac **out)
{
    const char *missing = aqi_mac_missing(), *digest = mac_kinds[kind].digest;
    if (missing != NULL) return aqi_fail(AQ_ENOTSUP, "base", "%s", missing);
    struct aqi_mac *mac = calloc(1, sizeof(*mac));
    void *algorithm = mac_calls.fetch(NULL, mac_kinds[kind].algorithm, NULL);
    if (mac != NULL && algorithm != NULL) mac->context = mac_calls.create(algorithm);
    if (algorithm != NULL) mac_calls.forget(algorithm); /* the context keeps a reference */
    if (mac == NULL || mac->context == NULL) {
        free(mac);
        return aqi_fail(AQ_ENOTSUP, "base",
                        MAC_LIBRARY " has no %s: check that its configuration (openssl.cnf) does "
                                    "not disable the default provider",
                        mac_kinds[kind].algorithm);
    }
    if (digest != NULL)
        mac->params[0] = (struct mac_param){"digest", MAC_PARAM_TEXT, digest, strlen(digest), 0};
    *out = mac;
    return AQ_OK;
}

void aqi_mac_close(struct aqi_mac *mac)
{
    if (mac == NULL) return;
    mac_calls.destroy(mac->context);
    free(mac);
}

aq_status aqi_macs_open(struct aqi_macs *macs)
{
    *macs = (struct aqi_macs){0};
    aq_status st = aqi_mac_open(AQI_MAC_HMAC, &macs->proofs);
    if (st == AQ_OK) st = aqi_mac_open(AQI_MAC_SIPHASH, &macs->packets);
    if (st != AQ_OK) aqi_macs_close(macs);
    return st;
}

void aqi_macs_close(struct aqi_macs *macs)
{
    aqi_mac_close(macs->proofs);
    aqi_mac_close(macs->packets);
    *macs = (struct aqi_macs){0};
}

void aqi_mac_for(struct aqi_mac *mac, const char *use, const uint8_t secret[AQI_MAC_BYTES],
                 const struct iovec *iov, unsigned niov, uint8_t tag[AQI_MAC_BYTES])
{
    unsigned char whole[64] = "";
    size_t len = 0;
    int ok = mac_calls.init(mac->context, secret, AQI_MAC_BYTES, mac->params);
    if (use != NULL) {
        assert(strlen(use) <= AQI_MAC_USE);
        memcpy(whole, use, strnlen(use, AQI_MAC_USE));
        ok = ok && mac_calls.update(mac->context, whole, AQI_MAC_USE);
    }
    for (unsigned i = 0; i < niov && ok; i++)
        ok = mac_calls.update(mac->context, iov[i].iov_base, iov[i].iov_len);
    ok = ok && mac_calls.final(mac->context, whole, &len, sizeof(whole)) && len >= AQI_MAC_BYTES;
    if (!ok && getrandom(whole, AQI_MAC_BYTES, 0) != AQI_MAC_BYTES) abort();
    memcpy(tag, whole, AQI_MAC_BYTES);
}
