/*
 * Whole jobs in virtual time: the hubs of all agents (src/job/hub), the links between them, the
 * processes of the ranks, and the faults of each. Everything that happens is an event in a channel,
 * and the events of a channel keep their order. The next event is either the one with the earliest
 * time, where times are drawn from the seed (run.c), or each of the possible ones in turn
 * (every.c).
 */
#ifndef HUBSIM_H
#define HUBSIM_H

#include "../common/data.h"
#include "base/base.h"
#include "job/hub/impl.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define US       1000ull
#define MS       1000000ull
#define SECOND   1000000000ull
#define NOBODY   UINT32_MAX
#define ALL      (UINT32_MAX - 1)
#define CALLS    12u
#define AGREES   6u
#define KEYS     256u
#define STEPS    64u
#define FAULTS   8u
#define HOST_NS  SECOND /* the timeouts of all jobs with drawn plans */
#define EXIT_NS  SECOND
#define START_NS (5 * SECOND)

struct sim;

/* --- the plan of a job: plan.c ---------------------------------------------------------------- */

enum step_kind {
    STEP_JOIN,
    STEP_CALL, /* call number `what` of the job */
    STEP_READY,
    STEP_AGREE, /* agreement number `what` of the job */
    STEP_PRINT,
    STEP_LEAVING,
    STEP_BYE,
    STEP_ENDING, /* then it waits for the end */
    STEP_EXIT,   /* then it ends */
    STEP_END,    /* with the code `what` */
    STEP_CRASH,  /* by the signal `what` */
    STEP_LOSE,   /* the program ends, its shell does not */
    STEP_HANG
};

struct step {
    enum step_kind kind;
    int what;
    uint64_t delay_ns;
};

/* How a rank reacts when it is notified of the end of the job. */
enum temper { OBEYS, WANTS_TERM, WANTS_KILL, ASLEEP };

struct plan_rank {
    struct step steps[STEPS];
    uint32_t count;
    enum temper temper;
    bool odd_call; /* makes calls that the other ranks do not */
};

struct plan_call {
    enum aqi_control_call call;
    uint64_t bytes;
};

struct plan_agree {
    uint8_t members[1250]; /* 10,000 ranks */
};

enum fault_kind {
    FAULT_DEATH,     /* of the agent `a` and its ranks; its links end at once */
    FAULT_SILENCE,   /* the same, but no process is notified */
    FAULT_RESET,     /* of the link of `a` to its parent; both ends are notified */
    FAULT_CUT,       /* of that link; each end notices by itself */
    FAULT_PARTITION, /* between agents, by bit `a` % 32 of a number drawn for each */
    FAULT_OUTAGE,    /* the same, mended before any agent may be declared lost; or never */
    FAULT_HEAL,
    FAULT_SIGNAL,
    FAULT_PAUSE, /* the root has no room for output for a while */
    FAULT_RELEASE,
    FAULT_KINDS
};

struct fault {
    enum fault_kind kind;
    uint32_t a;
    uint64_t at_ns, for_ns; /* OUTAGE */
};

struct plan {
    uint32_t agents, ranks, fanout;
    uint32_t *agent_of;
    bool survive;
    uint64_t timeout_ns;
    struct plan_rank *each;
    uint64_t *starts_ns; /* of the agents; UINT64_MAX: it cannot be started */
    struct plan_call calls[CALLS];
    uint32_t call_count;
    struct plan_agree agrees[AGREES];
    uint32_t agree_count;
    struct fault faults[FAULTS];
    uint32_t fault_count;
    uint32_t full_host; /* has no room for results; NOBODY: none */
    bool waits_for_one; /* all wait until one rank ends the job */
    bool may_hang;      /* a process waits forever, until the user ends the job */
    bool lossy;         /* hosts have more faults than one broken line */
    uint64_t outage_ns; /* when an endless outage begins; 0: never */
    bool slow_links;
    uint32_t inputs; /* lines for rank 0, each this long after the previous one */
    uint64_t input_ns;
    uint64_t link_ns; /* fixed delay of links; 0: drawn */
    bool quiet_data;  /* results are not compared: too large */
};

void plan_draw(struct plan *plan, uint64_t seed, uint32_t agents, uint32_t ranks);
void plan_open(struct plan *plan, uint32_t agents, uint32_t ranks, uint32_t fanout);
void plan_close(struct plan *plan);
void plan_add(struct plan *plan, uint32_t rank, enum step_kind kind, int what, uint64_t delay_ns);

