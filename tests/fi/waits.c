/* Wait objects other than the descriptors of single queues, and wait sets. */
#include "fi/pair.h"
#include "front/fi/fi.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

enum { LONG_MS = 30000 };

static const enum fi_wait_obj objects[] = {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND,
                                           FI_WAIT_YIELD, FI_WAIT_POLLFD};
static const enum fi_wait_obj no_object = FI_WAIT_POLLFD + 1;

static void post(struct pair *pair, int *value)
{
    PAIR_CALL(pair, fi_recv(pair->b.in, value, sizeof(*value), NULL, FI_ADDR_UNSPEC, NULL));
}

static void send_one(struct pair *pair)
{
    static const int value = 7;
    PAIR_CALL(pair, fi_inject(pair->a.ep, &value, sizeof(value), pair->a.other));
}

/* Make progress until it is safe to sleep on this object. */
static void prepare(struct pair *pair, struct fid *fid)
{
    int err;
    while ((err = fi_trywait(pair->b.fabric, &fid, 1)) == -FI_EAGAIN)
        pair_move(pair);
    CHECK_EQUAL(err, 0);
}

static bool is_readable(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    return poll(&wait, 1, 0) == 1;
}

static bool has_completion(const struct fid_cq *cq)
{
    afi_lock();
    bool has = AQI_OF(cq, const struct afi_cq, fid)->count != 0;
    afi_unlock();
    return has;
}

/* --- yields and conditions ------------------------------------------------------------------- */

static void *read_one(void *cq)
{
    struct fi_cq_tagged_entry entry;
    CHECK_EQUAL(fi_cq_sread(cq, &entry, 1, NULL, -1), 1);
    return NULL;
}

/* A wait that yields polls continuously: a sleeping one would take minutes for so many rounds. */
static void yields(void)
{
    enum { ROUNDS = 100000 };
    struct pair pair;
    struct pair_wish wish = {.wait = FI_WAIT_YIELD};
    struct fi_cq_tagged_entry entry;
    enum fi_wait_obj obj;
    pthread_t thread;
    int got, fd;
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_control(&pair.b.rx->fid, FI_GETWAITOBJ, &obj), 0);
    CHECK_EQUAL(obj, FI_WAIT_YIELD);
    CHECK_EQUAL(fi_control(&pair.b.rx->fid, FI_GETWAIT, &fd), -FI_ENOSYS);
    CHECK_EQUAL(fi_cq_sread(pair.b.rx, &entry, 1, NULL, 0), -FI_EAGAIN);
    CHECK_EQUAL(fi_cq_sread(pair.b.rx, &entry, 1, NULL, 1), -FI_EAGAIN);
    post(&pair, &got);
    uint32_t rounds = afi.thread.calls;
    uint64_t until = pair_now() + UINT64_C(1000000) * LONG_MS;
    CHECK_EQUAL(pthread_create(&thread, NULL, read_one, pair.b.rx), 0);
    for (bool enough = false; !enough;) {
        CHECK(pair_now() < until);
        afi_lock();
        enough = afi.thread.calls - rounds > ROUNDS;
        afi_unlock();
        sched_yield();
    }
    send_one(&pair);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    pair_close(&pair);
}

/* Sends when the other thread is asleep on the condition, and then makes no more progress. */
struct late {
    struct pair *pair;
    struct fi_mutex_cond on;
};

static void *send_late(void *arg)
{
    const struct late *late = arg;
    static const int value = 7;
    pthread_mutex_lock(late->on.mutex);
    pthread_mutex_unlock(late->on.mutex);
    CHECK_EQUAL(fi_inject(late->pair->a.ep, &value, sizeof(value), late->pair->a.other), 0);
    return NULL;
}

