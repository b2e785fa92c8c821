/* The state of aqrun: the job, its ranks, and what all files of the launcher share. */
#ifndef AQRUN_JOB_H
#define AQRUN_JOB_H

#include "base/base.h"
#include "hub.h"
#include "job/boot.h"
#include "job/control.h"
#include "loop.h"
#include "output.h"

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

/* The command line. */
struct options {
    uint32_t ranks;
    bool verbose;
    bool test_only;
    bool prefix;
    uint64_t timeout_ns; /* 0: none */
    char **command;      /* the program and its arguments, NULL at the end */
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

#define LETTERS_AND_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* "rank 3 (pid 4711, ./program)" */
#define RANK_NAME_BYTES 160
const char *rank_name(const struct rank *rank, char name[RANK_NAME_BYTES]);

/* options.c: read the command line into job.options; -E and others change the environment. Does not
 * return for --help, --version and errors. */
void options_read(int argc, char **argv);

/* spawn.c: starting the processes of the job. */
/* The number of `epoll` becomes AQ_BOOT_FD of all ranks. */
void spawn_open(int epoll);
/* Start a few more ranks; false when none is left to start. */
bool spawn_some(void);
/* Handle what children have reported about an exec that failed. */
void spawn_read_reports(void);
/* For -t: print what would be run; instead of spawn_open. */
void spawn_print(int epoll);

/* reaper.c: signals to aqrun, and the ends of its children. */
/* Take over the signals; from now on they come through the loop. */
void reaper_open(void);
/* In a rank before exec: the signals as aqrun found them. */
void reaper_restore_signals(void);
/* Kill and reap whatever the ranks started that still runs. All ranks have ended. */
void reaper_kill_strays(void);
/* What the system says of a process; false: nothing. */
struct process {
    char state; /* 'D': asleep where no signal comes */
    int parent;
    unsigned long long start; /* clock ticks since boot */
};
bool reaper_look(pid_t pid, struct process *process);

/* collective.c: collective calls of the ranks: allgather, share. */
/* A CALL message of a rank. */
void collective_call(struct rank *rank, const struct aqi_control *message);
/* Is this why the last call failed, which we have told the user? */
bool collective_said(const char *why);
/* Somebody left or ended: can the call that is going on still be completed? */
void collective_check(void);
/* The next time it wants to be called, UINT64_MAX for never. */
uint64_t collective_tick(uint64_t now);
/* The job was stopped for so long: that does not count as waiting. */
void collective_postpone(uint64_t ns);

/* agree.c: what the ranks of a set that still live ask and are all told the same. */
/* A rank agrees: AGREE. */
void agree_call(struct rank *rank, const struct aqi_control *message);
/* This rank has died or left: nobody waits for it any more. */
void agree_gone(const struct rank *rank);

/* end.c: judging the ends of ranks, telling the others, killing who stays. */
/* End the job with `code`; the text says why, to the user and to the ranks. `by` may be NULL. */
void end_job(int code, const struct rank *by, const char *fmt, ...) AQI_PRINTF(3, 4);
/* A rank ended the job itself (aq_exit): without a word, unless it gave a reason. */
void end_asked(const struct rank *by, int code, const char *why);
/* A rank ends when all others do: the job ends then, or after `wait_ns`. */
void end_wanted(struct rank *by, int code, uint64_t wait_ns);
/* The forked process of a rank has ended with this status of waitpid. */
void end_judge(struct rank *rank, int status);
/* A rank that had come to aq_finalize has left in good order. */
void end_left(const struct rank *rank);
/* At the end: which ranks the job went on without, and of what they died. */
void end_tell_lost(void);
/* The process that joined, started by a shell of the rank, has ended without BYE. */
void end_lost(struct rank *rank);
/* The user or the system wants an end; the second time at once. */
void end_by_signal(int number);
/* The next time it wants to be called, UINT64_MAX for never. */
uint64_t end_tick(uint64_t now);

/* guard.c: a process that kills what is left of the ranks when aqrun itself is killed. */
/* Start it, over a table of process groups shared with it; returns the table, all 0. */
pid_t *guard_open(uint32_t groups);
/* aqrun ends in good order: nothing is to be killed. Waits for the guard's end. */
void guard_close(void);

/* input.c: standard input for rank 0, as it is or relayed when it is a terminal. */
/* The descriptor that rank 0 gets as its standard input; 0 when it may simply inherit ours. */
int input_open(void);
/* Rank 0 was forked: its end of the pipe is not ours any more. */
void input_handed_over(void);
void input_close(void);
/* The next time it wants to be called, UINT64_MAX for never. */
uint64_t input_tick(uint64_t now);

/* limits.c: of the system, checked before anything is started. */
/* Ends aqrun with a message when the job cannot fit. Raises our own soft limit of open files. */
void limits_check(void);
/* In a rank before exec: the limits as they were. */
void limits_restore(void);

/* bind.c: which processors each rank may use: --bind and AQ_BIND. */
/* Learn what there is to deal out; ends aqrun with a message when the system does not say. */
void bind_open(void);
/* How many processors all ranks together may use; 0: they are not bound. */
unsigned bind_processors(void);
/* " on processors 0,64", or nothing when they are not bound; cut where there is no room. */
#define BIND_TEXT_BYTES 120
const char *bind_text(uint32_t rank, char text[BIND_TEXT_BYTES]);
/* In a rank before exec; false: errno says why not. */
bool bind_rank(uint32_t rank);

#endif
