/* For programs that speak the connection protocol themselves, over their own sockets. */
#ifndef AQT_CONN_RAW_H
#define AQT_CONN_RAW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The address on which the server of the play listens. */
socklen_t raw_name(struct sockaddr_un *name);

/* An address of shm with default settings: magic number, inbox, number of slots, bytes of a
 * payload, bytes of a fragment. */
extern const uint32_t raw_address[5];

/* Send with descriptors, to the socket's peer if `to` is NULL. Blocks while the queue is full. */
void raw_send(int socket, const struct sockaddr_un *to, socklen_t to_len, const void *data,
              size_t len, const int *fds, unsigned nfds);

#endif
