/* The state of aqrun: the job, its ranks, and declarations shared by the files of the launcher. */
#ifndef AQRUN_JOB_H
#define AQRUN_JOB_H

#include "base/base.h"
#include "job/desk.h"
#include "job/hub/hub.h"
#include "job/loop.h"
#include "output.h"

#include <string.h>
#include <sys/types.h>

/* Exit codes of aqrun itself, besides enum aqi_exit_code; otherwise it is the job's. */
enum exit_code {
    EXIT_USAGE = 2,        /* a bad command line */
    EXIT_CANNOT_RUN = 126, /* the program exists but cannot be run */
    EXIT_NO_PROGRAM = 127, /* the program does not exist */
};

/* The command line. */
struct options {
    uint32_t ranks;        /* 0: not given, until the hosts are known */
    uint32_t hosts_wanted; /* -N; 0: not given */
    const char *hosts;     /* --hosts, or NULL */
    const char *hostfile;  /* --hostfile, or NULL */
    const char *output;    /* --output, or NULL */
    const char **carried;  /* names of variables given by -E, NULL-terminated; or NULL */
    bool carried_only;     /* --env-only */
    bool oversubscribe;
    bool verbose;
    bool test_only;
    bool prefix;
    uint64_t timeout_ns; /* 0: none */
    char **command;      /* the program and its arguments, NULL-terminated */
};

/* A rank that this launcher starts: its process. The hub keeps the rest of its state. */
struct rank {
    uint32_t number;
    bool running; /* the forked process has not been reaped */
    pid_t pid;
    struct relay relay[2];
};

struct job {
    struct options options;
    uint32_t size;
    uint32_t count; /* ranks that run here */
    uint32_t first; /* the lowest of them */
    uint32_t agent; /* number of this agent; 0: the one that the user has started */
    uint32_t agents;
    struct rank *ranks;
    pid_t *groups;    /* per rank here: the process group to kill, or 0; shared with the guard */
    uint32_t spawned; /* number of them that were forked, in order */
    uint32_t running;
    bool bind;    /* each rank to a core: AQ_BIND */
    bool refused; /* this host cannot run them */
    bool over;    /* the hub has nothing left to do */
    bool printed; /* output from other hosts has arrived since the last check */
    char id[40];
    uint64_t exit_timeout_ns;
    uint64_t began_ns;
    uint64_t memory_kills; /* of our cgroup, when the job began */
    struct aqi_hub *hub;
    struct output output[2]; /* standard output, standard error */
    struct output far[2];    /* of the root, for the output of ranks of other hosts */
};

/* There is one job in a launcher; callbacks and all files access it here. */
extern struct job job;

/* Print "aqrun: …" as one line on standard error; `tell` only with -v. */
void say(const char *fmt, ...) AQI_PRINTF(1, 2);
void tell(const char *fmt, ...) AQI_PRINTF(1, 2);
/* The launcher itself cannot continue. The kernel and the guard end the ranks. */
_Noreturn void die(const char *fmt, ...) AQI_PRINTF(1, 2);

#define LETTERS_AND_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/*
 * options.c: read the command line into job.options; -E and others change the environment. Does not
 * return for --help, --version and errors.
 */
void options_read(int argc, char **argv);

/* spawn.c: starting the processes of the job. */
/* The number of `epoll` becomes AQ_BOOT_FD of all ranks. */
void spawn_open(int epoll);
/* Start a few more ranks. Returns false if none is left to start. */
bool spawn_some(void);
/* Handle reports of children about a failed exec. */
void spawn_read_reports(void);
/* For -t: print what would be run; instead of spawn_open. */
void spawn_print(int epoll);

/* reaper.c: signals to aqrun, and ends of its children. */
/* Take over the signals; from now on they are handled in the loop. */
void reaper_open(void);
/* If Ctrl-Z was pressed, stop, now that other hosts have been notified. Returns true if it did. */
bool reaper_stopped(void);
/* In a rank before exec: restore the signals as aqrun found them. */
void reaper_restore_signals(void);
/* Kill and reap all remaining processes that the ranks have started. All ranks have ended. */
void reaper_kill_strays(void);
/* Get the kernel's data of a process. Returns false if it does not exist. */
struct process {
    char state; /* 'D': in an uninterruptible sleep */
    int parent;
    unsigned long long start; /* clock ticks since boot */
};
bool reaper_look(pid_t pid, struct process *process);

/* serve.c: the hub and its sockets, and its hooks. */
struct aqi_hub_params;
void serve_open(const struct aqi_hub_params *given, const char *ports);
/* A job that succeeded may lack output from another host, for this reason: report it. */
void serve_tell_missing(const char *why);

/* remote.c: `aqrun --agent`. */
struct ticket;
/* Read the ticket and set up this host accordingly. `*why`: what this host cannot do, or NULL. */
const struct ticket *remote_begin(struct aqi_hub_params *hub, const char **why);
/* From now on, notice when the process that started us is gone. */
void remote_watch_input(void);

/* guard.c: a process that kills the remaining processes of ranks if aqrun itself is killed. */
/* Start it with a shared table of process groups; returns the table, all 0. */
pid_t *guard_open(uint32_t groups);
/* If the guard has ended, start another one. Returns whether `pid` was the guard. */
bool guard_reaped(pid_t pid);
/* aqrun ends normally: end the guard, which then kills nothing, and wait for it. */
void guard_close(void);

/* input.c: standard input for rank 0, inherited, or relayed if it is a terminal. */
/* The descriptor that rank 0 gets as its standard input; 0 if it can inherit ours. */
int input_open(void);
/* Rank 0 was forked: close its end of the pipe. */
void input_handed_over(void);
void input_close(void);
/* Rank 0 runs on another host: read input here, and send it there. */
void input_open_far(void);
/* Input has arrived for rank 0 here. */
void input_arrived(void *arg, const void *bytes, size_t len);
/* Returns when to call it next, UINT64_MAX for never. */
uint64_t input_tick(uint64_t now);

/* limits.c: limits of the system, checked before anything is started. */
/* End aqrun with a message if the job does not fit. Raises our own soft limit of open files. */
void limits_check(void);
/* In a rank before exec: restore the limits. */
void limits_restore(void);

/* bind.c: which processors each rank may use: --bind and AQ_BIND. */
/* Determine the available processors; ends aqrun with a message on failure. */
void bind_open(void);
/* The number of processors that all ranks together may use; 0: they are not bound. */
unsigned bind_processors(void);
/* " on processors 0,64", or nothing if they are not bound; truncated if there is no room. */
#define BIND_TEXT_BYTES 120
const char *bind_text(uint32_t rank, char text[BIND_TEXT_BYTES]);
/* In a rank before exec. Returns false with errno on failure. */
bool bind_rank(uint32_t rank);

#endif
