/*
 * Detects that memory of this process is unmapped or replaced, for caches of registrations (reg.h),
 * by userfaultfd: the kernel itself reports it, whichever call caused it. An internal thread reads
 * the events; a thread of the program that unmaps watched memory continues only after they have
 * been read.
 *
 * Only private anonymous memory is watched (heaps, stacks, mmap without a file): the kernel does
 * not report truncated files and shared memory, or detached SysV memory. If nothing can be watched
 * (userfaultfd missing or not permitted, or a processor without support), aqi_monitor_open fails,
 * and registrations outside the segments must not be kept.
 *
 * docs/architecture.md explains why the C library's functions are not hooked instead.
 */
#ifndef AQI_REG_MONITOR_H
#define AQI_REG_MONITOR_H

#include "base/base.h"

struct aqi_monitor;

/*
 * @return AQ_ENOTSUP, AQ_EACCESS  Nothing can be watched here; `why`, of `len` bytes, is set to the
 *         cause and what to do. Nothing is logged.
 */
aq_status aqi_monitor_open(struct aqi_monitor **monitor, char *why, size_t len);
void aqi_monitor_close(struct aqi_monitor *monitor);

/* Whether a monitor can be opened here. If not, `why` is set as above. */
bool aqi_monitor_check(char *why, size_t len);

/*
 * Watch these pages from now on; call it before they are pinned. All mappings that contain or
 * adjoin them are watched as a whole, since the program could not move split ones (mremap); but
 * only changes near pages passed here are reported. Pin no more than the pages of a transfer:
 * madvise is reported before it takes effect, which is early enough only for memory that is not in
 * use. Returns false if the pages cannot be watched, or not now.
 */
bool aqi_monitor_watch(struct aqi_monitor *monitor, uint64_t addr, uint64_t len);

/*
 * Get the next range that has changed. Returns false if there is none; then every call that changed
 * watched memory and returned before this one began has been reported. Any thread.
 */
bool aqi_monitor_next(struct aqi_monitor *monitor, uint64_t *addr, uint64_t *len);

/*
 * Whether there is a change that aqi_monitor_next has not returned. Cheap, but only for cleaning
 * up, since it does not wait for changes in progress. Any thread.
 */
bool aqi_monitor_has_changes(const struct aqi_monitor *monitor);

#endif
