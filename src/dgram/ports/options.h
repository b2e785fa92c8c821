/* Options of the sockets that ports open. Options that the kernel lacks are skipped. */
#ifndef PORTS_OPTIONS_H
#define PORTS_OPTIONS_H

#include "base/base.h"

void ports_options_set(int fd, int level, int option, int value);
/* Never fragment datagrams, even if the path carries less than the interface. */
void ports_options_whole(int fd, int family);
/*
 * Set the size of a buffer (SO_RCVBUF and SO_RCVBUFFORCE, or those for sending). Returns what the
 * kernel grants; more if we may force it.
 */
size_t ports_options_buffer(int fd, int option, int force, size_t wanted);
/* The same for receiving; logs once if less is granted. */
size_t ports_options_receive_buffer(int fd, size_t wanted);
/* Packets that arrived at a socket and found no room. */
uint64_t ports_options_drops(int fd);

#endif
