/* Starts processes in roles, and does what most roles do. */
#include "harness.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct play *play;

bool play_far(void)
{
    const char *transport = getenv("AQT_CONN");
    return transport != NULL && strcmp(transport, "udp") == 0;
}

/* A free port, below the ephemeral ones. */
static unsigned free_port(unsigned number)
{
    for (unsigned tries = 0; tries < 1000; tries++) {
        unsigned port =
            10000 + (unsigned)(mix((uint64_t)getpid() * 1000003 + number * 1009 + tries) % 20000);
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        bool is_free = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
        close(fd);
        if (is_free) return port;
    }
    abort();
}

/* Each process of a play inherits the descriptor of the secret. */
static void share_secret(unsigned number)
{
    static int fd = -1;
    char setting[32], bytes[64];
    if (fd >= 0) close(fd);
    fd = memfd_create("secret", 0);
    int n = snprintf(bytes, sizeof(bytes), "the secret of %d, number %u", (int)getpid(), number);
    if (fd < 0 || pwrite(fd, bytes, (size_t)n, 0) != n) abort();
    snprintf(setting, sizeof(setting), "fd:%d", fd);
    if (getenv("AQT_CONN_OPEN") == NULL) setenv("AQ_CONNECT_SECRET", setting, 1);
}

/* Skip the test without libcrypto, where the library reports that udp cannot listen. */
static void skip_if_missing(void)
{
    int status;
    aq_listener *listener;
    pid_t process = fork();
    if (process < 0) abort();
    if (process == 0) {
        role_open(AQ_THREAD_SINGLE, 0);
        aq_status st = aq_listen("udp://127.0.0.1:0", AQ_LISTEN_ANYBODY, NULL, &listener);
        _exit(st == AQ_ENOTSUP ? 77 : 0);
    }
    if (waitpid(process, &status, 0) != process) abort();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 77) return;
    printf("skipped: udp is not usable here\n");
    exit(77);
}

void play_begin(const char *name)
{
    static unsigned number;
    if (play == NULL && play_far()) skip_if_missing();
    if (play == NULL)
        play = mmap(NULL, sizeof(*play), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (play == MAP_FAILED) abort();
    memset(play, 0, sizeof(*play));
    number++;
    if (play_far()) {
        snprintf(play->uri, sizeof(play->uri), "udp://127.0.0.1:%u", free_port(number));
        share_secret(number);
    } else {
        snprintf(play->uri, sizeof(play->uri), "shm:///test/%d/%u", (int)getpid(), number);
    }
    printf("%s\n", name);
    fflush(stdout);
}

pid_t play_start(void (*role)(uint32_t number), uint32_t number)
{
    pid_t pid = fork();
    if (pid < 0) abort();
    if (pid > 0) return pid;
    alarm(200);
    role(number);
    exit(0);
}

static int status_of(pid_t process)
{
    int status;
    if (waitpid(process, &status, 0) != process) abort();
    return status;
}

void play_ended(pid_t process)
{
    int status = status_of(process);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    fprintf(stderr, "process %d ended with status %#x\n", (int)process, (unsigned)status);
    exit(1);
}

void play_killed(pid_t process)
{
    int status = status_of(process);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return;
    fprintf(stderr, "process %d ended with status %#x, not by SIGKILL\n", (int)process,
            (unsigned)status);
    exit(1);
}

void role_open(aq_thread_mode mode, size_t segment)
{
    job_open(mode, segment);
    CHECK_EQUAL(job.size, 1);
}

void role_await(unsigned flag, uint32_t value)
{
    while (atomic_load(&play->flag[flag]) < value)
        sched_yield();
}

void role_poll_await(unsigned flag, uint32_t value)
{
    job_await(&play->flag[flag], value);
}

static int has_event(void *arg)
{
    aq_status st = aq_connection_next_event(arg);
    CHECK(st == AQ_OK || st == AQ_AGAIN);
    return st == AQ_OK;
}

aq_connection_event next_event(void)
{
    aq_connection_event event;
    CHECK_OK(aq_poll_until(has_event, &event, AQ_FOREVER));
    return event;
}

aq_connection_event expect_event(aq_connection_event_type type)
{
    aq_connection_event event = next_event();
    if (event.type != type) {
        aq_connection_info info;
        CHECK_OK(aq_connection_query(event.connection, &info));
        fprintf(stderr, "event %d where %d is expected: %s %s\n", (int)event.type, (int)type,
                aq_status_name(event.status), info.reason);
    }
    CHECK_EQUAL(event.type, type);
    return event;
}

aq_listener *listen_here(void)
{
    aq_listener *listener;
    CHECK_OK(aq_listen(play->uri, 0, NULL, &listener));
    CHECK(strcmp(aq_listener_uri(listener), play->uri) == 0);
    return listener;
}

aq_connection *accept_one(void *context)
{
    aq_accept_params params = {.struct_size = sizeof(params), .context = context};
    aq_connection *conn = expect_event(AQ_CONNECTION_REQUEST).connection;
    CHECK_OK(aq_connection_accept(conn, &params));
    CHECK(expect_event(AQ_CONNECTION_OPENED).connection == conn);
    return conn;
}

aq_connection *connect_here(void *context)
{
    return connect_with(0, context);
}

aq_connection *connect_with(unsigned flags, void *context)
{
    aq_connect_params params = aq_connect_defaults();
    aq_connection *conn;
    params.flags = AQ_CONNECT_WAIT | flags;
    params.context = context;
    params.timeout_ns = 30000000000u;
    CHECK_OK(aq_connect(play->uri, &params, &conn));
    return conn;
}

unsigned serve(unsigned ends)
{
    unsigned lost = 0;
    while (ends > 0) {
        aq_connection_event event = next_event();
        if (event.type == AQ_CONNECTION_REQUEST) {
            aq_status st = aq_connection_accept(event.connection, NULL);
            if (st == AQ_OK) continue;
            CHECK_EQUAL(st, AQ_EPEER); /* the client was killed meanwhile */
        } else if (event.type == AQ_CONNECTION_OPENED) {
            continue;
        }
        lost += event.type != AQ_CONNECTION_CLOSED;
        CHECK_OK(aq_connection_close(event.connection));
        ends--;
    }
    return lost;
}

unsigned count_fds(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

unsigned count_maps(void)
{
    char line[512];
    unsigned n = 0, bells = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL) {
        n += strstr(line, "memfd:") != NULL;
        bells += strstr(line, "memfd:aq-bell") != NULL;
    }
    fclose(maps);
    return bells != 0 ? n - 1 : n; /* the bell of this process stays */
}
