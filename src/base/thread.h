/* Internal threads of the library. */
#ifndef AQI_THREAD_H
#define AQI_THREAD_H

#include "base/base.h"

#include <pthread.h>

/* Start a thread that receives no signals, with a small stack. Returns 0 or an errno. */
int aqi_thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg);

#endif
