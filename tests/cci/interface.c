/*
 * Devices whose interface goes down, loses its address, is removed and comes back, in a network
 * namespace with one pair of interfaces. The program sleeps on the handle of an endpoint.
 */
#include "side.h"

#include <poll.h>
#include <sched.h>
#include <sys/wait.h>

static bool ip(const char *words)
{
    char line[256];
    snprintf(line, sizeof(line), "ip %s", words);
    int status = system(line);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool make_pair(void)
{
    return ip("link add one type veth peer name other") && ip("address add 10.7.0.1/24 dev one") &&
           ip("link set one up") && ip("link set other up");
}

/* The library's thread may change it concurrently. */
static unsigned is_up(const cci_device_t *device)
{
    return __atomic_load_n(&device->up, __ATOMIC_RELAXED);
}

static void return_failure(cci_event_t *event, const cci_endpoint_t *endpoint)
{
    CHECK_EQUAL(event->type, CCI_EVENT_ENDPOINT_DEVICE_FAILED);
    CHECK(event->dev_failed.endpoint == endpoint);
    CHECK_EQUAL(is_up(endpoint->device), 0);
    CHECK_OK(cci_return_event(event));
}

/* Sleep until the failure of the device is reported. */
static void expect_failure(cci_endpoint_t *endpoint, cci_os_handle_t fd)
{
    cci_event_t *event;
    int status;
    while ((status = cci_get_event(endpoint, &event)) == CCI_EAGAIN) {
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        CHECK(poll(&wanted, 1, TIMEOUT * 1000) == 1);
    }
    CHECK_OK(status);
    return_failure(event, endpoint);
}

static void await_up(const cci_device_t *device, cci_endpoint_t *endpoint)
{
    double limit = side_now() + TIMEOUT;
    while (!is_up(device)) {
        cci_event_t *event;
        CHECK_STATUS(cci_get_event(endpoint, &event), CCI_EAGAIN);
        CHECK(side_now() < limit);
    }
}

/* Devices that were down when the library started, and later went down without an endpoint. */
static void down_at_first(void)
{
    uint32_t caps;
    cci_device_t *const *devices;
    cci_endpoint_t *endpoint;
    CHECK(ip("link set one down"));
    side_configure("[a]\ntransport = sm\npriority = 2\n"
                   "[b]\ntransport = sock\ninterface = one\npriority = 1\ndefault = 1\n");
    CHECK_OK(cci_init(CCI_ABI_VERSION, 0, &caps));
    CHECK_OK(cci_get_devices(&devices));
    CHECK_EQUAL(is_up(devices[1]), 0);
    CHECK(ip("link set one up"));
    CHECK_OK(cci_create_endpoint(NULL, 0, &endpoint, NULL));
    CHECK(endpoint->device == devices[1]);
    CHECK_OK(cci_destroy_endpoint(endpoint));
    CHECK(ip("link set one down"));
    CHECK_STATUS(cci_create_endpoint(devices[1], 0, &endpoint, NULL), CCI_ENETDOWN);
    CHECK_OK(cci_create_endpoint(NULL, 0, &endpoint, NULL));
    CHECK(endpoint->device == devices[0]);
    CHECK_OK(cci_finalize());
}

int main(void)
{
    uint32_t caps;
    cci_device_t *const *devices;
    cci_endpoint_t *endpoint, *second, *refused;
    cci_os_handle_t fd;
    if (unshare(CLONE_NEWNET) != 0 || !ip("link set lo up") || !make_pair()) {
        printf("skipped: no network namespace can be made here: root and ip are needed\n");
        return 77;
    }
    side_configure("[a]\ntransport = sock\ninterface = one\npriority = 2\n"
                   "[b]\ntransport = tcp\nip = 10.7.0.1\npriority = 1\n"
                   "[c]\ntransport = sm\npriority = 0\n");
    CHECK_OK(cci_init(CCI_ABI_VERSION, 0, &caps));
    CHECK_OK(cci_get_devices(&devices));
    int status = cci_create_endpoint(devices[0], 0, &endpoint, &fd);
    if (status == CCI_ENODEV) {
        printf("skipped: no endpoint can be created over %s\n", devices[0]->transport);
        return 77;
    }
    CHECK_OK(status);
    /* An interface without carrier still counts as up. */
    CHECK(ip("link set other down") && ip("link set other up"));
    side_nothing(endpoint);
    CHECK(is_up(devices[0]) && is_up(devices[1]));
    CHECK(ip("link set one down"));
    expect_failure(endpoint, fd);
    CHECK(!is_up(devices[1]) && is_up(devices[2]));
    CHECK_STATUS(cci_create_endpoint(devices[1], 0, &refused, NULL), CCI_ENETDOWN);
    CHECK_OK(cci_create_endpoint(NULL, 0, &second, NULL));
    CHECK(second->device == devices[2]);
    CHECK_OK(cci_destroy_endpoint(second));
    /* Reported only once, even if more goes wrong. */
    CHECK(ip("address del 10.7.0.1/24 dev one") && ip("link set one up"));
    side_nothing(endpoint);
    CHECK(ip("address add 10.7.0.1/24 dev one"));
    await_up(devices[0], endpoint);
    CHECK_OK(cci_create_endpoint(devices[1], 0, &second, NULL));
    CHECK(ip("link del one"));
    return_failure(side_expect(second, NULL, CCI_EVENT_ENDPOINT_DEVICE_FAILED), second);
    expect_failure(endpoint, fd);
    /* With no endpoint open, creating one detects that the interface is back. */
    CHECK_OK(cci_destroy_endpoint(endpoint));
    CHECK_OK(cci_destroy_endpoint(second));
    CHECK_STATUS(cci_create_endpoint(devices[0], 0, &refused, NULL), CCI_ENETDOWN);
    CHECK(make_pair());
    CHECK_OK(cci_create_endpoint(devices[0], 0, &endpoint, NULL));
    CHECK_EQUAL(is_up(devices[0]), 1);
    CHECK_OK(cci_finalize());
    down_at_first();
    return 0;
}