/* A message that still needs progress wakes a thread that sleeps on the condition. */
static void sleeps_on_condition(struct pair *pair, struct fid *fid, struct fi_mutex_cond on)
{
    struct late late = {.pair = pair, .on = on};
    pthread_t thread;
    int got;
    post(pair, &got);
    pthread_mutex_lock(on.mutex);
    CHECK_EQUAL(pthread_create(&thread, NULL, send_late, &late), 0);
    prepare(pair, fid);
    while (!has_completion(pair->b.rx))
        pthread_cond_wait(on.cond, on.mutex);
    pthread_mutex_unlock(on.mutex);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(fi_trywait(pair->b.fabric, &fid, 1), -FI_EAGAIN);
    (void)pair_next(pair, pair->b.rx, NULL);
}

/*
 * So does one that arrives between fi_trywait and the sleep: the condition is signaled until it is
 * read.
 */
static void sleeps_late_on_condition(struct pair *pair, struct fid *fid, struct fi_mutex_cond on)
{
    int got;
    post(pair, &got);
    prepare(pair, fid);
    send_one(pair);
    while (!has_completion(pair->b.rx))
        sched_yield();
    for (unsigned i = 0; i < 3; i++) {
        pthread_mutex_lock(on.mutex);
        pthread_cond_wait(on.cond, on.mutex);
        pthread_mutex_unlock(on.mutex);
    }
    (void)pair_next(pair, pair->b.rx, NULL);
}

static struct fi_mutex_cond condition_of(struct fid *fid)
{
    struct fi_mutex_cond on = {0}, same = {0};
    enum fi_wait_obj obj;
    CHECK_EQUAL(fi_control(fid, FI_GETWAITOBJ, &obj), 0);
    CHECK_EQUAL(obj, FI_WAIT_MUTEX_COND);
    CHECK_EQUAL(fi_control(fid, FI_GETWAIT, &on), 0);
    CHECK_EQUAL(fi_control(fid, FI_GETWAIT, &same), 0);
    CHECK(on.mutex != NULL && on.mutex == same.mutex);
    CHECK(on.cond != NULL && on.cond == same.cond);
    return on;
}

static void *add_late(void *arg)
{
    struct fid_cntr *cntr = arg;
    struct fi_mutex_cond on = condition_of(&cntr->fid);
    pthread_mutex_lock(on.mutex);
    pthread_mutex_unlock(on.mutex);
    CHECK_EQUAL(fi_cntr_add(cntr, 1), 0);
    return NULL;
}

static void *write_late(void *arg)
{
    struct fid_eq *eq = arg;
    struct fi_mutex_cond on = condition_of(&eq->fid);
    struct fi_eq_entry entry = {.data = 7};
    pthread_mutex_lock(on.mutex);
    pthread_mutex_unlock(on.mutex);
    CHECK_EQUAL(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
    return NULL;
}

/* A thread that sleeps on the condition is woken by anything that another thread writes. */
static void woken_by(struct pair *pair, struct fid *fid, void *(*write)(void *fid))
{
    struct fi_mutex_cond on = condition_of(fid);
    pthread_t thread;
    pthread_mutex_lock(on.mutex);
    prepare(pair, fid);
    CHECK_EQUAL(pthread_create(&thread, NULL, write, fid), 0);
    while (fi_trywait(pair->b.fabric, &fid, 1) == 0)
        pthread_cond_wait(on.cond, on.mutex);
    pthread_mutex_unlock(on.mutex);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

static void conditions(void)
{
    struct pair pair;
    struct pair_wish wish = {.wait = FI_WAIT_MUTEX_COND};
    struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_MUTEX_COND};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_MUTEX_COND};
    struct fi_cq_tagged_entry completion;
    struct fi_eq_entry event;
    struct fid_cntr *cntr;
    struct fid_eq *eq;
    uint32_t type;
    int got;
    pair_open(&pair, &wish);
    post(&pair, &got);
    send_one(&pair);
    CHECK_EQUAL(fi_cq_sread(pair.b.rx, &completion, 1, NULL, LONG_MS), 1);
    struct fi_mutex_cond on = condition_of(&pair.b.rx->fid);
    for (unsigned i = 0; i < 10; i++) {
        sleeps_on_condition(&pair, &pair.b.rx->fid, on);
        sleeps_late_on_condition(&pair, &pair.b.rx->fid, on);
    }
    CHECK_EQUAL(fi_cntr_open(pair.b.domain, &cntr_attr, &cntr, NULL), 0);
    CHECK_EQUAL(fi_eq_open(pair.b.fabric, &eq_attr, &eq, NULL), 0);
    for (uint64_t i = 1; i <= 10; i++) {
        woken_by(&pair, &cntr->fid, add_late);
        CHECK_EQUAL(fi_cntr_read(cntr), i);
        woken_by(&pair, &eq->fid, write_late);
        CHECK_EQUAL(fi_eq_read(eq, &type, &event, sizeof(event), 0), sizeof(event));
        CHECK_EQUAL(event.data, 7);
    }
    CHECK_EQUAL(fi_close(&cntr->fid), 0);
    CHECK_EQUAL(fi_close(&eq->fid), 0);
    pair_close(&pair);
}

