/*
 * Two processes: a program that sleeps on the handle before each poll, connections opened beside
 * traffic, a program that computes, threads, forks, keepalive of a stopped peer, a peer that dies,
 * and one that stops during a transfer.
 *
 * usage: processes TRANSPORT
 */
#include "side.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    TURNS = 2000,
    WRITES = 400,
    THREADS = 4,
    LEN = 1 << 16,
    BUSY_SENDS = 200,
    STOPPED = 16,
    SLOW = 350,
    LONG_LEN = 1 << 26,
    LONG_STOPS = 6,
    OPENINGS = 50
};

static int (*child_main)(cci_endpoint_t *endpoint, cci_os_handle_t fd);
static int pipes[2];
static pid_t child;

/* Start a process that opens an endpoint, and return the endpoint's URI. */
static char *child_start(int argc, char **argv, int (*run)(cci_endpoint_t *, cci_os_handle_t),
                         bool handle)
{
    static char uri[256];
    cci_os_handle_t fd = -1;
    CHECK(pipe(pipes) == 0);
    child_main = run;
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        side_init(argc, argv);
        cci_endpoint_t *endpoint = side_open(handle ? &fd : NULL);
        char *own = side_uri(endpoint);
        CHECK(write(pipes[1], own, strlen(own) + 1) > 0);
        free(own);
        _exit(run(endpoint, fd));
    }
    struct pollfd written = {.fd = pipes[0], .events = POLLIN};
    int status;
    while (poll(&written, 1, 10) == 0) /* the pipe stays open if it exits */
        if (waitpid(child, &status, WNOHANG) == child)
            exit(WIFEXITED(status) && WEXITSTATUS(status) == 77 ? 77 : 1);
    CHECK(read(pipes[0], uri, sizeof(uri)) > 0);
    return uri;
}

static void child_end(void)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQUAL(status, 0);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

/* Sleep until the handle is readable, then poll once, as programs do. */
static cci_event_t *sleep_for(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    cci_event_t *event;
    int status;
    do {
        CHECK_EQUAL(poll(&wanted, 1, 60000), 1);
        status = cci_get_event(endpoint, &event);
    } while (status == CCI_EAGAIN);
    CHECK_OK(status);
    return event;
}

static cci_event_t *next(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    return fd >= 0 ? sleep_for(endpoint, fd) : side_event(endpoint, NULL);
}

static cci_connection_t *accept_one(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    cci_event_t *event = next(endpoint, fd);
    CHECK_EQUAL(event->type, CCI_EVENT_CONNECT_REQUEST);
    CHECK_OK(cci_accept(event, endpoint));
    CHECK_OK(cci_return_event(event));
    event = next(endpoint, fd);
    CHECK_EQUAL(event->type, CCI_EVENT_ACCEPT);
    CHECK_OK(event->accept.status);
    cci_connection_t *connection = event->accept.connection;
    CHECK_OK(cci_return_event(event));
    return connection;
}

static cci_connection_t *call(cci_endpoint_t *endpoint, cci_os_handle_t fd, const char *uri)
{
    CHECK_OK(cci_connect(endpoint, uri, NULL, 0, CCI_CONN_ATTR_RO, endpoint, 0, NULL));
    cci_event_t *event = next(endpoint, fd);
    CHECK_EQUAL(event->type, CCI_EVENT_CONNECT);
    CHECK_OK(event->connect.status);
    cci_connection_t *connection = event->connect.connection;
    CHECK_OK(cci_return_event(event));
    return connection;
}

/*
 * Answer each message until "bye", whose event is not returned: the endpoint is destroyed while it
 * is held.
 */
static int echo(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    cci_connection_t *connection = accept_one(endpoint, fd);
    for (;;) {
        cci_event_t *event = next(endpoint, fd);
        if (event->type == CCI_EVENT_SEND) {
            CHECK_OK(event->send.status);
        } else {
            CHECK_EQUAL(event->type, CCI_EVENT_RECV);
            if (event->recv.len == 3) break;
            CHECK_OK(cci_send(connection, event->recv.ptr, event->recv.len, NULL, 0));
        }
        CHECK_OK(cci_return_event(event));
    }
    CHECK_OK(cci_destroy_endpoint(endpoint));
    CHECK_OK(cci_finalize());
    return 0;
}

