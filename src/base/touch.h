/*
 * Touching each page of memory before the kernel or a network adapter accesses it: those fail
 * without a signal if a page is not accessible. Touching raises the signal in the caller, as memcpy
 * would, so a program that tracks pages by signals can make them accessible in time.
 */
#ifndef AQI_TOUCH_H
#define AQI_TOUCH_H

#include "base/base.h"

#define AQI_TOUCH_PAGE 4096u /* no page is smaller */

/* Touch for reading. */
void aqi_touch_read(const void *at, size_t len);
/*
 * Copy through the kernel, which is slow but raises no signal. Returns false if part of the source
 * cannot be read or the kernel refuses (a seccomp filter forbids process_vm_readv); the contents of
 * `to` are then undefined.
 */
bool aqi_touch_copy(void *to, const void *from, size_t len);
/* Touch for writing; nothing is changed, even if other threads write meanwhile. */
void aqi_touch_write(void *at, size_t len);

#endif
