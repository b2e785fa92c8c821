/*
 * Each listener has a queue and a descriptor. An event is in the queue of its listener and in that
 * of the process, and is taken once; the descriptor is readable exactly while the listener's queue
 * has events.
 *
 * Race: threads of a server sleep, several on each descriptor, while another thread makes progress
 * ("poller": one of the program; otherwise AQ_PROGRESS_THREAD) and clients come and go. An event
 * whose wake-up is lost keeps its client waiting.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LISTENERS = 3, SLEEPERS = 2, CLIENTS = 4, VISITS = 200, TIMEOUT_MS = 60000 };
enum { LISTENS = 0, CALL, CALLED, LEAVE };

static char (*uris)[256]; /* shared by all processes */

static bool has_poller;

static aq_listener *listen_as(unsigned number)
{
    aq_listener *listener;
    const char *uri = play_far() ? "udp://127.0.0.1:0" : NULL;
    CHECK_OK(aq_listen(uri, 0, &uris[number], &listener));
    strcpy(uris[number], aq_listener_uri(listener));
    return listener;
}

static int fd_of(aq_listener *listener)
{
    int fd, again;
    CHECK_OK(aq_listener_fd(listener, &fd));
    CHECK_OK(aq_listener_fd(listener, &again));
    CHECK_EQUAL(fd, again);
    return fd;
}

static bool is_readable(int fd)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    return poll(&wanted, 1, 0) == 1;
}

static int becomes_readable(void *arg)
{
    return is_readable(*(int *)arg);
}

static void await_readable(int fd)
{
    CHECK_OK(aq_poll_until(becomes_readable, &fd, AQ_FOREVER));
}

/* --- one thread ------------------------------------------------------------------------------ */

static void call_at(const char *uri, aq_connection **conn)
{
    aq_connect_params params = aq_connect_defaults();
    params.timeout_ns = 30000000000u;
    CHECK_OK(aq_connect_start(uri, &params, conn));
}

/* Calls the second listener, then the first, each when its flag is set. */
static void caller(uint32_t number)
{
    aq_connection *conns[2];
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    role_await(LISTENS, 1);
    for (uint32_t i = 0; i < 2; i++) {
        role_await(CALL, i + 1);
        call_at(uris[1 - i], &conns[i]);
        CHECK_OK(aq_connect_wait(conns[i]));
        atomic_store(&play->flag[CALLED], i + 1);
    }
    for (uint32_t i = 0; i < 2; i++) {
        role_poll_await(LEAVE, i + 1);
        CHECK_OK(aq_connection_close(conns[i]));
    }
    job_close();
}

static aq_connection_event take_from(aq_listener *listener, aq_connection_event_type type)
{
    aq_connection_event event;
    CHECK_OK(aq_listener_next_event(listener, &event));
    CHECK_EQUAL(event.type, type);
    return event;
}

static void check_empty(aq_listener *listener, int fd)
{
    aq_connection_event event;
    CHECK(!is_readable(fd));
    CHECK_STATUS(aq_listener_next_event(listener, &event), AQ_AGAIN);
}

/* The events of the second listener are in its own queue, and only its descriptor becomes
 * readable. */
static aq_connection *take_second(aq_listener *const listeners[2], const int fds[2])
{
    atomic_store(&play->flag[CALL], 1);
    await_readable(fds[1]);
    check_empty(listeners[0], fds[0]);
    aq_connection_event event = take_from(listeners[1], AQ_CONNECTION_REQUEST);
    CHECK(event.listener == listeners[1] && event.context == &uris[1]);
    check_empty(listeners[1], fds[1]);
    CHECK_OK(aq_connection_accept(event.connection, NULL));
    await_readable(fds[1]);
    CHECK(take_from(listeners[1], AQ_CONNECTION_OPENED).connection == event.connection);
    check_empty(listeners[1], fds[1]);
    role_poll_await(CALLED, 1);
    return event.connection;
}

/* The events of the first listener are taken from the queue of the process. */
static aq_connection *take_first(aq_listener *listener, int fd)
{
    atomic_store(&play->flag[CALL], 2);
    await_readable(fd);
    aq_connection_event event = next_event();
    CHECK(event.type == AQ_CONNECTION_REQUEST && event.listener == listener);
    check_empty(listener, fd);
    CHECK_OK(aq_connection_accept(event.connection, NULL));
    await_readable(fd);
    expect_event(AQ_CONNECTION_OPENED);
    check_empty(listener, fd);
    role_poll_await(CALLED, 2);
    return event.connection;
}

static void server(uint32_t number)
{
    aq_listener *listeners[2];
    aq_connection *conns[2];
    int fds[2];
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    for (unsigned i = 0; i < 2; i++) {
        listeners[i] = listen_as(i);
        fds[i] = fd_of(listeners[i]);
    }
    CHECK(fds[0] != fds[1]);
    atomic_store(&play->flag[LISTENS], 1);
    conns[1] = take_second(listeners, fds);
    conns[0] = take_first(listeners[0], fds[0]);
    /* When the listener is closed, its connections still cause events. */
    CHECK_OK(aq_listener_close(listeners[1]));
    CHECK(fcntl(fds[1], F_GETFD) == -1 && errno == EBADF);
    atomic_store(&play->flag[LEAVE], 1);
    CHECK(expect_event(AQ_CONNECTION_CLOSED).connection == conns[1]);
    CHECK_OK(aq_connection_close(conns[1]));
    /* A connection that is closed while its event waits takes the event with it. */
    atomic_store(&play->flag[LEAVE], 2);
    await_readable(fds[0]);
    CHECK_OK(aq_connection_close(conns[0]));
    check_empty(listeners[0], fds[0]);
    job_close();
}

