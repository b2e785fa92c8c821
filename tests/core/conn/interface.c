/*
 * The events of a listener whose interface goes down and comes back, as a transport reports it: an
 * event that the program has not taken yet is replaced by a newer one.
 */
#include "core/conn/conn.h"
#include "harness.h"

#include <poll.h>

static int context;
static aq_listener *listener;

static void report(aq_status status)
{
    aqi_spin_lock(&conns.lock);
    conn_listener_interface(NULL, listener, status);
    aqi_spin_unlock(&conns.lock);
}

static void expect(aq_connection_event_type type, aq_status status)
{
    aq_connection_event event;
    CHECK_OK(aq_listener_next_event(listener, &event));
    CHECK(event.type == type && event.status == status);
    CHECK(event.listener == listener && event.context == &context && event.connection == NULL);
}

static void expect_none(int fd)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    aq_connection_event event;
    CHECK_EQUAL(poll(&wanted, 1, 0), 0);
    CHECK_STATUS(aq_listener_next_event(listener, &event), AQ_AGAIN);
    CHECK_STATUS(aq_connection_next_event(&event), AQ_AGAIN);
}

static void server(uint32_t number)
{
    aq_connection_event event;
    int fd;
    (void)number;
    role_open(AQ_THREAD_SINGLE, 0);
    CHECK_OK(aq_listen(play->uri, 0, &context, &listener));
    CHECK_OK(aq_listener_fd(listener, &fd));
    report(AQ_ESTATE);
    expect(AQ_LISTENER_DOWN, AQ_ESTATE);
    report(AQ_EINVAL); /* another cause */
    expect(AQ_LISTENER_DOWN, AQ_EINVAL);
    report(AQ_OK);
    expect(AQ_LISTENER_UP, AQ_OK);
    expect_none(fd);
    /* Without taking the event in between. */
    report(AQ_ESTATE);
    report(AQ_EINVAL);
    report(AQ_OK);
    expect(AQ_LISTENER_DOWN, AQ_EINVAL);
    expect(AQ_LISTENER_UP, AQ_OK);
    expect_none(fd);
    report(AQ_EPEER);
    report(AQ_OK);
    report(AQ_ESTATE);
    expect(AQ_LISTENER_DOWN, AQ_ESTATE);
    expect_none(fd);
    /* The event is also in the queue of the process, and goes with the listener. */
    report(AQ_OK);
    CHECK(next_event().type == AQ_LISTENER_UP);
    expect_none(fd);
    report(AQ_ESTATE);
    CHECK_OK(aq_listener_close(listener));
    CHECK_STATUS(aq_connection_next_event(&event), AQ_AGAIN);
    job_close();
}

int main(void)
{
    play_begin("interface");
    play_ended(play_start(server, 0));
    return 0;
}