static void say_bye(cci_endpoint_t *endpoint, cci_connection_t *connection, cci_os_handle_t fd)
{
    CHECK_OK(cci_send(connection, "bye", 3, &child, 0));
    cci_event_t *event;
    while ((event = next(endpoint, fd))->type != CCI_EVENT_SEND || event->send.context != &child)
        CHECK_OK(cci_return_event(event));
    CHECK_OK(event->send.status);
    CHECK_OK(cci_destroy_endpoint(endpoint));
}

static void turns(int argc, char **argv, bool handle)
{
    char *uri = child_start(argc, argv, echo, handle);
    cci_os_handle_t fd = -1;
    side_init(argc, argv);
    cci_endpoint_t *endpoint = side_open(handle ? &fd : NULL);
    cci_connection_t *connection = call(endpoint, fd, uri);
    for (uint32_t i = 0; i < TURNS; i++) {
        bool back = false, done = false;
        CHECK_OK(cci_send(connection, &i, sizeof(i), &i, 0));
        while (!back || !done) {
            cci_event_t *event = next(endpoint, fd);
            if (event->type == CCI_EVENT_SEND) {
                CHECK_OK(event->send.status);
                done = true;
            } else {
                CHECK_EQUAL(event->recv.len, sizeof(i));
                CHECK(memcmp(event->recv.ptr, &i, sizeof(i)) == 0);
                back = true;
            }
            CHECK_OK(cci_return_event(event));
        }
    }
    say_bye(endpoint, connection, fd);
    child_end();
    CHECK_OK(cci_finalize());
}

/* Make no calls until a byte arrives on a pipe; the peer's sends complete before that. */
static int compute(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    uint32_t got = 0;
    char go;
    cci_connection_t *connection = accept_one(endpoint, fd);
    CHECK_EQUAL(read(pipes[0], &go, 1), 1);
    while (got < BUSY_SENDS) {
        cci_event_t *event = next(endpoint, fd);
        CHECK_EQUAL(event->type, CCI_EVENT_RECV);
        CHECK(event->recv.connection == connection);
        CHECK(memcmp(event->recv.ptr, &got, sizeof(got)) == 0);
        got++;
        CHECK_OK(cci_return_event(event));
    }
    CHECK_OK(cci_finalize());
    return 0;
}

static void computing(int argc, char **argv)
{
    int back[2];
    CHECK(pipe(back) == 0);
    char *uri = child_start(argc, argv, compute, false);
    side_init(argc, argv);
    cci_endpoint_t *endpoint = side_open(NULL);
    cci_connection_t *connection = call(endpoint, -1, uri);
    for (uint32_t i = 0; i < BUSY_SENDS; i++)
        CHECK_OK(cci_send(connection, &i, sizeof(i), NULL, i % 2 ? CCI_FLAG_BLOCKING : 0));
    for (uint32_t i = 0; i < BUSY_SENDS / 2; i++)
        CHECK_OK(cci_return_event(side_expect(endpoint, NULL, CCI_EVENT_SEND)));
    CHECK(write(pipes[1], "g", 1) == 1);
    child_end();
    CHECK(close(back[0]) == 0 && close(back[1]) == 0);
    CHECK_OK(cci_finalize());
}

/* Accept calls beside messages on the first connection, until that says "bye". */
static int accept_beside(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    static bool accepted[OPENINGS];
    cci_connection_t *first = accept_one(endpoint, fd);
    for (uint32_t called = 0;;) {
        cci_event_t *event = next(endpoint, fd);
        if (event->type == CCI_EVENT_CONNECT_REQUEST) {
            CHECK_OK(cci_accept(event, &accepted[called++]));
        } else if (event->type == CCI_EVENT_ACCEPT) {
            CHECK_OK(event->accept.status);
            *(bool *)event->accept.context = true;
        } else {
            CHECK_EQUAL(event->type, CCI_EVENT_RECV);
            if (event->recv.connection != first)
                CHECK(*(bool *)event->recv.connection->context);
            else if (event->recv.len == 3)
                break;
        }
        CHECK_OK(cci_return_event(event));
    }
    for (int i = 0; i < OPENINGS; i++)
        CHECK(accepted[i]);
    CHECK_OK(cci_finalize());
    return 0;
}

