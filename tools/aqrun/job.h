/* The state of aqrun: the job, its ranks, and what all files of the launcher share. */
#ifndef AQRUN_JOB_H
#define AQRUN_JOB_H

#include "base/base.h"
#include "hub.h"
#include "job/boot.h"
#include "job/control.h"
#include "loop.h"
#include "options.h"
#include "output.h"
#include "relay.h"

#include <string.h>
#include <sys/types.h>

/* Exit codes of aqrun's own; otherwise it is the job's. */
enum exit_code {
    EXIT_FAILED = 1,       /* the job could not start, or a rank left it in disorder with code 0 */
    EXIT_USAGE = 2,        /* a bad command line */
    EXIT_TIME = 124,       /* --timeout */
    EXIT_CANNOT_RUN = 126, /* the program is there but cannot be run */
    EXIT_NO_PROGRAM = 127, /* the program is not there */
    EXIT_SIGNAL = 128      /* plus the number of the signal */
};

enum rank_state {
    RANK_WAITING, /* not forked yet */
    RANK_STARTED, /* has not called aq_init, and perhaps never will */
    RANK_JOINED,  /* said HELLO */
    RANK_LEFT,    /* said BYE: its end harms nobody */
    RANK_LOST     /* died after it joined, and the job goes on without it */
};

struct rank {
    uint32_t number;
    enum rank_state state;
    bool ready;       /* has started: said READY */
    bool leaving;     /* makes no more collective call: said LEAVING */
    bool ending;      /* ends as soon as all others do: said ENDING */
    bool running;     /* the forked process has not been reaped */
    bool terminated;  /* it got SIGTERM or SIGKILL from us: how it ends says nothing */
    pid_t pid;        /* the process aqrun forked */
    pid_t joined_pid; /* the process that said HELLO: the same, or one that a shell started */
    char joined_name[16];
    struct link link;
    struct part part;
    struct source life; /* pidfd of the process that said HELLO when it is not the forked one */
    uint64_t lost_ns;   /* when that one ended without BYE; 0: it did not */
    char *fate;         /* RANK_LOST: of what it died */
    unsigned asleep;    /* looks in a row that found it killed and asleep */
    struct relay relay[2];
};

struct end {
    bool ending;
    uint64_t grace_ns;  /* when it begins, although not all ranks want it; 0: none does */
    uint64_t wanted_ns; /* when the first wanted it */
    uint64_t left_ns;   /* when to look who has not followed the rank `left`; 0: none has left */
    uint32_t left;
    uint64_t ask_ns;   /* when the others are asked, or asked again */
    bool abandoned;    /* do not wait any longer, for processes or readers */
    int code;          /* aqrun's exit code as known so far */
    uint32_t by;       /* the rank that caused it, or AQI_MAX_RANKS */
    uint64_t since_ns; /* when the end began */
    size_t step;       /* of the escalation in end.c */
    unsigned looks;    /* at processes that were killed and are not gone */
    char why[AQI_CONTROL_TEXT + 1];
};

struct job {
    struct options options;
    uint32_t size;
    struct rank *ranks;
    pid_t *groups;    /* per rank: the process group to kill, or 0; shared with the guard */
    uint32_t spawned; /* ranks that were forked, in order */
    uint32_t running;
    uint32_t absent; /* ranks that left, or ended without joining: no collective call has them */
    uint32_t ready;  /* ranks that have started */
    uint32_t leaving;
    uint32_t lost; /* ranks that the job goes on without */
    bool survive;  /* it does go on: AQ_SURVIVE */
    bool bind;     /* each rank to a core: AQ_BIND */
    uint8_t key[AQI_JOB_KEY_BYTES];
    char id[40];
    uint64_t start_timeout_ns;
    uint64_t exit_timeout_ns;
    uint64_t began_ns;
    uint64_t memory_kills; /* of our cgroup, when the job began */
    struct end end;
    struct output output[2]; /* standard output, standard error */
};

/* There is one job in a launcher; callbacks and all files reach it here. */
extern struct job job;

/* "aqrun: …" as one line on standard error; `tell` only with -v. */
void say(const char *fmt, ...) AQI_PRINTF(1, 2);
void tell(const char *fmt, ...) AQI_PRINTF(1, 2);
/* The launcher itself cannot go on. The kernel and the guard end the ranks. */
_Noreturn void die(const char *fmt, ...) AQI_PRINTF(1, 2);

/* "rank 3 (pid 4711, ./program)" */
#define RANK_NAME_BYTES 160
const char *rank_name(const struct rank *rank, char name[RANK_NAME_BYTES]);

#endif
