/*
 * Combines equal messages of ranks and hosts: the library's warnings and errors, "aq[3] udp: …",
 * and problems of hosts, "aqrun: host n3: …". The first of each is printed immediately. Later ones
 * that differ at most in the host's name are combined into one line, which lists the ranks or
 * hosts.
 */
#ifndef AQRUN_ALIKE_H
#define AQRUN_ALIKE_H

#include "base/base.h"

/* Print a line, given without its newline. */
typedef void alike_say_fn(const char *line);

void alike_open(alike_say_fn *say);
void alike_line(const char *line, size_t len, uint64_t now);
/* Print lists that are due. Returns the time of the next call, UINT64_MAX for never. */
uint64_t alike_tick(uint64_t now);
/* Print all pending lists. */
void alike_close(void);

#endif
