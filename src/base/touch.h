/*
 * Touching each page of memory before passing it to the kernel or a network adapter, which fail,
 * without a signal, if a page is not accessible. So the signal is raised here, in the caller, as by
 * memcpy, and a program that tracks pages by signals makes them accessible in time.
 */
#ifndef AQI_TOUCH_H
#define AQI_TOUCH_H

#include "base/base.h"

#define AQI_TOUCH_PAGE 4096u /* no page is smaller */

/* Touch for reading; nothing is changed. */
void aqi_touch_read(const void *at, size_t len);
/*
 * Copy without a signal, through the kernel, and slowly. False: some of it cannot be read, or the
 * kernel does not copy like this (a seccomp filter forbids process_vm_readv); what `to` contains is
 * then undefined.
 */
bool aqi_touch_copy(void *to, const void *from, size_t len);
/* Touch for writing; nothing is changed, even if other threads write meanwhile. */
void aqi_touch_write(void *at, size_t len);

#endif
