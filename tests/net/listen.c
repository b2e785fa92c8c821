/*
 * A server that sleeps and prints a line for each event; or its client, which stays until its
 * standard input ends.
 *
 *   net_listen poll|block|listener URI    sleeps on aq_wait_fd; in a blocking call; on the
 *                                         descriptor of the listener (AQ_PROGRESS_THREAD=yes)
 *   net_listen call URI
 */
#include "../core/support.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static aq_listener *listener;

static void say(const char *what, const aq_connection_event *event)
{
    printf("%s%s%s\n", what, event->status != AQ_OK ? " " : "",
           event->status != AQ_OK ? aq_status_name(event->status) : "");
    fflush(stdout);
}

static void take(const aq_connection_event *event)
{
    switch (event->type) {
    case AQ_CONNECTION_REQUEST:
        CHECK_OK(aq_connection_accept(event->connection, NULL));
        break;
    case AQ_CONNECTION_OPENED:
        say("opened", event);
        break;
    case AQ_LISTENER_DOWN:
    case AQ_LISTENER_UP:
        CHECK(event->connection == NULL && event->listener == listener);
        CHECK(event->context == &listener);
        say(event->type == AQ_LISTENER_DOWN ? "down" : "up", event);
        break;
    default:
        say("ended", event);
        CHECK_OK(aq_connection_close(event->connection));
    }
}

static int take_all(void *arg)
{
    aq_connection_event event;
    int n = 0;
    (void)arg;
    for (; aq_connection_next_event(&event) == AQ_OK; n++)
        take(&event);
    return n;
}

static void sleep_in_poll(void)
{
    struct pollfd wanted = {.events = POLLIN};
    CHECK_OK(aq_wait_fd(&wanted.fd));
    if (aq_wait_prepare() == AQ_OK) CHECK(poll(&wanted, 1, -1) == 1);
    CHECK(aq_poll() >= AQ_OK);
    (void)take_all(NULL);
}

static void sleep_in_call(void)
{
    CHECK_OK(aq_poll_until(take_all, NULL, AQ_FOREVER));
}

static void sleep_on_listener(void)
{
    struct pollfd wanted = {.events = POLLIN};
    aq_connection_event event;
    CHECK(aq_job_progress_thread());
    CHECK_OK(aq_listener_fd(listener, &wanted.fd));
    CHECK(poll(&wanted, 1, -1) == 1);
    while (aq_listener_next_event(listener, &event) == AQ_OK)
        take(&event);
}

static int call(const char *uri)
{
    aq_connect_params params = aq_connect_defaults();
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    aq_connection *connection;
    params.flags = AQ_CONNECT_ANYBODY;
    CHECK_OK(aq_connect(uri, &params, &connection));
    puts("connected");
    fflush(stdout);
    while (poll(&input, 1, 1) == 0)
        CHECK(aq_poll() >= AQ_OK);
    CHECK_OK(aq_connection_close(connection));
    job_close();
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*once)(void);
    } ways[] = {{"poll", sleep_in_poll}, {"block", sleep_in_call}, {"listener", sleep_on_listener}};
    CHECK(argc == 3);
    job_open(AQ_THREAD_SINGLE, 0);
    if (strcmp(argv[1], "call") == 0) return call(argv[2]);
    CHECK_OK(aq_listen(argv[2], AQ_LISTEN_ANYBODY, &listener, &listener));
    printf("listening at %s\n", aq_listener_uri(listener));
    fflush(stdout);
    for (;;)
        for (unsigned i = 0; i < COUNT_OF(ways); i++)
            if (strcmp(argv[1], ways[i].name) == 0) ways[i].once();
}
