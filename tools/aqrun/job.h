/* The state of aqrun: the job, its ranks, and declarations shared by the files of the launcher. */
#ifndef AQRUN_JOB_H
#define AQRUN_JOB_H

#include "base/base.h"
#include "env.h"
#include "job/desk.h"
#include "job/hub/hub.h"
#include "job/loop.h"
#include "output.h"

#include <string.h>
#include <sys/types.h>

/* Exit codes of aqrun itself, besides enum aqi_exit_code. Otherwise the exit code is the job's. */
enum exit_code {
    EXIT_USAGE = 2,        /* invalid command line */
    EXIT_CANNOT_RUN = 126, /* the program exists but cannot be run */
    EXIT_NO_PROGRAM = 127, /* the program does not exist */
};

/* The command line. */
struct options {
    uint32_t ranks;        /* 0: unspecified, until the hosts are known */
    uint32_t hosts_wanted; /* -N; 0: unspecified */
    const char *hosts;     /* --hosts, or NULL */
    const char *hostfile;  /* --hostfile, or NULL */
    const char *output;    /* --output, or NULL */
    struct env_filter env; /* -E and --env-only */
    bool oversubscribe;
    bool verbose;
    bool test_only;
    bool prefix;
    uint64_t timeout_ns; /* 0: none */
    char **command;      /* the program and its arguments, NULL-terminated */
};

/* The process of a rank started by this launcher. The hub has the rest of the rank's state. */
struct rank {
    uint32_t number;
    bool running; /* the forked process has not been reaped */
    pid_t pid;
    struct relay relay[2];
};

struct job {
    struct options options;
    uint32_t size;
    uint32_t count; /* ranks run here */
    uint32_t first; /* the lowest of them */
    uint32_t agent; /* number of this agent; 0: the aqrun started by the user */
    uint32_t agents;
    struct rank *ranks;
    pid_t *groups;    /* process group of each rank here, to kill, or 0; shared with the guard */
    uint32_t spawned; /* ranks forked so far, in order */
    uint32_t running;
    bool bind;    /* bind each rank to a core: AQ_BIND */
    bool refused; /* this host cannot run the ranks */
    bool over;    /* the hub has no work left */
    bool printed; /* output from other hosts has arrived since the last check */
    char id[40];
    uint64_t exit_timeout_ns;
    uint64_t memory_kills; /* of this cgroup, when the job began */
    struct aqi_hub *hub;
    struct output output[2];    /* standard output, standard error */
    struct output forwarded[2]; /* by agents to the root: the output of ranks here */
};

/* The only job of a launcher, used by callbacks and all files. */
extern struct job job;

/* Print "aqrun: …" as one line on standard error, `tell` only with -v. */
void say(const char *fmt, ...) AQI_PRINTF(1, 2);
void tell(const char *fmt, ...) AQI_PRINTF(1, 2);
/* The launcher cannot continue: exit. The kernel and the guard end the ranks. */
_Noreturn void die(const char *fmt, ...) AQI_PRINTF(1, 2);

#define LETTERS_AND_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/*
 * options.c: read the command line into job.options; -E and others change the environment. Does not
 * return for --help, --version and errors.
 */
void options_read(int argc, char **argv);

/* spawn.c: starting the processes of the job. */
/* The number of `epoll` becomes the AQ_BOOT_FD of all ranks. */
void spawn_open(int epoll);
/* Start some ranks. Returns false if none is left to start. */
bool spawn_some(void);
/* Read reports of children that could not run the program. */
void spawn_read_reports(void);
/* Call `set` for the variables that give a rank its place. */
typedef void spawn_set_fn(const char *name, const char *value);
void spawn_place(uint32_t rank, uint32_t ranks, uint32_t local, uint32_t locals, spawn_set_fn *set);
/* For -t: print the commands that would be run; called instead of spawn_open. */
void spawn_print(int epoll);

/* reaper.c: signals for aqrun, and the ends of its children */
/* Block the signals, and handle them in the loop from now on. */
void reaper_open(void);
/* Stop aqrun if Ctrl-Z was pressed, now that other hosts have been notified. Returns whether it
 * did. */
bool reaper_stopped(void);
/* In a rank before exec: restore the signals' original state. */
void reaper_restore_signals(void);
/* Kill and reap all processes left behind by ranks. All ranks have ended. */
void reaper_kill_strays(void);
/* Get the state of a process from the kernel. Returns false if the process does not exist. */
struct process {
    char state; /* 'D': in an uninterruptible sleep */
    int parent;
    unsigned long long start; /* clock ticks since boot */
};
bool reaper_read_process(pid_t pid, struct process *process);

/* serve.c: the hub and its sockets, and its hooks. */
void serve_open(const struct aqi_hub_params *given, const char *ports);
/* If the job succeeded: report that output of other hosts may be missing, for this reason. */
void serve_report_missing(const char *why);

/* remote.c: `aqrun --agent`. */
struct ticket;
/* Read the ticket and set up this host. `*why`: what this host cannot do, or NULL. */
const struct ticket *remote_begin(struct aqi_hub_params *hub, const char **why);
/* From now on, detect the end of the process that started this one. */
void remote_watch_input(void);

/*
 * plan.c: for jobs with ranks on other hosts: add the location of all ranks to `hub`, and set
 * job.first and job.count. Returns the root's ticket, as if it had received one.
 */
const struct ticket *plan_open(struct aqi_hub_params *hub, const char *ports);

/* print.c: words of commands, quoted for users and shells, as printed by -t. */
/* Print NAME=VALUE and a blank. */
void print_variable(const char *name, const char *value);
void print_words(char *const *words);

/* guard.c: a process that kills the remaining processes of ranks if aqrun itself is killed. */
/* Start it with a shared table of process groups; returns that table, initialized to 0. */
pid_t *guard_open(uint32_t groups);
/* If `pid` was the guard, start another one. Returns whether it was. */
bool guard_reaped(pid_t pid);
/* aqrun ends normally: stop the guard, which then kills nothing, and wait for it. */
void guard_close(void);

/* input.c: standard input for rank 0, inherited, or relayed if it is a terminal. */
/* Returns the descriptor to use as standard input of rank 0; 0 if it can inherit aqrun's. */
int input_open(void);
/* Rank 0 has been forked: close its end of the pipe. */
void input_handed_over(void);
void input_close(void);
/* Read input for rank 0, which runs on another host. */
void input_open_remote(void);
/* Input has arrived for rank 0 here. */
void input_arrived(void *arg, const void *bytes, size_t len);
/* Returns the time of the next call, UINT64_MAX for never. */
uint64_t input_tick(uint64_t now);

/* limits.c: system limits, checked before anything is started */
/* Exit with a message if the job exceeds a limit. Raises our soft limit of open files. */
void limits_check(void);
/* In a rank before exec: restore the original limits. */
void limits_restore(void);

/* bind.c: the processors that each rank may use: --bind and AQ_BIND */
/* Determine the available processors; ends aqrun with a message on failure. */
void bind_open(void);
/* The number of processors that all ranks together may use; 0: ranks are not bound. */
unsigned bind_processors(void);
/* " on processors 0,64", or nothing if they are not bound; truncated if there is no room. */
#define BIND_TEXT_BYTES 120
const char *bind_text(uint32_t rank, char text[BIND_TEXT_BYTES]);
/* In a rank before exec: bind it. Returns false with errno on failure. */
bool bind_rank(uint32_t rank);

#endif
