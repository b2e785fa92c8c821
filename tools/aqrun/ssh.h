/* The command that starts an agent on another host, quoted so that any path survives its shell. */
#ifndef AQRUN_SSH_H
#define AQRUN_SSH_H

#include "base/base.h"

#define SSH_WHY 512u

/* How hosts are reached. */
struct ssh_way {
    const char *command; /* words as a shell splits them: ssh, or /opt/bin/oarsh -v */
    const char *options; /* words, too */
    const char *aqrun;   /* the path of aqrun there */
};

/* The words of a text as a shell reads them, ended by NULL and freed by one free(). NULL: a quote
 * is not closed, or there is no memory. */
char **ssh_words(const char *text);

/*
 * COMMAND OPTIONS HOST 'exec AQRUN --agent', ended by NULL and freed by one free(). If the command
 * is ssh it gets options that disable prompts; the user's come first, and so take precedence. NULL:
 * `why`.
 */
char **ssh_argv(const struct ssh_way *way, const char *host, char why[SSH_WHY]);

/* The command for the user to see why a host cannot be reached, and to answer prompts of ssh:
 * COMMAND OPTIONS HOST true, without the options that are ours. */
void ssh_by_hand(char *const *argv, char *text, size_t room);

/*
 * Where to call a host: what it offers, "10.0.0.7:4000,[fd00::7]:4000", and before that, with the
 * same port, the address that sshd here has seen it come from (SSH_CONNECTION; may be NULL). sshd
 * has seen none where its connection is not one of IP: a proxy's pipe, or vsock.
 */
void ssh_addresses(const char *connection, const char *offer, char *text, size_t room);

/* `exec PATH --agent` as sh, csh and fish all understand it; freed by the caller. */
char *ssh_remote_line(const char *path);

#endif
