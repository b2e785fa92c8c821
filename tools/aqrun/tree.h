/* The agents on other hosts: which ranks they have, how they are started and reached. */
#ifndef AQRUN_TREE_H
#define AQRUN_TREE_H

#include "job.h"
#include "ticket.h"

/*
 * What is to be started below this agent. `plan` is the ticket of this one, or, at the root, one as
 * if it had got it: `tree` is all agents but the root, `addresses` nobody.
 */
void tree_open(const struct ticket *plan);
/* The agent is open: start those right below it. */
void tree_start_all(void);
/* What an agent's name is; the root's is "the launcher's host". */
const char *tree_name(uint32_t number);
/* An agent has attached here. */
void tree_came(void *arg, uint32_t number);
/* Where an agent up the tree is. */
const char *tree_where(void *arg, uint32_t number);
/* Is this child one of its sessions? */
bool tree_reaped(pid_t pid, int status);
/* Is this a process that reaches a host? */
bool tree_has(pid_t pid);
/* When it wants to be called next, UINT64_MAX for never. */
uint64_t tree_tick(uint64_t now);
/* The job is over: nobody is told anything any more. False: some sessions are still there. */
bool tree_gone(void);
void tree_close(void);

#endif
