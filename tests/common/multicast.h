/* Multicast groups on loopback, for tests of them. */
#ifndef AQT_COMMON_MULTICAST_H
#define AQT_COMMON_MULTICAST_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

/* Choose a random group and a free port. */
struct sockaddr_in multicast_choose(void);
/* Create a socket that joins the group on interface lo and sends to it. Returns -1 on failure. */
int multicast_member(const struct sockaddr_in *group);
bool multicast_send(int member, const struct sockaddr_in *group, const void *bytes, size_t len);
/* Returns whether interface lo carries packets of the group; if not, prints a reason to skip the
 * test. */
bool multicast_works(const struct sockaddr_in *group);

#endif