/* A connection is reported before its first message, even if both arrive while the program is
 * occupied with other messages. */
static void opening(int argc, char **argv)
{
    char *uri = child_start(argc, argv, accept_beside, false);
    side_init(argc, argv);
    cci_endpoint_t *endpoint = side_open(NULL);
    cci_connection_t *first = call(endpoint, -1, uri);
    for (int i = 0; i < OPENINGS; i++) {
        cci_event_t *event;
        CHECK_OK(cci_connect(endpoint, uri, NULL, 0, CCI_CONN_ATTR_RU, NULL, 0, NULL));
        while (cci_get_event(endpoint, &event) != CCI_SUCCESS)
            (void)cci_send(first, "x", 1, NULL, CCI_FLAG_SILENT); /* unless there is no room */
        CHECK_EQUAL(event->type, CCI_EVENT_CONNECT);
        CHECK_OK(event->connect.status);
        cci_connection_t *second = event->connect.connection;
        CHECK_OK(cci_send(second, "y", 1, NULL, CCI_FLAG_BLOCKING));
        CHECK_OK(cci_return_event(event));
        CHECK_OK(cci_disconnect(second));
    }
    say_bye(endpoint, first, -1);
    child_end();
    CHECK_OK(cci_finalize());
}

/* Send the handle of registered memory, then check the memory at each completion message. */
static int target(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    static unsigned char memory[THREADS * LEN];
    cci_rma_handle_t *handle;
    cci_connection_t *connection = accept_one(endpoint, fd);
    CHECK_OK(cci_rma_register(endpoint, memory, sizeof(memory), CCI_FLAG_WRITE, &handle));
    CHECK_OK(cci_send(connection, handle, sizeof(*handle), NULL, CCI_FLAG_SILENT));
    for (int i = 0; i < THREADS * WRITES; i++) {
        uint32_t said[2];
        cci_event_t *event = next(endpoint, fd);
        CHECK_EQUAL(event->type, CCI_EVENT_RECV);
        memcpy(said, event->recv.ptr, sizeof(said));
        CHECK(filled(memory + said[0] * LEN, LEN, said[1]));
        CHECK_OK(cci_return_event(event));
        CHECK_OK(cci_send(connection, said, sizeof(said), NULL, CCI_FLAG_SILENT));
    }
    CHECK_EQUAL(next(endpoint, fd)->recv.len, 3);
    CHECK_OK(cci_finalize());
    return 0;
}

static struct {
    cci_connection_t *connection;
    cci_rma_handle_t *local;
    struct cci_rma_handle remote;
    unsigned char memory[THREADS * LEN];
    _Atomic int go[THREADS];
} writer;

static void *write_all(void *arg)
{
    uint32_t self = (uint32_t)(uintptr_t)arg;
    for (uint32_t i = 0; i < WRITES; i++) {
        uint32_t said[2] = {self, i * THREADS + self};
        while (writer.go[self] == 0)
            sched_yield();
        writer.go[self] = 0;
        fill(writer.memory + self * LEN, LEN, said[1]);
        CHECK_OK(cci_rma(writer.connection, said, sizeof(said), writer.local, self * LEN,
                         &writer.remote, self * LEN, LEN, NULL,
                         CCI_FLAG_WRITE | (i % 2 ? CCI_FLAG_SILENT : CCI_FLAG_BLOCKING)));
    }
    return NULL;
}

/* Connect; the peer sends the handle of its memory. Also register `writer.memory`. */
static void writer_open(cci_endpoint_t *endpoint, const char *uri)
{
    writer.connection = call(endpoint, -1, uri);
    cci_event_t *event = side_expect(endpoint, NULL, CCI_EVENT_RECV);
    memcpy(&writer.remote, event->recv.ptr, sizeof(writer.remote));
    CHECK_OK(cci_return_event(event));
    CHECK_OK(cci_rma_register(endpoint, writer.memory, sizeof(writer.memory), 0, &writer.local));
}

