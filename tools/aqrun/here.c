/* Determines whether a name refers to this machine. */
#include "hosts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool here_same_address(const struct sockaddr *address, int family, const void *bytes)
{
    if (address == NULL || address->sa_family != family) return false;
    if (family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        return memcmp(&in->sin_addr, bytes, sizeof(in->sin_addr)) == 0;
    }
    const struct sockaddr_in6 *in6 = (const void *)address;
    return memcmp(&in6->sin6_addr, bytes, sizeof(in6->sin6_addr)) == 0;
}

static bool here_has_address(int family, const void *bytes)
{
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all) != 0) return false;
    for (const struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next)
        found = here_same_address(i->ifa_addr, family, bytes);
    freeifaddrs(all);
    return found;
}

/* Parse an address, ignoring its zone (fe80::1%eth0), which is only meaningful here. */
static bool here_is_address(const char *name, bool *here)
{
    uint8_t bytes[sizeof(struct in6_addr)];
    char address[INET6_ADDRSTRLEN];
    size_t len = strcspn(name, "%");
    if (len >= sizeof(address)) return false;
    memcpy(address, name, len);
    address[len] = '\0';
    if (inet_pton(AF_INET, address, bytes) == 1)
        *here = bytes[0] == 127 || here_has_address(AF_INET, bytes);
    else if (inet_pton(AF_INET6, address, bytes) == 1)
        *here = here_has_address(AF_INET6, bytes);
    else
        return false;
    return true;
}

bool hosts_is_here(const char *name)
{
    char own[HOSTS_NAME + 1] = "";
    bool here;
    if (strcasecmp(name, "localhost") == 0) return true;
    if (here_is_address(name, &here)) return here;
    if (gethostname(own, sizeof(own) - 1) != 0) return false;
    if (strcasecmp(name, own) == 0) return true;
    /* They may still match if only one of the names has a domain. */
    const char *name_dot = strchr(name, '.'), *own_dot = strchr(own, '.');
    if ((name_dot == NULL) == (own_dot == NULL)) return false;
    size_t len = name_dot != NULL ? (size_t)(name_dot - name) : strlen(name);
    size_t own_len = own_dot != NULL ? (size_t)(own_dot - own) : strlen(own);
    return len == own_len && strncasecmp(name, own, len) == 0;
}
