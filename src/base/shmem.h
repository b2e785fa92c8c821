/* Anonymous shared memory: memfds that vanish with their last user. */
#ifndef AQI_SHMEM_H
#define AQI_SHMEM_H

#include "base/base.h"

/*
 * Create an object of `size` bytes (sparse, zero). `name` is only visible in /proc. The descriptor
 * is close-on-exec. Sealed against shrinking and growing, so no peer can cause a fault in this
 * process.
 *
 * @return AQ_ELIMIT  No file descriptor is free: the message names the limit and how to raise it.
 * @return AQ_ENOMEM, AQ_ESYS, AQ_EACCESS
 */
aq_status aqi_shmem_create(const char *name, size_t size, int *fd);
/*
 * Likewise, with these contents, which cannot be changed. Map it as private: kernels before 6.7
 * reject MAP_SHARED.
 */
aq_status aqi_shmem_freeze(const char *name, const void *bytes, size_t size, int *fd);

/*
 * Check that `fd` is a memfd of at least `size` bytes, sealed against shrinking, and map it.
 *
 * @return AQ_EPROTO  It is not, so its sender cannot be trusted.
 * @return AQ_ENOMEM, AQ_ELIMIT, AQ_EACCESS, AQ_ESYS
 */
aq_status aqi_shmem_map(int fd, size_t size, void **addr);
/* Create an object and map it. */
aq_status aqi_shmem_new(const char *name, size_t size, int *fd, void **addr);
void aqi_shmem_unmap(void *addr, size_t size);

/*
 * aqi_fail_errno for a call that opens descriptors. For EMFILE and ENFILE, it returns AQ_ELIMIT,
 * and the message names the limit and how to raise it.
 */
aq_status aqi_fail_no_fd(int err, const char *folder, const char *what);

/* How many more descriptors this process may open, counted up to `enough`. */
unsigned aqi_free_fds(unsigned enough);
/* The limit on open descriptors, and a higher limit to recommend. */
unsigned long long aqi_fd_limit(void);
unsigned long long aqi_fd_advice(void);

size_t aqi_page_size(void);

#endif
