/* Private to a hub: shared by its files. */
#ifndef HUB_IMPL_H
#define HUB_IMPL_H

#include "job/hub/note.h"

/* --- on each agent: local.c, calls.c, agree.c, closing.c ------------------------------------ */

/* A rank's part in the current collective call. */
struct hub_part {
    uint32_t calls; /* calls completed */
    bool inside;    /* the first piece of the next call has arrived */
    bool whole;     /* and the last piece */
    bool sent;      /* and it has been sent to the root */
    uint32_t call;
    uint64_t bytes, got;
    size_t name_len;
    uint8_t *data; /* `bytes` of data, or the name of a shared object */
};

struct hub_local {
    uint32_t rank;
    enum aqi_rank_state state;
    bool running;
    bool leaving;
    bool terminated;  /* SIGTERM or SIGKILL was sent, so its exit status is meaningless */
    bool unexplained; /* its end has been reported to the root, but not the cause */
    int pid;          /* the process that was started */
    int joined_pid;   /* the process that sent HELLO: the same, or a child of a shell */
    char program[16]; /* of joined_pid, if that is another process */
    uint64_t lost_ns; /* when joined_pid ended without BYE; 0: it has not */
    unsigned asleep;  /* consecutive checks after SIGKILL in uninterruptible sleep */
    struct hub_part part;
};

struct hub_closing {
    bool ending;
    bool closed;       /* all processes have ended, and the root has been notified */
    bool abandoned;    /* do not wait for processes any longer */
    uint64_t since_ns; /* when the end began */
    size_t step;       /* the next step of the escalation */
    unsigned checks;   /* checks so far of killed processes that have not ended */
};

/* --- the tree: flow.c ----------------------------------------------------------------------- */

struct hub_item { /* an entry of the log, or a fact */
    struct hub_item *next;
    uint64_t number;
    struct aqi_parcel *parcel; /* as encoded by hub_note_encode */
};

struct hub_items {
    struct hub_item *first, **last;
};

struct hub_child {
    uint32_t agent;
    bool attached;     /* if not, it has not attached yet, or its children have yet to re-attach */
    uint32_t epoch;    /* number of this link among the child's links to ancestors */
    uint64_t applied;  /* last entry that its whole subtree has; later ones are kept for it */
    uint64_t until_ns; /* if not attached: how long its part of the log is kept */
};

struct hub_flow {
    uint32_t parent; /* attached to this agent, or trying to; AQI_NO_AGENT: root */
    bool attached;
    bool cut_off;         /* the root can no longer be reached */
    uint32_t epoch;       /* number of links to ancestors so far */
    uint64_t detached_ns; /* since when this agent has not been attached */
    uint32_t lost_parent; /* the link to this parent broke; AQI_NO_AGENT: the parent has ended */
    uint64_t retry_ns;    /* when to call it again; 0: a call is pending, or none is needed */
    char why[304];        /* error of the latest call */
    struct hub_child *children;
    uint32_t count;
    size_t room;
    uint32_t *via; /* for each agent, the child from which its last fact arrived */
    struct hub_items log;
    uint64_t applied;  /* number of the last entry received */
    uint64_t reported; /* number up to which this subtree has the log, as reported to the parent */
    struct hub_items facts; /* of this agent, unacknowledged; at the root: not handled yet */
    uint64_t last_fact;     /* number of the last one */
    size_t unacknowledged;  /* bytes of `facts` */
};

/* --- the root ------------------------------------------------------------------------------- */

struct hub_rank {
    enum aqi_rank_state state;
    bool running;
    bool ready;   /* has started (READY) */
    bool leaving; /* will make no more collective calls (LEAVING) */
    bool ending;  /* ends once all others do (ENDING) */
    bool whole;   /* its part of the current call has arrived */
    int pid, joined_pid;
    char program[16];
    char *fate; /* LOST: why it died */
};

/* The root's state of an agent. */
struct hub_agent {
    bool attached;
    bool lost;
    bool closed;     /* no process runs there, or ever will */
    uint32_t parent; /* the agent to which it is attached */
    uint32_t epoch;  /* number of that link among its links to ancestors so far */
    uint64_t facts;  /* facts received from it */
    uint64_t acknowledged;
    size_t bytes;      /* of unacknowledged facts */
    uint64_t until_ns; /* disconnected: when to declare it dead; 0: connected */
    char *broken;      /* why its link broke; NULL: its parent was lost */
    /* The object shared by the ranks of the host. Each host has one, and sizes may differ. */
    uint32_t share_seq, share_first;
    uint64_t share_bytes;
};

