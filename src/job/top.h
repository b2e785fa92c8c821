/*
 * Monitoring of a running job by aqtop. The ranks of a host have shared their counters (stats.h)
 * with its agent, which reads them only while aqtop is connected: the state of each rank
 * frequently, all counters once per interval. aqtop connects to the root at a Unix socket of the
 * abstract namespace, which only accepts the job's user and root. There is one per process.
 */
#ifndef AQI_TOP_H
#define AQI_TOP_H

#include "base/stats.h"
#include "base/wire.h"
#include "job/hub/hub.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define AQI_TOP_ROWS 128u /* maximum rows in a packet */

/* Name of the socket: this prefix, the user ID, a period, and the process ID of the root. */
#define AQI_TOP_NAME "aq-top-"
static inline socklen_t aqi_top_address(unsigned user, int pid, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, AQI_TOP_NAME "%u.%d",
                       user, pid);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

/* Connect to a root of this user. Returns a packet socket, or -1 with errno. */
static inline int aqi_top_connect(unsigned user, int pid)
{
    struct sockaddr_un address;
    struct ucred cred;
    socklen_t cred_len = sizeof(cred), size = aqi_top_address(user, pid, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)(void *)&address, size) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) == 0) {
        if (cred.uid == user) return fd;
        errno = EACCES; /* not the user in the name */
    }
    int err = errno;
    if (fd >= 0) close(fd);
    errno = err;
    return -1;
}

/* Queries: aqtop requests counters at an interval; aqinfo requests, once, the state of each rank's
 * peers. */
enum aqi_top_what { AQI_TOP_COUNTERS, AQI_TOP_PEERS };
/* Every packet begins with the version. A query in another version is answered with only ours. */
struct aqi_top_ask {
    uint32_t version;
    uint32_t interval_ms; /* COUNTERS */
    uint32_t what;        /* enum aqi_top_what */
};

struct aqi_top_row {
    uint32_t rank;
    uint32_t state;        /* enum aqi_rank_state */
    uint32_t doing;        /* of the thread that called aq_init: enum aqi_doing */
    uint32_t looks, waits; /* samples since monitoring began, and those in which it was waiting */
    uint32_t unused;
    uint64_t at_ns; /* by the clock of its host */
    uint64_t value[AQI_CTR_COUNT];
};

/* The answer to aqtop: packets with rows of one host. */
struct aqi_top_packet {
    uint32_t version;
    uint32_t ranks; /* of the job */
    uint64_t form;  /* aqi_counters_form; differs in another build of the library */
    uint32_t rows;  /* in this packet */
    uint32_t unused;
    char host[64], program[64];
    struct aqi_top_row row[AQI_TOP_ROWS];
};

/* The answer to aqinfo, several packets from each host: lines of text, from the boards of the
 * ranks. */
struct aqi_top_peers {
    uint32_t version;
    uint32_t turn;   /* the query that it answers */
    uint32_t last;   /* of this host */
    uint32_t agents; /* that each send a `last` packet; set by the root, 0 elsewhere */
    uint32_t len;
    char text[32768];
};

struct aqi_top_params {
    struct aqi_hub *hub;
    const char *host, *program;
    bool root;
};

void aqi_top_open(const struct aqi_top_params *params);
/* A rank of this host has passed its counters; takes ownership. */
void aqi_top_take(uint32_t rank, int fd);
/* Get the counters of a rank, even if it is dead. Returns false if they are unknown. */
bool aqi_top_counters(uint32_t rank, uint64_t value[AQI_CTR_COUNT]);
/* Hook of the hub: report counters at this interval from now on; 0: stop. */
void aqi_top_watch(void *arg, uint64_t interval_ns);
/* Root: a packet has arrived. */
void aqi_top_arrived(const void *bytes, size_t len);
void aqi_top_peers_arrived(const void *bytes, size_t len);
/* Returns the time of the next call, UINT64_MAX for never. */
uint64_t aqi_top_tick(uint64_t now);
void aqi_top_close(void);

#endif
