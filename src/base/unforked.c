/* Descriptors that a forked child must not hold. */
#include "base/unforked.h"

#include "base/base.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { UNFORKED_MOST = 65536 };

static _Atomic(uint64_t) unforked_bits[UNFORKED_MOST / 64];

/* Makes only async-signal-safe calls, as required after fork() in a multithreaded process. */
static void unforked_in_child(void)
{
    int nothing = -1;
    for (int word = 0; word < UNFORKED_MOST / 64; word++)
        for (uint64_t bits = unforked_bits[word]; bits != 0; bits &= bits - 1) {
            int fd = word * 64 + __builtin_ctzll(bits);
            if (nothing < 0) nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
            if (nothing < 0 || dup3(nothing, fd, O_CLOEXEC) < 0) close(fd);
        }
    if (nothing >= 0) close(nothing);
}

static void unforked_watch(void)
{
    (void)pthread_atfork(NULL, NULL, unforked_in_child);
}

static void unforked_set(int fd, bool on)
{
    if (fd < 0 || fd >= UNFORKED_MOST) return;
    uint64_t bit = UINT64_C(1) << fd % 64;
    if (on)
        atomic_fetch_or(&unforked_bits[fd / 64], bit);
    else
        atomic_fetch_and(&unforked_bits[fd / 64], ~bit);
}

void aqi_unforked_add(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, unforked_watch);
    unforked_set(fd, true);
}

void aqi_unforked_close(int fd)
{
    unforked_set(fd, false);
    close(fd);
}
