/* fi: names of endpoints, and the URIs derived from them. */
#include "front/fi/name.h"

#include "base/here.h"
#include "base/inet.h"
#include "base/mac.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const unsigned char name_magic[3] = {'a', 'q', 'f'};

static int name_random(void *at, size_t len)
{
    return getrandom(at, len, 0) == (ssize_t)len ? 0 : -errno;
}

/*
 * Processes on the same boot of a kernel and in the same network namespace reach each other
 * through shared memory, as its rendezvous is a socket in that namespace.
 */
static int name_find_host(uint8_t host[AFI_ID])
{
    const char *alone = getenv("AQ_NEIGHBORHOOD");
    uint64_t number = aqi_here_network();
    if ((alone != NULL && strcmp(alone, "1") == 0) || number == 0) return name_random(host, AFI_ID);
    memcpy(host, &number, sizeof(number));
    return 0;
}

static void name_add_ranked(struct afi_name *name, const struct ifaddrs *all,
                            enum aqi_interface_rank rank)
{
    for (const struct ifaddrs *at = all; at != NULL && name->count < AFI_ADDRESSES;
         at = at->ifa_next) {
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET ||
            aqi_interface_rank(at->ifa_name, at->ifa_flags) != rank)
            continue;
        const struct sockaddr_in *in = (const void *)at->ifa_addr;
        memcpy(name->address[name->count++], &in->sin_addr, sizeof(in->sin_addr));
        name->transports = AFI_BY_UDP;
    }
}

static void name_add_six(struct afi_name *name, const struct ifaddrs *all,
                         enum aqi_interface_rank rank)
{
    for (const struct ifaddrs *at = all; at != NULL && name->count == 0; at = at->ifa_next) {
        if (aqi_sockaddr_rank(at->ifa_addr) != 1 ||
            aqi_interface_rank(at->ifa_name, at->ifa_flags) != rank)
            continue;
        const struct sockaddr_in6 *six = (const void *)at->ifa_addr;
        memcpy(name->address, &six->sin6_addr, sizeof(six->sin6_addr));
        name->count = 1;
        name->transports = AFI_BY_UDP6;
    }
}

/*
 * The best addresses come first, as there may be more than fit. Loopback is used only if there is
 * no other address, and IPv6 only if there is no IPv4 address, as space is limited.
 */
static void name_find_addresses(struct afi_name *name)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0) return;
    name_add_ranked(name, all, AQI_INTERFACE_REAL);
    name_add_ranked(name, all, AQI_INTERFACE_VIRTUAL);
    name_add_six(name, all, AQI_INTERFACE_REAL);
    name_add_six(name, all, AQI_INTERFACE_VIRTUAL);
    if (name->count == 0) name_add_ranked(name, all, AQI_INTERFACE_LOOPBACK);
    name_add_six(name, all, AQI_INTERFACE_LOOPBACK);
    freeifaddrs(all);
}

int afi_name_make(struct afi_name *name)
{
    memset(name, 0, sizeof(*name));
    memcpy(name->magic, name_magic, sizeof(name_magic));
    name->version = aqi_wire_version(AQI_WIRE_FI);
    int err = name_random(name->id, sizeof(name->id));
    if (err == 0) err = name_random(name->secret, sizeof(name->secret));
    if (err == 0) err = name_find_host(name->host);
    if (err == 0) name_find_addresses(name);
    return err;
}

bool afi_name_is_other(const struct afi_name *name)
{
    return memcmp(name->magic, name_magic, sizeof(name_magic)) == 0 &&
           name->version != aqi_wire_version(AQI_WIRE_FI);
}

bool afi_name_is_valid(const struct afi_name *name)
{
    return memcmp(name->magic, name_magic, sizeof(name_magic)) == 0 &&
           name->version == aqi_wire_version(AQI_WIRE_FI) && name->count <= AFI_ADDRESSES &&
           (name->transports & (AFI_BY_SHM | AFI_BY_UDP | AFI_BY_UDP6)) != 0;
}

static void name_hex(const uint8_t id[AFI_ID], char text[2 * AFI_ID + 1])
{
    for (unsigned i = 0; i < AFI_ID; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
}

static bool name_is_by_udp(const struct afi_name *name)
{
    return (name->transports & (AFI_BY_UDP | AFI_BY_UDP6)) != 0;
}

static void name_address_uri(const struct afi_name *name, unsigned n, char *uri, size_t len)
{
    char text[INET6_ADDRSTRLEN];
    bool six = (name->transports & AFI_BY_UDP6) != 0;
    inet_ntop(six ? AF_INET6 : AF_INET, six ? name->address[0] : name->address[n], text,
              sizeof(text));
    snprintf(uri, len, six ? "udp://[%s]:%u" : "udp://%s:%u", text, name->port);
}

bool afi_name_by_shm(const struct afi_name *self, const struct afi_name *name)
{
    return memcmp(self->host, name->host, AFI_ID) == 0 &&
           (self->transports & name->transports & AFI_BY_SHM) != 0;
}

bool afi_name_uri(const struct afi_name *self, const struct afi_name *name, unsigned n, char *uri,
                  size_t len)
{
    if (afi_name_by_shm(self, name)) {
        char id[2 * AFI_ID + 1];
        name_hex(name->id, id);
        snprintf(uri, len, "shm:///aqueduct-fi/%s", id);
        return n == 0;
    }
    if (!name_is_by_udp(self) || !name_is_by_udp(name) || n >= name->count) return false;
    name_address_uri(name, n, uri, len);
    return true;
}

int afi_name_text(const struct afi_name *name, char *text, size_t len)
{
    char id[2 * AFI_ID + 1], at[64] = "";
    name_hex(name->id, id);
    if (name->count != 0 && name_is_by_udp(name)) name_address_uri(name, 0, at, sizeof(at));
    return snprintf(text, len, "fi_aqueduct://%s%s%s", id, at[0] != 0 ? "@" : "", at);
}

int afi_name_prove(const struct afi_name *to, const uint8_t *from, const char *what,
                   uint32_t number, uint8_t proof[AFI_SECRET])
{
    struct aqi_mac *mac;
    const struct iovec parts[] = {
        {.iov_base = (void *)(uintptr_t)what, .iov_len = strlen(what)},
        {.iov_base = (void *)(uintptr_t)from, .iov_len = AFI_ID},
        {.iov_base = (void *)(uintptr_t)to->id, .iov_len = AFI_ID},
        {.iov_base = &number, .iov_len = sizeof(number)},
    };
    if (aqi_mac_open(AQI_MAC_HMAC, &mac) != AQ_OK) return -ENOSYS;
    aqi_mac_of(mac, to->secret, parts, AQI_COUNT_OF(parts), proof);
    aqi_mac_close(mac);
    return 0;
}