struct hub_call {
    bool active;
    aq_status failed; /* why all further calls fail, or AQ_OK */
    char why[AQI_CONTROL_TEXT + 1];
    uint32_t seq, call;
    uint32_t first; /* the first caller; its arguments are compared to those of others */
    uint32_t whole; /* ranks whose part has arrived */
    uint64_t bytes, since_ns;
    size_t name_len;
    char name[AQI_CONTROL_NAME + 1];
    uint8_t *parts;
};

struct hub_end {
    bool ending;
    bool over;
    bool abandoned;
    uint64_t grace_ns;     /* when the end begins even if not all ranks have requested it; 0: not
                            * requested */
    uint64_t requested_ns; /* when the latest rank requested the end, other than by agreeing */
    uint32_t requests;     /* number of ranks that requested the end */
    uint64_t left_ns; /* when to check that all ranks have followed rank `left`; 0: none has left */
    uint32_t left;
    uint64_t ask_ns;   /* when to ask the other ranks, for the first time or again */
    uint64_t limit_ns; /* when hosts that have not reported their end are abandoned */
    int code;          /* as known so far */
    uint32_t by;       /* the rank that caused it, or AQI_NO_RANK */
    char why[AQI_CONTROL_TEXT + 1];
};

/* The death of a rank, to be judged once it is known whether all have started. */
struct hub_death {
    struct hub_death *next;
    uint32_t rank;
    int code;
    uint64_t since_ns;
    char text[];
};

struct hub_root {
    struct hub_rank *ranks;
    struct hub_agent *agents;
    uint32_t started; /* ranks whose process was started */
    uint32_t running;
    uint32_t absent; /* ranks that left, or ended without joining: they take part in no call */
    uint32_t ready, leaving, lost;
    uint32_t attached;  /* agents */
    uint32_t open;      /* agents whose ranks may still run */
    uint32_t willing;   /* running ranks that request the end or agree to it */
    bool start_checked; /* all agents have attached, or missing ones were reported */
    uint32_t orphans;
    uint64_t ack_ns;      /* when to acknowledge even a few facts; 0: none are pending */
    bool hold;            /* output must wait */
    size_t input_waiting; /* bytes not consumed by rank 0 */
    uint64_t began_ns;
    struct hub_call call;
    struct hub_agreement *agreements;
    struct hub_death *deaths;
    struct hub_end end;
};

struct aqi_hub {
    struct aqi_hub_params params;
    uint64_t now;
    bool pumping;
    bool over;       /* the job has ended, and the owner has been notified */
    uint32_t *index; /* for each rank, its index in `locals`, or AQI_NO_RANK */
    struct hub_local *locals;
    uint32_t count; /* number of `locals` */
    uint32_t running;
    aq_status failed; /* why all further collective calls fail, or AQ_OK */
    struct aqi_parcel *why;
    uint32_t unsent_parts;            /* ranks whose complete part has not been sent yet */
    uint64_t unsent_since_ns;         /* when the first of them was complete; 0: none */
    struct hub_agreement *agreements; /* of the ranks of this host */
    struct hub_closing closing;
    char why_end[AQI_CONTROL_TEXT + 1];
    uint32_t unexplained; /* ranks reported by aqi_hub_lost */
    struct hub_flow flow;
    struct hub_root *root; /* NULL on other agents */
};

/* hub.c */
_Noreturn void hub_no_memory(struct aqi_hub *hub, const char *what);
struct hub_local *hub_local(const struct aqi_hub *hub, uint32_t rank); /* NULL: not of this host */
uint32_t hub_agent_of(const struct aqi_hub *hub, uint32_t rank);
const char *hub_host(const struct aqi_hub *hub, uint32_t agent);
/* This agent is not needed any longer. */
void hub_over(struct aqi_hub *hub, int code);
/* Root: handle its own facts; to be called at the end of all calls that may have caused some. */
void hub_pump(struct aqi_hub *hub);

/* flow.c */
void flow_open(struct aqi_hub *hub);
void flow_close(struct aqi_hub *hub);
/* Report to the root; at the root itself it is handled by the next pump. */
void flow_fact(struct aqi_hub *hub, const struct hub_note *note);
/* Root: append to the log, apply it here, and forward it. */
void flow_entry(struct aqi_hub *hub, const struct hub_note *note);
/* Time limit for agents whose parent has been declared dead, perhaps after the root had waited for
 * it. */
