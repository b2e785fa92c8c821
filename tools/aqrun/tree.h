/* The agents on other hosts: their ranks, and how they are started and reached. */
#ifndef AQRUN_TREE_H
#define AQRUN_TREE_H

#include "job.h"
#include "ticket.h"

/*
 * Prepare to start the agents below this one. `plan` is the ticket of this agent; the root passes
 * an equivalent one, whose `tree` contains all agents but the root, and whose `addresses` is
 * empty.
 */
void tree_open(const struct ticket *plan);
/* This agent is open: start its children. */
void tree_start_all(void);
/* The name of an agent's host; "the launcher's" for the root. */
const char *tree_name(uint32_t number);
void tree_attached(void *arg, uint32_t number);
/* The addresses of an agent up the tree, or NULL. */
const char *tree_addresses_of(void *arg, uint32_t number);
/* Returns the time of the next call, UINT64_MAX for never. */
uint64_t tree_tick(uint64_t now);

#endif
