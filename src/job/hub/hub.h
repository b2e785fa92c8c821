/*
 * The state of a job: which processes have joined, their messages and agreements, and how the job
 * ends. Input: messages and the time; output: messages and signals, by hooks. It makes no system
 * call and reads no clock, so whole jobs run in a unit test.
 *
 * Each host has an agent, a process to which its ranks are connected, and each agent has a hub. The
 * agents form a tree; the first, the root, makes all decisions.
 *
 * - *Facts* go up: a rank joined, is ready, left, or died and why. An agent keeps its facts until
 *   the root has acknowledged them.
 * - A *log* goes down: results, events, the end, in one order. Every agent stores it, applies it in
 *   this order and forwards it, so all survivors get the same entries.
 *
 * An agent that loses its parent attaches to the grandparent, or else to the root: it announces
 * its last entry and receives those after it, and it and all agents below resend unacknowledged
 * facts. The loss of an agent thus costs only the ranks of its host. An agent that cannot reach
 * the root ends its ranks.
 *
 * A broken link does not imply a dead agent: the lower agent repeatedly calls its grandparent, the
 * root and its lost parent, while the root waits for it. An agent that has ended is declared dead
 * immediately.
 */
#ifndef AQI_HUB_H
#define AQI_HUB_H

#include "job/boot.h"
#include "job/control.h"
#include "job/parcel.h"

#define AQI_NO_RANK  UINT32_MAX
#define AQI_NO_AGENT UINT32_MAX

/* Streams of a rank: standard output and error; data that it shows (enum aqi_show); packets of
 * top.h (counters and peers); output and error for separate files, unmodified. */
enum {
    AQI_STREAM_SHOWN = 2,
    AQI_STREAM_LOG = AQI_STREAM_SHOWN + AQI_SHOW_LOG,
    AQI_STREAM_TOP = AQI_STREAM_SHOWN + AQI_SHOWS,
    AQI_STREAM_PEERS,
    AQI_STREAM_FILES,
    AQI_STREAM_FILES_END = AQI_STREAM_FILES + 1,
    AQI_STREAMS
};

/* Exit codes of the job itself; all others are those of a rank. */
enum aqi_exit_code {
    AQI_EXIT_FAILED = 1,   /* it could not start, or a rank exited with 0 before aq_finalize */
    AQI_EXIT_TIME = 124,   /* it ran longer than its time limit */
    AQI_EXIT_SIGNAL = 128, /* plus the number of the signal */
};

enum aqi_rank_state {
    AQI_RANK_WAITING, /* not started yet */
    AQI_RANK_STARTED, /* has not called aq_init, and perhaps never will */
    AQI_RANK_JOINED,  /* has sent HELLO */
    AQI_RANK_LEFT,    /* has sent BYE: its end affects no other rank */
    AQI_RANK_LOST     /* died after it had joined, and the job continues without it */
};

struct aqi_hub;

/* Actions that the owner performs for a hub. None may call the hub, except that `drain` may call
 * aqi_hub_from_rank. */
struct aqi_hub_hooks {
    /* Queue a message whose data and descriptor are those of the parcel, which is borrowed, or
     * NULL. Ignored if the rank is missing. */
    void (*to_rank)(void *arg, uint32_t rank, const struct aqi_control *message,
                    struct aqi_parcel *parcel);
    /* Queue a frame for the parent, or for a child that is attached. */
    void (*to_agent)(void *arg, uint32_t agent, const void *frame, size_t len);
    /* The parent is lost: connect to this ancestor, within a quarter of `host_timeout_ns`; then
     * call aqi_hub_attached or aqi_hub_unreachable. */
    void (*attach)(void *arg, uint32_t ancestor);
    /* Close the link to this agent, which is not part of the job, or has announced that it
     * leaves. */
    void (*detach)(void *arg, uint32_t agent);
    /* Send a signal to all processes of a rank of this host. */
    void (*kill)(void *arg, uint32_t rank, int number);
    /* The job was stopped or continued. While it is stopped, hosts may be silent. May be NULL. */
    void (*pause)(void *arg, bool paused);
    /* Whether this killed rank is in an uninterruptible sleep. May be NULL. */
    bool (*asleep)(void *arg, uint32_t rank);
    /* Additional information about a process that was killed by SIGKILL, such as a memory
     * shortage: "" or ", …". May be NULL. */
    const char *(*hint)(void *arg);
    /* Process the unread messages of this rank. */
    void (*drain)(void *arg, uint32_t rank);
    /* Root: print a message for the user, always or only in verbose mode. */
    void (*say)(void *arg, bool always, const char *text);
    /* Root: output of a rank of another host. */
    void (*output)(void *arg, uint32_t rank, unsigned stream, const void *bytes, size_t len);
    /* Input from the root's aqi_hub_input, for rank 0; `len` 0 is its end. May be NULL. */
    void (*input)(void *arg, const void *bytes, size_t len);
    /* This stream no longer has a reader: make the ranks of this host notice. May be NULL. */
    void (*shut)(void *arg, unsigned stream);
    /* Report the counters of this host's ranks at this interval; 0: stop. May be NULL. */
    void (*watch)(void *arg, uint64_t interval_ns);
    /* Report once the state of the ranks' peers; `turn` identifies the query. May be NULL. */
    void (*peers)(void *arg, uint32_t turn);
    /* Make the descriptor for a result: of the parts of all ranks, or of an object that the ranks
     * of a host share. */
    aq_status (*freeze)(void *arg, const void *bytes, size_t len, struct aqi_parcel **parcel);
    aq_status (*share)(void *arg, const char *name, size_t bytes, struct aqi_parcel **parcel);
    /* The job has ended: no more hooks will be called. */
    void (*over)(void *arg, int code);
    /* This agent cannot continue. Must end the process, and with it its ranks. */
    void (*die)(void *arg, const char *why);
};