/* --- wait sets ------------------------------------------------------------------------------- */

static int descriptor_of(struct fid *fid)
{
    struct pollfd fd = {.fd = -1};
    struct fi_wait_pollfd many = {.nfds = 0, .fd = &fd};
    enum fi_wait_obj obj;
    CHECK_EQUAL(fi_control(fid, FI_GETWAITOBJ, &obj), 0);
    if (obj == FI_WAIT_FD) {
        CHECK_EQUAL(fi_control(fid, FI_GETWAIT, &fd.fd), 0);
        return fd.fd;
    }
    CHECK_EQUAL(obj, FI_WAIT_POLLFD);
    CHECK_EQUAL(fi_control(fid, FI_GETWAIT, &many), -FI_ETOOSMALL);
    CHECK_EQUAL(many.nfds, 1);
    uint64_t index = many.change_index;
    CHECK_EQUAL(fi_control(fid, FI_GETWAIT, &many), 0);
    CHECK_EQUAL(many.change_index, index);
    CHECK_EQUAL(many.nfds, 1);
    CHECK_EQUAL(fd.events, POLLIN);
    return fd.fd;
}

/* The set and all its members share one descriptor, which any of them makes readable. */
static void sleeps_on_descriptor(struct pair *pair)
{
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_SET, .wait_set = pair->b.set};
    struct fid *set = &pair->b.set->fid, *member = &pair->b.tx->fid;
    struct fid_cntr *cntr;
    int fd = descriptor_of(set), got;
    CHECK_EQUAL(descriptor_of(member), fd);
    for (unsigned i = 0; i < 3; i++) {
        post(pair, &got);
        prepare(pair, i == 2 ? member : set);
        send_one(pair);
        while (!has_completion(pair->b.rx))
            pair_move(pair);
        CHECK(is_readable(fd));
        CHECK_EQUAL(fi_trywait(pair->b.fabric, &set, 1), -FI_EAGAIN);
        CHECK_EQUAL(fi_trywait(pair->b.fabric, &member, 1), -FI_EAGAIN);
        (void)pair_next(pair, pair->b.rx, NULL);
    }
    prepare(pair, set); /* a sleeper does not know about members opened later */
    CHECK_EQUAL(fi_cntr_open(pair->b.domain, &attr, &cntr, NULL), 0);
    CHECK(is_readable(fd));
    prepare(pair, set);
    CHECK_EQUAL(fi_cntr_add(cntr, 1), 0);
    CHECK(is_readable(fd));
    CHECK_EQUAL(fi_trywait(pair->b.fabric, &set, 1), -FI_EAGAIN);
    CHECK_EQUAL(fi_close(&cntr->fid), 0);
    prepare(pair, set);
}

