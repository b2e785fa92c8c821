/* The command that starts an agent on another host, quoted so that any path is passed unchanged by
 * its shell. */
#ifndef AQRUN_SSH_H
#define AQRUN_SSH_H

#include "words.h"

#define SSH_WHY 512u

/* How to reach hosts. */
struct ssh_config {
    const char *command; /* words, as for a shell: ssh, or /opt/bin/oarsh -v */
    const char *options; /* also words */
    const char *aqrun;   /* path of aqrun on the host */
};

/*
 * COMMAND OPTIONS HOST 'exec AQRUN --agent', freed by words_free. If the command is ssh,
 * options that disable prompts are added; the user's options precede them and so take precedence.
 * NULL: see `why`.
 */
char **ssh_argv(const struct ssh_config *config, const char *host, char why[SSH_WHY]);

/*
 * The command with which users can find out why a host cannot be reached, and answer prompts of
 * ssh: COMMAND OPTIONS HOST true, without the options added by aqrun.
 */
void ssh_by_hand(char *const *argv, char *text, size_t room);

/*
 * The addresses of a host: those that it offers, "10.0.0.7:4000,[fd00::7]:4000", preceded by the
 * address from which its ssh connected to sshd here (SSH_CONNECTION; may be NULL), with the same
 * port. That address is missing if the connection is not IP, but a proxy's pipe or vsock.
 */
void ssh_addresses(const char *connection, const char *offer, char *text, size_t room);

/* `exec PATH --agent` in a form that works in sh, csh and fish; freed by the caller. */
char *ssh_remote_line(const char *path);

#endif
