/*
 * Listeners whose interface goes down, in a network namespace with loopback and one pair; and a
 * program that closes the descriptor for announcements.
 */
#include "transport/udp/udp_rendezvous_world_test.h"

#include "base/descriptors_test.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

static struct {
    const void *user; /* of the last report */
    aq_status status;
    unsigned count;
} reported;

static void on_interface(void *arg, void *listener_user, aq_status status)
{
    reported.user = listener_user;
    reported.status = status;
    reported.count++;
}

static void ip(const char *words)
{
    char line[256];
    snprintf(line, sizeof(line), "ip %s", words);
    int status = system(line);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("%s", line);
}

static int set_up(void **state)
{
    ip("link set lo up");
    ip("link add one type veth peer name other");
    ip("address add 10.7.0.1/24 dev one");
    ip("link set one up");
    ip("link set other up");
    memset(&reported, 0, sizeof(reported));
    (void)world_setup(state);
    world.rendezvous->hooks.interface = on_interface;
    return 0;
}

static int tear_down(void **state)
{
    (void)world_teardown(state);
    ip("link set lo down");
    (void)system("ip link del one 2>/dev/null");
    return 0;
}

static struct aqi_listener *listen_at(const char *uri, void *user)
{
    struct aqi_listener *listener;
    char name[AQI_URI_MAX];
    assert_int_equal(udp_rendezvous.listen(world.rendezvous, uri, user, &listener, name), AQ_OK);
    return listener;
}

/* Wait for a report, which an announcement brings. */
static void expect_report(const void *user, aq_status status)
{
    unsigned before = reported.count;
    while (reported.count == before) {
        await(world.rendezvous->epoll);
        (void)udp_rendezvous.progress(world.rendezvous);
    }
    assert_int_equal(reported.count, before + 1);
    assert_int_equal(reported.status, status);
    assert_ptr_equal(reported.user, user);
}

/* Wait until the pair runs, so that no late change by the kernel interferes. */
static void await_running(struct aqi_listener *listener)
{
    while (listener->interface.state != PORTS_INTERFACE_UP) {
        await(world.rendezvous->epoll);
        (void)udp_rendezvous.progress(world.rendezvous);
    }
}

static void test_down_and_up(void **state)
{
    int user;
    struct aqi_listener *listener = listen_at("udp://10.7.0.1:0", &user);
    await_running(listener);
    ip("link set one down");
    expect_report(&user, AQ_ESTATE);
    assert_string_equal(listener->interface.name, "one");
    ip("address del 10.7.0.1/24 dev one"); /* the interface is already down: no report */
    ip("link set one up");
    expect_report(&user, AQ_EINVAL);
    ip("address add 10.7.0.1/24 dev one");
    expect_report(&user, AQ_OK);
    ip("link del one");
    expect_report(&user, AQ_EINVAL);
    /* It comes back with another index, after nothing had the address. */
    ip("link add one type veth peer name other");
    ip("link set one up");
    ip("address add 10.7.0.1/24 dev one");
    expect_report(&user, AQ_EPEER);
    ip("link set other up");
    expect_report(&user, AQ_OK);
}

/* Each report is about its listener's interface, or about the best one. */
static void test_several(void **state)
{
    int all, own;
    struct aqi_listener *listener = listen_at("udp://10.7.0.1:0", &own);
    await_running(listener);
    struct aqi_listener *every = listen_at("udp://0.0.0.0:0", &all);
    ip("link add third type veth peer name fourth");
    ip("address add 10.8.0.1/24 dev third");
    ip("link set third up");
    ip("link set fourth up");
    struct aqi_listener *another = listen_at("udp://10.8.0.1:0", NULL);
    await_running(another);
    ip("link set one down");
    expect_report(&own, AQ_ESTATE);
    udp_rendezvous.unlisten(world.rendezvous, another);
    udp_rendezvous.unlisten(world.rendezvous, listener);
    ip("link del third");
    expect_report(&all, AQ_ESTATE);
    ip("link set one up");
    do {
        await(world.rendezvous->epoll);
        (void)udp_rendezvous.progress(world.rendezvous);
    } while (every->interface.state != PORTS_INTERFACE_UP);
    assert_int_equal(reported.status, AQ_OK);
    assert_ptr_equal(reported.user, &all);
}

/* The first listener opens the socket, the last one closes it. */
static void test_descriptors(void **state)
{
    assert_true(world.rendezvous->hears_changes);
    unsigned before = descriptors();
    udp_rendezvous.unlisten(world.rendezvous, listen_at("udp://127.0.0.1:0", NULL));
    assert_int_equal(descriptors(), before);
    udp_rendezvous.unlisten(world.rendezvous, world.listener);
    assert_int_equal(descriptors(), before - 2);
    assert_false(world.rendezvous->hears_changes);
    world.listener = listen_at("udp://127.0.0.1:0", NULL);
    assert_int_equal(descriptors(), before);
}

/* Without the socket changes are not noticed, but the listener works. */
static void test_not_to_be_heard(void **state)
{
    struct rlimit before, few;
    udp_rendezvous.unlisten(world.rendezvous, world.listener);
    int next = dup(0);
    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){(rlim_t)next + 1, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    world.listener = listen_at("udp://10.7.0.1:0", NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_false(world.rendezvous->hears_changes);
    ip("link set one down");
    assert_int_equal(udp_rendezvous.progress(world.rendezvous), 0);
    assert_int_equal(reported.count, 0);
}

/* Nothing is read from a descriptor that belongs to another file, and the process does not spin. */
static void test_closed_by_the_program(void **state)
{
    struct pollfd watch = {.fd = world.rendezvous->epoll, .events = POLLIN};
    int user, ends[2];
    struct aqi_listener *listener = listen_at("udp://10.7.0.1:0", &user);
    await_running(listener);
    int held = dup(world.rendezvous->changes.fd), fd = world.rendezvous->changes.fd;
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    assert_int_equal(dup2(ends[0], fd), fd); /* `held` keeps the watch alive */
    assert_int_equal(write(ends[1], "mine", 4), 4);
    unsigned before = reported.count;
    ip("link set one down");
    (void)udp_rendezvous.progress(world.rendezvous);
    (void)udp_rendezvous.progress(world.rendezvous);
    assert_int_equal(poll(&watch, 1, 0), 0);
    assert_int_equal(reported.count, before);
    char bytes[8];
    assert_int_equal(read(ends[0], bytes, sizeof(bytes)), 4);
    close(held), close(ends[0]), close(ends[1]);
}

static bool leave(void)
{
    return unshare(CLONE_NEWNET) == 0;
}

int main(void)
{
#define INTERFACES_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        INTERFACES_TEST(test_down_and_up),           INTERFACES_TEST(test_several),
        INTERFACES_TEST(test_descriptors),           INTERFACES_TEST(test_not_to_be_heard),
        INTERFACES_TEST(test_closed_by_the_program),
    };
    if (mac_is_missing()) return 77;
    if (!leave() || system("ip link >/dev/null 2>&1") != 0) {
        puts("skipped: no network namespace can be made here: root and ip are needed");
        return 77;
    }
    return cmocka_run_group_tests_name("transport/udp/udp_interfaces", tests, NULL, NULL);
}