static void sleeps_on_native(struct pair *pair, enum fi_wait_obj obj)
{
    struct fid *set = &pair->b.set->fid;
    int fd;
    if (obj == FI_WAIT_YIELD)
        CHECK_EQUAL(fi_control(set, FI_GETWAIT, &fd), -FI_ENOSYS);
    else if (obj != FI_WAIT_MUTEX_COND)
        sleeps_on_descriptor(pair);
    else
        for (unsigned i = 0; i < 3; i++) {
            struct fi_mutex_cond on = condition_of(set);
            CHECK(condition_of(&pair->b.rx->fid).mutex == on.mutex);
            sleeps_on_condition(pair, set, on);
            sleeps_late_on_condition(pair, set, on);
        }
}

static void sets(enum fi_wait_obj obj)
{
    struct pair pair;
    struct pair_wish wish = {.wait = FI_WAIT_SET, .set = obj};
    struct fi_cq_tagged_entry entry;
    int got = 0;
    pair_open(&pair, &wish);
    CHECK_EQUAL(fi_wait(pair.b.set, 0), -FI_ETIMEDOUT);
    CHECK_EQUAL(fi_wait(pair.b.set, 2), -FI_ETIMEDOUT);
    for (unsigned i = 0; i < 3; i++) {
        post(&pair, &got);
        send_one(&pair);
        CHECK_EQUAL(fi_wait(pair.b.set, i == 0 ? -1 : LONG_MS), 0);
        CHECK_EQUAL(fi_wait(pair.b.set, 0), 0); /* again, until it is read */
        CHECK_EQUAL(fi_cq_sread(pair.b.rx, &entry, 1, NULL, 0), -FI_ENOSYS);
        CHECK_EQUAL(fi_cq_read(pair.b.rx, &entry, 1), 1);
        CHECK_EQUAL(got, 7);
        CHECK_EQUAL(fi_wait(pair.b.set, 0), -FI_ETIMEDOUT);
    }
    sleeps_on_native(&pair, obj);
    CHECK_EQUAL(fi_close(&pair.b.set->fid), -FI_EBUSY);
    pair_close(&pair);
}

static struct fid_fabric *open_fabric(void)
{
    struct pair_wish wish = {0};
    struct fid_fabric *fabric;
    struct fi_info *info;
    CHECK_EQUAL(pair_find(&wish, &info), 0);
    CHECK_EQUAL(fi_prov_ini()->fabric(info->fabric_attr, &fabric, NULL), 0);
    fi_freeinfo(info);
    return fabric;
}

static void sleeps_without_domain(struct fid_fabric *fabric, struct fid_wait *set,
                                  struct fid_eq *eq)
{
    struct fi_mutex_cond on = condition_of(&set->fid);
    struct fid *fid = &set->fid;
    struct fi_eq_entry entry;
    pthread_t thread;
    uint32_t type;
    pthread_mutex_lock(on.mutex);
    CHECK_EQUAL(pthread_create(&thread, NULL, write_late, eq), 0);
    while (fi_trywait(fabric, &fid, 1) == 0)
        pthread_cond_wait(on.cond, on.mutex);
    pthread_mutex_unlock(on.mutex);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(fi_eq_read(eq, &type, &entry, sizeof(entry), 0), sizeof(entry));
}

