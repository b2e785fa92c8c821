/* Options of the sockets that ports open. */
#include "dgram/ports/options.h"

#include "base/log.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <linux/sock_diag.h>

void ports_options_set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

void ports_options_whole(int fd, int family)
{
    bool six = family == AF_INET6;
    ports_options_set(fd, six ? IPPROTO_IPV6 : IPPROTO_IP,
                      six ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
                      six ? IPV6_PMTUDISC_PROBE : IP_PMTUDISC_PROBE);
}

/* The kernel doubles the size requested, and charges packets with all their memory. */
size_t ports_options_buffer(int fd, int option, int force, size_t wanted)
{
    int given = 0, ask = (int)aqi_min(wanted, INT32_MAX / 2);
    socklen_t len = sizeof(given);
    ports_options_set(fd, SOL_SOCKET, option, ask);
    (void)getsockopt(fd, SOL_SOCKET, option, &given, &len);
    if (given / 2 < ask) ports_options_set(fd, SOL_SOCKET, force, ask);
    (void)getsockopt(fd, SOL_SOCKET, option, &given, &len);
    return (size_t)given / 2;
}

uint64_t ports_options_drops(int fd)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t len = sizeof(info);
    (void)getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len);
    return info[SK_MEMINFO_DROPS];
}

size_t ports_options_receive_buffer(int fd, size_t wanted)
{
    static atomic_bool once;
    size_t given = ports_options_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, wanted);
    if (given < wanted)
        aqi_log_once(&once, AQI_LOG_INFO, "udp",
                     "receive buffers have %zu bytes instead of %zu: \"sysctl -w "
                     "net.core.rmem_max=%zu\" allows more",
                     given, wanted, wanted);
    return given;
}