uint64_t flow_orphans_ns(const struct aqi_hub *hub);
/* Root: acknowledge facts, `now` or once enough have arrived since the last time. */
void flow_acknowledge(struct aqi_hub *hub, uint32_t agent, bool now);
uint64_t flow_tick(struct aqi_hub *hub);

/* local.c */
bool local_open(struct aqi_hub *hub); /* false: out of memory */
void local_close(struct aqi_hub *hub);
/* Apply an entry of the log. */
void local_apply(struct aqi_hub *hub, const struct hub_note *note);
uint64_t local_tick(struct aqi_hub *hub);
/* Send a message to all ranks of this host that have joined, except one. */
void local_broadcast(struct aqi_hub *hub, uint32_t except, const struct aqi_control *message,
                     const void *text, size_t len);

/* calls.c */
aq_status calls_take(struct aqi_hub *hub, struct hub_local *local,
                     const struct aqi_control *message);
void calls_result(struct aqi_hub *hub, const struct hub_note *note);
uint64_t calls_tick(struct aqi_hub *hub);

/* agree.c */
aq_status agree_local_call(struct aqi_hub *hub, struct hub_local *local,
                           const struct aqi_control *message);
void agree_local_gone(struct aqi_hub *hub, uint32_t rank);
void agree_local_result(struct aqi_hub *hub, const struct hub_note *note);
/* Also at the root. */
void agree_close(struct hub_agreement *list);

/* closing.c */
void closing_begin(struct aqi_hub *hub, const struct hub_note *note);
void closing_kill(struct aqi_hub *hub);
/* Notify the root if the last process has ended. */
void closing_check(struct aqi_hub *hub);
uint64_t closing_tick(struct aqi_hub *hub);

/* root.c */
bool root_open(struct aqi_hub *hub); /* false: out of memory */
void root_close(struct aqi_hub *hub);
void root_fact(struct aqi_hub *hub, const struct hub_note *note);
uint64_t root_tick(struct aqi_hub *hub);
/* Record a fact of another agent, to be acknowledged. */
void root_ack_later(struct aqi_hub *hub);
/* The rank's process has ended. */
void root_stopped(struct aqi_hub *hub, struct hub_rank *rank);
/* A rank no longer takes part: it left, or it died and the job continues. */
void root_absent(struct aqi_hub *hub, uint32_t rank, enum aqi_rank_state state);
void root_event(struct aqi_hub *hub, enum aqi_boot_event_type event, uint32_t rank, int code,
                const char *why);

/* collective.c */
void collective_part(struct aqi_hub *hub, const struct hub_note *note);
/* Whether `why` is the cause of the last failed call, which has already been reported. */
bool collective_is_cause(const struct aqi_hub *hub, const char *why);
/* Check whether the current call can still complete, after a rank left or ended. */
void collective_check(struct aqi_hub *hub);
uint64_t collective_tick(struct aqi_hub *hub);

/* agree.c */
void agree_root_call(struct aqi_hub *hub, const struct hub_note *note);
/* A rank has died or left: stop waiting for it. */
void agree_root_gone(struct aqi_hub *hub, uint32_t rank);

/* end.c */
void end_job(struct aqi_hub *hub, int code, uint32_t by, const char *fmt, ...) AQI_PRINTF(4, 5);
void end_by_exit(struct aqi_hub *hub, uint32_t by, int code, const char *why);
void end_request(struct aqi_hub *hub, uint32_t by, int code, uint64_t wait_ns);
void end_judge(struct aqi_hub *hub, const struct hub_note *note);
/* A rank or its host died; `text` says why. */
void end_died(struct aqi_hub *hub, uint32_t rank, int code, const char *text);
/* A rank that had called aq_finalize has left in good order. */
void end_left(struct aqi_hub *hub, uint32_t rank);
/* Check whether all have ended, or request the end. */
void end_check(struct aqi_hub *hub);
/* Judge pending deaths. */
void end_deaths(struct aqi_hub *hub);
uint64_t end_tick(struct aqi_hub *hub);

static inline bool hub_set_has(const uint8_t *set, uint32_t rank)
{
    return (set[rank / 8] >> rank % 8 & 1) != 0;
}

static inline void hub_set_add(uint8_t *set, uint32_t rank)
{
    set[rank / 8] |= (uint8_t)(1u << rank % 8);
}

static inline void hub_set_drop(uint8_t *set, uint32_t rank)
{
    set[rank / 8] &= (uint8_t) ~(1u << rank % 8);
}

#endif
