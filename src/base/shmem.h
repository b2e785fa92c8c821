/* Anonymous shared memory: memfd objects that vanish with their last user, mapped and passed by fd.
 */
#ifndef AQI_SHMEM_H
#define AQI_SHMEM_H

#include "base/base.h"

/*
 * Create an object of `size` bytes (sparse, zero). `name` shows in /proc only. The fd is
 * close-on-exec. Sealed against shrinking and growing, so no peer can make our accesses fault.
 *
 * @return AQ_ELIMIT  No file descriptor free: says the limit and how to raise it.
 * @return AQ_ENOMEM, AQ_ESYS, AQ_EACCESS
 */
aq_status aqi_shmem_create(const char *name, size_t size, int *fd);

/*
 * Check that `fd` is a memfd of at least `size` bytes sealed against shrinking, then map it.
 *
 * @return AQ_EPROTO  It is not: whoever sent it must not be trusted.
 * @return AQ_ENOMEM, AQ_ELIMIT, AQ_EACCESS, AQ_ESYS
 */
aq_status aqi_shmem_map(int fd, size_t size, void **addr);
void aqi_shmem_unmap(void *addr, size_t size);

/*
 * Send a message of at least one byte with up to 253 descriptors over a Unix socket (SCM_RIGHTS).
 *
 * @return AQ_AGAIN   The socket is non-blocking and full; nothing was sent. Not logged.
 * @return AQ_EPEER   The other side is gone.
 * @return AQ_ELIMIT  More descriptors are on their way than `ulimit -n` allows.
 * @return AQ_ESIZE, AQ_EINVAL, AQ_ESYS
 * @return AQ_ETIMEOUT  The peer took only a part of the message (stream sockets): give it up.
 */
aq_status aqi_fd_send(int socket, const void *data, size_t len, const int *fds, size_t nfds);

/*
 * Receive what one call of recvmsg gives: a whole message on a SOCK_SEQPACKET socket, possibly a
 * part of one on a stream. Descriptors arrive close-on-exec. `*len` in: room, out: received;
 * `*nfds` likewise.
 *
 * @return AQ_AGAIN   The socket is non-blocking and empty. Not logged.
 * @return AQ_EPEER   End of file, or reset. Not logged.
 * @return AQ_ELIMIT  No descriptor free for those that came: the message is lost, none is kept.
 * @return AQ_EPROTO  Longer, or with more descriptors, than there is room for: likewise.
 * @return AQ_ESYS
 */
aq_status aqi_fd_receive(int socket, void *data, size_t *len, int *fds, size_t *nfds);

/* aqi_fail for EMFILE or ENFILE while doing `what`: AQ_ELIMIT, the limit and how to raise it. */
aq_status aqi_fail_no_fd(int err, const char *folder, const char *what);

size_t aqi_page_size(void);

#endif
