/*
 * A program of several processes that a manager starts: `managed_program HOW`. They meet, add up
 * their numbers, and each sends to the next; then the last one ends as HOW says, while the others
 * wait for it in a barrier. Each line of output is complete, and written by one call.
 */
#include <aqueduct/aqueduct.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEXT 200

static uint32_t received;

static void on_next(aq_am *am)
{
    received = (uint32_t)am->args[0];
}

static void check(aq_status status, const char *what)
{
    if (status == AQ_OK) return;
    fprintf(stderr, "%s: %s\n", what, aq_error_message());
    exit(3);
}

/* A ring of messages and a sum: exits with code 4 on wrong results. */
static void work(aq_team *world)
{
    uint32_t rank = aq_job_rank(), size = aq_job_size();
    uint64_t mine = rank + 1, sum = 0;
    const aq_arg args[] = {(aq_arg)(rank + 1)};
    check(aq_barrier(world), "barrier");
    check(aq_am_short(world, (rank + 1) % size, NEXT, args, 1, 0), "am_short");
    while (received == 0)
        (void)aq_poll();
    check(aq_coll_allreduce(world, &sum, &mine, 1, AQ_TYPE_U64, AQ_OP_ADD, 0), "allreduce");
    if (sum != (uint64_t)size * (size + 1) / 2 || received != (rank + size - 1) % size + 1) exit(4);
    printf("rank %u of %u has worked\n", rank, size);
    fflush(stdout);
    check(aq_barrier(world), "barrier");
}

static bool of_this_job(const char *pid)
{
    const char *mark = getenv("MANAGERS_MARK");
    char path[300], text[65536], name[20] = "";
    snprintf(path, sizeof(path), "/proc/%s/comm", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    if (fgets(name, sizeof(name), file) == NULL) name[0] = '\0';
    fclose(file);
    if (mark == NULL || strcmp(name, "aq-agent\n") != 0) return false;
    snprintf(path, sizeof(path), "/proc/%s/environ", pid);
    file = fopen(path, "re");
    if (file == NULL) return false;
    size_t len = fread(text, 1, sizeof(text), file);
    fclose(file);
    return memmem(text, len, mark, strlen(mark)) != NULL;
}

/* Kill the agents of this job, all at once. */
static void kill_agents(void)
{
    struct dirent *entry;
    DIR *proc = opendir("/proc");
    while (proc != NULL && (entry = readdir(proc)) != NULL)
        if (atoi(entry->d_name) > 0 && of_this_job(entry->d_name))
            kill((pid_t)atoi(entry->d_name), SIGKILL);
    if (proc != NULL) closedir(proc);
}

static void *exit7(void *arg)
{
    (void)arg;
    aq_exit(7);
}

/* Threads exit concurrently; only one of them disconnects from the manager. */
static void exit7_in_threads(void)
{
    enum { THREADS = 8 };
    pthread_t thread;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, exit7, NULL) != 0) exit(3);
    exit7(NULL);
}

static void end(const char *how)
{
    if (strcmp(how, "orphans") == 0) kill_agents();
    if (strcmp(how, "exit7") == 0) aq_exit(7);
    if (strcmp(how, "threads7") == 0) exit7_in_threads();
    if (strcmp(how, "return5") == 0) exit(5);
    if (strcmp(how, "abort") == 0) abort();
    if (strcmp(how, "kill") == 0) raise(SIGKILL);
}

int main(int argc, char **argv)
{
    aq_team *world;
    const char *how = argc > 1 ? argv[1] : "finalize";
    int launched = aq_job_launched();
    check(aq_init(NULL, &world), "aq_init");
    if (aq_job_size() > 1 && !launched) exit(5);
    aq_handler_entry handler = {.index = NEXT, .nargs = 1, .fn = on_next, .name = "next"};
    check(aq_am_register(aq_team_ep(world), &handler, 1), "aq_am_register");
    work(world);
    if (strcmp(how, "exit0") == 0) aq_exit(0);
    if (aq_job_rank() == aq_job_size() - 1) end(how);
    while (strcmp(how, "orphans") == 0)
        pause(); /* without calling the library */
    if (strcmp(how, "finalize") != 0) check(aq_barrier(world), "barrier");
    check(aq_finalize(), "aq_finalize");
    return 0;
}
