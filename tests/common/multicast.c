/* Multicast groups on loopback. */
#include "multicast.h"

#include "data.h"

#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct sockaddr_in multicast_choose(void)
{
    for (uint64_t tries = 0; tries < 1000; tries++) {
        uint64_t random = mix((uint64_t)getpid() * 1000003 + tries);
        struct sockaddr_in group = {.sin_family = AF_INET,
                                    /* below the ephemeral ports */
                                    .sin_port = htons((uint16_t)(10000 + random % 20000))};
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        bool is_free = fd >= 0 && bind(fd, (struct sockaddr *)&group, sizeof(group)) == 0;
        if (fd >= 0) close(fd);
        group.sin_addr.s_addr = htonl(0xefff0000u + (uint32_t)(random >> 32) % 0xfff0);
        if (is_free) return group;
    }
    abort();
}

int multicast_member(const struct sockaddr_in *group)
{
    const struct ip_mreqn to = {.imr_multiaddr = group->sin_addr,
                                .imr_ifindex = (int)if_nametoindex("lo")};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(fd, (const struct sockaddr *)group, sizeof(*group)) == 0 &&
        setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &to, sizeof(to)) == 0 &&
        setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &to, sizeof(to)) == 0)
        return fd;
    if (fd >= 0) close(fd);
    return -1;
}

bool multicast_send(int member, const struct sockaddr_in *group, const void *bytes, size_t len)
{
    return sendto(member, bytes, len, 0, (const struct sockaddr *)group, sizeof(*group)) ==
           (ssize_t)len;
}

bool multicast_works(const struct sockaddr_in *group)
{
    struct pollfd fd = {.fd = multicast_member(group), .events = POLLIN};
    bool works = fd.fd >= 0 && multicast_send(fd.fd, group, "test", 4) && poll(&fd, 1, 1000) == 1;
    if (fd.fd >= 0) close(fd.fd);
    if (!works) printf("skipped: interface lo carries no multicast here\n");
    return works;
}
