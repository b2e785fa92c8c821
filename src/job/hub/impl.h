/* The inside of a hub: what its files share. */
#ifndef HUB_IMPL_H
#define HUB_IMPL_H

#include "job/hub/note.h"

/* --- an agent's part: local.c, calls.c, asks.c, closing.c ---------------------------------------
 */

/* A rank's share in the collective call that it is in. */
struct hub_part {
    uint32_t calls; /* calls completed */
    bool inside;    /* the first piece of the next has come */
    bool whole;     /* and the last */
    bool told;      /* and the root knows */
    uint32_t call;
    uint64_t bytes, got;
    size_t name_len;
    uint8_t *data; /* `bytes` of them, or the name of a shared object */
};

struct hub_local {
    uint32_t rank;
    enum aqi_rank_state state;
    bool running;
    bool leaving;
    bool terminated;  /* it got SIGTERM or SIGKILL from us: how it ends says nothing */
    bool unexplained; /* its end, but not its cause, has been reported to the root */
    int pid;          /* the process that was started */
    int joined_pid;   /* the process that said HELLO: the same, or one that a shell started */
    char program[16]; /* of that one, if it is another */
    uint64_t lost_ns; /* when that one ended without BYE; 0: it did not */
    unsigned asleep;  /* looks in a row that found it killed and asleep */
    struct hub_part part;
};

/* A question of ranks of this host, until all of them that live have put it. */
struct hub_ask;

struct hub_closing {
    bool ending;
    bool closed;       /* and the root knows */
    bool abandoned;    /* do not wait for processes any longer */
    uint64_t since_ns; /* when it began */
    size_t step;       /* of the escalation */
    unsigned looks;    /* at processes that were killed and are not gone */
};

/* --- the tree: flow.c ----------------------------------------------------------------------------
 */

struct hub_item { /* of the log, or a fact */
    struct hub_item *next;
    uint64_t number;
    struct aqi_parcel *parcel; /* as hub_note_encode has made it */
};

struct hub_items {
    struct hub_item *first, **last;
};

struct hub_child {
    uint32_t agent;
    bool attached;     /* else it is still to come, or is lost and those below it are to come */
    uint32_t epoch;    /* the how many-th link to an ancestor this is, for it */
    uint64_t applied;  /* by all of its part of the tree: what follows is kept for it */
    uint64_t until_ns; /* not attached: how long its share of the log is kept */
};

struct hub_flow {
    uint32_t parent; /* the agent we are attached to, or are about to be; AQI_NO_AGENT: root */
    bool attached;
    bool hopeless;     /* no way to the root any more */
    uint32_t epoch;    /* links to an ancestor that we have had */
    uint64_t alone_ns; /* since when we are not attached */
    uint32_t lost;     /* the line to this parent broke; AQI_NO_AGENT: it has ended */
    uint64_t again_ns; /* when to call it again; 0: a call is under way, or none is needed */
    char why[304];     /* what has become of the latest call */
    struct hub_child *children;
    uint32_t count, room;
    uint32_t *via; /* the child from which the last fact of each agent came */
    struct hub_items log;
    uint64_t applied;       /* the last entry that we had */
    uint64_t reported;      /* what the parent knows of all our part */
    struct hub_items facts; /* ours, not acknowledged; at the root: not looked at */
    uint64_t said;          /* number of the last one */
    size_t waiting;         /* bytes of them */
};

/* --- the root ------------------------------------------------------------------------------------
 */

struct hub_rank {
    enum aqi_rank_state state;
    bool running;
    bool ready;     /* has started: said READY */
    bool leaving;   /* makes no more collective call: said LEAVING */
    bool ending;    /* ends as soon as all others do: said ENDING */
    bool whole;     /* its part of the call that goes on is here */
    uint32_t calls; /* whose part was */
    int pid, joined_pid;
    char program[16];
    char *fate; /* LOST: of what it died */
};

