/*
 * fi: wait objects and wait sets. The wait object of a queue, counter or set is created when the
 * program requests it (FI_GETWAIT). A descriptor combines two others: the library's, shared by all
 * objects, which is readable if there is progress to make, and a kick, which is readable if
 * another thread has written an entry. A condition variable has a thread that sleeps on both on
 * behalf of the program.
 */
#include "front/fi/fi.h"

#include "base/kick.h"
#include "base/thread.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>

enum { WAIT_ROUND_MS = 200, WAIT_AGAIN_MS = 10 };

int afi_wait_check(enum fi_wait_obj obj, const struct fid_wait *set)
{
    if (obj > FI_WAIT_POLLFD) return -FI_ENOSYS;
    return obj != FI_WAIT_SET || (set != NULL && set->fid.fclass == FI_CLASS_WAIT) ? 0 : -FI_EINVAL;
}

/* The object itself, or that of its set. */
static struct afi_wait *wait_real(struct afi_wait *wait)
{
    return wait->set != NULL ? &wait->set->wait : wait;
}

/* NULL: it has none. */
static struct afi_wait *wait_of(struct fid *fid)
{
    switch (fid->fclass) {
    case FI_CLASS_CQ:
        return &AQI_OF(fid, struct afi_cq, fid.fid)->wait;
    case FI_CLASS_EQ:
        return &AQI_OF(fid, struct afi_eq, fid.fid)->wait;
    case FI_CLASS_CNTR:
        return &AQI_OF(fid, struct afi_cntr, fid.fid)->wait;
    case FI_CLASS_WAIT:
        return &AQI_OF(fid, struct afi_wait_set, fid.fid)->wait;
    default:
        return NULL;
    }
}

/* Whether a queue or counter has entries or values that the program has not read. */
static bool wait_object_has_news(const struct fid *fid)
{
    const struct afi_eq *eq = AQI_OF(fid, const struct afi_eq, fid.fid);
    const struct afi_cntr *cntr = AQI_OF(fid, const struct afi_cntr, fid.fid);
    if (fid->fclass == FI_CLASS_CQ)
        return afi_cq_has_news(AQI_OF(fid, const struct afi_cq, fid.fid));
    if (fid->fclass == FI_CLASS_EQ) return eq->events != NULL;
    return cntr->value != cntr->seen_value || cntr->errors != cntr->seen_errors;
}

/* The same for any object; a set has news if one of its members has. */
static bool wait_has_news(const struct fid *fid)
{
    if (fid->fclass != FI_CLASS_WAIT) return wait_object_has_news(fid);
    const struct aqi_node *members = &AQI_OF(fid, const struct afi_wait_set, fid.fid)->members;
    for (const struct aqi_node *at = members->next; at != members; at = at->next)
        if (wait_object_has_news(AQI_OF(at, const struct afi_wait, link)->fid)) return true;
    return false;
}

/* --- conditions ------------------------------------------------------------------------------ */

struct afi_wait_cond {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    pthread_t thread;
    bool armed;    /* the program may be sleeping */
    bool signaled; /* since it was armed */
    bool stops;
};

/*
 * Make progress for a program that may be sleeping, and wake it if there is news. The lock is
 * released for this, as the program may hold the mutex in fi_trywait. If it does not hold it, it
 * may not be sleeping yet, so the wakeup is repeated until the program has read the news. Returns
 * how long to wait for the kick or `*fd`.
 */
static int wait_serve(struct afi_wait *wait, int *fd)
{
    struct afi_wait_cond *cond = wait->cond;
    bool idle = afi_settle();
    if (wait_has_news(wait->fid)) {
        cond->signaled = true;
        afi_unlock();
        pthread_mutex_lock(&cond->mutex);
        pthread_cond_broadcast(&cond->cond);
        pthread_mutex_unlock(&cond->mutex);
        afi_lock();
        return WAIT_AGAIN_MS;
    }
    cond->armed = !cond->signaled;
    if (!cond->armed) return -1;
    *fd = afi.open ? afi.thread.fd : -1;
    return idle ? WAIT_ROUND_MS : 0;
}

