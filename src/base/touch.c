/* Touching each page of a block of memory. */
#include "base/touch.h"

#include <sys/uio.h>
#include <unistd.h>

/* The first byte of the page after that of `at`. */
static uintptr_t touch_next(uintptr_t at)
{
    return (at & ~(uintptr_t)(AQI_TOUCH_PAGE - 1)) + AQI_TOUCH_PAGE;
}

/* The bytes belong to the program, which may restrict access to them. */
#define UNCHECKED __attribute__((no_sanitize("thread")))

UNCHECKED void aqi_touch_read(const void *at, size_t len)
{
    uintptr_t begin = (uintptr_t)at;
    for (uintptr_t page = begin; page - begin < len; page = touch_next(page))
        (void)*(const volatile unsigned char *)page;
}

/* The exchange writes back the same value, or fails because another thread has just written. */
UNCHECKED void aqi_touch_write(void *at, size_t len)
{
    uintptr_t begin = (uintptr_t)at;
    for (uintptr_t page = begin; page - begin < len; page = touch_next(page)) {
        volatile unsigned char *byte = (volatile unsigned char *)page;
        unsigned char is = *byte;
        (void)__atomic_compare_exchange_n(byte, &is, is, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

bool aqi_touch_copy(void *to, const void *from, size_t len)
{
    const struct iovec local = {.iov_base = to, .iov_len = len};
    const struct iovec source = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};
    return process_vm_readv(getpid(), &local, 1, &source, 1, 0) == (ssize_t)len;
}
