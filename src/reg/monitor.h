/*
 * Tells when memory of this process is unmapped or replaced, for what keeps registrations (reg.h):
 * by userfaultfd, where the kernel itself says so, whoever made the call. A thread takes its words;
 * a thread of the program that unmaps watched memory goes on only when they have been taken.
 *
 * Only private anonymous memory is watched (heaps, stacks, mmap without a file): of files and
 * shared memory the kernel does not tell when they are truncated, of SysV memory not when it is
 * detached. Where nothing can be watched (no userfaultfd, not allowed, a processor without what it
 * needs), aqi_monitor_open says so, and then nothing outside the segments may be kept.
 *
 * docs/architecture.md says why not by hooks in the C library.
 */
#ifndef AQI_REG_MONITOR_H
#define AQI_REG_MONITOR_H

#include "base/base.h"

struct aqi_monitor;

/*
 * `threads`: several threads of the program may map and unmap.
 *
 * @return AQ_ENOTSUP, AQ_EACCESS  Nothing can be watched here; `why`, of `len` bytes, says the
 * cause and what to do. Nothing is logged.
 */
aq_status aqi_monitor_open(bool threads, struct aqi_monitor **monitor, char *why, size_t len);
void aqi_monitor_close(struct aqi_monitor *monitor);

/* Could it be opened? False: `why` as above; else it is untouched. */
bool aqi_monitor_check(char *why, size_t len);

/*
 * Watch these pages from now on; call it before they are pinned. All mappings that they lie in or
 * beside are watched as a whole, or the program could not move them (mremap) any more; but of
 * changes only those near pages that this was called for are told. Pin no more than the pages of a
 * transfer: of what is given back by madvise the kernel tells before it does it, which is early
 * enough only for memory that is not in use. False: they cannot be watched, or not now.
 */
bool aqi_monitor_watch(struct aqi_monitor *monitor, uint64_t addr, uint64_t len);

/* The next range that has changed since; false: none. Each call by which watched memory changed and
 * that was over before this one began has been told then. Any thread. */
bool aqi_monitor_next(struct aqi_monitor *monitor, uint64_t *addr, uint64_t *len);

/* Has something changed that aqi_monitor_next has not given out? Cheap, for who only has to tidy
 * up: what is just changing is not waited for. Any thread. */
bool aqi_monitor_told(const struct aqi_monitor *monitor);

#endif
