/* Anonymous shared memory: memfd objects that vanish with their last user. */
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
/* The same, of these bytes, which nobody can change. Map it privately: kernels before 6.7 refuse
 * MAP_SHARED. */
aq_status aqi_shmem_freeze(const char *name, const void *bytes, size_t size, int *fd);

/*
 * Check that `fd` is a memfd of at least `size` bytes sealed against shrinking, then map it.
 *
 * @return AQ_EPROTO  It is not: whoever sent it must not be trusted.
 * @return AQ_ENOMEM, AQ_ELIMIT, AQ_EACCESS, AQ_ESYS
 */
aq_status aqi_shmem_map(int fd, size_t size, void **addr);
void aqi_shmem_unmap(void *addr, size_t size);

/* aqi_fail for EMFILE or ENFILE while doing `what`: AQ_ELIMIT, the limit and how to raise it. */
aq_status aqi_fail_no_fd(int err, const char *folder, const char *what);

size_t aqi_page_size(void);

#endif
