/*
 * Multicast: one endpoint sends to a group, two are members, and one of these sleeps on its handle.
 *
 * usage: groups TRANSPORT
 */
#include "side.h"

#include "../common/multicast.h"

#include <arpa/inet.h>
#include <poll.h>

enum { MESSAGES = 200, MEMBERS = 2, FLOOD = 3000 };

static char uri[64];
static unsigned char bytes[1 << 16];

static cci_connection_t *join(cci_endpoint_t *endpoint, cci_conn_attribute_t attribute)
{
    static int context;
    CHECK_OK(cci_connect(endpoint, uri, "ignored", 7, attribute, &context, 0, NULL));
    cci_event_t *event = side_expect(endpoint, NULL, CCI_EVENT_CONNECT);
    CHECK_OK(event->connect.status);
    cci_connection_t *connection = event->connect.connection;
    CHECK(connection != NULL && connection->context == &context);
    CHECK_EQUAL(connection->attribute, attribute);
    CHECK(connection->max_send_size >= 512 && connection->max_send_size < 1 << 16);
    CHECK_OK(cci_return_event(event));
    return connection;
}

static void check_refused(cci_endpoint_t *endpoint, const char *where, cci_status_t want)
{
    CHECK_OK(cci_connect(endpoint, where, NULL, 0, CCI_CONN_ATTR_UU_MC_TX, NULL, 0, NULL));
    cci_event_t *event = side_expect(endpoint, NULL, CCI_EVENT_CONNECT);
    CHECK_STATUS(event->connect.status, want);
    CHECK_OK(cci_return_event(event));
}

static uint32_t length(uint32_t i)
{
    return i * 37 % 2000 + 4;
}

/* Returns the number of a message that has arrived, or -1. */
static int take(cci_endpoint_t *endpoint, cci_connection_t *connection)
{
    cci_event_t *event;
    uint32_t i;
    if (cci_get_event(endpoint, &event) != CCI_SUCCESS) return -1;
    CHECK_EQUAL(event->type, CCI_EVENT_RECV);
    CHECK(event->recv.connection == connection);
    memcpy(&i, event->recv.ptr, sizeof(i));
    CHECK_EQUAL(event->recv.len, length(i));
    CHECK(filled((const unsigned char *)event->recv.ptr + 4, event->recv.len - 4, i));
    CHECK_OK(cci_return_event(event));
    return (int)i;
}

static void send_one(cci_endpoint_t *endpoint, cci_connection_t *connection, uint32_t i)
{
    int flags = i % 3 == 0 ? CCI_FLAG_BLOCKING : i % 3 == 1 ? CCI_FLAG_SILENT : 0;
    const struct iovec parts[] = {{.iov_base = &i, .iov_len = sizeof(i)},
                                  {.iov_base = bytes, .iov_len = length(i) - 4}};
    fill(bytes, length(i) - 4, i);
    CHECK_OK(cci_sendv(connection, parts, 2, bytes, flags));
    if (flags != 0) return;
    cci_event_t *event = side_expect(endpoint, NULL, CCI_EVENT_SEND);
    CHECK_OK(event->send.status);
    CHECK(event->send.context == bytes && event->send.connection == connection);
    CHECK_OK(cci_return_event(event));
}

/* Each message goes to both members; lost ones are not retransmitted. */
static void deliver(cci_endpoint_t *const *ends, cci_connection_t *const *connections, int fd)
{
    unsigned got[MEMBERS] = {0};
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct pollfd at = {.fd = fd, .events = POLLIN};
        send_one(ends[MEMBERS], connections[MEMBERS], i);
        CHECK(poll(&at, 1, 1000) >= 0);
        for (unsigned m = 0; m < MEMBERS; m++)
            for (double limit = side_now() + 1; side_now() < limit;) {
                int number = take(ends[m], connections[m]);
                if (number < 0) continue;
                CHECK_EQUAL(number, (int)i);
                got[m]++;
                break;
            }
    }
    CHECK(got[0] > MESSAGES / 2 && got[1] > MESSAGES / 2);
    for (unsigned m = 0; m <= MEMBERS; m++)
        side_nothing(ends[m]);
}

/*
 * Send more than a receiver buffers for a connection: the sender needs no credit from any member.
 */
static void flood(cci_endpoint_t *endpoint, cci_connection_t *connection)
{
    uint32_t most = connection->max_send_size;
    for (unsigned i = 0; i < FLOOD; i++)
        CHECK_OK(cci_send(connection, bytes, most, NULL, CCI_FLAG_BLOCKING));
    CHECK_STATUS(cci_send(connection, bytes, most + 1, NULL, 0), CCI_EMSGSIZE);
    side_nothing(endpoint);
}

int main(int argc, char **argv)
{
    const struct sockaddr_in group = multicast_choose();
    cci_endpoint_t *ends[MEMBERS + 1];
    cci_connection_t *connections[MEMBERS + 1];
    cci_rma_handle_t *handle;
    cci_os_handle_t fd;
    bool sm = argc > 1 && strcmp(argv[1], "sm") == 0;
    side_init(argc, argv);
    ends[0] = side_open(&fd);
    if (sm) {
        check_refused(ends[0], "sm:///cci/host/1/2", CCI_ENODEV);
        CHECK_OK(cci_finalize());
        return 0;
    }
    if (!multicast_works(&group)) return 77;
    snprintf(uri, sizeof(uri), "%s://%s:%u", argv[1], inet_ntoa(group.sin_addr),
             ntohs(group.sin_port));
    ends[1] = side_open(NULL);
    ends[2] = side_open(NULL);
    for (unsigned m = 0; m <= MEMBERS; m++)
        connections[m] =
            join(ends[m], m == MEMBERS ? CCI_CONN_ATTR_UU_MC_TX : CCI_CONN_ATTR_UU_MC_RX);
    deliver(ends, connections, fd);
    CHECK_STATUS(cci_send(connections[0], "x", 1, NULL, 0), CCI_EINVAL);
    CHECK_OK(cci_rma_register(ends[0], bytes, sizeof(bytes), CCI_FLAG_READ, &handle));
    for (unsigned m = 0; m <= MEMBERS; m += MEMBERS)
        CHECK_STATUS(cci_rma(connections[m], NULL, 0, handle, 0, handle, 0, 8, NULL, CCI_FLAG_READ),
                     CCI_EINVAL);
    CHECK_OK(cci_rma_deregister(ends[0], handle));
    CHECK_OK(cci_disconnect(connections[0]));
    CHECK_OK(cci_disconnect(connections[1]));
    flood(ends[2], connections[2]);
    snprintf(uri, sizeof(uri), "%s://127.0.0.1:%u", argv[1], ntohs(group.sin_port));
    check_refused(ends[2], uri, CCI_EINVAL);
    for (unsigned m = 0; m <= MEMBERS; m++)
        CHECK_OK(cci_destroy_endpoint(ends[m]));
    CHECK_OK(cci_finalize());
    return 0;
}
