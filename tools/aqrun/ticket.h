/*
 * The ticket: all that an agent needs to take part in a job, sent to the standard input of its ssh
 * session.
 *
 * It begins with a line of text whose format is the same in all versions, so that both sides of a
 * mismatch can report it: "aqrun ticket PROTOCOL VERSION\n". The number of bytes and the fields
 * follow, little-endian; each field consists of the length and bytes of its name, and the length
 * and bytes of its value. Unknown fields are skipped.
 */
#ifndef AQRUN_TICKET_H
#define AQRUN_TICKET_H

#include "base/wire.h"
#include "job/boot.h"

#include <sys/types.h>

#define TICKET_MAX (32u << 20) /* bytes of fields */
#define TICKET_WHY 512u

enum ticket_flag {
    TICKET_BIND = 1,
    TICKET_PREFIX = 2,
    TICKET_SURVIVE = 4,
    TICKET_VERBOSE = 8,
    TICKET_SAME_ADDRESSES = 16,
    TICKET_ROOTLESS = 32 /* the root has no ranks; hosts of ranks are numbered from 1 */
};

/* A host of the tree, and its ranks. */
struct ticket_host {
    uint32_t number;
    uint32_t first, count;
    const char *name;
};

struct ticket_limit {
    uint32_t resource; /* RLIMIT_… */
    uint64_t soft, hard;
};

/* Lists are NULL-terminated. Decoding allocates memory, which ticket_free frees. */
struct ticket {
    uint8_t key[AQI_JOB_KEY_BYTES];
    const char *job; /* ID of the job */
    uint32_t ranks, hosts;
    uint32_t host;          /* number of the agent; 0 is the root, which gets no ticket */
    uint32_t fanout;        /* fanout of the tree, which determines parents and children */
    const char **addresses; /* of the parent, the grandparent, … the root, each in the format of
                             * aqi_links_offer */
    const char *ports;      /* AQ_CONTROL_PORTS */
    const struct ticket_host *tree; /* the agent's host, then those below it */
    uint32_t tree_count;
    const char *folder;
    const char **argv;
    const char **environment;
    uint32_t umask;
    const struct ticket_limit *limits;
    uint32_t limit_count;
    uint32_t flags;                                       /* of enum ticket_flag */
    const char *ssh_command, *ssh_options, *remote_aqrun; /* how to start the agents below */
    const char *output;                                   /* --output, or "" */
    uint64_t ssh_timeout_ns, start_timeout_ns, exit_timeout_ns, host_timeout_ns;
    struct ticket_piece *memory;
};

/* Encode a ticket; the caller frees it after explicit_bzero. NULL: see `why`. */
uint8_t *ticket_encode(const struct ticket *ticket, size_t *len, char why[TICKET_WHY]);

/*
 * Decode a ticket from the bytes received so far. `ended`: no more bytes follow. `self` is the
 * path of this program, for messages.
 *
 * @return > 0  The number of bytes of the ticket. `why` is not empty if the version differs but is
 *              compatible.
 * @return 0    More bytes are needed.
 * @return < 0  It is malformed, or not for this program; see `why`.
 */
ssize_t ticket_decode(const uint8_t *bytes, size_t len, bool ended, const char *self,
                      struct ticket *ticket, char why[TICKET_WHY]);
void ticket_free(struct ticket *ticket);

#endif
