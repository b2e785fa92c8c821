/*
 * The network inside a process: whole packets in order, the descriptor, room, and ports that are
 * gone.
 */
#include "dgram/ports/memory_port_test.h"
#include "dgram/ports/port_test.h"

enum { LEN = 1000, BUFFER = 64 << 10 };

static struct aqi_port *here, *there;
static struct arrivals arrivals;

static int port_begin(void **state)
{
    struct aqi_port_params params = {.packet = LEN + 5, .buffer = BUFFER};
    memset(&arrivals, 0, sizeof(arrivals));
    assert_int_equal(memory_port_ops.open(&params, &here), AQ_OK);
    assert_int_equal(memory_port_ops.open(&params, &there), AQ_OK);
    assert_int_equal(here->limits.packet, LEN / 16 * 16);
    assert_true(ports_address_reaches(&here->address, &there->address));
    assert_false(ports_address_reaches(&here->address, &(struct aqi_dgram_addr){.len = 16}));
    assert_memory_not_equal(&here->address, &there->address, sizeof(here->address));
    return 0;
}

static int port_end(void **state)
{
    here->ops->close(here);
    if (there != NULL) there->ops->close(there);
    there = NULL;
    return 0;
}

static bool readable(struct aqi_port *port)
{
    int fds[2];
    assert_int_equal(port->ops->descriptors(port, fds), 1);
    return poll(&(struct pollfd){.fd = fds[0], .events = POLLIN}, 1, 0) == 1;
}

static void packets_come_whole_and_in_order(void **state)
{
    assert_false(readable(there));
    assert_true(packet_send(here, AQI_DGRAM_DATA, &there->address, 0, 30, 512, 77));
    assert_true(packet_send(here, AQI_DGRAM_COMMAND, &there->address, 30, 1, 64, 64));
    assert_true(readable(there));
    packet_drain(there, &arrivals);
    assert_false(readable(there));
    assert_int_equal(arrivals.count, 31);
    assert_int_equal(arrivals.altered + arrivals.misplaced, 0);
    assert_int_equal(arrivals.order[0], 30); /* COMMAND first */
    for (uint32_t i = 0; i < 30; i++)
        assert_int_equal(arrivals.order[1 + i], i);
    assert_int_equal(arrivals.len[29], 77);
    assert_true(port_same(&here->address, &arrivals.from));
}

static void what_there_is_no_room_for_is_dropped(void **state)
{
    for (uint32_t i = 0; i < 200; i++)
        assert_true(packet_send(here, AQI_DGRAM_DATA, &there->address, i, 1, 512, 512));
    packet_drain(there, &arrivals);
    assert_int_equal(arrivals.count, BUFFER / 512);
    assert_int_equal(there->ops->drops(there), 200 - BUFFER / 512);
    assert_true(packet_send(here, AQI_DGRAM_DATA, &there->address, 0, 1, LEN + 100, LEN + 100));
    assert_int_equal(there->ops->drops(there), 201 - BUFFER / 512);
}

static void who_is_gone_refuses(void **state)
{
    struct aqi_dgram_addr gone = there->address, refused;
    there->ops->close(there);
    there = NULL;
    assert_false(here->ops->refused(here, &refused));
    assert_true(packet_send(here, AQI_DGRAM_COMMAND, &gone, 0, 1, 64, 64));
    assert_true(readable(here));
    assert_true(here->ops->refused(here, &refused));
    assert_true(port_same(&gone, &refused));
    assert_false(here->ops->refused(here, &refused));
    assert_false(readable(here));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(packets_come_whole_and_in_order, port_begin, port_end),
        cmocka_unit_test_setup_teardown(what_there_is_no_room_for_is_dropped, port_begin, port_end),
        cmocka_unit_test_setup_teardown(who_is_gone_refuses, port_begin, port_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
