/* ofi: how long a round of progress continues after the process has been away. */
#include "transport/ofi/ofi_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

/* A provider that reads one arrival per reading of its queue, without a completion. Its descriptor
 * is readable while there are more, or always. */
static struct {
    int fds[2];
    unsigned arrivals, readings;
    bool always;
    uint64_t now;
} network;

static ssize_t network_read(struct fid_cq *cq, void *buf, size_t count)
{
    char byte;
    network.readings++;
    if (network.arrivals != 0 && --network.arrivals == 0 && !network.always)
        assert_int_equal(read(network.fds[0], &byte, 1), 1);
    return -FI_EAGAIN;
}

static int network_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return FI_SUCCESS;
}

static uint64_t network_now(void *host)
{
    return network.now += 1000;
}

static struct fi_ops_cq cq_ops = {.size = sizeof(cq_ops), .read = network_read};
static struct fid_cq queue = {.ops = &cq_ops};
static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .trywait = network_trywait};
static struct fid_fabric fabric = {.ops = &fabric_ops};

/* The readings of a round `away` ns after the previous one, when so much has arrived. */
static unsigned readings_after(uint64_t away, unsigned arrivals, bool always,
                               enum aqi_progress_mode mode)
{
    struct ofi_tp ofi = {.rdma = {.driver = &ofi_driver, .tp.hooks.now = network_now},
                         .look_at = AQI_NO_DEADLINE,
                         .cq = &queue,
                         .fabric = &fabric};
    network.arrivals = arrivals;
    network.readings = 0;
    network.always = always;
    network.now = 5000 * MS;
    ofi.rdma.now = network.now - away;
    assert_int_equal(pipe(network.fds), 0);
    if (arrivals != 0) assert_int_equal(write(network.fds[1], "", 1), 1);
    ofi.rdma.fd = network.fds[0];
    (void)ofi_progress(&ofi.rdma.tp, mode, network.now);
    close(network.fds[0]);
    close(network.fds[1]);
    return network.readings;
}

static void all_that_arrived_meanwhile_is_taken(void **state)
{
    assert_int_equal(readings_after(1 * MS, 40, false, AQI_PROGRESS_ALL), 40);
    assert_int_equal(readings_after(1 * MS, 1, false, AQI_PROGRESS_ALL), 1);
    assert_int_equal(readings_after(1 * MS, 0, false, AQI_PROGRESS_ALL), 1);
}

static void frequent_polls_read_once(void **state)
{
    assert_int_equal(readings_after(MS / 20, 40, false, AQI_PROGRESS_ALL), 1);
    assert_int_equal(readings_after(1 * MS, 40, false, AQI_PROGRESS_REPLIES), 1);
}

/* A clock that advances by 1 us per reading. */
static void endless_arrivals_take_part_of_the_time(void **state)
{
    unsigned quarter = readings_after(1 * MS, 1, true, AQI_PROGRESS_ALL);
    assert_in_range(quarter, 240, 260);
    unsigned most = readings_after(1000 * MS, 1, true, AQI_PROGRESS_ALL);
    assert_in_range(most, 1990, 2010);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_that_arrived_meanwhile_is_taken),
                                       cmocka_unit_test(frequent_polls_read_once),
                                       cmocka_unit_test(endless_arrivals_take_part_of_the_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
