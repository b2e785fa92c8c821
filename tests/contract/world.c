/* Makes worlds: forks the ranks of a case, limits their time, and reports how they ended. */
#include "base/board.h"
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct world_rank {
    struct ct_world *world;
    const struct ct_case *c;
    uint32_t rank;
};

/* Everything that one rank does. */
static void *world_rank_main(void *arg)
{
    const struct world_rank *me = arg;
    const struct ct_config *config = &me->world->config;
    struct ct_ep *ep = calloc(1, sizeof(*ep));
    if (ep == NULL) abort();
    ep->world = me->world;
    ep->self = me->rank;
    ep->size = config->ranks;
    ep->threads = config->threads;
    ep->random = mix(config->seed + me->rank);
    ct_meet(ep);
    if ((me->c->needs & CT_CLOSED) == 0) ct_open(ep);
    me->c->run(ep);
    if (ep->tp != NULL) ct_close(ep);
    free(ep);
    return NULL;
}

/* All ranks as threads of this process. */
static void world_threads_main(struct ct_world *world, const struct ct_case *c)
{
    pthread_t thread[CT_MAX_RANKS];
    struct world_rank me[CT_MAX_RANKS];
    for (uint32_t rank = 0; rank < world->config.ranks; rank++) {
        me[rank] = (struct world_rank){.world = world, .c = c, .rank = rank};
        if (pthread_create(&thread[rank], NULL, world_rank_main, &me[rank]) != 0) abort();
    }
    for (uint32_t rank = 0; rank < world->config.ranks; rank++)
        pthread_join(thread[rank], NULL);
}

/* Run one rank, or all of them as threads, and check that nothing stays open. Descriptors are
 * counted while no other thread runs, since even free() opens a file of /proc now and then. */
static void world_process_main(struct ct_world *world, const struct ct_case *c, uint32_t rank)
{
    /* The board stays open until the process ends: open it before descriptors are counted. */
    (void)aqi_board_open(64 << 10);
    unsigned fds = ct_count_fds(), maps = ct_count_shared_maps();
    if (world->config.as_threads) {
        world_threads_main(world, c);
    } else {
        struct world_rank me = {.world = world, .c = c, .rank = rank};
        world_rank_main(&me);
    }
    /* When an endpoint of libfabric's TCP (1.17) is closed, connections that peers then start to it
     * stay open. */
    bool forgets = strcmp(world->config.transport->name, "ofi") == 0;
    ct_expect_fds(fds, forgets ? world->config.ranks - 1 : 0);
    CT_EQUAL(ct_count_shared_maps(), maps);
}

/* Enter the host of this rank, if there are several. */
static bool world_enter_host(const struct ct_world *world, uint32_t rank)
{
    char path[256];
    if (world->config.hosts == NULL) return true;
    snprintf(path, sizeof(path), "%s%u", world->config.hosts, rank + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool entered = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
    if (!entered) fprintf(stderr, "rank %u: %s: %s\n", rank, path, strerror(errno));
    if (fd >= 0) close(fd);
    return entered;
}

static pid_t world_fork(struct ct_world *world, const struct ct_case *c, uint32_t rank)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!world_enter_host(world, rank)) _exit(1);
    world_process_main(world, c, rank);
    exit(0); /* leak checkers run at exit */
}

static struct ct_world *world_create(const struct ct_config *config)
{
    struct ct_world *world =
        mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (world == MAP_FAILED) return NULL;
    world->config = *config;
    for (uint32_t rank = 0; rank < config->ranks; rank++)
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, world->share[rank]) != 0)
            return NULL;
    return world;
}

static void world_destroy(struct ct_world *world)
{
    for (uint32_t rank = 0; rank < world->config.ranks; rank++) {
        close(world->share[rank][0]);
        close(world->share[rank][1]);
    }
    munmap(world, sizeof(*world));
}

/* Whether process `index`, which ended with `status`, ended as it should. */
static bool world_ended_well(struct ct_world *world, uint32_t index, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && atomic_load(&world->may_die[index]))
        return true;
    if (WIFSIGNALED(status))
        fprintf(stderr, "rank %u: killed by signal %d (%s)\n", index, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "rank %u: exit code %d\n", index, WEXITSTATUS(status));
    return false;
}

/* Reap until all have ended, one has failed, or the time has expired. SIGCHLD is blocked. */
static bool world_reap(struct ct_world *world, pid_t *pids, uint32_t count)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t deadline = now.tv_sec + world->config.timeout_s;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    for (uint32_t left = count; left > 0;) {
        for (uint32_t i = 0; i < count; i++) {
            int status;
            if (pids[i] == 0 || waitpid(pids[i], &status, WNOHANG) != pids[i]) continue;
            pids[i] = 0;
            left--;
            atomic_store(&world->reaped[i], true);
            if (!world_ended_well(world, i, status)) return false;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (left > 0 && now.tv_sec >= deadline) {
            fprintf(stderr, "%u of %u processes are still running after %u s\n", left, count,
                    world->config.timeout_s);
            return false;
        }
        struct timespec tick = {.tv_nsec = 200 * 1000 * 1000};
        if (left > 0) (void)sigtimedwait(&child, NULL, &tick);
    }
    return true;
}

int ct_world_run(const struct ct_config *config, const struct ct_case *c, char reason[128])
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    struct ct_world *world = world_create(config);
    if (world == NULL) {
        fprintf(stderr, "cannot make a world: %s\n", strerror(errno));
        return 1;
    }
    pid_t pids[CT_MAX_RANKS] = {0};
    uint32_t count = config->as_threads ? 1 : config->ranks;
    bool good = true;
    for (uint32_t i = 0; i < count && good; i++)
        good = (pids[i] = world_fork(world, c, i)) > 0;
    good = good && world_reap(world, pids, count);
    for (uint32_t i = 0; i < count; i++) {
        if (pids[i] <= 0) continue;
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    bool skipped = atomic_load(&world->skipped);
    snprintf(reason, 128, "%s", world->skip_reason);
    world_destroy(world);
    return !good ? 1 : skipped ? 77 : 0;
}
