/* The hosts of a job: from a list, a file, or the batch system. */
#ifndef AQRUN_HOSTS_H
#define AQRUN_HOSTS_H

#include "base/base.h"

#define HOSTS_MAX      65536u     /* each has at least one rank */
#define HOSTS_MENTIONS (1u << 20) /* maximum number of names, if hosts are listed several times */
#define HOSTS_NAME     255u
#define HOSTS_WHY      512u

struct host {
    char *name;
    uint32_t slots; /* number of ranks that it should run; 0: specified for no host */
    uint32_t bare;  /* number of times it was listed without a number */
    bool here;      /* this machine */
};

struct hosts {
    struct host *list;
    uint32_t count;
    bool counted;     /* numbers of slots are specified */
    char source[200]; /* of the words being parsed, for messages */
    char why[HOSTS_WHY];
    uint32_t room, mentions;
    uint32_t *index; /* of names: index in the list plus 1, or 0 */
    uint32_t index_size;
};

enum hosts_format {
    HOSTS_PLAIN,      /* NAME, NAME slots=N, NAME:N, NAME*N, NAME N */
    HOSTS_GRID_ENGINE /* NAME N QUEUE PROCESSORS */
};

/*
 * All of these append to the list, and return false if the input is malformed; `why` then says
 * where, what is wrong, and what to do. The slots of repeated names add up. Initialize the struct
 * to zero.
 *
 * Items of a list are separated by commas or blanks: n1,n2*4,n3:2,n[1-3,07-11]*2,[fe80::1]*2,me@n4
 */
bool hosts_add_list(struct hosts *hosts, const char *source, const char *text);
/* Add the hosts of the file at `path`; `source` is the variable or option that specified it. */
bool hosts_add_file(struct hosts *hosts, const char *source, const char *path,
                    enum hosts_format format);
bool hosts_add_lines(struct hosts *hosts, const char *path, const char *bytes, size_t len,
                     enum hosts_format format);
/*
 * Add the hosts of the batch system in the environment to an empty list; does nothing if there is
 * none. `*system` is its name, or NULL.
 */
bool hosts_add_batch(struct hosts *hosts, const char **system);

/* To be called when all hosts have been added; computes `slots` and `counted`. */
void hosts_settle(struct hosts *hosts);
/* The number of slots of the first `count` hosts. */
uint64_t hosts_slots(const struct hosts *hosts, uint32_t count);

void hosts_free(struct hosts *hosts);

/* For other parsers of lines: set `why` and return false. */
bool hosts_error(struct hosts *hosts, const char *fmt, ...) AQI_PRINTF(2, 3);
/* Add one item of a list; `extra`: slots specified separately, or 0. */
bool hosts_add_item(struct hosts *hosts, const char *item, size_t len, uint32_t extra);
/* Parse a number from 1 to the maximum number of ranks. */
bool hosts_number(const char *text, size_t len, uint32_t *number);
/* Truncated and printable text for a message. */
#define HOSTS_SHOWN 64
const char *hosts_show(const char *text, size_t len, char shown[HOSTS_SHOWN]);

/* Whether this name is that of this machine: localhost, its host name with or without a domain,
 * or one of its addresses. Does not resolve names over the network. */
bool hosts_is_here(const char *name);

#endif
