/* Touching each page of memory. */
#include "base/touch.h"

/* The first byte of the page after that of `at`. */
static uintptr_t touch_next(uintptr_t at)
{
    return (at & ~(uintptr_t)(AQI_TOUCH_PAGE - 1)) + AQI_TOUCH_PAGE;
}

/* The bytes are the program's, which may break rules of its own about them. */
#define UNCHECKED __attribute__((no_sanitize("thread")))

UNCHECKED void aqi_touch_read(const void *at, size_t len)
{
    uintptr_t begin = (uintptr_t)at;
    for (uintptr_t page = begin; page - begin < len; page = touch_next(page))
        (void)*(const volatile unsigned char *)page;
}

/* A comparison that succeeds writes what is there. One that fails has been overtaken by another
 * write. */
UNCHECKED void aqi_touch_write(void *at, size_t len)
{
    uintptr_t begin = (uintptr_t)at;
    for (uintptr_t page = begin; page - begin < len; page = touch_next(page)) {
        volatile unsigned char *byte = (volatile unsigned char *)page;
        unsigned char is = *byte;
        (void)__atomic_compare_exchange_n(byte, &is, is, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}
