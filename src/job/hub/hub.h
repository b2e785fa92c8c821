/*
 * What keeps the processes of a job together: who joins, what they say and are told, what they
 * agree on, how the job ends. Pure state: messages and the time go in, messages and signals come
 * out by hooks. No system call, no clock; so whole jobs run in a unit test.
 *
 * Each host has an agent, a process that its ranks speak to, and each agent a hub. The agents form
 * a tree; the first of them, the root, decides.
 *
 * - Up go *facts*: a rank joined, is ready, left, has died of what. An agent keeps its facts until
 * the root has acknowledged them.
 * - Down goes a *log*: results, events, the end, in one order. Every agent keeps it, applies it in
 *   this order and passes it on. So all the living hear the same.
 *
 * An agent that loses its parent attaches to the grandparent, or else to the root: it says
 * which entry it had last and gets those after it, and it and all below it send again what is not
 * acknowledged. So the loss of an agent costs the ranks of its host and no others. Who finds no way
 * to the root ends its ranks.
 *
 * A line that breaks says nothing of those at its ends: the lower one calls the next above, the
 * root and who was lost, over and over while the root waits for it. An agent that has ended is
 * given up at once.
 */
#ifndef AQI_HUB_H
#define AQI_HUB_H

#include "job/boot.h"
#include "job/control.h"
#include "job/parcel.h"

#define AQI_NO_RANK  UINT32_MAX
#define AQI_NO_AGENT UINT32_MAX

/* Of what ranks print: standard output and error, what they show (enum aqi_show), packets of top.h,
 * counters and peers, and output and error for files of their own, byte by byte. */
enum {
    AQI_STREAM_SHOWN = 2,
    AQI_STREAM_LOG = AQI_STREAM_SHOWN + AQI_SHOW_LOG,
    AQI_STREAM_TOP = AQI_STREAM_SHOWN + AQI_SHOWS,
    AQI_STREAM_PEERS,
    AQI_STREAM_FILES,
    AQI_STREAM_FILES_END = AQI_STREAM_FILES + 1,
    AQI_STREAMS
};

/* Exit codes that are the job's own; otherwise it is that of a rank. */
enum aqi_exit_code {
    AQI_EXIT_FAILED = 1,   /* the job could not start, or a rank left it in disorder with code 0 */
    AQI_EXIT_TIME = 124,   /* its time was over */
    AQI_EXIT_SIGNAL = 128, /* plus the number of the signal */
};

enum aqi_rank_state {
    AQI_RANK_WAITING, /* not started yet */
    AQI_RANK_STARTED, /* has not called aq_init, and perhaps never will */
    AQI_RANK_JOINED,  /* said HELLO */
    AQI_RANK_LEFT,    /* said BYE: its end harms nobody */
    AQI_RANK_LOST     /* died after it joined, and the job goes on without it */
};

struct aqi_hub;

/* What a hub has done by its owner. None may call the hub, but `drain` aqi_hub_said. */
struct aqi_hub_hooks {
    /* Queue a message, with the parcel's bytes as its data and its descriptor. The parcel is
     * borrowed, or NULL; a rank that is not there is passed over. */
    void (*to_rank)(void *arg, uint32_t rank, const struct aqi_control *message,
                    struct aqi_parcel *parcel);
    /* Queue a frame for the parent or for a child that is attached. */
    void (*to_agent)(void *arg, uint32_t agent, const void *frame, size_t len);
    /* The parent is lost: connect to this ancestor, within a quarter of `host_timeout_ns`; then
     * call aqi_hub_attached or _unreachable. */
    void (*attach)(void *arg, uint32_t ancestor);
    /* This agent's link is of no use any more: it is not part of the job, or said so itself. */
    void (*detach)(void *arg, uint32_t agent);
    /* A signal to all processes of a rank of this host. */
    void (*kill)(void *arg, uint32_t rank, int number);
    /* The job is stopped, or goes on: as long as it is, hosts may be silent. May be NULL. */
    void (*pause)(void *arg, bool paused);
    /* Is this rank, which was killed, asleep where no signal comes? */
    bool (*asleep)(void *arg, uint32_t rank);
    /* What more is known of a process that got SIGKILL, such as that memory was short: "" or ", …".
     * May be NULL. */
    const char *(*hint)(void *arg);
    /* Hand over what this rank has said and nobody has read. */
    void (*drain)(void *arg, uint32_t rank);
    /* Root: for the user; always, or if he wants to know what is happening. */
    void (*say)(void *arg, bool always, const char *text);
    /* Root: what a rank of another host printed. */
    void (*output)(void *arg, uint32_t rank, unsigned stream, const void *bytes, size_t len);
    /* What the root's aqi_hub_input was given, for rank 0; `len` of 0 is its end. */
    void (*input)(void *arg, const void *bytes, size_t len);
    /* Nobody reads this stream any more: the ranks of this host shall notice. */
    void (*shut)(void *arg, unsigned stream);
    /* Show what the ranks of this host do, so often; 0: no more. May be NULL. */
    void (*watch)(void *arg, uint64_t interval_ns);
    /* Show, once, what they know of their peers; `turn` says for which question. May be NULL. */
    void (*peers)(void *arg, uint32_t turn);
    /* Descriptors for a result: of all ranks' parts, and of an object that ranks of a host share.
     */
    aq_status (*freeze)(void *arg, const void *bytes, size_t len, struct aqi_parcel **parcel);
    aq_status (*share)(void *arg, const char *name, size_t bytes, struct aqi_parcel **parcel);
    /* Everything is over: nothing more will be asked of the agent. */
    void (*over)(void *arg, int code);
    /* This agent cannot go on. Ends the process; its ranks die with it. */
    void (*die)(void *arg, const char *why);
};

