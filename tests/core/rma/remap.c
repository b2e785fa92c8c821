/*
 * The program remaps memory at random in all possible ways, while it transfers other memory, as do
 * peers in mode everything. Transfers use the current contents, and system calls work as they do
 * without the library.
 *
 * Omitted, because kernels do not announce them (docs/architecture.md): memory that one mremap
 * moves together with memory mapped beside it, guard pages, and SHM_REMAP. For mremap, a mapping
 * with parts that were mapped again may be several mappings.
 *
 * usage: core_remap [ROUNDS]
 */
#include "../support.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 48, SIZE = PAGES * PAGE, HUGE = 2 << 20, AREAS = 14, ROUNDS = 60 };

enum kind { PLAIN, HEAP, SHARED_FILE, PRIVATE_FILE, SYSV, HUGE_PAGES };

struct area {
    enum kind kind;
    int id; /* of the file or the SysV memory */
    bool pieces;
    unsigned char *at;
    size_t len;
    uint64_t seed; /* of the contents */
};

static struct area areas[AREAS];
static uint64_t dice; /* of the thread that remaps */
static unsigned rounds, splits;

static size_t draw(size_t below)
{
    dice += 0x9e3779b97f4a7c15u;
    return mix(dice) % below;
}

static size_t draw_len(void)
{
    return (1 + draw(PAGES)) * PAGE;
}

/* Draw some whole pages of the area. */
static size_t draw_part(const struct area *area, unsigned char **part)
{
    size_t pages = area->len / PAGE, first = draw(pages);
    *part = area->at + first * PAGE;
    return (1 + draw(pages - first)) * PAGE;
}

static void write_all(struct area *area)
{
    area->seed = mix(dice + area->seed);
    fill(area->at, area->len, area->seed);
}

static void *map(void *at, size_t len, int flags, int fd)
{
    void *got = mmap(at, len, PROT_READ | PROT_WRITE, flags | (at != NULL ? MAP_FIXED : 0), fd, 0);
    CHECK(got != MAP_FAILED);
    return got;
}

static void *map_plain(void *at, size_t len)
{
    return map(at, len, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* --- private anonymous memory ---------------------------------------------------------------- */

/*
 * Whether all mappings of the area are watched, or none. They can then still be several, if another
 * thread wrote to a new mapping just when a part of it became watched (docs/architecture.md).
 */
static bool watched_alike(const struct area *area)
{
    char line[512];
    bool inside = false;
    unsigned watched = 0, others = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = from < (uintptr_t)area->at + area->len && to > (uintptr_t)area->at;
        if (inside && strncmp(line, "VmFlags:", 8) == 0)
            *(strstr(line, " uw") != NULL ? &watched : &others) += 1;
    }
    fclose(maps);
    return watched == 0 || others == 0;
}

/* Returns NULL if the area consists of several mappings. */
static void *try_move(struct area *area, size_t len, int flags, void *to)
{
    void *got;
    /* The other thread may be about to watch the area, which takes several steps if it has just
     * grown. */
    for (unsigned tries = 0; tries < 1000; tries++) {
        got = mremap(area->at, area->len, len, MREMAP_MAYMOVE | flags, to);
        if (got != MAP_FAILED) return got;
        if (errno != EFAULT || area->pieces) break;
        sched_yield();
    }
    if (!area->pieces) {
        if (errno != EFAULT || !watched_alike(area) || ++splits > 1 + rounds / 1000)
            check_failed(__FILE__, __LINE__, "mremap from %zu bytes to %zu, flags %x: %m",
                         area->len, len, flags);
        area->pieces = true;
    }
    return NULL;
}

static void move(struct area *area, size_t len, int flags, void *to)
{
    size_t both = len < area->len ? len : area->len;
    void *got = try_move(area, len, flags, to);
    if (got == NULL) return;
    CHECK(filled(got, both, area->seed));
    if (flags == MREMAP_DONTUNMAP) CHECK(munmap(area->at, area->len) == 0);
    area->at = got;
    area->len = len;
}

static void plain_resize(struct area *area)
{
    move(area, draw_len(), 0, NULL);
}

static void plain_move(struct area *area)
{
    if (area->pieces) return; /* since Linux 6.17 mremap may move some of them before it fails */
    move(area, area->len, MREMAP_FIXED, map_plain(NULL, area->len));
}

static void plain_leave(struct area *area)
{
    move(area, area->len, MREMAP_DONTUNMAP, NULL);
}

/* Move another mapping to the place of this one. */
static void plain_replace(struct area *area)
{
    struct area other = {.at = map_plain(NULL, area->len), .len = area->len, .seed = dice};
    write_all(&other);
    bool moved = try_move(&other, area->len, MREMAP_FIXED, area->at) != NULL;
    if (!moved) CHECK(munmap(other.at, other.len) == 0 && map_plain(area->at, area->len));
    CHECK(!moved || filled(area->at, area->len, other.seed));
    area->pieces = false;
}

static void plain_again(struct area *area)
{
    size_t len = draw_len();
    CHECK(munmap(area->at, area->len) == 0);
    area->at = map_plain(NULL, len);
    area->len = len;
    area->pieces = false;
    CHECK(all_bytes(area->at, len, 0));
}

static void plain_here(struct area *area)
{
    map_plain(area->at, area->len);
    CHECK(all_bytes(area->at, area->len, 0));
    area->pieces = false;
}

static void plain_part(struct area *area)
{
    unsigned char *part;
    size_t len = draw_part(area, &part);
    map_plain(part, len);
    CHECK(all_bytes(part, len, 0));
    area->pieces = true;
}

static void plain_give_back(struct area *area)
{
    unsigned char *part;
    size_t len = draw_part(area, &part);
    CHECK(madvise(part, len, MADV_DONTNEED) == 0);
    CHECK(all_bytes(part, len, 0));
}

static void plain_free(struct area *area)
{
    unsigned char *part;
    size_t len = draw_part(area, &part);
    CHECK(madvise(part, len, MADV_FREE) == 0);
}

static void plain_protect(struct area *area)
{
    unsigned char *part;
    size_t len = draw_part(area, &part);
    CHECK(mprotect(part, len, draw(2) != 0 ? PROT_READ : PROT_NONE) == 0);
    CHECK(mprotect(part, len, PROT_READ | PROT_WRITE) == 0);
    CHECK(filled(area->at, area->len, area->seed));
}

static void plain_fork(struct area *area)
{
    if (draw(4) != 0) return; /* it is slow */
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        memset(area->at, 0, area->len);
        _exit(munmap(area->at, area->len) != 0);
    }
    memset(area->at, 1, PAGE);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(all_bytes(area->at, PAGE, 1));
}

