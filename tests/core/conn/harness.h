/*
 * Shared by the programs of this folder: processes that are not ranks of one job, each with a role
 * in a small play, and flags in memory shared by all of them. Checks are those of
 * tests/core/support.h.
 */
#ifndef AQT_CONN_HARNESS_H
#define AQT_CONN_HARNESS_H

#include "../support.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>

enum { PLAY_FLAGS = 64 };

/* In memory shared by all processes; zeroed before each play. */
struct play {
    _Atomic uint32_t flag[PLAY_FLAGS];
    char uri[256]; /* unique to this play */
};
extern struct play *play;

/* Whether the plays use udp instead of shm: AQT_CONN=udp. */
bool play_far(void);

/* Begin a play: clear the flags and choose a URI; over udp also a secret known to all. */
void play_begin(const char *name);
/* Start a process in a role. The process fails after a minute. */
pid_t play_start(void (*role)(uint32_t number), uint32_t number);
/* Check that it ends with success, or (play_killed) by SIGKILL. */
void play_ended(pid_t process);
void play_killed(pid_t process);

/* For roles: join (alone) with a segment; wait for a flag without progress, or while polling. */
void role_open(aq_thread_mode mode, size_t segment);
void role_await(unsigned flag, uint32_t value);
void role_poll_await(unsigned flag, uint32_t value);

/* Poll for the next event. expect_event: it must be of this type. */
aq_connection_event next_event(void);
aq_connection_event expect_event(aq_connection_event_type type);
aq_listener *listen_here(void);
/* Wait for a request and accept it, until AQ_CONNECTION_OPENED. */
aq_connection *accept_one(void *context);
aq_connection *connect_here(void *context);
/* Likewise, with more flags than AQ_CONNECT_WAIT. */
aq_connection *connect_with(unsigned flags, void *context);
/* Accept all calls until `ends` connections have ended. Returns how many of those were lost. */
unsigned serve(unsigned ends);

unsigned count_fds(void);
unsigned count_maps(void);

#endif