struct aqi_hub_params {
    uint32_t ranks;
    uint32_t agents;
    uint32_t agent;           /* which one this is; 0: the root */
    uint32_t fanout;          /* children of an agent at most */
    const uint32_t *agent_of; /* of each rank; NULL: one agent has them all. Borrowed. */
    const char *const *hosts; /* names of the agents' hosts; NULL where there is one. Borrowed. */
    /* Hosts that have ranks, and which of them this one is, for those who know it better than
     * `agent_of` says; 0: they do not. */
    uint32_t host_count, host;
    const char *program;
    const char *launcher;    /* what users know it by: "aqrun" */
    struct aqi_parcel *page; /* what ranks get with JOB, or NULL */
    uint8_t key[AQI_JOB_KEY_BYTES];
    bool survive;
    uint64_t start_timeout_ns, exit_timeout_ns;
    uint64_t host_timeout_ns; /* an agent whose line broke is given up after it */
    uint64_t timeout_ns;      /* of the job; 0: none */
    uint64_t now_ns;
    struct aqi_hub_hooks hooks;
    void *arg;
};

aq_status aqi_hub_open(const struct aqi_hub_params *params, struct aqi_hub **hub);
void aqi_hub_close(struct aqi_hub *hub);

/* It is this late. Call before anything that follows, as often as time passes. */
void aqi_hub_now(struct aqi_hub *hub, uint64_t now_ns);
/* Do what is due. Returns when it wants to be called next, UINT64_MAX for never. */
uint64_t aqi_hub_tick(struct aqi_hub *hub);
/* The job, or this host, was stopped for so long, which counts for no time-out. */
void aqi_hub_stopped(struct aqi_hub *hub, uint64_t ns);

/* --- the ranks of this host --------------------------------------------------------------------
 */

/* Its process runs. */
void aqi_hub_started(struct aqi_hub *hub, uint32_t rank, int pid);
/* May a process that said HELLO have this rank's place? Else why not. */
aq_status aqi_hub_may_join(struct aqi_hub *hub, uint32_t rank, char why[AQI_CONTROL_TEXT]);
/* It may: it is told JOB. `name` is its program's, if that is not the one that was started. */
void aqi_hub_joined(struct aqi_hub *hub, uint32_t rank, int pid, const char *name);
/* It sent this message. AQ_EPROTO: which makes no sense; nothing has happened. */
aq_status aqi_hub_said(struct aqi_hub *hub, uint32_t rank, const struct aqi_control *message);
/* Its process has ended with this status of waitpid; -1: nobody knows which. */
void aqi_hub_ended(struct aqi_hub *hub, uint32_t rank, int status);
/* The process that joined, started by a shell of the rank, has ended, but the shell has not. */
void aqi_hub_lost(struct aqi_hub *hub, uint32_t rank);
/* It printed this; stream 0 is its output, 1 that for errors. Only while aqi_hub_has_room. */
void aqi_hub_printed(struct aqi_hub *hub, uint32_t rank, unsigned stream, const void *bytes,
                     size_t len);