/* --- other kinds ----------------------------------------------------------------------------- */

static void heap_resize(struct area *area)
{
    size_t len = 1 + draw(SIZE), both = len < area->len ? len : area->len;
    unsigned char *got = realloc(area->at, len);
    CHECK(got != NULL && filled(got, both, area->seed));
    area->at = got;
    area->len = len;
}

static void heap_again(struct area *area)
{
    free(area->at);
    area->len = 1 + draw(2 * SIZE);
    area->at = malloc(area->len);
    CHECK(area->at != NULL);
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

static void file_empty(struct area *area)
{
    CHECK(ftruncate(area->id, 0) == 0 && ftruncate(area->id, (off_t)area->len) == 0);
    if (area->kind == SHARED_FILE) CHECK(all_bytes(area->at, area->len, 0));
}

static void file_again(struct area *area)
{
    size_t len = draw_len();
    CHECK(munmap(area->at, area->len) == 0);
    CHECK(ftruncate(area->id, (off_t)len) == 0);
    area->pieces = false;
    area->at = map(NULL, len, area->kind == SHARED_FILE ? MAP_SHARED : MAP_PRIVATE, area->id);
    area->len = len;
}

static void file_hole(struct area *area)
{
    unsigned char *part;
    size_t len = draw_part(area, &part);
    CHECK(madvise(part, len, area->kind == SHARED_FILE ? MADV_REMOVE : MADV_DONTNEED) == 0);
    if (area->kind == SHARED_FILE) CHECK(all_bytes(part, len, 0));
}

static void file_resize(struct area *area)
{
    size_t len = draw_len();
    if (len > area->len) CHECK(ftruncate(area->id, (off_t)len) == 0);
    move(area, len, 0, NULL);
}

static void sysv_again(struct area *area)
{
    bool anew = draw(2) != 0;
    CHECK(shmdt(area->at) == 0);
    if (anew) {
        CHECK(shmctl(area->id, IPC_RMID, NULL) == 0);
        area->id = shmget(IPC_PRIVATE, area->len, 0600);
        CHECK(area->id >= 0);
    }
    area->at = shmat(area->id, NULL, 0);
    CHECK(area->at != (void *)-1);
    CHECK(anew ? all_bytes(area->at, area->len, 0) : filled(area->at, area->len, area->seed));
}

static void huge_again(struct area *area)
{
    if (draw(2) != 0) {
        CHECK(madvise(area->at, HUGE, MADV_DONTNEED) == 0);
        return;
    }
    CHECK(munmap(area->at, HUGE) == 0);
    area->at = map(NULL, HUGE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
}

static void (*const changes[][12])(struct area *) = {
    [PLAIN] = {plain_resize, plain_resize, plain_move, plain_leave, plain_replace, plain_again,
               plain_here, plain_part, plain_give_back, plain_free, plain_protect, plain_fork},
    [HEAP] = {heap_resize, heap_again},
    [SHARED_FILE] = {file_empty, file_again, file_hole, file_resize},
    [PRIVATE_FILE] = {file_empty, file_again, file_hole, file_resize},
    [SYSV] = {sysv_again},
    [HUGE_PAGES] = {huge_again},
};

static void change(struct area *area)
{
    size_t ways = 0;
    while (ways < COUNT_OF(changes[0]) && changes[area->kind][ways] != NULL)
        ways++;
    CHECK(filled(area->at, area->len, area->seed));
    changes[area->kind][draw(ways)](area);
    write_all(area);
}

static void make(struct area *area, enum kind kind)
{
    *area = (struct area){.kind = kind, .id = -1, .len = SIZE, .seed = dice};
    if (kind == HEAP) area->at = malloc(SIZE);
    if (kind == PLAIN) area->at = map_plain(NULL, SIZE);
    if (kind == SHARED_FILE || kind == PRIVATE_FILE) {
        area->id = memfd_create("remap", MFD_CLOEXEC);
        CHECK(area->id >= 0 && ftruncate(area->id, SIZE) == 0);
        area->at = map(NULL, SIZE, kind == SHARED_FILE ? MAP_SHARED : MAP_PRIVATE, area->id);
    }
    if (kind == SYSV) {
        area->id = shmget(IPC_PRIVATE, SIZE, 0600);
        CHECK(area->id >= 0);
        area->at = shmat(area->id, NULL, 0);
        CHECK(area->at != (void *)-1);
    }
    if (kind == HUGE_PAGES) {
        void *got = mmap(NULL, HUGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
        if (got == MAP_FAILED) { /* there are no huge pages */
            make(area, PLAIN);
            return;
        }
        area->at = got;
        area->len = HUGE;
    }
    CHECK(area->at != NULL);
    write_all(area);
}

static void end(struct area *area)
{
    if (area->kind == HEAP)
        free(area->at);
    else if (area->kind == SYSV)
        CHECK(shmdt(area->at) == 0 && shmctl(area->id, IPC_RMID, NULL) == 0);
    else
        CHECK(munmap(area->at, area->len) == 0);
    if (area->kind == SHARED_FILE || area->kind == PRIVATE_FILE) close(area->id);
}

/* --- rounds ---------------------------------------------------------------------------------- */

/* An area of a rank in a round, as known to all ranks. */
struct card {
    uint64_t at, len, seed;
};

/*
 * The areas that are not remapped: the source of this rank's put, the target of the previous rank's
 * put, the target of this rank's get; and the parts of them to transfer.
 */
struct plan {
    unsigned from, into, got;
    uint64_t offset, len;
};

static struct plan plan;
static struct card *cards;
static sem_t begin, over;
static bool last;
static bool everything;

static void *remap(void *unused)
{
    (void)unused;
    for (;;) {
        while (sem_wait(&begin) != 0)
            ;
        if (last) return NULL;
        for (unsigned i = 0; i < AREAS; i++)
            if (i != plan.from && i != plan.into && i != plan.got && draw(2) != 0)
                change(&areas[i]);
        CHECK(sem_post(&over) == 0);
    }
}

static const struct card *card_of(aq_rank rank, unsigned area)
{
    return &cards[(size_t)rank * AREAS + area];
}

/* The same on all ranks. */
static void make_plan(unsigned round)
{
    uint64_t random = mix(job.seed * 31 + round);
    plan.from = (unsigned)(random % AREAS);
    plan.into = (plan.from + 1 + (unsigned)(random >> 8) % (AREAS / 2 - 1)) % AREAS;
    plan.got = (plan.from + AREAS / 2 + (unsigned)(random >> 16) % (AREAS / 2)) % AREAS;
    plan.offset = random >> 24;
    plan.len = mix(random);
}

/* The length and offsets of a transfer between two pieces of memory: a part of the shorter one. */
static size_t part_of(uint64_t a, uint64_t b, size_t *offset)
{
    size_t len = (size_t)(a < b ? a : b);
    *offset = (size_t)(plan.offset % len) & ~(size_t)7;
    return 1 + (size_t)(plan.len % (len - *offset));
}

static void show_cards(void)
{
    struct card mine[AREAS];
    for (unsigned i = 0; i < AREAS; i++)
        mine[i] = (struct card){(uintptr_t)areas[i].at, areas[i].len, areas[i].seed};
    CHECK_OK(aq_coll_allgather(job.team, cards, mine, sizeof(mine), 0));
}

/* In mode fast, put into one half of the next rank's segment and get from the other half, which
 * does not change. */
static void transfer(void)
{
    aq_rank next = job_next();
    const struct card *from = card_of(job.self, plan.from), *into = card_of(next, plan.into);
    const struct card *got = card_of(job.self, plan.got), *source = card_of(next, plan.from);
    unsigned char *to = (unsigned char *)(uintptr_t)into->at,
                  *out = (unsigned char *)(uintptr_t)source->at;
    struct card half = {.len = HUGE};
    size_t put_at, get_at;
    if (!everything) {
        into = source = &half;
        to = job_at(next, 0);
        out = job_at(next, HUGE);
        half.seed = next;
    }
    size_t put = part_of(from->len, into->len, &put_at);
    size_t get = part_of(source->len, got->len, &get_at), half_put = put / 2;
    aq_event events[3];
    const unsigned char *local = areas[plan.from].at + put_at;
    CHECK_OK(aq_put_nb(job.team, next, to + put_at, local, half_put, 0, &events[0]));
    CHECK_OK(
        aq_get_nb(job.team, next, areas[plan.got].at + get_at, out + get_at, get, 0, &events[1]));
    CHECK_OK(aq_put_nb(job.team, next, to + put_at + half_put, local + half_put, put - half_put, 0,
                       &events[2]));
    for (unsigned i = 0; i < 3; i++)
        CHECK_OK(aq_event_wait(&events[i], AQ_FOREVER));
    CHECK(filled(areas[plan.got].at + get_at, get, source->seed + get_at));
}

/* Check the data that the previous rank has put. */
static void check_put(void)
{
    size_t offset, len;
    const struct card *from = card_of(job_previous(), plan.from);
    const struct area *into = &areas[plan.into];
    len = part_of(from->len, everything ? into->len : HUGE, &offset);
    CHECK(filled((everything ? into->at : job.base) + offset, len, from->seed + offset));
}

static void run(void)
{
    pthread_t thread;
    CHECK(sem_init(&begin, 0, 0) == 0 && sem_init(&over, 0, 0) == 0);
    CHECK(pthread_create(&thread, NULL, remap, NULL) == 0);
    for (unsigned round = 0; round < rounds; round++) {
        make_plan(round);
        show_cards();
        CHECK(sem_post(&begin) == 0);
        transfer();
        while (sem_wait(&over) != 0)
            ;
        job_barrier();
        check_put();
        job_barrier();
        write_all(&areas[plan.into]);
        write_all(&areas[plan.got]);
    }
    last = true;
    CHECK(sem_post(&begin) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
    static const enum kind kinds[AREAS] = {PLAIN, HEAP,  SHARED_FILE, PLAIN, PRIVATE_FILE,
                                           PLAIN, SYSV,  HEAP,        PLAIN, HUGE_PAGES,
                                           PLAIN, PLAIN, HEAP,        PLAIN};
    job.segment_modes = AQ_SEGMENT_BIT(AQ_SEGMENT_FAST) | AQ_SEGMENT_BIT(AQ_SEGMENT_EVERYTHING);
    job_open(AQ_THREAD_SINGLE, 0);
    everything = aq_segment_mode_get() == AQ_SEGMENT_EVERYTHING;
    CHECK_OK(aq_segment_attach(job.team, everything ? 0 : 2 * HUGE, &job.segment));
    job.base = aq_segment_addr(job.segment);
    if (!everything) fill(job.base + HUGE, HUGE, job.self);
    dice = job.random;
    cards = calloc((size_t)job.size * AREAS, sizeof(*cards));
    CHECK(cards != NULL);
    for (unsigned i = 0; i < AREAS; i++)
        make(&areas[i], kinds[i]);
    job_barrier();
    rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : ROUNDS;
    run();
    for (unsigned i = 0; i < AREAS; i++)
        end(&areas[i]);
    free(cards);
    job_close();
    return 0;
}