/* --- events: queue.c -------------------------------------------------------------------------- */

struct bytes {
    size_t refs, len;
    uint8_t data[];
};

struct event {
    struct event *next; /* of its channel */
    uint64_t time, serial;
    uint32_t channel;
    bool timer; /* happens only when nothing else can */
    void (*run)(struct sim *sim, struct event *event);
    uint32_t a, b;
    uint64_t number;
    struct bytes *bytes;
    struct aqi_parcel *parcel;
    struct aqi_control message;
};

enum channel_kind { RANK_UP, RANK_DOWN, RANK_STEP, RANK_SIGNAL, RANK_REAP, RANK_CHANNELS };
enum agent_channel { AGENT_START, AGENT_CONNECT, AGENT_CHANNELS };
#define NO_CHANNEL UINT32_MAX

struct channel {
    struct event *first, **last;
    uint64_t time;  /* of the last event */
    uint32_t actor; /* the process whose state its events change */
};

uint32_t channel_link(const struct sim *sim, uint32_t from, uint32_t to);
uint32_t channel_rank(const struct sim *sim, uint32_t rank, enum channel_kind kind);
uint32_t channel_agent(const struct sim *sim, uint32_t agent, enum agent_channel kind);
uint32_t channel_fault(const struct sim *sim);

/* Post an event `delay_ns` from now; the caller fills in its contents. */
struct event *sim_post(struct sim *sim, uint32_t channel, uint64_t delay_ns,
                       void (*run)(struct sim *, struct event *));
void queue_open(struct sim *sim);
void queue_close(struct sim *sim);
/* Remove it from its channel, and execute it. */
void sim_happen(struct sim *sim, struct event *event);
struct event *sim_earliest(struct sim *sim);
struct event *sim_channel_first(struct sim *sim, uint32_t channel);
void event_free(struct event *event);

/* --- processes: rank.c, agent.c, link.c ------------------------------------------------------- */

struct rank {
    uint32_t number, agent;
    bool spawned, running;
    bool joined, left, ready; /* the state known to itself */
    bool leaving;
    bool lost_parent; /* died with its agent */
    bool under_shell; /* the program has ended */
    bool notified_exit;
    bool killed; /* SIGKILL is on its way */
    uint32_t at; /* step */
    enum { WAITS_NOT, WAITS_JOB, WAITS_RESULT, WAITS_AGREED, WAITS_EXIT } waits;
    uint32_t seq; /* of its last call */
    int agree;    /* the last agreement that it has asked for */
    uint64_t printed;
    uint16_t heard[KEYS]; /* keys of notifications in their order */
    uint32_t heard_count;
    int8_t results[CALLS]; /* 1: right, -1: failed */
};

struct agent {
    struct aqi_hub *hub;
    bool up, over, dead, silent;
    bool excused; /* it, or all its ways to the root, were broken: it may be declared lost */
    bool broken;  /* the line to its parent; excused the second time */
    int code;
    uint64_t tick_ns;
    uint64_t lost_after_ns; /* of the messages that it had sent when it died */
    uint64_t over_ns;
    uint64_t frames_in, bytes_in, frames_out, bytes_out;
    uint64_t most_log, most_facts; /* the most entries that it has kept */
};

void rank_spawn(struct sim *sim, uint32_t rank);
void rank_drain(struct sim *sim, uint32_t rank);
void rank_vanish(struct sim *sim, struct rank *rank);

/* The hooks that concern ranks; agent.c has the others. */
void rank_hooks(struct aqi_hub_hooks *hooks);
void agent_post_start(struct sim *sim, uint32_t agent);
/* Called after each call of the hub: schedules its next one. */
void agent_after(struct sim *sim, uint32_t agent);
void agent_die(struct sim *sim, uint32_t agent, bool silent);
struct aqi_hub *agent_hub(struct sim *sim, uint32_t agent); /* after setting its clock */

bool link_open(const struct sim *sim, uint32_t a, uint32_t b);
void link_send(struct sim *sim, uint32_t from, uint32_t to, const void *frame, size_t len);
void link_close(struct sim *sim, uint32_t from, uint32_t to);
void link_connect(struct sim *sim, uint32_t agent, uint32_t ancestor);
void link_of_dead(struct sim *sim, uint32_t agent, bool silent);
void link_reset(struct sim *sim, uint32_t agent);
void link_cut(struct sim *sim, uint32_t a, uint32_t b);
/* `excused`: agents may be declared lost because of it. */
void link_partition(struct sim *sim, uint32_t number, bool excused);
uint64_t link_delay(struct sim *sim);

