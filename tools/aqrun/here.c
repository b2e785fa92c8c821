/* Determines whether a name refers to this machine. */
#include "base/inet.h"
#include "hosts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool here_has_address(const struct sockaddr *address)
{
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all) != 0) return false;
    for (const struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next)
        found = aqi_sockaddr_same_ip(i->ifa_addr, address);
    freeifaddrs(all);
    return found;
}

/* Parse an address, ignoring its zone (fe80::1%eth0), which is only meaningful here. */
static bool here_is_address(const char *name, bool *here)
{
    union aqi_sockaddr at;
    char address[INET6_ADDRSTRLEN];
    size_t len = strcspn(name, "%");
    if (len >= sizeof(address)) return false;
    memcpy(address, name, len);
    address[len] = '\0';
    if (inet_pton(AF_INET, address, &at.v4.sin_addr) == 1)
        at.any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, address, &at.v6.sin6_addr) == 1)
        at.any.sa_family = AF_INET6;
    else
        return false;
    bool loopback = at.any.sa_family == AF_INET && ntohl(at.v4.sin_addr.s_addr) >> 24 == 127;
    *here = loopback || here_has_address(&at.any);
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
