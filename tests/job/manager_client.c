/*
 * A process started by a manager. Executes its arguments in order, each STEP[=NUMBER] or, for one
 * rank only, STEP[=NUMBER]@RANK. A step that fails prints "STEP: AQ_…: message" and ends the job
 * with code 3.
 */
#include "job/manager/manager.h"
#include "job/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct aqi_manager *manager;
static uint32_t my_rank;
static pid_t first; /* of rank 0 */
static unsigned rounds;

/* The first two contain NULs; the last is put in pieces if the manager limits values. */
static const size_t sizes[] = {1, 16, 63, 700, 1024, AQI_MANAGER_VALUE};

static uint8_t value_byte(uint32_t rank, unsigned round, size_t i)
{
    return i % 5 == 0 ? 0 : (uint8_t)(rank * 31 + round * 7 + i * 13 + i / 251);
}

static aq_status do_open(int number)
{
    const struct aqi_manager_kind *kind;
    (void)number;
    aq_status status = aqi_manager_choose(&kind);
    if (status == AQ_OK && kind == NULL) {
        printf("no manager\n");
        exit(0);
    }
    if (status == AQ_OK) status = aqi_manager_open(kind, &manager);
    if (status == AQ_OK) my_rank = manager->info.rank;
    return status;
}

/* Print the identity of this rank according to the manager, in one line. */
static aq_status do_print(int number)
{
    const struct aqi_manager_info *info = &manager->info;
    char line[1024];
    (void)number;
    int len = snprintf(line, sizeof(line),
                       "rank %u of %u host %u of %u local %u of %u first %u by %s (%s) job %s\n",
                       info->rank, info->size, info->host, info->hosts, info->local_rank,
                       info->local_size, aqi_manager_first(manager, info->host),
                       manager->kind->name, info->version, info->job);
    return write(1, line, (size_t)len) == len ? AQ_OK : AQ_ESYS;
}

/* Check that the fields are consistent. */
static aq_status do_check(int number)
{
    const struct aqi_manager_info *info = &manager->info;
    uint32_t local = 0, before = 0, hosts = 0;
    (void)number;
    for (uint32_t rank = 0; rank < info->size; rank++) {
        if (info->host_of[rank] > hosts) return AQ_EMISMATCH;
        if (info->host_of[rank] == hosts) hosts++;
        if (info->host_of[rank] != info->host) continue;
        before += rank < info->rank;
        local++;
    }
    bool same = hosts == info->hosts && local == info->local_size && before == info->local_rank &&
                info->host_of[info->rank] == info->host && info->host_of[0] == 0 &&
                info->job[0] != '\0' && info->version[0] != '\0';
    return same ? AQ_OK : AQ_EMISMATCH;
}

static void round_key(char key[AQI_MANAGER_KEY + 1], size_t size)
{
    snprintf(key, AQI_MANAGER_KEY + 1, "Round-%u_%zu", rounds, size);
}

/* Every rank puts values of all sizes, and gets those of all ranks. */
static aq_status do_exchange(int number)
{
    static uint8_t bytes[AQI_MANAGER_VALUE];
    char key[AQI_MANAGER_KEY + 1];
    aq_status status = AQ_OK;
    (void)number;
    for (size_t s = 0; s < AQI_COUNT_OF(sizes) && status == AQ_OK; s++) {
        for (size_t i = 0; i < sizes[s]; i++)
            bytes[i] = value_byte(manager->info.rank, rounds, i);
        round_key(key, sizes[s]);
        status = manager->kind->put(manager, key, bytes, sizes[s]);
    }
    if (status == AQ_OK) status = manager->kind->fence(manager);
    for (uint32_t n = 0; n < manager->info.size; n++) {
        uint32_t rank = (n + manager->info.rank) % manager->info.size;
        for (size_t s = 0; s < AQI_COUNT_OF(sizes) && status == AQ_OK; s++) {
            size_t len = 0;
            round_key(key, sizes[s]);
            status = manager->kind->get(manager, rank, key, bytes, sizes[s], &len);
            if (status == AQ_OK && len != sizes[s]) status = AQ_EMISMATCH;
            for (size_t i = 0; status == AQ_OK && i < len; i++)
                if (bytes[i] != value_byte(rank, rounds, i)) status = AQ_EMISMATCH;
        }
    }
    rounds++;
    return status;
}

/*
 * Getting a value that was not put, by this rank or any other, is an error, and the next call
 * works.
 */
static aq_status do_missing(int number)
{
    uint8_t byte;
    size_t len;
    (void)number;
    for (uint32_t rank = 0; rank <= manager->info.size; rank++)
        if (manager->kind->get(manager, rank, "nothing", &byte, 1, &len) != AQ_EINVAL)
            return AQ_EMISMATCH;
    if (manager->kind->put(manager, "no key", &byte, 1) != AQ_EINVAL ||
        manager->kind->put(manager, "long", &byte, AQI_MANAGER_VALUE + 1) != AQ_ESIZE)
        return AQ_EMISMATCH;
    return AQ_OK;
}

