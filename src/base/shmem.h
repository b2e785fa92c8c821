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

/* Check that `fd` is a memfd of at least `size` bytes sealed against shrinking, then map it. */
aq_status aqi_shmem_map(int fd, size_t size, void **addr);
void aqi_shmem_unmap(void *addr, size_t size);

/* Send or receive one message with up to `nfds` descriptors over a Unix socket (SCM_RIGHTS). */
aq_status aqi_fd_send(int socket, const void *data, size_t len, const int *fds, size_t nfds);
/* Descriptors arrive close-on-exec. `*len` in: room, out: received; `*nfds` likewise. AQ_EPEER: end
 * of file. */
aq_status aqi_fd_receive(int socket, void *data, size_t *len, int *fds, size_t *nfds);

size_t aqi_page_size(void);

#endif