/* The root's state of an agent. */
struct hub_agent {
    bool here; /* it has attached */
    bool lost;
    bool closed;       /* no process runs there, and none will */
    uint32_t at;       /* the agent it is attached to */
    uint32_t epoch;    /* by the how many-th of its links to an ancestor */
    uint64_t facts;    /* had from it */
    uint64_t got;      /* acknowledged to it */
    size_t bytes;      /* of facts since then */
    uint64_t until_ns; /* disconnected, it is declared dead then; 0: connected */
    char *broken;      /* how its line broke; NULL: its parent is lost */
    /* Of the object that the ranks of its host share: each host has one of its own size. */
    uint32_t share_seq, share_first;
    uint64_t share_bytes;
};

struct hub_call {
    bool going_on;
    aq_status failed; /* why there will be no further call, or AQ_OK */
    char why[AQI_CONTROL_TEXT + 1];
    uint32_t seq, call;
    uint32_t first; /* the rank that came first; its arguments are the others' measure */
    uint32_t whole; /* ranks whose part is here */
    uint64_t bytes, since_ns;
    size_t name_len;
    char name[AQI_CONTROL_NAME + 1];
    uint8_t *parts;
};

struct hub_end {
    bool ending;
    bool over;
    bool abandoned;
    uint64_t grace_ns;  /* when it begins, although not all ranks want it; 0: none does */
    uint64_t wanted_ns; /* when the latest came that wants it, and did not only agree */
    uint32_t come;      /* such ranks */
    uint64_t left_ns; /* when to check for ranks that have not followed the rank `left`; 0: none has
                         left */
    uint32_t left;
    uint64_t ask_ns;   /* when the others are asked, or asked again */
    uint64_t limit_ns; /* when hosts that have not said that nothing runs there are left behind */
    int code;          /* as known so far */
    uint32_t by;       /* the rank that caused it, or AQI_NO_RANK */
    char why[AQI_CONTROL_TEXT + 1];
};

/* A death of a rank that is to be judged once it is known whether all have started. */
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
    uint32_t absent; /* ranks that left, or ended without joining: no collective call has them */
    uint32_t ready, leaving, lost;
    uint32_t here;    /* agents */
    uint32_t open;    /* of them, those whose ranks may still run */
    uint32_t willing; /* ranks that run and have come to their end */
    bool awaited;     /* all agents have attached, or missing ones were reported */
    uint32_t orphans;
    uint64_t got_ns;      /* when facts are acknowledged, though few have come; 0: there are none */
    bool hold;            /* no room for output */
    size_t input_waiting; /* bytes that rank 0 has not taken */
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
    bool over;       /* and the owner knows */
    uint32_t *index; /* of each rank in `locals`, or AQI_NO_RANK */
    struct hub_local *locals;
    uint32_t count; /* of them */
    uint32_t running;
    uint32_t hosts;   /* that have ranks */
    uint32_t host;    /* which of them this one is */
    aq_status failed; /* why there are no more collective calls, or AQ_OK */
    struct aqi_parcel *why;
    uint32_t untold;    /* ranks whose part has yet to be sent */
    uint64_t untold_ns; /* since when */
    struct hub_ask *asks;
    struct hub_closing closing;
    char why_end[AQI_CONTROL_TEXT + 1];
    uint32_t unexplained; /* ranks reported by aqi_hub_lost */
    struct hub_flow flow;
    struct hub_root *root; /* NULL on other agents */
};

/* hub.c */
void hub_say(struct aqi_hub *hub, bool always, const char *fmt, ...) AQI_PRINTF(3, 4);
_Noreturn void hub_no_memory(struct aqi_hub *hub, const char *what);
struct hub_local *hub_local(const struct aqi_hub *hub, uint32_t rank); /* NULL: not of this host */
uint32_t hub_agent_of(const struct aqi_hub *hub, uint32_t rank);
const char *hub_host(const struct aqi_hub *hub, uint32_t agent);
/* Nothing more will be asked of this agent. */
void hub_over(struct aqi_hub *hub, int code);
/* Handle facts of our own; call at the end of everything that may have caused some. */
void hub_pump(struct aqi_hub *hub);

