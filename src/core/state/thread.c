/* Per-thread state: implicit operations, the pool of events, the handler that is running. */
#include "core/state/state.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct core core;
AQI_FAST_THREAD_LOCAL struct core_thread *core_thread_mine;
_Thread_local bool core_thread_is_progress;
/* Threads' states while the core is closed: the threads may make calls again once it is open. */
static struct core_thread *thread_kept;
static pthread_key_t at_thread_end;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/* Called with core.lock held after a thread has attached or ended. */
static void thread_count_threads(void)
{
    unsigned threads = 0;
    for (const struct core_thread *t = core.threads; t != NULL; t = t->next)
        threads += t->taken;
    if (core.progress_thread && threads > 1) threads--; /* it backs off while others poll */
    core_mode_crowd(threads > 1 ? threads : 1);
}

/* A thread that ends leaves its state for the next one: operations may still refer to it. */
static void thread_end(void *arg)
{
    struct core_thread *thread = arg;
    core_thread_mine = NULL; /* later key destructors of the program may attach anew */
    aqi_spin_lock(&core.lock);
    for (struct core_thread *t = core.threads; t != NULL; t = t->next)
        if (t == thread) t->taken = false;
    for (struct core_thread *t = thread_kept; t != NULL; t = t->next)
        if (t == thread) t->taken = false;
    thread_count_threads();
    aqi_spin_unlock(&core.lock);
}

static void thread_make_key(void)
{
    pthread_key_create(&at_thread_end, thread_end);
}

static bool thread_idle(const struct core_thread *t)
{
    const struct core_set *s = &t->nbi;
    return atomic_load(&s->put.remote) == 0 && atomic_load(&s->get.remote) == 0 &&
           atomic_load(&s->atomic.remote) == 0 && atomic_load(&s->message.local) == 0 &&
           t->region == NULL;
}

static void thread_init(struct core_thread *t)
{
    core_set_init(&t->nbi);
    aqi_pool_init(&t->ops, sizeof(struct aqi_op), 64, core.multi);
}

static struct core_thread *thread_new(void)
{
    struct core_thread *t = calloc(1, sizeof(*t));
    if (t == NULL) return NULL;
    thread_init(t);
    t->number = core.threads != NULL ? core.threads->number + 1 : 0;
    t->next = core.threads;
    core.threads = t;
    return t;
}

int core_thread_id(void)
{
    return (int)syscall(SYS_gettid);
}

bool aqi_core_on_progress_thread(void)
{
    return core_thread_is_progress;
}

bool core_thread_is_foreign(void)
{
    return aqi_core_config.check_threads != 0 && core.thread_mode == AQ_THREAD_SINGLE &&
           core_thread_id() != core.owner && !aqi_core_on_progress_thread();
}

AQI_COLD struct core_thread *core_thread_attach(void)
{
    if (!atomic_load(&core.open) || core_thread_is_foreign()) return NULL;
    aqi_spin_lock(&core.lock);
    struct core_thread *t = core.threads;
    while (t != NULL && (t->taken || !thread_idle(t)))
        t = t->next;
    if (t == NULL) t = thread_new();
    if (t != NULL) t->taken = true;
    thread_count_threads();
    aqi_spin_unlock(&core.lock);
    if (t == NULL) {
        aqi_fail(AQ_ENOMEM, "core", "no memory for the state of a thread");
        return NULL;
    }
    pthread_setspecific(at_thread_end, t);
    core_thread_mine = t;
    aqi_tp_thread = t->number;
    return t;
}

aq_status core_threads_open(void)
{
    pthread_once(&key_once, thread_make_key);
    core.threads = thread_kept;
    thread_kept = NULL;
    for (struct core_thread *t = core.threads; t != NULL; t = t->next)
        thread_init(t);
    return AQ_OK;
}

void core_threads_close(void)
{
    aqi_spin_lock(&core.lock);
    thread_kept = core.threads;
    core.threads = NULL;
    aqi_spin_unlock(&core.lock);
    for (struct core_thread *t = thread_kept, clean; t != NULL; t = t->next) {
        clean = (struct core_thread){.next = t->next, .number = t->number, .taken = t->taken};
        aqi_pool_destroy(&t->ops);
        free(t->own[0]);
        free(t->own[1]);
        *t = clean;
    }
}
