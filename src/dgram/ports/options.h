/* Options of the sockets that ports open. What a kernel lacks is done without. */
#ifndef PORTS_OPTIONS_H
#define PORTS_OPTIONS_H

#include "base/base.h"

void ports_options_set(int fd, int level, int option, int value);
/* Datagrams are not fragmented, though the path may carry less than the interface. */
void ports_options_whole(int fd, int family);
/*
 * Set the size of a buffer (SO_RCVBUF and SO_RCVBUFFORCE, or those for sending) and return what the
 * kernel grants; more if we may force it.
 */
size_t ports_options_buffer(int fd, int option, int force, size_t wanted);
/* The same for receiving, with a word in the log, once, where it is less. */
size_t ports_options_receive_buffer(int fd, size_t wanted);
/* Packets that came to a socket and found no room. */
uint64_t ports_options_drops(int fd);

#endif
