/* Starting internal threads: see thread.h. */
#include "base/thread.h"

#include <limits.h>
#include <signal.h>

int aqi_thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg)
{
    sigset_t all, before;
    pthread_attr_t attr;
    int err = pthread_attr_init(&attr);
    if (err != 0) return err;
    sigfillset(&all);
    pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN + (256 << 10));
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(thread, &attr, main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return err;
}