static void *wait_run(void *arg)
{
    struct afi_wait *wait = arg;
    afi_lock();
    while (!wait->cond->stops) {
        struct pollfd fds[] = {{.fd = wait->handle.kick, .events = POLLIN},
                               {.fd = -1, .events = POLLIN}};
        (void)aqi_kick_take(wait->handle.kick);
        int timeout = wait->cond->armed ? wait_serve(wait, &fds[1].fd) : -1;
        afi_unlock();
        (void)poll(fds, AQI_COUNT_OF(fds), timeout);
        afi_lock();
    }
    afi_unlock();
    return NULL;
}

static int wait_make_cond(struct afi_wait *wait)
{
    struct afi_wait_cond *cond = calloc(1, sizeof(*cond));
    if (cond == NULL) return -FI_ENOMEM;
    pthread_mutex_init(&cond->mutex, NULL);
    pthread_cond_init(&cond->cond, NULL);
    wait->cond = cond;
    int err = aqi_thread_start(&cond->thread, wait_run, wait);
    if (err == 0) return 0;
    wait->cond = NULL;
    free(cond);
    return -err;
}

static void wait_close_cond(struct afi_wait *wait)
{
    afi_lock();
    wait->cond->stops = true;
    afi_unlock();
    aqi_kick(wait->handle.kick);
    pthread_join(wait->cond->thread, NULL);
    pthread_cond_destroy(&wait->cond->cond);
    pthread_mutex_destroy(&wait->cond->mutex);
    free(wait->cond);
}

/* --- wait objects ---------------------------------------------------------------------------- */

void afi_wait_open(struct afi_wait *wait, enum fi_wait_obj obj, struct fid_wait *set,
                   struct fid *fid)
{
    *wait = (struct afi_wait){
        .obj = obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : obj, .fid = fid, .handle = {-1, -1}};
    aqi_list_init(&wait->link);
    if (obj != FI_WAIT_SET) return;
    afi_lock();
    wait->set = AQI_OF(set, struct afi_wait_set, fid);
    aqi_list_append(&wait->set->members, &wait->link);
    afi_wait_wake(wait); /* a program sleeping on the set is not armed for this member yet */
    afi_unlock();
}

void afi_wait_close(struct afi_wait *wait)
{
    afi_lock();
    aqi_list_remove(&wait->link);
    afi_unlock();
    if (wait->cond != NULL) wait_close_cond(wait);
    lib_alone_handle_close(&wait->handle);
}

static int wait_make(struct afi_wait *wait)
{
    if (wait->handle.fd >= 0) return 0;
    int err = -lib_alone_handle_open(&wait->handle);
    if (err == 0 && wait->obj == FI_WAIT_MUTEX_COND) err = wait_make_cond(wait);
    if (err != 0) lib_alone_handle_close(&wait->handle);
    return err;
}

/* There is only one descriptor, and it never changes. */
static int wait_give_pollfd(const struct afi_wait *wait, struct fi_wait_pollfd *to)
{
    bool fits = to->nfds >= 1;
    to->change_index = 1;
    to->nfds = 1;
    if (fits) to->fd[0] = (struct pollfd){.fd = wait->handle.fd, .events = POLLIN};
    return fits ? 0 : -FI_ETOOSMALL;
}

static int wait_give(const struct afi_wait *wait, void *arg)
{
    if (wait->obj == FI_WAIT_POLLFD) return wait_give_pollfd(wait, arg);
    if (wait->obj == FI_WAIT_FD)
        *(int *)arg = wait->handle.fd;
    else
        *(struct fi_mutex_cond *)arg =
            (struct fi_mutex_cond){.mutex = &wait->cond->mutex, .cond = &wait->cond->cond};
    return 0;
}

int afi_wait_control(struct afi_wait *wait, int command, void *arg)
{
    wait = wait_real(wait);
    if (command == FI_GETWAITOBJ) {
        *(enum fi_wait_obj *)arg = wait->obj;
        return 0;
    }
    if (command != FI_GETWAIT || wait->obj == FI_WAIT_NONE || wait->obj == FI_WAIT_YIELD)
        return -FI_ENOSYS;
    afi_lock();
    int err = wait_make(wait);
    afi_unlock();
    return err == 0 ? wait_give(wait, arg) : err;
}

AQI_COLD void afi_wait_wake(struct afi_wait *wait)
{
    wait->armed = false;
    wait = wait_real(wait);
    if (wait->handle.kick >= 0) aqi_kick(wait->handle.kick);
}

