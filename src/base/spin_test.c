/* The spin lock excludes other threads, even if there are more threads than cores. */
#include "base/spin.h"

#include "base/capture_test.h"
#include <pthread.h>

#define THREADS 8
#define ROUNDS  5000

static struct {
    struct aqi_spin lock;
    uint64_t sum; /* not atomic: a race would lose additions */
} shared;

static void try_takes_it_once(void **state)
{
    struct aqi_spin spin = {false};
    assert_true(aqi_spin_try(&spin));
    assert_false(aqi_spin_try(&spin));
    aqi_spin_unlock(&spin);
    aqi_spin_lock(&spin);
    assert_false(aqi_spin_try(&spin));
    aqi_spin_unlock(&spin);
}

static void *add(void *arg)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        aqi_spin_lock(&shared.lock);
        shared.sum++;
        aqi_spin_unlock(&shared.lock);
    }
    return NULL;
}

static void threads_exclude_each_other(void **state)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shared.sum, THREADS * ROUNDS);
}

static void *wait_for_it(void *arg)
{
    aqi_spin_contend(&shared.lock);
    uint64_t seen = shared.sum;
    aqi_spin_unlock(&shared.lock);
    return (void *)(uintptr_t)seen;
}

/* The slow path returns only with the lock held, and sees what the last holder wrote. */
static void contend_waits_for_the_holder(void **state)
{
    pthread_t thread;
    void *seen = NULL;
    aqi_spin_lock(&shared.lock);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, NULL), 0);
    shared.sum = 77;
    aqi_spin_unlock(&shared.lock);
    pthread_join(thread, &seen);
    assert_int_equal((uintptr_t)seen, 77);
}

static struct {
    struct aqi_big_lock lock;
    uint64_t sum;
    atomic_bool finished;
} all;

static void *poll_it(void *arg)
{
    uint64_t mine = 0;
    while (mine < ROUNDS || !atomic_load(&all.finished)) {
        aqi_big_lock(&all.lock);
        all.sum++;
        aqi_big_unlock(&all.lock);
        aqi_big_yield(&all.lock);
        mine++;
    }
    return (void *)(uintptr_t)mine;
}

/* A thread that waits gets a big lock even though others take it again at once. */
static void big_lock_lets_others_in(void **state)
{
    pthread_t threads[THREADS];
    uint64_t sum = 0;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, poll_it, NULL), 0);
    aqi_big_lock(&all.lock);
    aqi_big_unlock(&all.lock);
    atomic_store(&all.finished, true);
    for (unsigned i = 0; i < THREADS; i++) {
        void *mine;
        pthread_join(threads[i], &mine);
        sum += (uintptr_t)mine;
    }
    assert_int_equal(all.sum, sum);
    assert_int_equal(atomic_load(&all.lock.waiting), 0);
}

/* Letting others in returns as soon as one has the lock. */
static void big_lock_yields_no_longer_than_needed(void **state)
{
    struct aqi_big_lock lock = {.waiting = 1};
    aqi_big_lock(&lock);
    aqi_big_yield(&lock);
    aqi_big_unlock(&lock);
    aqi_big_yield(&lock); /* none comes: a system call */
    assert_true(aqi_spin_try(&lock.spin));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(try_takes_it_once),
        cmocka_unit_test(threads_exclude_each_other),
        cmocka_unit_test(contend_waits_for_the_holder),
        cmocka_unit_test(big_lock_lets_others_in),
        cmocka_unit_test(big_lock_yields_no_longer_than_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