struct aqi_hub_params {
    uint32_t ranks;
    uint32_t agents;
    uint32_t agent;            /* number of this agent; 0: the root */
    uint32_t fanout;           /* maximum number of children of an agent */
    const uint32_t *agent_of;  /* of each rank; NULL: one agent has all ranks. Borrowed. */
    const char *const *hosts;  /* names of the agents' hosts; NULL if there is one. Borrowed. */
    uint32_t host_count, host; /* number of hosts with ranks, and the number of this one */
    const char *program;
    const char *launcher;    /* its name for users: "aqrun" */
    struct aqi_parcel *page; /* passed to ranks with JOB, or NULL */
    uint8_t key[AQI_JOB_KEY_BYTES];
    bool survive;
    uint64_t start_timeout_ns, exit_timeout_ns;
    uint64_t host_timeout_ns; /* after which an agent with a broken link is declared dead */
    uint64_t timeout_ns;      /* of the job; 0: none */
    uint64_t now_ns;
    struct aqi_hub_hooks hooks;
    void *arg;
};

aq_status aqi_hub_open(const struct aqi_hub_params *params, struct aqi_hub **hub);
void aqi_hub_close(struct aqi_hub *hub);

/* Set the current time. Call it before any of the following if time has passed. */
void aqi_hub_now(struct aqi_hub *hub, uint64_t now_ns);
/* Do all work that is due. Returns the time of the next call, UINT64_MAX for never. */
uint64_t aqi_hub_tick(struct aqi_hub *hub);
/* The job, or this host, was stopped for this long; exclude that from all timeouts. */
void aqi_hub_stopped(struct aqi_hub *hub, uint64_t ns);

/* --- the ranks of this host ----------------------------------------------------------------- */

/* The rank's process has been started. */
void aqi_hub_started(struct aqi_hub *hub, uint32_t rank, int pid);
/* Whether a process that sent HELLO may take this rank's place; if not, `why` is the reason. */
aq_status aqi_hub_may_join(struct aqi_hub *hub, uint32_t rank, char why[AQI_CONTROL_TEXT]);
/* The rank has joined: send it JOB. `name`: of its program, if it is not the one that was
 * started. */
void aqi_hub_joined(struct aqi_hub *hub, uint32_t rank, int pid, const char *name);
/* The rank has sent this message. AQ_EPROTO: malformed; the state is unchanged. */
aq_status aqi_hub_from_rank(struct aqi_hub *hub, uint32_t rank, const struct aqi_control *message);
/* The rank's process has ended with this status of waitpid; -1: unknown. */
void aqi_hub_ended(struct aqi_hub *hub, uint32_t rank, int status);
/* The process that joined, a child of the rank's shell, has ended, but not the shell. */
void aqi_hub_lost(struct aqi_hub *hub, uint32_t rank);
/* Output of the rank; stream 0 is standard output, 1 standard error. Only if aqi_hub_has_room. */
void aqi_hub_printed(struct aqi_hub *hub, uint32_t rank, unsigned stream, const void *bytes,
                     size_t len);