/* Threads write on one connection while another thread takes the events. */
static void threads(int argc, char **argv)
{
    pthread_t all[THREADS];
    char *uri = child_start(argc, argv, target, false);
    side_init(argc, argv);
    cci_endpoint_t *endpoint = side_open(NULL);
    writer_open(endpoint, uri);
    for (uintptr_t i = 0; i < THREADS; i++) {
        writer.go[i] = 1;
        CHECK(pthread_create(&all[i], NULL, write_all, (void *)i) == 0);
    }
    for (int i = 0; i < THREADS * WRITES; i++) {
        uint32_t said[2];
        cci_event_t *event = side_expect(endpoint, NULL, CCI_EVENT_RECV);
        memcpy(said, event->recv.ptr, sizeof(said));
        CHECK_OK(cci_return_event(event));
        writer.go[said[0]] = 1;
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
    say_bye(endpoint, writer.connection, -1);
    child_end();
    CHECK_OK(cci_finalize());
}

static int idle(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    (void)accept_one(endpoint, fd);
    for (;;)
        CHECK_OK(cci_return_event(next(endpoint, fd)));
    return 0;
}

/*
 * A stopped peer is reported, and the connection resumes when the peer does; a peer that dies ends
 * it.
 */
static void silence(int argc, char **argv)
{
    uint32_t us = 3000000;
    char *uri = child_start(argc, argv, idle, true);
    side_init(argc, argv);
    cci_endpoint_t *endpoint = side_open(NULL);
    cci_connection_t *connection = call(endpoint, -1, uri);
    cci_event_t *event;
    CHECK_OK(cci_set_opt(connection, CCI_OPT_CONN_KEEPALIVE_TIMEOUT, &us));
    for (double until = side_now() + 1; side_now() < until;)
        CHECK_STATUS(cci_get_event(endpoint, &event), CCI_EAGAIN);
    CHECK(kill(child, SIGSTOP) == 0);
    event = side_expect(endpoint, NULL, CCI_EVENT_KEEPALIVE_TIMEDOUT);
    CHECK(event->keepalive.connection == connection);
    CHECK_OK(cci_return_event(event));
    side_nothing(endpoint);
    CHECK(kill(child, SIGCONT) == 0);
    CHECK_OK(cci_send(connection, "x", 1, NULL, CCI_FLAG_BLOCKING));
    CHECK(kill(child, SIGKILL) == 0);
    double limit = side_now() + TIMEOUT;
    while (cci_send(connection, "x", 1, NULL, CCI_FLAG_BLOCKING) != CCI_ERR_DISCONNECTED)
        CHECK(side_now() < limit);
    CHECK_EQUAL(waitpid(child, NULL, 0), child);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
    CHECK_OK(cci_finalize());
}

/* Show memory, then stop. */
static int stop(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    static unsigned char memory[LEN];
    cci_rma_handle_t *handle;
    cci_connection_t *connection = accept_one(endpoint, fd);
    CHECK_OK(cci_rma_register(endpoint, memory, sizeof(memory), CCI_FLAG_READ, &handle));
    CHECK_OK(cci_send(connection, handle, sizeof(*handle), NULL, CCI_FLAG_BLOCKING));
    CHECK(raise(SIGSTOP) == 0);
    return 1;
}

static void expect_send(cci_endpoint_t *endpoint, const void *context, enum cci_status status)
{
    cci_event_t *event = side_expect(endpoint, NULL, CCI_EVENT_SEND);
    CHECK(event->send.context == context);
    CHECK_STATUS(event->send.status, status);
    CHECK_OK(cci_return_event(event));
}

/*
 * A transfer from a peer that is stopped keeps neither sends from timing out, whether they have
 * left or wait for its message, nor the program from disconnecting.
 */
static void stopped_in_transfer(int argc, char **argv, uint32_t message)
{
    const enum cci_status late = message == 0 ? CCI_ETIMEDOUT : CCI_ERR_RNR;
    const uint32_t us = 10000;
    int contexts[3];
    char *uri = child_start(argc, argv, stop, false);
    int status;
    side_init(argc, argv);
    cci_endpoint_t *endpoint = side_open(NULL);
    writer_open(endpoint, uri);
    CHECK_EQUAL(waitpid(child, &status, WUNTRACED), child);
    CHECK(WIFSTOPPED(status));
    CHECK_OK(cci_set_opt(writer.connection, CCI_OPT_CONN_SEND_TIMEOUT, &us));
    CHECK_OK(cci_rma(writer.connection, "done", message, writer.local, 0, &writer.remote, 0, LEN,
                     NULL, CCI_FLAG_READ));
    for (int i = 0; i < 2; i++)
        CHECK_OK(cci_send(writer.connection, "x", 1, &contexts[i], 0));
    expect_send(endpoint, &contexts[0], late);
    expect_send(endpoint, &contexts[1], late);
    CHECK_OK(cci_send(writer.connection, "x", 1, &contexts[2], 0)); /* the connection is ordered */
    expect_send(endpoint, &contexts[2], late);
    CHECK_STATUS(cci_send(writer.connection, "x", 1, NULL, CCI_FLAG_BLOCKING), late);
    double began = side_now();
    CHECK_OK(cci_disconnect(writer.connection));
    CHECK(side_now() < began + TIMEOUT);
    side_nothing(endpoint);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK_EQUAL(waitpid(child, NULL, 0), child);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
    CHECK_OK(cci_destroy_endpoint(endpoint));
    CHECK_OK(cci_finalize());
}

/* Written by the child; it is stopped again and again. */
static struct {
    unsigned char *memory;
    atomic_bool ended;
} slowed;

/* Offer the memory, which is shared with the parent. */
static int offer(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    cci_rma_handle_t *handle;
    cci_connection_t *connection = accept_one(endpoint, fd);
    CHECK_OK(cci_rma_register(endpoint, slowed.memory, LONG_LEN, CCI_FLAG_WRITE, &handle));
    CHECK_OK(cci_send(connection, handle, sizeof(*handle), NULL, CCI_FLAG_SILENT));
    for (;;)
        CHECK_OK(cci_return_event(next(endpoint, fd)));
    return 0;
}

/* Stop the child for a while after each of LONG_STOPS parts of the transfer. */
static void *stop_often(void *arg)
{
    const struct timespec pause = {.tv_nsec = 450000000};
    const size_t part = LONG_LEN / (LONG_STOPS + 1);
    (void)arg;
    for (size_t i = 1; i <= LONG_STOPS; i++) {
        const _Atomic unsigned char *last = (void *)(slowed.memory + i * part);
        while (*last == 0 && !slowed.ended)
            sched_yield();
        if (slowed.ended) break;
        CHECK(kill(child, SIGSTOP) == 0);
        CHECK(nanosleep(&pause, NULL) == 0);
        CHECK(kill(child, SIGCONT) == 0);
    }
    return NULL;
}

/* A program that disconnects completes its transfer, though that takes several seconds. */
static void long_transfer(int argc, char **argv, bool destroy)
{
    static unsigned char bytes[LONG_LEN];
    cci_rma_handle_t *local;
    struct cci_rma_handle remote;
    pthread_t thread;
    slowed.memory = mmap(NULL, LONG_LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(slowed.memory != MAP_FAILED);
    slowed.ended = false;
    char *uri = child_start(argc, argv, offer, false);
    side_init(argc, argv);
    cci_endpoint_t *endpoint = side_open(NULL);
    cci_connection_t *connection = call(endpoint, -1, uri);
    cci_event_t *event = side_expect(endpoint, NULL, CCI_EVENT_RECV);
    memcpy(&remote, event->recv.ptr, sizeof(remote));
    CHECK_OK(cci_return_event(event));
    memset(bytes, 1, LONG_LEN);
    CHECK_OK(cci_rma_register(endpoint, bytes, LONG_LEN, 0, &local));
    CHECK(pthread_create(&thread, NULL, stop_often, NULL) == 0);
    CHECK_OK(cci_rma(connection, NULL, 0, local, 0, &remote, 0, LONG_LEN, NULL, CCI_FLAG_WRITE));
    CHECK_OK(destroy ? cci_destroy_endpoint(endpoint) : cci_disconnect(connection));
    slowed.ended = true;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(memcmp(slowed.memory, bytes, LONG_LEN) == 0);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK_EQUAL(waitpid(child, NULL, 0), child);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
    CHECK(munmap(slowed.memory, LONG_LEN) == 0);
    CHECK_OK(cci_finalize());
}

static int accept_all(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    for (;;) {
        cci_event_t *event = next(endpoint, fd);
        if (event->type == CCI_EVENT_CONNECT_REQUEST) CHECK_OK(cci_accept(event, NULL));
        CHECK_OK(cci_return_event(event));
    }
    return 0;
}

/* An endpoint does not wait for each of its connections to a stopped peer. */
static void stopped(int argc, char **argv)
{
    cci_connection_t *connections[STOPPED];
    char *uri = child_start(argc, argv, accept_all, true);
    side_init(argc, argv);
    cci_endpoint_t *endpoint = side_open(NULL);
    for (int i = 0; i < STOPPED; i++)
        connections[i] = call(endpoint, -1, uri);
    CHECK(kill(child, SIGSTOP) == 0);
    CHECK_EQUAL(waitpid(child, NULL, WUNTRACED), child);
    for (int i = 0; i < STOPPED; i++)
        CHECK_OK(cci_send(connections[i], "x", 1, NULL, 0));
    double begun = side_now();
    CHECK_OK(cci_destroy_endpoint(endpoint));
    CHECK(side_now() - begun < STOPPED);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK_EQUAL(waitpid(child, NULL, 0), child);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
    CHECK_OK(cci_finalize());
}

static struct {
    atomic_bool leaving, left;
    unsigned trips; /* while `leaving` */
} others;

/* Send a message to and fro on a connection of its own. */
static void *go_on(void *arg)
{
    cci_endpoint_t *endpoint = side_open(NULL);
    char *uri = side_uri(endpoint);
    (void)arg;
    CHECK_OK(cci_connect(endpoint, uri, NULL, 0, CCI_CONN_ATTR_RO, NULL, 0, NULL));
    while (!others.left) {
        cci_event_t *event;
        if (cci_get_event(endpoint, &event) != CCI_SUCCESS) continue;
        if (event->type == CCI_EVENT_CONNECT_REQUEST) CHECK_OK(cci_accept(event, NULL));
        if (event->type == CCI_EVENT_CONNECT)
            CHECK_OK(cci_send(event->connect.connection, "x", 1, NULL, CCI_FLAG_SILENT));
        if (event->type == CCI_EVENT_RECV) {
            others.trips += others.leaving;
            CHECK_OK(cci_send(event->recv.connection, "x", 1, NULL, CCI_FLAG_SILENT));
        }
        CHECK_OK(cci_return_event(event));
    }
    free(uri);
    CHECK_OK(cci_destroy_endpoint(endpoint));
    return NULL;
}

static void *begin_again(void *arg)
{
    (void)arg;
    while (!others.leaving)
        sched_yield();
    uint32_t caps;
    CHECK_OK(cci_init(CCI_ABI_VERSION, 0, &caps));
    cci_endpoint_t *endpoint = NULL;
    CHECK_OK(cci_create_endpoint(NULL, 0, &endpoint, NULL));
    CHECK_OK(cci_finalize());
    return NULL;
}

/*
 * A thread that disconnects from a stopped peer waits alone. Another one may initialize the library
 * while it is closed.
 */
static void stopped_and_threads(int argc, char **argv)
{
    enum { TRIPS = 100 };
    pthread_t thread;
    char *uri = child_start(argc, argv, accept_all, true);
    side_init(argc, argv);
    cci_endpoint_t *endpoint = side_open(NULL);
    cci_connection_t *first = call(endpoint, -1, uri), *second = call(endpoint, -1, uri);
    CHECK(kill(child, SIGSTOP) == 0);
    CHECK_EQUAL(waitpid(child, NULL, WUNTRACED), child);
    CHECK_OK(cci_send(first, "x", 1, NULL, 0));
    CHECK_OK(cci_send(second, "x", 1, NULL, 0));
    CHECK(pthread_create(&thread, NULL, go_on, NULL) == 0);
    others.leaving = true;
    CHECK_OK(cci_disconnect(first));
    others.leaving = false;
    others.left = true;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(others.trips >= TRIPS);
    CHECK(pthread_create(&thread, NULL, begin_again, NULL) == 0);
    others.leaving = true;
    CHECK_OK(cci_finalize());
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK_EQUAL(waitpid(child, NULL, 0), child);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
}

static int take_slowly(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    (void)accept_one(endpoint, fd);
    for (int i = 0; i < SLOW; i++) {
        const struct timespec pause = {.tv_nsec = 15000000};
        CHECK_OK(cci_return_event(side_expect(endpoint, NULL, CCI_EVENT_RECV)));
        CHECK(nanosleep(&pause, NULL) == 0);
    }
    CHECK_OK(cci_finalize());
    return 0;
}

/* An endpoint that is destroyed delivers its messages, though the peer takes seconds for them. */
static void slow(int argc, char **argv)
{
    static unsigned char bytes[1 << 16];
    char *uri = child_start(argc, argv, take_slowly, false);
    side_init(argc, argv);
    cci_endpoint_t *endpoint = side_open(NULL);
    cci_connection_t *connection = call(endpoint, -1, uri);
    for (int i = 0; i < SLOW; i++)
        CHECK_OK(cci_send(connection, bytes, connection->max_send_size, NULL, CCI_FLAG_SILENT));
    CHECK_OK(cci_destroy_endpoint(endpoint));
    child_end();
    CHECK_OK(cci_finalize());
}

/*
 * A forked child lacks the threads of its parent, so memory to which only their own variables
 * refer, such as libcrypto's, looks leaked there. The leak sanitizer asks this before its check at
 * exit.
 */
static bool in_fork_child;
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return in_fork_child;
}

/* A forked child may clean up, and exit, without any effect on the parent. */
static void forked(int argc, char **argv)
{
    char *uri = child_start(argc, argv, echo, false);
    int status;
    side_init(argc, argv);
    cci_endpoint_t *endpoint = side_open(NULL), *another;
    cci_connection_t *connection = call(endpoint, -1, uri);
    pid_t fork_child = fork();
    CHECK(fork_child >= 0);
    if (fork_child == 0) {
        uint32_t caps;
        in_fork_child = true;
        CHECK_STATUS(cci_init(CCI_ABI_VERSION, 0, &caps), CCI_ERROR);
        CHECK_STATUS(cci_create_endpoint(NULL, 0, &another, NULL), CCI_ERROR);
        CHECK_OK(cci_disconnect(connection));
        CHECK_OK(cci_destroy_endpoint(endpoint));
        CHECK_OK(cci_finalize());
        exit(0);
    }
    CHECK_EQUAL(waitpid(fork_child, &status, 0), fork_child);
    CHECK_EQUAL(status, 0);
    CHECK_OK(cci_send(connection, "still", 5, NULL, CCI_FLAG_SILENT));
    cci_event_t *event = side_expect(endpoint, NULL, CCI_EVENT_RECV);
    CHECK(event->recv.len == 5 && memcmp(event->recv.ptr, "still", 5) == 0);
    CHECK_OK(cci_return_event(event));
    say_bye(endpoint, connection, -1);
    child_end();
    CHECK_OK(cci_finalize());
}

int main(int argc, char **argv)
{
    const char *transport = argc > 1 ? argv[1] : "sm";
    char *copy[] = {argv[0], (char *)(uintptr_t)transport, NULL};
    turns(2, copy, true);
    turns(2, copy, false);
    opening(2, copy);
    computing(2, copy);
    threads(2, copy);
    forked(2, copy);
    silence(2, copy);
    stopped(2, copy);
    stopped_in_transfer(2, copy, 0);
    stopped_in_transfer(2, copy, 4);
    long_transfer(2, copy, false);
    long_transfer(2, copy, true);
    stopped_and_threads(2, copy);
    slow(2, copy);
    return 0;
}
