/*
 * Sessions of ssh: starts them, some at a time, sends each its ticket, reads their output, and
 * reports why one failed. Uses the event loop and never blocks.
 *
 * The standard input of a session stays open after the ticket: its end shows the agent that the
 * process that started it is gone. SIGPIPE must be ignored.
 */
#ifndef AQRUN_SESSION_H
#define AQRUN_SESSION_H

#include "base/base.h"

#include <sys/types.h>

#define SESSION_TEXT 1024u

enum session_end {
    SESSION_SERVED,   /* after session_answered */
    SESSION_WITHDREW, /* with code 0, but without having answered */
    SESSION_CAME_TO_NOTHING,
};

/* None of these may close the sessions. */
struct session_hooks {
    /*
     * A line of the session's output, made printable: of ssh, of login scripts, of the agent.
     * `stream` is 1 or 2.
     */
    void (*line)(void *arg, uint32_t host, int stream, const char *text);
    /* The last event of this session: it has ended. `why` says what happened, where, and what to
     * do; after session_answered this may be normal. */
    void (*ended)(void *arg, uint32_t host, enum session_end how, const char *why);
    /* In the child before exec, or NULL: to restore signals. */
    void (*child)(void *arg);
};

struct sessions;

/*
 * At most `fanout` sessions may be unanswered at a time (0: any number), each for at most
 * `timeout_ns`. NULL: out of memory.
 */
struct sessions *sessions_open(const struct session_hooks *hooks, void *arg, uint32_t fanout,
                               uint64_t timeout_ns);
/* Kill the remaining ones silently. */
void sessions_close(struct sessions *sessions);

/*
 * The session to start. `argv` is from ssh_argv, `ticket` from malloc; ownership of both is taken,
 * and they are also freed on failure.
 */
struct session_wish {
    uint32_t host;
    const char *name; /* of the host; copied */
    char **argv;
    uint8_t *ticket;
    size_t ticket_len;
};

/* Queue it. Returns false if out of memory. */
bool session_start(struct sessions *sessions, const struct session_wish *wish);
/* The agent of this host has attached: no timeout applies any more, and the next may start. */
void session_answered(struct sessions *sessions, uint32_t host);
/* Make the agent end, by ending its standard input after the ticket. */
void session_release(struct sessions *sessions, uint32_t host);

/*
 * Start sessions that may start, end those that took too long; returns when to call it next, or
 * UINT64_MAX.
 */
uint64_t sessions_tick(struct sessions *sessions, uint64_t now);
/* Call for each reaped child of this process. Returns false if it is not a session. */
bool sessions_reaped(struct sessions *sessions, pid_t pid, int status);

/* Whether this is the process of a session. */
bool sessions_have(const struct sessions *sessions, pid_t pid);

/* The number of sessions that have not ended, including queued ones. */
uint32_t sessions_count(const struct sessions *sessions);

#endif
