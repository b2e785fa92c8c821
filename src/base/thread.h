/* Threads of the library's own, that help the program's. */
#ifndef AQI_THREAD_H
#define AQI_THREAD_H

#include "base/base.h"

#include <pthread.h>

/* Start one that gets no signal, with a small stack. Returns an errno, or 0. */
int aqi_thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg);

#endif