bool aqi_hub_has_room(const struct aqi_hub *hub);
/* Rank 0 has taken so many bytes of its standard input from us. */
void aqi_hub_took(struct aqi_hub *hub, size_t len);
/* This host cannot do its part, as the text says. */
void aqi_hub_failed(struct aqi_hub *hub, int code, const char *fmt, ...) AQI_PRINTF(3, 4);
/* "rank 3 (pid 4711, ./program)", in brackets also the host if there are several */
#define AQI_RANK_NAME_BYTES 256
const char *aqi_hub_name(const struct aqi_hub *hub, uint32_t rank, char name[AQI_RANK_NAME_BYTES]);
enum aqi_rank_state aqi_hub_state(const struct aqi_hub *hub, uint32_t rank);
/* Ranks of this host, how the other of them count them: from 0. */
uint32_t aqi_hub_local_ranks(const struct aqi_hub *hub);
uint32_t aqi_hub_ranks(const struct aqi_hub *hub); /* of all hosts */
/* AQI_NO_RANK: of another host. */
uint32_t aqi_hub_index(const struct aqi_hub *hub, uint32_t rank);
uint32_t aqi_hub_rank_at(const struct aqi_hub *hub, uint32_t index);
/* The process of it that has joined; 0: none has. */
int aqi_hub_pid(const struct aqi_hub *hub, uint32_t index);

/* --- other agents -------------------------------------------------------------------------------
 */

/* The parent, or the ancestor asked for by `attach`, is connected: tell it who we are. */
void aqi_hub_attached(struct aqi_hub *hub, uint32_t ancestor);
/* `gone`: nobody is at its addresses any more; else it may be reached later. */
void aqi_hub_unreachable(struct aqi_hub *hub, uint32_t ancestor, bool gone, const char *why);
/* Whoever has started this agent is gone: of no matter, unless no way to the root was ever found.
 */
void aqi_hub_forsaken(struct aqi_hub *hub);
/* The link to this agent, up or down, is gone. Not called for those that `detach` was called for.
 * `ended`: and so is the agent; else only the line is known to be broken. */
void aqi_hub_link_lost(struct aqi_hub *hub, uint32_t agent, bool ended, const char *why);
/* A frame came. AQ_EPROTO: it makes no sense, and the link should be given up. */
aq_status aqi_hub_frame(struct aqi_hub *hub, uint32_t agent, const void *frame, size_t len);
/* This agent never came here, and will not: why, for people. Root, or the one who should start it.
 * Of no matter when it has found another way to the root. */
void aqi_hub_no_agent(struct aqi_hub *hub, uint32_t agent, int code, const char *why);
/* Who is the next agent up the tree; AQI_NO_AGENT: the root has none. */
uint32_t aqi_hub_parent(uint32_t agent, uint32_t fanout);

/* --- the root -----------------------------------------------------------------------------------
 */

/* The user or the system wants an end; the second time at once. */
void aqi_hub_signal(struct aqi_hub *hub, int number);
/* A signal to all ranks, SIGTSTP or SIGCONT; of other agents than the root to those of the host. */
void aqi_hub_pass(struct aqi_hub *hub, int number);
/* For the standard input of rank 0; no bytes: its end. */
void aqi_hub_input(struct aqi_hub *hub, const void *bytes, size_t len);
/* Bytes of it that rank 0 has not taken. */
size_t aqi_hub_input_waiting(const struct aqi_hub *hub);
/* Is there no room for what ranks of other hosts print? They wait until there is. */
void aqi_hub_hold_output(struct aqi_hub *hub, bool hold);
/* Nobody reads what ranks print to it any more. */
void aqi_hub_shut_output(struct aqi_hub *hub, unsigned stream);
/* For the user; `tell` is heard by who wants to know more. Of other agents, too. */
void aqi_hub_say(struct aqi_hub *hub, const char *fmt, ...) AQI_PRINTF(2, 3);
void aqi_hub_tell(struct aqi_hub *hub, const char *fmt, ...) AQI_PRINTF(2, 3);
/* All agents shall show what their ranks do, so often; 0: no more. */
void aqi_hub_watch(struct aqi_hub *hub, uint64_t interval_ns);
/* And what they know of their peers, once. */
void aqi_hub_ask_peers(struct aqi_hub *hub, uint32_t turn);
/* The exit code as known so far; it becomes `code` if it is 0. */
int aqi_hub_code(const struct aqi_hub *hub);
void aqi_hub_code_at_least(struct aqi_hub *hub, int code);
bool aqi_hub_ending(const struct aqi_hub *hub);
/* Something does not end: nothing is to be waited for any longer. */
bool aqi_hub_abandoned(const struct aqi_hub *hub);
/* At the end: which ranks the job went on without, and of what they died. */
void aqi_hub_tell_lost(struct aqi_hub *hub);
bool aqi_hub_agent_here(const struct aqi_hub *hub, uint32_t agent);
/* How many are, the root among them; of other agents 0: they do not know. */
uint32_t aqi_hub_agents_here(const struct aqi_hub *hub);

#endif
