/*
 * The port that loses packets: it loses as many as configured, always the same ones for a seed, and
 * those that it passes are whole.
 */
#include "dgram/ports/port_test.h"

enum { BURST = 16, LEN = 64 };

struct run {
    struct aqi_port *from, *to;
    struct arrivals *arrivals;
};

static struct run begin(const struct aqi_port_weather *weather)
{
    struct aqi_port_params params = {.interface = "127.0.0.1"};
    struct run run = {NULL, NULL, calloc(1, sizeof(*run.arrivals))};
    struct aqi_port *plain = NULL;
    assert_non_null(run.arrivals);
    assert_int_equal(aqi_port_socket.open(&params, &run.to), AQ_OK);
    assert_int_equal(aqi_port_socket.open(&params, &plain), AQ_OK);
    assert_int_equal(aqi_port_lossy(plain, weather, &run.from), AQ_OK);
    assert_memory_equal(&run.from->address, &plain->address, sizeof(plain->address));
    assert_int_equal(run.from->limits.packet, plain->limits.packet);
    return run;
}

static void end(struct run *run)
{
    run->from->ops->close(run->from);
    run->to->ops->close(run->to);
    free(run->arrivals);
}

/* Send all packets in bursts of `burst`, and receive those that arrive. */
static struct run run_through(const struct aqi_port_weather *weather, unsigned burst)
{
    struct run run = begin(weather);
    for (uint32_t i = 0; i < PACKETS; i += burst) {
        assert_true(packet_send(run.from, AQI_DGRAM_DATA, &run.to->address, i, burst, LEN, LEN));
        packet_drain(run.to, run.arrivals);
    }
    struct arrivals none = {0};
    for (unsigned i = 0; i < 100; i++) /* held packets are released even if nothing is sent */
        assert_int_equal(run.from->ops->receive(run.from, AQI_PORT_DEEP, packet_take, &none), 0);
    packet_drain(run.to, run.arrivals);
    return run;
}

static unsigned arrived_times(const struct arrivals *arrivals, unsigned times)
{
    unsigned n = 0;
    for (unsigned i = 0; i < PACKETS; i++)
        n += arrivals->times[i] == times;
    return n;
}

static unsigned overtaken(const struct arrivals *arrivals)
{
    unsigned n = 0;
    for (unsigned i = 1; i < arrivals->count; i++)
        n += arrivals->order[i] < arrivals->order[i - 1];
    return n;
}

/* `n` must be `rate` in 1000, within five standard deviations. */
static void assert_rate(unsigned n, unsigned rate)
{
    double mean = PACKETS * rate / 1000.0, off = n - mean;
    if (off * off > 25 * mean) fail_msg("%u packets, where %.0f are expected", n, mean);
}

static void fair_weather_changes_nothing(void **state)
{
    struct run run = run_through(&(struct aqi_port_weather){.seed = 1}, BURST);
    assert_int_equal(run.arrivals->count, PACKETS);
    assert_int_equal(arrived_times(run.arrivals, 1), PACKETS);
    assert_int_equal(overtaken(run.arrivals), 0);
    end(&run);
}

static void each_fault_has_its_rate(void **state)
{
    static const unsigned rates[] = {10, 50, 200};
    for (size_t i = 0; i < AQI_COUNT_OF(rates); i++) {
        unsigned rate = rates[i];
        struct run run = run_through(&(struct aqi_port_weather){.loss = rate, .seed = 2}, BURST);
        assert_rate(arrived_times(run.arrivals, 0), rate);
        assert_int_equal(arrived_times(run.arrivals, 0) + arrived_times(run.arrivals, 1), PACKETS);
        assert_int_equal(overtaken(run.arrivals), 0);
        end(&run);
        run = run_through(&(struct aqi_port_weather){.duplication = rate, .seed = 3}, BURST);
        assert_rate(arrived_times(run.arrivals, 2), rate);
        assert_int_equal(arrived_times(run.arrivals, 2) + arrived_times(run.arrivals, 1), PACKETS);
        end(&run);
        run = run_through(&(struct aqi_port_weather){.corruption = rate, .seed = 4}, BURST);
        assert_rate(run.arrivals->altered, rate);
        assert_int_equal(arrived_times(run.arrivals, 0), run.arrivals->altered);
        assert_int_equal(run.arrivals->count, PACKETS);
        end(&run);
        run = run_through(&(struct aqi_port_weather){.reordering = rate, .seed = 5}, 1);
        assert_int_equal(arrived_times(run.arrivals, 1), PACKETS);
        assert_int_equal(run.arrivals->count, PACKETS);
        assert_true(overtaken(run.arrivals) > PACKETS * rate / 2000);
        assert_true(overtaken(run.arrivals) <= 2 * PACKETS * rate / 1000);
        end(&run);
    }
}

