/*
 * The handle of an endpoint is readable while there are events, whichever call or thread has made
 * the progress, and not for long if there are none.
 *
 * usage: handles TRANSPORT
 */
#include "side.h"

#include <poll.h>

enum { MESSAGES = 300, ROUNDS = 500 };

static bool is_readable(cci_os_handle_t fd)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    int n = poll(&wanted, 1, 0);
    CHECK(n >= 0);
    return n == 1;
}

/* Other threads may poll other endpoints without a pause while one sleeps on its handle. */
static void other_endpoint(void)
{
    struct pair pair;
    cci_os_handle_t fd = -1, other = -1;
    cci_event_t *event;
    pair.caller = side_open(&other);
    pair.called = side_open(&fd);
    pair_connect(&pair, CCI_CONN_ATTR_RO, NULL, NULL);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        CHECK_STATUS(cci_get_event(pair.called, &event), CCI_EAGAIN);
        CHECK_OK(cci_send(pair.out, &i, sizeof(i), NULL, CCI_FLAG_BLOCKING));
        for (int round = 0; round < ROUNDS; round++)
            CHECK_STATUS(cci_get_event(pair.caller, &event), CCI_EAGAIN);
        CHECK(is_readable(fd));
        event = side_expect(pair.called, NULL, CCI_EVENT_RECV);
        CHECK(memcmp(event->recv.ptr, &i, sizeof(i)) == 0);
        CHECK_OK(cci_return_event(event));
    }
    pair_close(&pair);
}

/* A program that is woken in vain, however often, is not woken by the same cause forever. */
static void in_vain(void)
{
    struct pair pair;
    cci_os_handle_t fd = -1;
    cci_event_t *event;
    cci_endpoint_t *endpoint = side_open(&fd);
    for (int round = 0; round < ROUNDS; round++)
        CHECK_STATUS(cci_get_event(endpoint, &event), CCI_EAGAIN);
    pair_open(&pair, CCI_CONN_ATTR_RO);
    for (int wakes = 0; is_readable(fd); wakes++) {
        CHECK(wakes < ROUNDS);
        CHECK_STATUS(cci_get_event(endpoint, &event), CCI_EAGAIN);
    }
    CHECK_OK(cci_destroy_endpoint(endpoint));
    pair_close(&pair);
}

int main(int argc, char **argv)
{
    side_init(argc, argv);
    other_endpoint();
    in_vain();
    CHECK_OK(cci_finalize());
    return 0;
}
