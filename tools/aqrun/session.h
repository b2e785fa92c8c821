/*
 * Sessions of ssh: starts some at a time, sends each its ticket, reads their output, and reports
 * failures. Uses the event loop and never blocks.
 *
 * The standard input of a session stays open after the ticket: end of file notifies the agent that
 * the process that started it has ended. SIGPIPE must be ignored.
 */
#ifndef AQRUN_SESSION_H
#define AQRUN_SESSION_H

#include "base/base.h"

#include <sys/types.h>

#define SESSION_TEXT 1024u

enum session_end {
    SESSION_SERVED, /* after session_answered */
    SESSION_EXITED, /* with code 0, without having answered */
    SESSION_FAILED, /* without having answered */
};

/* None of these may call sessions_close. */
struct session_hooks {
    /*
     * A line of the session's output, from ssh, login scripts or the agent, made printable.
     * `stream` is 1 or 2.
     */
    void (*line)(uint32_t host, int stream, const char *text);
    /* The session has ended; no other hook follows. `why` says what happened, where, and what to
     * do; after session_answered the end may be normal. */
    void (*ended)(uint32_t host, enum session_end how, const char *why);
    /* Called in the child before exec, to restore signals, or NULL. */
    void (*child)(void);
};

/*
 * Before the first session: at most `fanout` may be unanswered at a time, each for at most
 * `timeout_ns`. `hooks` is kept.
 */
void sessions_open(const struct session_hooks *hooks, uint32_t fanout, uint64_t timeout_ns);
/* Kill the remaining sessions without calling hooks. */
void sessions_close(void);

/*
 * The session to start. `argv` is from ssh_argv, `ticket` from malloc; session_start takes
 * ownership of both, even on failure.
 */
struct session_request {
    uint32_t host;
    const char *name; /* of the host; copied */
    char **argv;
    uint8_t *ticket;
    size_t ticket_len;
};

/* Queue a session. Returns false if out of memory. */
bool session_start(const struct session_request *request);
/* The agent of this host has attached: its timeout is canceled, and the next session may start. */
void session_answered(uint32_t host);

/*
 * Start queued sessions if possible, and kill those that have timed out. Returns the time of the
 * next call, UINT64_MAX for never.
 */
uint64_t sessions_tick(uint64_t now);
/* To be called for each reaped child of this process; the owner of the loop reaps. Returns false if
 * it is not a session. */
bool sessions_reaped(pid_t pid, int status);

/* Whether this is the process of a session. */
bool sessions_have(pid_t pid);

/* Whether all sessions have ended, including queued ones. */
bool sessions_ended(void);

#endif