static void a_seed_repeats_and_another_differs(void **state)
{
    struct aqi_port_weather weather = {100, 100, 100, 100, 42};
    struct run first = run_through(&weather, BURST), second = run_through(&weather, BURST);
    assert_int_equal(first.arrivals->count, second.arrivals->count);
    assert_memory_equal(first.arrivals->times, second.arrivals->times,
                        sizeof(first.arrivals->times));
    assert_memory_equal(first.arrivals->order, second.arrivals->order,
                        sizeof(first.arrivals->order));
    weather.seed = 43;
    struct run third = run_through(&weather, BURST);
    assert_memory_not_equal(first.arrivals->times, third.arrivals->times,
                            sizeof(first.arrivals->times));
    end(&first), end(&second), end(&third);
}

static void all_are_lost_if_it_says_so(void **state)
{
    struct run run = run_through(&(struct aqi_port_weather){.loss = 1000}, BURST);
    assert_int_equal(run.arrivals->count, 0);
    end(&run);
}

/* An inner port that has room only at times. */
static unsigned rooms;
static bool send_if_room(struct aqi_port *port, enum aqi_dgram_channel channel,
                         const struct aqi_dgram_addr *to, const struct iovec *iov, unsigned niov,
                         size_t segment, unsigned packets)
{
    if (rooms == 0) return false;
    rooms--;
    return aqi_port_socket.send(port, channel, to, iov, niov, segment, packets);
}

/* A burst that finds no room has the same fate when it is sent again; one that finds room only for
 * a part loses the rest, and counts it. */
static void without_room_a_burst_comes_again(void **state)
{
    struct aqi_port_weather weather = {.loss = 300, .seed = 7};
    struct run wanted = run_through(&weather, BURST), run = begin(&weather);
    struct aqi_port_params params = {.interface = "127.0.0.1"};
    struct aqi_port_ops ops = aqi_port_socket;
    struct aqi_port *inner = NULL;
    run.from->ops->close(run.from);
    assert_int_equal(aqi_port_socket.open(&params, &inner), AQ_OK);
    ops.send = send_if_room;
    inner->ops = &ops;
    assert_int_equal(aqi_port_lossy(inner, &weather, &run.from), AQ_OK);
    for (uint32_t i = 0; i < 320; i++) {
        rooms = 0; /* a packet that is to be lost needs no room */
        bool lost = packet_send(run.from, AQI_DGRAM_DATA, &run.to->address, i, 1, LEN, LEN);
        rooms = 1;
        if (!lost)
            assert_true(packet_send(run.from, AQI_DGRAM_DATA, &run.to->address, i, 1, LEN, LEN));
        packet_drain(run.to, run.arrivals);
    }
    assert_memory_equal(run.arrivals->times, wanted.arrivals->times,
                        320 * sizeof(run.arrivals->times[0]));
    assert_int_equal(run.from->ops->drops(run.from), 0);
    unsigned before = run.arrivals->count;
    rooms = 1;
    assert_true(packet_send(run.from, AQI_DGRAM_DATA, &run.to->address, 400, 50, LEN, LEN));
    packet_drain(run.to, run.arrivals);
    assert_true(run.arrivals->count > before || run.from->ops->drops(run.from) == 50);
    assert_true(run.from->ops->drops(run.from) > 0);
    end(&wanted), end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fair_weather_changes_nothing),
        cmocka_unit_test(each_fault_has_its_rate),
        cmocka_unit_test(a_seed_repeats_and_another_differs),
        cmocka_unit_test(all_are_lost_if_it_says_so),
        cmocka_unit_test(without_room_a_burst_comes_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
