/*
 * Programs of one host in different network namespaces, as in containers, connect through a folder
 * that both see. Needs the right to create namespaces.
 */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 300, PING = 70, PONG };
enum { READY };

static char folder[] = "/tmp/aq-conn-folder-XXXXXX";
static _Atomic uint32_t pongs;

static void on_ping(aq_am *am)
{
    CHECK_OK(aq_am_reply_medium(am, PONG, am->payload, am->nbytes, am->args, 1, 0));
}

static void on_pong(aq_am *am)
{
    CHECK(filled(am->payload, am->nbytes, (uint64_t)am->args[0]));
    pongs++;
}

static void open_and_register(size_t segment)
{
    aq_handler_entry table[] = {{.index = PING, .nargs = 1, .fn = on_ping},
                                {.index = PONG, .nargs = 1, .fn = on_pong}};
    role_open(AQ_THREAD_SINGLE, segment);
    job_handlers(table, COUNT_OF(table));
}

static unsigned files(void)
{
    unsigned n = 0;
    DIR *dir = opendir(folder);
    CHECK(dir != NULL);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* --- two namespaces --------------------------------------------------------------------------- */

static void contained_server(uint32_t number)
{
    (void)number;
    CHECK_EQUAL(unshare(CLONE_NEWNET), 0);
    open_and_register(65536);
    aq_listener *listener = listen_here();
    play->flag[READY] = 1;
    CHECK_EQUAL(serve(1), 0);
    CHECK_OK(aq_listener_close(listener));
    CHECK_EQUAL(files(), 0);
    job_close();
}

static void outer_client(uint32_t number)
{
    static unsigned char bytes[4000];
    (void)number;
    open_and_register(0);
    aq_connection *conn = connect_here(NULL);
    aq_team *team = aq_connection_team(conn);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        size_t n = i * 13;
        fill(bytes, n, i);
        CHECK_OK(aq_am_medium(team, 1, PING, bytes, n, AQ_ARGS((aq_arg)i), 0, NULL));
        if (i % 3 == 0) job_await(&pongs, i + 1);
    }
    job_await(&pongs, ROUNDS);
    aq_segment_info info;
    CHECK_OK(aq_segment_query(team, 1, &info));
    fill(bytes, sizeof(bytes), 9);
    CHECK_OK(aq_put(team, 1, info.addr, bytes, sizeof(bytes), 0));
    memset(bytes, 0, sizeof(bytes));
    CHECK_OK(aq_get(team, 1, bytes, info.addr, sizeof(bytes), 0));
    CHECK(filled(bytes, sizeof(bytes), 9));
    CHECK_OK(aq_connection_close(conn));
    job_close();
}

/* Without the folder the server is not found, so there really are two namespaces. */
static void lost_client(uint32_t number)
{
    aq_connection *conn;
    (void)number;
    role_await(READY, 1);
    unsetenv("AQ_SHM_FOLDER");
    open_and_register(0);
    CHECK_STATUS(aq_connect(play->uri, NULL, &conn), AQ_EREFUSED);
    CHECK(strstr(aq_error_message(), "AQ_SHM_FOLDER") != NULL);
    job_close();
}

/* --- files ----------------------------------------------------------------------------------- */

static void killed_server(uint32_t number)
{
    aq_listener *other;
    (void)number;
    open_and_register(0);
    (void)listen_here();
    CHECK_OK(aq_listen(NULL, 0, NULL, &other));
    CHECK_EQUAL(files(), 2);
    CHECK_EQUAL(kill(getpid(), SIGKILL), 0);
}

/* A server that finds the files of the killed one removes them, but not those of its own
 * addresses. */
static void next_server(uint32_t number)
{
    aq_listener *again, *other;
    (void)number;
    CHECK_EQUAL(files(), 2);
    open_and_register(0);
    aq_listener *listener = listen_here();
    CHECK_EQUAL(files(), 1);
    CHECK_STATUS(aq_listen(play->uri, 0, NULL, &again), AQ_ESTATE);
    CHECK_OK(aq_listen("shm:///a/", 0, NULL, &other));
    CHECK_EQUAL(files(), 2);
    CHECK_OK(aq_listener_close(listener));
    listener = listen_here();
    CHECK_REFUSED(aq_listen("shm:///a%b", 0, NULL, &again), AQ_EINVAL);
    char name[200] = "shm:///";
    memset(name + strlen(name), 'a', 120);
    CHECK_REFUSED(aq_listen(name, 0, NULL, &again), AQ_EINVAL);
    CHECK_OK(aq_listener_close(other));
    job_close(); /* with a listener that is open */
    CHECK_EQUAL(files(), 0);
}

static void folderless(uint32_t number)
{
    aq_listener *listener;
    aq_connection *conn;
    (void)number;
    setenv("AQ_SHM_FOLDER", "/nonexistent/folder", 1);
    open_and_register(0);
    CHECK_REFUSED(aq_listen(play->uri, 0, NULL, &listener), AQ_ESETTING);
    CHECK_STATUS(aq_connect(play->uri, NULL, &conn), AQ_EREFUSED);
    job_close();
}

static bool may_make_namespaces(void)
{
    pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) _exit(unshare(CLONE_NEWNET) == 0 ? 0 : 1);
    int status = 1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0;
}

int main(void)
{
    if (mkdtemp(folder) == NULL) abort();
    setenv("AQ_SHM_FOLDER", folder, 1);
    bool both = may_make_namespaces();
    if (both) {
        play_begin("two namespaces");
        pid_t server = play_start(contained_server, 0), lost = play_start(lost_client, 0);
        play_ended(lost);
        play_ended(play_start(outer_client, 0));
        play_ended(server);
    }
    play_begin("files");
    play_killed(play_start(killed_server, 0));
    play_ended(play_start(next_server, 0));
    play_ended(play_start(folderless, 0));
    if (rmdir(folder) != 0) abort();
    if (both) return 0;
    printf("skipped: this user may not create network namespaces\n");
    return 77;
}
