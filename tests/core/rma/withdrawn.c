/*
 * The program makes memory inaccessible while a transfer reads or writes it, and no handler
 * restores the access. The transfer fails, or succeeds if it no longer needed the memory. Later
 * transfers are correct or are refused: a stream that was cut within a transfer must not carry what
 * follows.
 *
 * usage: withdrawn FIRST LATER [both|back]
 *   FIRST, LATER  put, get or long
 *   both          both ranks do this at the same time; otherwise only rank 0
 *   back          once rank 0 has finished, rank 1 makes the later transfers, to rank 0
 *
 * Run with AQ_SURVIVE=yes, so that ranks that have lost each other can compare their memory.
 */
#include "../support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    PIECE = 1 << 20,
    /* of ofi */ FIRST = 16 * PIECE,
    LATER = 4 * PIECE,
    LONG = 100,
    SEED_FIRST = 5,
    SEED_LATER = 77
};

/* Exchanged before the ranks lose each other. */
struct about {
    pid_t pid;
    const _Atomic uint32_t *finished;
    unsigned char *base;
};

static struct about peer;
static uintptr_t page;
static _Atomic uint32_t finished;

/* The first Long may arrive, too, if it no longer needed the memory. */
static void on_long(aq_am *am)
{
    CHECK(am->nbytes == FIRST || am->nbytes == LATER);
    CHECK(filled(am->payload, am->nbytes, am->nbytes == FIRST ? SEED_FIRST : SEED_LATER));
}

/* Read memory of the peer without the library. */
static bool read_peer(void *to, const void *from, size_t len)
{
    const struct iovec local = {.iov_base = to, .iov_len = len};
    const struct iovec there = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};
    return process_vm_readv(peer.pid, &local, 1, &there, 1, 0) == (ssize_t)len;
}

/* If the processor accesses the page, and not the kernel, the handler restores the access. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr & ~(page - 1);
    (void)context;
    if (mprotect((void *)at, page, PROT_READ | PROT_WRITE) != 0) (void)signal(number, SIG_DFL);
}

static unsigned char *map(size_t len)
{
    unsigned char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

/* Offsets in the segments: the sources of gets, then the targets of puts and Longs, for the first
 * and the later transfers. */
enum { GET_FIRST = 0, GET_LATER = FIRST, PUT_FIRST = FIRST + LATER, PUT_LATER = 2 * FIRST + LATER };

static aq_status start(const char *what, unsigned char *at, bool is_first, aq_event *event)
{
    size_t len = is_first ? FIRST : LATER;
    unsigned char *from = peer.base + (is_first ? GET_FIRST : GET_LATER);
    unsigned char *to = peer.base + (is_first ? PUT_FIRST : PUT_LATER);
    if (strcmp(what, "get") == 0) return aq_get_nb(job.team, job_next(), at, from, len, 0, event);
    fill(at, len, is_first ? SEED_FIRST : SEED_LATER);
    if (strcmp(what, "put") == 0) return aq_put_nb(job.team, job_next(), to, at, len, 0, event);
    return aq_am_long(job.team, job_next(), LONG, at, len, to, NULL, 0, 0, event);
}

/* The event of a Long is only local, so there is nothing to check. */
static void transfer_later(const char *what, bool may_lose)
{
    unsigned char *at = map(LATER), *seen = map(LATER);
    aq_event event = AQ_EVENT_DONE;
    aq_status st = start(what, at, false, &event);
    if (st == AQ_OK) st = aq_event_wait(&event, AQ_FOREVER);
    CHECK(st == AQ_OK || (st == AQ_EPEER && may_lose));
    if (st != AQ_OK || strcmp(what, "long") == 0) return;
    if (strcmp(what, "get") == 0)
        memcpy(seen, at, LATER);
    else
        CHECK(read_peer(seen, peer.base + PUT_LATER, LATER));
    CHECK(filled(seen, LATER, SEED_LATER));
}

/* The first transfer may report the loss of the peer if it is a Long, whose header is lost with the
 * peer, or if both ranks put and lose each other first. */
static void work(const char *first, const char *later, bool both)
{
    bool may_lose = strcmp(first, "long") == 0 || (strcmp(first, "put") == 0 && both);
    unsigned char *at = map(FIRST);
    aq_event event = AQ_EVENT_DONE;
    aq_status st = start(first, at, true, &event);
    /* Protect half of the last piece, so that the stream is cut within the piece. */
    CHECK(mprotect(at + FIRST - PIECE / 2, PIECE / 2, PROT_NONE) == 0);
    CHECK(st == AQ_OK || (st == AQ_EPEER && may_lose));
    if (st == AQ_OK) st = aq_event_wait(&event, AQ_FOREVER);
    CHECK(st == AQ_OK || st == AQ_EINVAL || (st == AQ_EPEER && may_lose));
    for (int i = 0; i < 3; i++)
        transfer_later(later, strcmp(first, "get") != 0);
}

static int peer_has_finished(void *arg)
{
    uint32_t value = 0;
    (void)arg;
    bool alive = read_peer(&value, (const void *)(uintptr_t)peer.finished, sizeof(value));
    return !alive || value != 0;
}

int main(int argc, char **argv)
{
    aq_handler_entry table[] = {{LONG, 0, AQ_AM_REQUEST | AQ_AM_LONG, on_long, NULL, "long"}};
    struct about all[2];
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    char byte;
    if (argc < 3) return 2;
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    job_open(AQ_THREAD_SINGLE, PUT_LATER + LATER);
    CHECK_EQUAL(job.size, 2);
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    fill(job.base + GET_FIRST, FIRST, SEED_FIRST);
    fill(job.base + GET_LATER, LATER, SEED_LATER);
    job_handlers(table, COUNT_OF(table));
    struct about me = {.pid = getpid(), .finished = &finished, .base = job.base};
    CHECK_OK(aq_coll_allgather(job.team, all, &me, sizeof(me), 0));
    peer = all[1 - job.self];
    if (!read_peer(&byte, peer.base, 1)) aq_exit(77); /* not permitted */
    job_barrier();
    bool both = argc > 3 && strcmp(argv[3], "both") == 0;
    if (job.self == 0 || both) work(argv[1], argv[2], both);
    finished = job.self == 0 || both;
    if (argc > 3 && !both && job.self == 1) {
        CHECK_OK(aq_poll_until(peer_has_finished, NULL, AQ_FOREVER));
        for (int i = 0; i < 3; i++)
            transfer_later(argv[2], strcmp(argv[1], "get") != 0);
        finished = 1;
    }
    CHECK_OK(aq_poll_until(peer_has_finished, NULL, AQ_FOREVER));
    aq_exit(0);
}