/* flow.c */
void flow_open(struct aqi_hub *hub);
void flow_close(struct aqi_hub *hub);
/* Tell the root, at once if that is us (by the next pump). */
void flow_fact(struct aqi_hub *hub, const struct hub_note *note);
/* Root: append to the log, apply here, pass on. */
void flow_entry(struct aqi_hub *hub, const struct hub_note *note);
/* Time limit for agents whose parent is declared dead, which may have been waited for itself. */
uint64_t flow_orphans_ns(const struct aqi_hub *hub);
/* Root: the agent, and what it has not said yet, is not part of the job any more. */
void flow_give_up(struct aqi_hub *hub, uint32_t agent, const char *why);
/* Root: acknowledge facts, unless too few have come since. */
void flow_got(struct aqi_hub *hub, uint32_t agent, bool now);
uint64_t flow_tick(struct aqi_hub *hub);

/* local.c */
aq_status local_open(struct aqi_hub *hub);
void local_close(struct aqi_hub *hub);
/* An entry of the log has come. */
void local_apply(struct aqi_hub *hub, const struct hub_note *note);
uint64_t local_tick(struct aqi_hub *hub);
void local_tell(struct aqi_hub *hub, uint32_t but, const struct aqi_control *message,
                const void *text, size_t len);

/* calls.c */
aq_status calls_take(struct aqi_hub *hub, struct hub_local *local,
                     const struct aqi_control *message);
void calls_result(struct aqi_hub *hub, const struct hub_note *note);
uint64_t calls_tick(struct aqi_hub *hub);

/* asks.c */
aq_status asks_take(struct aqi_hub *hub, struct hub_local *local,
                    const struct aqi_control *message);
void asks_gone(struct aqi_hub *hub, uint32_t rank);
void asks_agreed(struct aqi_hub *hub, const struct hub_note *note);
void asks_close(struct aqi_hub *hub);

/* closing.c */
void closing_begin(struct aqi_hub *hub, const struct hub_note *note);
void closing_kill(struct aqi_hub *hub);
/* If the last process has ended, notify the root. */
void closing_check(struct aqi_hub *hub);
uint64_t closing_tick(struct aqi_hub *hub);

/* root.c */
aq_status root_open(struct aqi_hub *hub);
void root_close(struct aqi_hub *hub);
void root_fact(struct aqi_hub *hub, uint32_t agent, const struct hub_note *note);
uint64_t root_tick(struct aqi_hub *hub);
/* A fact of another agent has come, which is to be acknowledged. */
void root_had_fact(struct aqi_hub *hub);
/* Its process does not run any more. */
void root_stopped(struct aqi_hub *hub, struct hub_rank *rank);
/* A rank takes no part any more: it left, or died and the job goes on. */
void root_absent(struct aqi_hub *hub, uint32_t rank, enum aqi_rank_state state);
void root_event(struct aqi_hub *hub, enum aqi_boot_event_type event, uint32_t rank, int code,
                const char *why);

/* collective.c */
void collective_part(struct aqi_hub *hub, uint32_t agent, const struct hub_note *note);
/* Whether this is why the last call failed, already reported to the user. */
bool collective_said(const struct aqi_hub *hub, const char *why);
/* A rank left or ended: check whether the current call can still be completed. */
void collective_check(struct aqi_hub *hub);
uint64_t collective_tick(struct aqi_hub *hub);

/* agree.c */
void agree_ask(struct aqi_hub *hub, uint32_t agent, const struct hub_note *note);
/* This rank has died or left: no longer wait for it. */
void agree_gone(struct aqi_hub *hub, uint32_t rank);
void agree_close(struct aqi_hub *hub);

/* end.c */
void end_job(struct aqi_hub *hub, int code, uint32_t by, const char *fmt, ...) AQI_PRINTF(4, 5);
void end_asked(struct aqi_hub *hub, uint32_t by, int code, const char *why);
void end_wanted(struct aqi_hub *hub, uint32_t by, int code, uint64_t wait_ns);
void end_judge(struct aqi_hub *hub, const struct hub_note *note);
/* A rank died, or its host did; `text` says of what. */
void end_died(struct aqi_hub *hub, uint32_t rank, int code, const char *text);
/* A rank that had come to aq_finalize has left in good order. */
void end_left(struct aqi_hub *hub, uint32_t rank);
/* Check whether all have ended, or want to. */
void end_check(struct aqi_hub *hub);
/* Deaths that wait to be judged. */
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
