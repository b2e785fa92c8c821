/* IP addresses as text, and which network interfaces are suitable. */
#include "base/inet.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool inet_port(const char *text, in_port_t *port)
{
    size_t digits = strspn(text, "0123456789");
    unsigned long number = strtoul(text, NULL, 10);
    if (digits == 0 || digits > 5 || text[digits] != '\0' || number == 0 || number > UINT16_MAX)
        return false;
    *port = htons((uint16_t)number);
    return true;
}

/* The scope after % is an interface's name or number. */
static bool inet_six(char *ip, struct sockaddr_in6 *six)
{
    char *scope = strchr(ip, '%');
    if (scope != NULL) *scope++ = '\0';
    six->sin6_family = AF_INET6;
    if (inet_pton(AF_INET6, ip, &six->sin6_addr) != 1) return false;
    if (scope == NULL) return true;
    six->sin6_scope_id = if_nametoindex(scope);
    if (six->sin6_scope_id == 0) six->sin6_scope_id = (uint32_t)strtoul(scope, NULL, 10);
    return six->sin6_scope_id != 0;
}

bool aqi_sockaddr_read_ip(const char *text, union aqi_sockaddr *at)
{
    union aqi_sockaddr read = {.any.sa_family = AF_INET};
    char ip[AQI_SOCKADDR_TEXT];
    if (inet_pton(AF_INET, text, &read.v4.sin_addr) != 1) {
        memset(&read, 0, sizeof(read));
        if (strlen(text) >= sizeof(ip) || !inet_six(strcpy(ip, text), &read.v6)) return false;
    }
    *at = read;
    return true;
}

bool aqi_sockaddr_read(const char *text, union aqi_sockaddr *at)
{
    union aqi_sockaddr read;
    char ip[AQI_SOCKADDR_TEXT];
    bool six = text[0] == '[';
    const char *begin = six ? text + 1 : text, *end = strstr(begin, six ? "]:" : ":");
    if (end == NULL || (size_t)(end - begin) >= sizeof(ip)) return false;
    memcpy(ip, begin, (size_t)(end - begin));
    ip[end - begin] = '\0';
    if (!aqi_sockaddr_read_ip(ip, &read) || six != (read.any.sa_family == AF_INET6)) return false;
    if (!inet_port(end + (six ? 2 : 1), aqi_sockaddr_port(&read))) return false;
    *at = read;
    return true;
}

bool aqi_sockaddr_same_ip(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a == NULL || a->sa_family != b->sa_family) return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}

bool aqi_sockaddr_is_any(const union aqi_sockaddr *address)
{
    return address->any.sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr)
                                              : address->v4.sin_addr.s_addr == htonl(INADDR_ANY);
}

const char *aqi_sockaddr_ip_text(const struct sockaddr *at, char text[INET6_ADDRSTRLEN])
{
    const union aqi_sockaddr *ip = (const void *)at;
    text[0] = '\0';
    if (at->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&ip->v6.sin6_addr))
        (void)inet_ntop(AF_INET, &ip->v6.sin6_addr.s6_addr[12], text, INET6_ADDRSTRLEN);
    else if (at->sa_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &ip->v6.sin6_addr, text, INET6_ADDRSTRLEN);
    else if (at->sa_family == AF_INET)
        (void)inet_ntop(AF_INET, &ip->v4.sin_addr, text, INET6_ADDRSTRLEN);
    return text;
}

const char *aqi_sockaddr_text(const union aqi_sockaddr *at, char text[AQI_SOCKADDR_TEXT])
{
    char ip[INET6_ADDRSTRLEN], scope[IF_NAMESIZE + 1] = "";
    unsigned port = ntohs(at->any.sa_family == AF_INET6 ? at->v6.sin6_port : at->v4.sin_port);
    bool six = at->any.sa_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&at->v6.sin6_addr);
    if (aqi_sockaddr_ip_text(&at->any, ip)[0] == '\0') strcpy(ip, "?");
    if (six && at->v6.sin6_scope_id != 0) {
        scope[0] = '%';
        if (if_indextoname(at->v6.sin6_scope_id, scope + 1) == NULL)
            snprintf(scope + 1, sizeof(scope) - 1, "%u", at->v6.sin6_scope_id);
    }
    snprintf(text, AQI_SOCKADDR_TEXT, six ? "[%s%s]:%u" : "%s%s:%u", ip, scope, port);
    return text;
}

int aqi_inet_resolve(const char *host, const char *port, const struct addrinfo *hints,
                     struct addrinfo **list)
{
    struct addrinfo wanted = *hints;
    bool loopback = strcasecmp(host, "localhost") == 0;
    if (loopback) wanted.ai_flags &= ~AI_PASSIVE; /* no host then means loopback */
    return getaddrinfo(loopback ? NULL : host, port, &wanted, list);
}

static bool inet_begins(const char *name, const char *const *prefixes)
{
    for (; *prefixes != NULL; prefixes++)
        if (strncmp(name, *prefixes, strlen(*prefixes)) == 0) return true;
    return false;
}

/*
 * Bridges for containers and virtual machines do not reach other hosts. Their ports may be the only
 * interfaces that a container has.
 */
enum aqi_interface_rank aqi_interface_rank(const char *name, unsigned flags)
{
    static const char *const bridges[] = {"docker", "br-", "virbr", "lxcbr", "lxdbr",
                                          "podman", "cni", "kube",  "cali",  NULL};
    static const char *const ends[] = {"veth", "tun", "tap", "wg", NULL};
    if ((flags & IFF_UP) == 0 || (flags & IFF_RUNNING) == 0) return AQI_INTERFACE_NEVER;
    if ((flags & IFF_LOOPBACK) != 0) return AQI_INTERFACE_LOOPBACK;
    if (inet_begins(name, bridges)) return AQI_INTERFACE_NEVER;
    return inet_begins(name, ends) || (flags & IFF_POINTOPOINT) != 0 ? AQI_INTERFACE_VIRTUAL
                                                                     : AQI_INTERFACE_REAL;
}

unsigned aqi_sockaddr_rank(const struct sockaddr *at)
{
    if (at == NULL) return 0;
    if (at->sa_family == AF_INET) return 2;
    if (at->sa_family != AF_INET6) return 0;
    const struct sockaddr_in6 *six = (const void *)at;
    return IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) ? 0 : 1;
}