bool afi_wait_pause(const struct afi_wait *wait, uint64_t deadline)
{
    if (wait->obj != FI_WAIT_YIELD) return afi_sleep(deadline);
    if (aqi_now_ns() >= deadline) return false;
    afi_unlock();
    sched_yield();
    afi_lock();
    return true;
}

/* --- sleeping -------------------------------------------------------------------------------- */

static void wait_arm(struct afi_wait *wait)
{
    wait->armed = true;
    if (wait->fid->fclass != FI_CLASS_WAIT) return;
    struct aqi_node *members = &AQI_OF(wait, struct afi_wait_set, wait)->members;
    for (struct aqi_node *at = members->next; at != members; at = at->next)
        AQI_OF(at, struct afi_wait, link)->armed = true;
}

/* Prepare for the program's sleep. Returns false if it cannot sleep. */
static bool wait_prepare(struct afi_wait *wait)
{
    if (wait->handle.kick < 0) return true;
    wait_arm(wait);
    if (wait->cond != NULL) {
        wait->cond->armed = true;
        wait->cond->signaled = false;
        aqi_kick(wait->handle.kick);
        return true;
    }
    (void)aqi_kick_take(wait->handle.kick);
    return !afi.open || lib_alone_handle_watch(&wait->handle, afi.thread.fd, true);
}

int afi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    int err = 0;
    afi_lock();
    afi_progress();
    for (int i = 0; i < count && err == 0; i++) {
        struct afi_wait *wait = wait_of(fids[i]);
        if (wait == NULL || !wait_prepare(wait_real(wait)))
            err = -FI_EINVAL;
        else if (wait_has_news(wait_real(wait)->fid)) {
            afi_wait_wake(wait); /* the descriptor stays readable until the news is read */
            err = -FI_EAGAIN;
        }
    }
    if (err == 0 && afi.open && !afi_may_sleep()) err = -FI_EAGAIN;
    afi_unlock();
    return err;
}

/* --- wait sets ------------------------------------------------------------------------------- */

static int wait_set_wait(struct fid_wait *fid, int timeout)
{
    const struct afi_wait *wait = &AQI_OF(fid, struct afi_wait_set, fid)->wait;
    uint64_t deadline = afi_deadline(timeout);
    bool news, waits = true;
    afi_lock();
    for (;;) {
        afi_progress();
        news = wait_has_news(&fid->fid);
        if (news || !waits) break;
        waits = afi_wait_pause(wait, deadline);
    }
    afi_unlock();
    return news ? 0 : -FI_ETIMEDOUT;
}

static struct fi_ops_wait wait_set_ops = {.size = sizeof(struct fi_ops_wait),
                                          .wait = wait_set_wait};

static int wait_set_close(struct fid *fid)
{
    struct afi_wait_set *set = AQI_OF(fid, struct afi_wait_set, fid.fid);
    afi_lock();
    bool busy = !aqi_list_is_empty(&set->members);
    if (!busy) set->fabric->users--;
    afi_unlock();
    if (busy) return -FI_EBUSY;
    afi_wait_close(&set->wait);
    free(set);
    return 0;
}

static int wait_set_control(struct fid *fid, int command, void *arg)
{
    return afi_wait_control(&AQI_OF(fid, struct afi_wait_set, fid.fid)->wait, command, arg);
}

static struct fi_ops wait_set_fid_ops = {.size = sizeof(struct fi_ops),
                                         .close = wait_set_close,
                                         .control = wait_set_control,
                                         .ops_open = afi_no_ops_open};

int afi_wait_set_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **out)
{
    if (attr == NULL || attr->wait_obj == FI_WAIT_NONE || attr->wait_obj == FI_WAIT_SET)
        return -FI_EINVAL;
    if (attr->flags != 0) return -FI_EBADFLAGS;
    int err = afi_wait_check(attr->wait_obj, NULL);
    if (err != 0) return err;
    struct afi_wait_set *set = calloc(1, sizeof(*set));
    if (set == NULL) return -FI_ENOMEM;
    set->fid = (struct fid_wait){.fid = {.fclass = FI_CLASS_WAIT, .ops = &wait_set_fid_ops},
                                 .ops = &wait_set_ops};
    set->fabric = AQI_OF(fabric, struct afi_fabric, fid);
    afi_use(&set->fabric->users);
    aqi_list_init(&set->members);
    afi_wait_open(&set->wait, attr->wait_obj, NULL, &set->fid.fid);
    *out = &set->fid;
    return 0;
}