bool aqi_hub_has_room(const struct aqi_hub *hub);
/* Rank 0 has consumed this many bytes of its standard input. */
void aqi_hub_consumed(struct aqi_hub *hub, size_t len);
/* This host cannot do its part, for the reason in the text. */
void aqi_hub_failed(struct aqi_hub *hub, int code, const char *fmt, ...) AQI_PRINTF(3, 4);
/* "rank 3 (pid 4711, ./program)", with the host in brackets if there are several */
#define AQI_RANK_NAME_BYTES 256
const char *aqi_hub_name(const struct aqi_hub *hub, uint32_t rank, char name[AQI_RANK_NAME_BYTES]);
enum aqi_rank_state aqi_hub_state(const struct aqi_hub *hub, uint32_t rank);
/* Number of ranks of this host; the following calls index them from 0. */
uint32_t aqi_hub_local_ranks(const struct aqi_hub *hub);
uint32_t aqi_hub_ranks(const struct aqi_hub *hub); /* of all hosts */
/* The index of a rank; AQI_NO_RANK: it is on another host. */
uint32_t aqi_hub_index(const struct aqi_hub *hub, uint32_t rank);
uint32_t aqi_hub_rank_at(const struct aqi_hub *hub, uint32_t index);
/* The process ID of the process that has joined; 0: none. */
int aqi_hub_pid(const struct aqi_hub *hub, uint32_t index);

/* --- other agents --------------------------------------------------------------------------- */

/* The parent, or the ancestor requested by `attach`, is connected: announce this agent. */
void aqi_hub_attached(struct aqi_hub *hub, uint32_t ancestor);
/* `gone`: nothing is listening at its addresses; otherwise it may become reachable again. */
void aqi_hub_unreachable(struct aqi_hub *hub, uint32_t ancestor, bool gone, const char *why);
/* The process that started this agent has ended: irrelevant, unless the root was never reached. */
void aqi_hub_forsaken(struct aqi_hub *hub);
/* The link to this agent, up or down, was lost. Not called after `detach`. `ended`: the agent has
 * ended; otherwise only the link is known to be broken. */
void aqi_hub_link_lost(struct aqi_hub *hub, uint32_t agent, bool ended, const char *why);
/* A frame arrived. AQ_EPROTO: malformed; the link should be closed. */
aq_status aqi_hub_frame(struct aqi_hub *hub, uint32_t agent, const void *frame, size_t len);
/* This agent has not connected here and never will, for the reason `why`. Called at the root, or at
 * the agent that should have started it. Irrelevant if it has reached the root in another way. */
void aqi_hub_no_agent(struct aqi_hub *hub, uint32_t agent, const char *why);
/* The parent of an agent; AQI_NO_AGENT: it is the root. */
uint32_t aqi_hub_parent(uint32_t agent, uint32_t fanout);

/* --- the root ------------------------------------------------------------------------------- */

/* The user or the system ends the job; the second signal does so immediately. */
void aqi_hub_signal(struct aqi_hub *hub, int number);
/* Send a signal to all ranks, SIGTSTP or SIGCONT; at an agent other than the root, to those of its
 * host. */
void aqi_hub_pass(struct aqi_hub *hub, int number);
/* Data for the standard input of rank 0; no bytes: its end. */
void aqi_hub_input(struct aqi_hub *hub, const void *bytes, size_t len);
/* Bytes of it that rank 0 has not consumed yet. */
size_t aqi_hub_input_waiting(const struct aqi_hub *hub);
/* While `hold` is set, output of ranks of other hosts waits. */
void aqi_hub_hold_output(struct aqi_hub *hub, bool hold);
/* Output to this stream no longer has a reader. */
void aqi_hub_shut_output(struct aqi_hub *hub, unsigned stream);
/* Print a message for the user, the second only in verbose mode. Also works at other agents. */
void aqi_hub_print(struct aqi_hub *hub, const char *fmt, ...) AQI_PRINTF(2, 3);
void aqi_hub_print_verbose(struct aqi_hub *hub, const char *fmt, ...) AQI_PRINTF(2, 3);
/* Make all agents report the counters of their ranks at this interval; 0: stop. */
void aqi_hub_watch(struct aqi_hub *hub, uint64_t interval_ns);
/* Make all agents report the state of their ranks' peers, once. */
void aqi_hub_ask_peers(struct aqi_hub *hub, uint32_t turn);
/* The exit code as known so far; set it to `code` if it is 0. */
int aqi_hub_code(const struct aqi_hub *hub);
void aqi_hub_code_at_least(struct aqi_hub *hub, int code);
bool aqi_hub_ending(const struct aqi_hub *hub);
/* Whether to stop waiting, as some process or host does not end. */
bool aqi_hub_abandoned(const struct aqi_hub *hub);
/* At the end: report the ranks that died while the job continued, and why. */
void aqi_hub_print_lost(struct aqi_hub *hub);
bool aqi_hub_agent_here(const struct aqi_hub *hub, uint32_t agent);
/* Number of agents attached, including the root; 0 at other agents. */
uint32_t aqi_hub_agents_here(const struct aqi_hub *hub);

#endif
