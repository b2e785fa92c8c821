/* Determines whether a name refers to this machine. */
#include "base/inet.h"
#include "hosts.h"

#include <ifaddrs.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool here_has_address(const union aqi_sockaddr *address)
{
    struct ifaddrs *all;
    bool found = address->any.sa_family == AF_INET &&
                 ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    if (found || getifaddrs(&all) != 0) return found;
    for (const struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next)
        found = aqi_sockaddr_same_ip(i->ifa_addr, &address->any);
    freeifaddrs(all);
    return found;
}

bool hosts_is_here(const char *name)
{
    char own[HOSTS_NAME + 1] = "";
    union aqi_sockaddr address;
    if (strcasecmp(name, "localhost") == 0) return true;
    if (aqi_sockaddr_read_ip(name, &address)) return here_has_address(&address);
    if (gethostname(own, sizeof(own) - 1) != 0) return false;
    if (strcasecmp(name, own) == 0) return true;
    /* They may still match if only one of the names has a domain. */
    const char *name_dot = strchr(name, '.'), *own_dot = strchr(own, '.');
    if ((name_dot == NULL) == (own_dot == NULL)) return false;
    size_t len = name_dot != NULL ? (size_t)(name_dot - name) : strlen(name);
    size_t own_len = own_dot != NULL ? (size_t)(own_dot - own) : strlen(own);
    return len == own_len && strncasecmp(name, own, len) == 0;
}