/* Getting a value that does not fit into the buffer is an error. */
static aq_status do_room(int number)
{
    uint8_t bytes[16];
    size_t len = 77;
    (void)number;
    aq_status status = manager->kind->put(manager, "sixteen", "0123456789abcdef", 16);
    if (status == AQ_OK) status = manager->kind->fence(manager);
    if (status != AQ_OK) return status;
    if (manager->kind->get(manager, 0, "sixteen", bytes, 15, &len) != AQ_ESIZE || len != 77)
        return AQ_EMISMATCH;
    return manager->kind->get(manager, 0, "sixteen", bytes, 16, &len);
}

static aq_status do_fence(int number)
{
    (void)number;
    return manager->kind->fence(manager);
}

static void meet_file(char path[AQI_MANAGER_NAME + 32], uint32_t rank)
{
    snprintf(path, AQI_MANAGER_NAME + 32, "meet-%s-%u", manager->info.job, rank);
}

/*
 * Rank 0 enters a fence after the others have been in it for some time; none may leave it earlier.
 * Files in the working folder tell the ranks about each other.
 */
static aq_status do_meet(int number)
{
    char path[AQI_MANAGER_NAME + 32];
    (void)number;
    for (uint32_t rank = 1; my_rank == 0 && rank < manager->info.size; rank++)
        for (meet_file(path, rank); access(path, F_OK) != 0;)
            poll(NULL, 0, 1);
    if (my_rank == 0) poll(NULL, 0, 20);
    meet_file(path, my_rank);
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (file < 0) return AQ_ESYS;
    close(file);
    aq_status status = manager->kind->fence(manager);
    meet_file(path, 0);
    return status == AQ_OK && access(path, F_OK) != 0 ? AQ_EMISMATCH : status;
}

/* Get the pid of rank 0; all ranks are on one machine. */
static aq_status do_pid(int number)
{
    pid_t me = getpid();
    size_t len;
    (void)number;
    aq_status status = manager->kind->put(manager, "pid", &me, sizeof(me));
    if (status == AQ_OK) status = manager->kind->fence(manager);
    if (status != AQ_OK) return status;
    return manager->kind->get(manager, 0, "pid", &first, sizeof(first), &len);
}

/* Wait for the end of rank 0. */
static aq_status do_outlive(int number)
{
    static const char text[] = "outlived rank 0\n";
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, first, 0), .events = POLLIN};
    (void)number;
    if (ended.fd < 0 && errno != ESRCH) return AQ_ESYS;
    if (ended.fd >= 0 && poll(&ended, 1, -1) != 1) return AQ_ESYS;
    return write(1, text, sizeof(text) - 1) > 0 ? AQ_OK : AQ_ESYS;
}

static aq_status do_abort(int number)
{
    manager->kind->abort(manager, number, "requested by the test; twice = 2");
    _exit(number);
}

/* Wait until another process ends this one. */
static aq_status do_hang(int number)
{
    (void)number;
    while (pause() < 0)
        continue;
    return AQ_OK;
}

static aq_status do_close(int number)
{
    (void)number;
    aqi_manager_close(manager);
    manager = NULL;
    return AQ_OK;
}

static aq_status do_exit(int number)
{
    exit(number);
}

static const struct {
    const char *name;
    aq_status (*run)(int number);
} steps[] = {
    {"open", do_open},   {"print", do_print},       {"check", do_check}, {"missing", do_missing},
    {"room", do_room},   {"exchange", do_exchange}, {"fence", do_fence}, {"meet", do_meet},
    {"pid", do_pid},     {"outlive", do_outlive},   {"abort", do_abort}, {"hang", do_hang},
    {"close", do_close}, {"exit", do_exit},
};

static aq_status run_step(const char *argument)
{
    const char *number = strchr(argument, '='), *rank = strchr(argument, '@');
    size_t len = strcspn(argument, "=@");
    if (rank != NULL && my_rank != (uint32_t)strtoul(rank + 1, NULL, 10)) return AQ_OK;
    for (size_t i = 0; i < AQI_COUNT_OF(steps); i++)
        if (strlen(steps[i].name) == len && strncmp(steps[i].name, argument, len) == 0)
            return steps[i].run(number == NULL ? 0 : atoi(number + 1));
    return AQ_EINVAL;
}

int main(int argc, char **argv)
{
    struct aqi_settings_table *tables[] = {&aqi_job_settings};
    if (aqi_settings_load(tables, 1) != AQ_OK) return 5;
    for (int i = 1; i < argc; i++) {
        aq_status status = run_step(argv[i]);
        if (status == AQ_OK) continue;
        fprintf(stderr, "%s: %s: %s\n", argv[i], aq_status_name(status), aq_error_message());
        if (manager != NULL) manager->kind->abort(manager, 3, aq_error_message());
        return 3;
    }
    return 0;
}
