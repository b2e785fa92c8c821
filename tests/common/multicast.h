/* Multicast groups on loopback, for tests of them. */
#ifndef AQT_COMMON_MULTICAST_H
#define AQT_COMMON_MULTICAST_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

/* A group at random, at a port that is free. */
struct sockaddr_in multicast_choose(void);
/* A socket that is in the group, by interface lo, and sends to it; -1: that does not work. */
int multicast_member(const struct sockaddr_in *group);
bool multicast_send(int member, const struct sockaddr_in *group, const void *bytes, size_t len);
/* Whether interface lo carries what is sent to it; if not, a line that says so was printed. */
bool multicast_works(const struct sockaddr_in *group);

#endif
