/* The program in the kernel that hands the packets of one UDP port to an AF_XDP socket. */
#ifndef PORTS_XDP_PROGRAM_H
#define PORTS_XDP_PROGRAM_H

#include "base/base.h"

enum { PORTS_XDP_QUEUES = 8 }; /* queues of an interface that are used: the first ones */

struct ports_xdp_program {
    int map, program, link; /* -1: not there */
    bool generic;           /* it runs in the kernel's stack, not in the driver */
};
#define PORTS_XDP_NO_PROGRAM ((struct ports_xdp_program){.map = -1, .program = -1, .link = -1})

/* The packets to select: an interface, and an address and a port in network order. */
struct ports_xdp_filter {
    const char *name;
    uint32_t interface;
    uint32_t ip;
    uint16_t port;
    uint32_t longest; /* bytes of a frame that the socket can take */
    bool generic;     /* in the kernel's stack, not in the driver */
};

/*
 * Load it, and attach it; it is removed when the process ends. All other packets are passed to the
 * kernel.
 *
 * @return AQ_AGAIN    Another program is attached to the interface.
 * @return AQ_EACCESS  The message names the privilege.
 * @return AQ_ENOTSUP, AQ_ESYS
 */
aq_status ports_xdp_load(struct ports_xdp_program *program, const struct ports_xdp_filter *filter);
aq_status ports_xdp_attach(struct ports_xdp_program *program,
                           const struct ports_xdp_filter *filter);
/* Redirect the packets that arrive through a queue to the socket. */
aq_status ports_xdp_steer(struct ports_xdp_program *program, const struct ports_xdp_filter *filter,
                          uint32_t queue, int socket);
void ports_xdp_detach(struct ports_xdp_program *program);

/* Call aqi_fail for a refusal while doing `what`, naming the privilege that it needs. */
aq_status ports_xdp_failed(int error, const char *name, const char *what, const char *privilege);

#endif