static int is_open(void *arg)
{
    return aq_connection_team(arg) != NULL;
}

/* A descriptor that is requested when an event is already there. */
static void late(uint32_t number)
{
    aq_connection *conn;
    aq_connection_event event;
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    aq_listener *listener = listen_as(0);
    call_at(uris[0], &conn);
    do
        CHECK(aq_poll() >= AQ_OK);
    while (aq_listener_next_event(listener, &event) == AQ_AGAIN);
    CHECK_OK(aq_connection_accept(event.connection, NULL));
    CHECK_OK(aq_poll_until(is_open, event.connection, AQ_FOREVER));
    int fd = fd_of(listener);
    CHECK(is_readable(fd));
    CHECK(take_from(listener, AQ_CONNECTION_OPENED).connection == event.connection);
    check_empty(listener, fd);
    job_close();
}

/* --- several threads -------------------------------------------------------------------------- */

static struct {
    _Atomic uint32_t ended;
    int over; /* an eventfd, never read */
} race;

static int is_over(void *arg)
{
    (void)arg;
    return atomic_load(&race.ended) == CLIENTS * VISITS;
}

static void take_all(aq_listener *listener)
{
    aq_connection_event event;
    uint64_t one = 1;
    while (aq_listener_next_event(listener, &event) == AQ_OK) {
        if (event.type == AQ_CONNECTION_REQUEST) {
            CHECK(event.listener == listener);
            CHECK_OK(aq_connection_accept(event.connection, NULL));
        } else if (event.type != AQ_CONNECTION_OPENED) {
            CHECK_EQUAL(event.type, AQ_CONNECTION_CLOSED);
            CHECK_OK(aq_connection_close(event.connection));
            if (atomic_fetch_add(&race.ended, 1) + 1 == CLIENTS * VISITS)
                CHECK(write(race.over, &one, sizeof(one)) == sizeof(one));
        }
    }
}

static void *sleeper(void *arg)
{
    aq_listener *listener = arg;
    struct pollfd fds[] = {{.fd = fd_of(listener), .events = POLLIN},
                           {.fd = race.over, .events = POLLIN}};
    while (!is_over(NULL)) {
        CHECK(poll(fds, COUNT_OF(fds), TIMEOUT_MS) > 0); /* otherwise a wake-up was lost */
        take_all(listener);
    }
    return NULL;
}

static void racing_server(uint32_t number)
{
    aq_listener *listeners[LISTENERS];
    pthread_t threads[LISTENERS * SLEEPERS];
    (void)number;
    role_open(AQ_THREAD_MULTIPLE, 0);
    CHECK(has_poller || aq_job_progress_thread());
    race.over = eventfd(0, EFD_CLOEXEC);
    CHECK(race.over >= 0);
    for (unsigned i = 0; i < LISTENERS; i++)
        listeners[i] = listen_as(i);
    for (unsigned i = 0; i < COUNT_OF(threads); i++)
        CHECK(pthread_create(&threads[i], NULL, sleeper, listeners[i % LISTENERS]) == 0);
    atomic_store(&play->flag[LISTENS], 1);
    if (has_poller) CHECK_OK(aq_poll_until(is_over, NULL, AQ_FOREVER));
    for (unsigned i = 0; i < COUNT_OF(threads); i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (unsigned i = 0; i < LISTENERS; i++)
        CHECK_OK(aq_listener_close(listeners[i]));
    job_close();
}

static void visitor(uint32_t number)
{
    aq_connect_params params = aq_connect_defaults();
    aq_connection *conn;
    params.timeout_ns = 50000000000u;
    role_open(AQ_THREAD_SINGLE, 0);
    role_await(LISTENS, 1);
    for (uint32_t i = 0; i < VISITS; i++) {
        CHECK_OK(aq_connect(uris[(number + i) % LISTENERS], &params, &conn));
        CHECK_OK(aq_connection_close(conn));
    }
    job_close();
}

static void races(void)
{
    pid_t clients[CLIENTS];
    play_begin("race");
    pid_t one = play_start(racing_server, 0);
    for (uint32_t i = 0; i < CLIENTS; i++)
        clients[i] = play_start(visitor, i);
    for (uint32_t i = 0; i < CLIENTS; i++)
        play_ended(clients[i]);
    play_ended(one);
}

int main(int argc, char **argv)
{
    has_poller = argc < 2 || strcmp(argv[1], "thread") != 0;
    uris = mmap(NULL, sizeof(*uris) * LISTENERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    CHECK(uris != MAP_FAILED);
    if (has_poller) {
        play_begin("two listeners");
        pid_t one = play_start(server, 0), other = play_start(caller, 0);
        play_ended(other);
        play_ended(one);
        play_begin("late");
        play_ended(play_start(late, 0));
    }
    races();
    return 0;
}