/* Event queues, and wait sets of them, need no domain. */
static void events(enum fi_wait_obj obj)
{
    struct fid_fabric *fabric = open_fabric();
    struct fi_wait_attr attr = {.wait_obj = obj};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_SET};
    struct fi_eq_entry entry = {.data = 7};
    struct fid_wait *set;
    struct fid_eq *eqs[2];
    uint32_t type;
    int fd = -1;
    CHECK_EQUAL(fi_wait_open(fabric, &attr, &set), 0);
    CHECK_EQUAL(fi_wait(set, 1), -FI_ETIMEDOUT);
    eq_attr.wait_set = set;
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQUAL(fi_eq_open(fabric, &eq_attr, &eqs[i], NULL), 0);
    if (obj == FI_WAIT_MUTEX_COND)
        sleeps_without_domain(fabric, set, eqs[0]);
    else if (obj != FI_WAIT_YIELD)
        fd = descriptor_of(&set->fid);
    for (unsigned i = 0; i < 2; i++) {
        struct fid *fid = &set->fid;
        CHECK_EQUAL(fi_wait(set, 1), -FI_ETIMEDOUT);
        CHECK_EQUAL(fi_trywait(fabric, &fid, 1), 0);
        CHECK_EQUAL(fi_eq_write(eqs[i], FI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
        CHECK(fd < 0 || is_readable(fd));
        CHECK_EQUAL(fi_wait(set, -1), 0);
        CHECK_EQUAL(fi_trywait(fabric, &fid, 1), -FI_EAGAIN);
        CHECK(fd < 0 || is_readable(fd)); /* until it has been read */
        CHECK_EQUAL(fi_eq_sread(eqs[i], &type, &entry, sizeof(entry), 0, 0), -FI_ENOSYS);
        CHECK_EQUAL(fi_eq_read(eqs[i], &type, &entry, sizeof(entry), 0), sizeof(entry));
    }
    CHECK_EQUAL(fi_eq_write(eqs[0], FI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
    CHECK_EQUAL(fi_close(&eqs[0]->fid), 0);
    CHECK_EQUAL(fi_wait(set, 0), -FI_ETIMEDOUT);
    CHECK_EQUAL(fi_close(&set->fid), -FI_EBUSY);
    CHECK_EQUAL(fi_close(&eqs[1]->fid), 0);
    CHECK_EQUAL(fi_close(&set->fid), 0);
    CHECK_EQUAL(fi_close(&fabric->fid), 0);
}

/* --- refusals -------------------------------------------------------------------------------- */

static void refuse(struct side *side, enum fi_wait_obj obj, struct fid_wait *set, int err)
{
    struct fi_cq_attr cq_attr = {.wait_obj = obj, .wait_set = set};
    struct fi_cntr_attr cntr_attr = {.wait_obj = obj, .wait_set = set};
    struct fi_eq_attr eq_attr = {.wait_obj = obj, .wait_set = set};
    struct fid_cq *cq;
    struct fid_cntr *cntr;
    struct fid_eq *eq;
    CHECK_EQUAL(fi_cq_open(side->domain, &cq_attr, &cq, NULL), err);
    CHECK_EQUAL(fi_cntr_open(side->domain, &cntr_attr, &cntr, NULL), err);
    CHECK_EQUAL(fi_eq_open(side->fabric, &eq_attr, &eq, NULL), err);
}

static void refusals(void)
{
    struct pair pair;
    struct pair_wish wish = {0};
    struct fi_wait_attr attr = {.wait_obj = FI_WAIT_FD, .flags = 1};
    struct fid_wait *set;
    struct fid *fid;
    int value;
    pair_open(&pair, &wish);
    fid = &pair.a.ep->fid;
    CHECK_EQUAL(fi_wait_open(pair.a.fabric, NULL, &set), -FI_EINVAL);
    CHECK_EQUAL(fi_wait_open(pair.a.fabric, &attr, &set), -FI_EBADFLAGS);
    attr = (struct fi_wait_attr){.wait_obj = FI_WAIT_NONE};
    CHECK_EQUAL(fi_wait_open(pair.a.fabric, &attr, &set), -FI_EINVAL);
    attr.wait_obj = FI_WAIT_SET;
    CHECK_EQUAL(fi_wait_open(pair.a.fabric, &attr, &set), -FI_EINVAL);
    attr.wait_obj = no_object;
    CHECK_EQUAL(fi_wait_open(pair.a.fabric, &attr, &set), -FI_ENOSYS);
    refuse(&pair.a, FI_WAIT_SET, NULL, -FI_EINVAL);
    refuse(&pair.a, FI_WAIT_SET, (struct fid_wait *)(void *)pair.a.av, -FI_EINVAL);
    refuse(&pair.a, no_object, NULL, -FI_ENOSYS);
    CHECK_EQUAL(fi_trywait(pair.a.fabric, &fid, 1), -FI_EINVAL);
    CHECK_EQUAL(fi_control(&pair.a.rx->fid, FI_GETWAIT, &value), -FI_ENOSYS);
    pair_close(&pair);
}

/* --- other threads --------------------------------------------------------------------------- */

static struct {
    struct pair pair;
    int fd, got;
    atomic_int sleeps, woke;
} other;

/* Sleep until one message has arrived. */
static void *sleep_for_one(void *unused)
{
    struct fi_cq_tagged_entry entry;
    struct fid *fid = &other.pair.b.rx->fid;
    struct pollfd wait = {.fd = other.fd, .events = POLLIN};
    while (fi_cq_read(other.pair.b.rx, &entry, 1) != 1) {
        if (fi_trywait(other.pair.b.fabric, &fid, 1) != 0) continue;
        atomic_fetch_add(&other.sleeps, 1);
        CHECK_EQUAL(poll(&wait, 1, LONG_MS), 1);
    }
    atomic_store(&other.woke, 1);
    return unused;
}

/* A message taken by this thread ends the sleep of another one, which then prepares again. */
static void another_polls(void)
{
    enum { TURNS = 20 };
    struct pair_wish wish = {.wait = FI_WAIT_FD};
    struct fi_cq_tagged_entry entry;
    int mine;
    pair_open(&other.pair, &wish);
    CHECK_EQUAL(fi_control(&other.pair.b.rx->fid, FI_GETWAIT, &other.fd), 0);
    for (unsigned i = 0; i < TURNS; i++) {
        pthread_t thread;
        post(&other.pair, &other.got);
        atomic_store(&other.sleeps, 0);
        atomic_store(&other.woke, 0);
        CHECK_EQUAL(pthread_create(&thread, NULL, sleep_for_one, NULL), 0);
        while (atomic_load(&other.sleeps) == 0)
            sched_yield();
        CHECK_EQUAL(fi_recv(other.pair.a.ep, &mine, sizeof(mine), NULL, FI_ADDR_UNSPEC, NULL), 0);
        PAIR_CALL(&other.pair, fi_inject(other.pair.b.ep, &mine, sizeof(mine), other.pair.b.other));
        while (fi_cq_read(other.pair.a.rx, &entry, 1) != 1)
            sched_yield();
        send_one(&other.pair);
        while (atomic_load(&other.woke) == 0) /* this thread makes no calls */
            sched_yield();
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
    }
    pair_close(&other.pair);
}

/* The thread that signals conditions survives the library, which is closed with the last domain. */
static void opened_again(void)
{
    struct pair_wish wish = {0};
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_MUTEX_COND};
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_mutex_cond condition;
    struct fid_eq *eq;
    CHECK_EQUAL(pair_find(&wish, &info), 0);
    CHECK_EQUAL(fi_prov_ini()->fabric(info->fabric_attr, &fabric, NULL), 0);
    CHECK_EQUAL(fi_eq_open(fabric, &attr, &eq, NULL), 0);
    CHECK_EQUAL(fi_control(&eq->fid, FI_GETWAIT, &condition), 0);
    struct fid *fid = &eq->fid;
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQUAL(fi_domain(fabric, info, &domain, NULL), 0);
        while (fi_trywait(fabric, &fid, 1) == -FI_EAGAIN)
            sched_yield();
        uint32_t rounds = 0; /* until the thread has made progress */
        for (uint32_t first = UINT32_MAX; rounds == 0; sched_yield()) {
            afi_lock();
            if (first == UINT32_MAX) first = afi.thread.calls;
            rounds = afi.thread.calls - first;
            afi_unlock();
        }
        CHECK_EQUAL(fi_close(&domain->fid), 0);
    }
    CHECK_EQUAL(fi_close(&eq->fid), 0);
    CHECK_EQUAL(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
}

int main(void)
{
    yields();
    conditions();
    for (size_t i = 0; i < COUNT_OF(objects); i++) {
        sets(objects[i]);
        events(objects[i]);
    }
    refusals();
    another_polls();
    opened_again();
    puts("ok");
    return 0;
}