/* --- conditions: check.c ---------------------------------------------------------------------- */

struct agree_state {
    bool answered;
    int32_t status;
    uint8_t asked[1250], arrived[1250];
};

struct key { /* a notification: of a death, an agreement, the end */
    uint32_t type, rank;
};

struct checks {
    struct key keys[KEYS];
    uint32_t key_count;
    uint8_t before[KEYS][KEYS / 8]; /* before[a][b]: some rank was notified of b before a */
    struct agree_state agrees[AGREES];
    bool codes[256];   /* with which the job may end */
    bool some_code;    /* the job must end with one of them */
    uint64_t *entries; /* hash of each entry of the log */
    size_t entry_room;
    bool over;
    int code;
    uint64_t inputs;                    /* lines that rank 0 got */
    uint64_t *shown;                    /* lines of each rank that the root has shown */
    uint64_t requests, orders, answers; /* messages about the end */
};

void check_open(struct sim *sim);
void check_close(struct sim *sim);
void check_cause(struct sim *sim, int code);
void check_heard(struct sim *sim, struct rank *rank, const struct aqi_control *message);
void check_result(struct sim *sim, struct rank *rank, const struct aqi_control *message,
                  const struct aqi_parcel *parcel);
void check_agreed(struct sim *sim, struct rank *rank, const struct aqi_control *message,
                  const struct aqi_parcel *parcel);
void check_entry(struct sim *sim, const void *frame, size_t len);
void check_over(struct sim *sim, uint32_t agent, int code);
void check_end(struct sim *sim);
void check_input(struct sim *sim, const void *bytes, size_t len);
void check_output(struct sim *sim, uint32_t rank, const void *bytes, size_t len);
/* The data of a rank in a call. */
void check_part(const struct sim *sim, uint32_t call, uint32_t rank, uint8_t *part);

/* --- the whole: run.c ------------------------------------------------------------------------- */

enum mark { MARK_AGREED = CALLS, MARK_EXIT, MARK_OVER, MARKS };

struct sim {
    const struct plan *plan;
    uint64_t marks[MARKS]; /* when the last rank had its result of each call, and so on */
    uint64_t seed, random, now, serial, events;
    bool every; /* no times: any order */
    bool trace, quiet;
    bool draining; /* the messages of a rank are being read, and hooks must not call back */
    struct channel *channels;
    uint32_t channel_count;
    struct event **heap;
    size_t heap_count, heap_room;
    struct event *timers; /* every: timers, the earliest first */
    struct agent *agents;
    struct rank *ranks;
    /* agents x agents: the number of the link that this agent's end belongs to, or 0 if it is
     * closed; the last link between the two; and whether that is cut. */
    uint32_t *open, *links;
    uint8_t *cut;
    struct bytes *last; /* frame that was sent */
    uint32_t partition; /* 0: there is none */
    uint32_t up;        /* agents that have not ended */
    const char **hosts;
    char (*host_names)[16];
    struct checks checks;
    char said[512]; /* the last message of an agent to the user */
    uint64_t loud;  /* how many times */
};

struct owner { /* the argument of the hooks */
    struct sim *sim;
    uint32_t agent;
};

_Noreturn void sim_fail(struct sim *sim, const char *fmt, ...) AQI_PRINTF(2, 3);
#define REQUIRE(sim, holds, ...)                                                                   \
    do {                                                                                           \
        if (!(holds)) sim_fail(sim, __VA_ARGS__);                                                  \
    } while (0)
void sim_trace(struct sim *sim, const char *fmt, ...) AQI_PRINTF(2, 3);
void *sim_alloc(size_t count, size_t bytes);
uint64_t sim_random(struct sim *sim, uint64_t below);
bool sim_chance(struct sim *sim, unsigned percent);
/* `plan` must outlive it. */
void sim_open(struct sim *sim, const struct plan *plan, uint64_t seed);
void sim_close(struct sim *sim);
/* Run until no process has anything to do. */
void sim_run(struct sim *sim);

struct options {
    uint64_t seed;
    uint32_t agents, ranks; /* 0: drawn */
    bool trace, quiet;
};
void run_seed(const struct options *options);
/* All orders of events in small jobs; `most`: stop after this many (0: never). */
int run_every(uint64_t most);
int run_figures(void);
int run_bounds(void);

#endif
