/*
 * udp: transports that are an end of a connection by URI. Such a transport has its own key, derived
 * from the secret that both programs may share and a random number in the client's address, which
 * the call carries; and its interface is chosen by the route to the other end, not to the hosts of
 * a job.
 */
#include "base/fail.h"
#include "base/random.h"
#include "transport/udp/udp_impl.h"

#include <string.h>

static pthread_mutex_t udp_connection_lock = PTHREAD_MUTEX_INITIALIZER;
static struct udp_secret udp_connection_secret;

void udp_connection_set_secret(const struct udp_secret *secret)
{
    pthread_mutex_lock(&udp_connection_lock);
    udp_connection_secret = *secret;
    pthread_mutex_unlock(&udp_connection_lock);
}

void udp_connection_derive(struct aqi_mac *mac, const char *what,
                           const uint8_t caller[UDP_CALL_BYTES],
                           const uint8_t listener[UDP_CALL_BYTES], uint8_t key[AQI_MAC_BYTES])
{
    pthread_mutex_lock(&udp_connection_lock);
    struct udp_secret secret = udp_connection_secret;
    pthread_mutex_unlock(&udp_connection_lock);
    udp_secret_derive(mac, &secret, what, caller, listener, key);
}

static aq_status udp_connection_malformed(void)
{
    return aqi_fail(AQ_EPROTO, "udp", "the address of a client is malformed");
}

/* Get the host of the URI, or that in the client's address. */
static aq_status udp_connection_towards(const struct aqi_tp_params *params,
                                        const struct udp_addr *client, char towards[AQI_URI_MAX])
{
    struct udp_uri uri;
    union aqi_sockaddr at;
    if (params->towards != NULL) {
        if (!udp_uri_read(params->towards, &uri)) return udp_uri_bad(params->towards);
        memcpy(towards, uri.host, sizeof(uri.host));
        return udp_group_is_not(params->towards, &uri);
    }
    if (!ports_address_to(&client->at, AQI_DGRAM_COMMAND, 0, &at))
        return udp_connection_malformed();
    (void)aqi_sockaddr_ip_text(&at.any, towards);
    return AQ_OK;
}

aq_status udp_connection_begin(struct udp_tp *udp, char towards[AQI_URI_MAX])
{
    const struct aqi_tp_params *params = &udp->params;
    struct udp_own *own = &udp->own;
    const uint8_t none[UDP_CALL_BYTES] = {0};
    udp->authenticate = udp_config.auth == UDP_AUTH_MAC;
    if (params->towards == NULL && params->like == NULL) return AQ_OK;
    own->is_connection = true;
    memcpy(own->addr.base.magic, udp_magic, sizeof(udp_magic));
    if (params->like != NULL) {
        if (params->like_len != sizeof(own->addr)) return udp_connection_malformed();
        memcpy(&own->addr, params->like, sizeof(own->addr));
        if (udp->authenticate && !own->addr.authenticate)
            return aqi_fail(
                AQ_EMISMATCH, "udp",
                "packets carry a MAC here (AQ_UDP_AUTH=mac): the client must set that as well");
        udp->authenticate = own->addr.authenticate != 0;
    } else {
        aq_status st = aqi_random(own->addr.nonce, sizeof(own->addr.nonce), "udp");
        if (st != AQ_OK) return st;
    }
    own->addr.authenticate = udp->authenticate;
    aq_status st = udp_connection_towards(params, &own->addr.base, towards);
    if (st != AQ_OK) return st;
    udp_connection_derive(udp->macs.proofs, "connection", own->addr.nonce, none, udp->params.key);
    return AQ_OK;
}
