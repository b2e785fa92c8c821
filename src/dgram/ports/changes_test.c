/*
 * The parser of the kernel's announcements, with messages that are truncated or lie about their
 * lengths; and its socket, in a network namespace.
 */
#include "dgram/ports/changes.h"

#include <arpa/inet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
    unsigned char bytes[1024];
    size_t len;
} made;

static void put(const void *bytes, size_t len)
{
    assert_true(made.len + len <= sizeof(made.bytes));
    memcpy(made.bytes + made.len, bytes, len);
    made.len += len;
    while (made.len % 4 != 0)
        made.bytes[made.len++] = 0;
}

static void put_header(uint16_t type, size_t body)
{
    const struct nlmsghdr head = {.nlmsg_len = (uint32_t)(sizeof(head) + body), .nlmsg_type = type};
    put(&head, sizeof(head));
}

static void put_attribute(uint16_t type, const void *value, size_t len)
{
    const struct rtattr attr = {.rta_len = (uint16_t)(sizeof(attr) + len), .rta_type = type};
    put(&attr, sizeof(attr));
    put(value, len);
}

static void put_link(uint16_t type, int index)
{
    const struct ifinfomsg head = {.ifi_index = index};
    put_header(type, sizeof(head) + sizeof(struct rtattr) + 8);
    put(&head, sizeof(head));
    put_attribute(IFLA_IFNAME, "wire0000", 8);
}

/* Add an IPv4 address, with that of the link's other end before or after our own. */
static void put_address(uint16_t type, uint32_t index, const char *own, const char *other,
                        bool own_first)
{
    const struct ifaddrmsg head = {.ifa_family = AF_INET, .ifa_index = index};
    const char *const both[] = {own_first ? own : other, own_first ? other : own};
    put_header(type, sizeof(head) + 2 * (sizeof(struct rtattr) + 4));
    put(&head, sizeof(head));
    for (unsigned i = 0; i < 2; i++) {
        struct in_addr ip;
        assert_int_equal(inet_pton(AF_INET, both[i], &ip), 1);
        put_attribute(both[i] == own ? IFA_LOCAL : IFA_ADDRESS, &ip, sizeof(ip));
    }
}

static void put_address6(uint16_t type, uint32_t index, const char *text)
{
    const struct ifaddrmsg head = {.ifa_family = AF_INET6, .ifa_index = index};
    struct in6_addr ip;
    assert_int_equal(inet_pton(AF_INET6, text, &ip), 1);
    put_header(type, sizeof(head) + sizeof(struct rtattr) + sizeof(ip));
    put(&head, sizeof(head));
    put_attribute(IFA_ADDRESS, &ip, sizeof(ip));
}

static void expect_change(size_t *at, uint32_t index, const char *ip)
{
    struct ports_change change;
    char text[INET6_ADDRSTRLEN] = "";
    assert_int_equal(ports_changes_next(made.bytes, made.len, at, &change), PORTS_CHANGES_ONE);
    assert_int_equal(change.index, index);
    int family = change.at.any.sa_family;
    if (family == AF_INET)
        assert_non_null(inet_ntop(family, &change.at.v4.sin_addr, text, sizeof(text)));
    else if (family == AF_INET6)
        assert_non_null(inet_ntop(family, &change.at.v6.sin6_addr, text, sizeof(text)));
    assert_string_equal(text, ip);
}

static int begin(void **state)
{
    memset(&made, 0, sizeof(made));
    return 0;
}

static void test_messages(void **state)
{
    static const uint16_t foreign[] = {NLMSG_NOOP, NLMSG_DONE, RTM_NEWROUTE, RTM_GETLINK, 0xffff};
    struct ports_change change;
    size_t at = 0;
    put_link(RTM_NEWLINK, 7);
    for (unsigned i = 0; i < AQI_COUNT_OF(foreign); i++)
        put_header(foreign[i], 0);
    put_address(RTM_DELADDR, 8, "10.0.0.1", "10.0.0.2", true);
    put_address(RTM_NEWADDR, 9, "10.0.0.3", "10.0.0.4", false);
    put_address6(RTM_DELADDR, 10, "fd00::7");
    put_link(RTM_DELLINK, 11);
    expect_change(&at, 7, "");
    expect_change(&at, 8, "10.0.0.1");
    expect_change(&at, 9, "10.0.0.3");
    expect_change(&at, 10, "fd00::7");
    expect_change(&at, 11, "");
    assert_int_equal(ports_changes_next(made.bytes, made.len, &at, &change), PORTS_CHANGES_OVER);
    at = 0;
    assert_int_equal(ports_changes_next(made.bytes, 0, &at, &change), PORTS_CHANGES_OVER);
}

/* Parse a copy of this length to the end; returns the last result. */
static enum ports_changes_next read_all(const unsigned char *from, size_t len, unsigned *count)
{
    struct ports_change change;
    enum ports_changes_next next;
    unsigned char *copy = malloc(len + 1); /* exactly as long, for tools that check accesses */
    size_t at = 0;
    assert_non_null(copy);
    copy = memmove(realloc(copy, len != 0 ? len : 1), from, len);
    for (*count = 0; (next = ports_changes_next(copy, len, &at, &change)) == PORTS_CHANGES_ONE;)
        assert_true(at <= len && ++*count <= len);
    assert_true(at <= len);
    free(copy);
    return next;
}

static void test_cut_off(void **state)
{
    unsigned count;
    put_link(RTM_NEWLINK, 7);
    size_t first = made.len;
    put_address(RTM_NEWADDR, 8, "10.0.0.1", "10.0.0.2", true);
    for (size_t len = 0; len <= made.len; len++) {
        enum ports_changes_next next = read_all(made.bytes, len, &count);
        bool whole = len == 0 || len == first || len == made.len;
        assert_int_equal(next, whole ? PORTS_CHANGES_OVER : PORTS_CHANGES_BAD);
        assert_int_equal(count, (len >= first) + (len == made.len));
    }
}

/* Wrong lengths of a message and of an attribute. */
static void test_lengths_that_lie(void **state)
{
    static const uint32_t lies[] = {0, 1, 3, 15, 16, 17, 0x7fff, 0xfffc, 0xffff};
    unsigned count;
    put_address(RTM_NEWADDR, 8, "10.0.0.1", "10.0.0.2", true);
    size_t attr = sizeof(struct nlmsghdr) + sizeof(struct ifaddrmsg);
    for (unsigned i = 0; i < AQI_COUNT_OF(lies); i++) {
        struct nlmsghdr head;
        uint16_t len = (uint16_t)lies[i], real;
        memcpy(&real, made.bytes + attr, sizeof(real));
        memcpy(made.bytes + attr, &len, sizeof(len));
        enum ports_changes_next next = read_all(made.bytes, made.len, &count);
        /* A length that fits is valid, whether or not others follow. */
        assert_int_equal(next, len >= 4 && len <= 16 ? PORTS_CHANGES_OVER : PORTS_CHANGES_BAD);
        memcpy(made.bytes + attr, &real, sizeof(real));
        memcpy(&head, made.bytes, sizeof(head));
        uint32_t whole = head.nlmsg_len;
        for (uint32_t high = 0; high < 2; high++) {
            head.nlmsg_len = lies[i] | high << 31;
            memcpy(made.bytes, &head, sizeof(head));
            assert_int_equal(read_all(made.bytes, made.len, &count), PORTS_CHANGES_BAD);
        }
        head.nlmsg_len = whole;
        memcpy(made.bytes, &head, sizeof(head));
    }
}

static void test_noise(void **state)
{
    uint32_t random = 12345;
    unsigned count;
    put_link(RTM_NEWLINK, 7);
    put_address6(RTM_NEWADDR, 8, "fd00::1");
    put_address(RTM_DELADDR, 9, "10.0.0.1", "10.0.0.2", false);
    for (unsigned i = 0; i < 20000; i++) {
        unsigned char bytes[sizeof(made.bytes)];
        memcpy(bytes, made.bytes, made.len);
        for (unsigned n = 0; n < 3; n++) {
            random = random * 1664525 + 1013904223;
            bytes[(random >> 8) % made.len] = (unsigned char)(random >> 24);
        }
        (void)read_all(bytes, (random >> 4) % (made.len + 1), &count);
    }
}

/* --- the socket ------------------------------------------------------------------------------ */

static unsigned asked;

static bool concerns_index(void *arg, const struct ports_change *change)
{
    asked++;
    return change->index == *(const uint32_t *)arg;
}

static void set_lo(bool up)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request.ifr_flags = up ? IFF_UP : 0;
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) != 0) _exit(1);
    close(fd);
}

/* Returns the number of the check that failed; 0: none did; 77: it is not permitted. */
static int in_a_namespace(void)
{
    const uint32_t lo = 1, none = 0xffff;
    int fd, least = 1;
    if (unshare(CLONE_NEWNET) != 0) return 77;
    if ((fd = ports_changes_open()) < 0) return 77;
    if (ports_changes_read(fd, concerns_index, (void *)(uintptr_t)&lo)) return 1;
    set_lo(true);
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    if (poll(&wanted, 1, 10000) != 1) return 2;
    if (!ports_changes_read(fd, concerns_index, (void *)(uintptr_t)&lo)) return 3;
    set_lo(false);
    if (ports_changes_read(fd, concerns_index, (void *)(uintptr_t)&none) || asked < 2) return 4;
    /* More than the buffer holds: nothing left in it concerns us, but something lost may. */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)) != 0) return 5;
    for (unsigned i = 0; i < 100; i++)
        set_lo(i % 2 == 0);
    if (!ports_changes_read(fd, concerns_index, (void *)(uintptr_t)&none)) return 6;
    if (ports_changes_read(fd, concerns_index, (void *)(uintptr_t)&none)) return 7;
    close(fd);
    return ports_changes_read(fd, concerns_index, (void *)(uintptr_t)&lo) ? 8 : 0;
}

static void test_socket(void **state)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(in_a_namespace());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("no network namespace can be made here: root is needed\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_messages, begin),
        cmocka_unit_test_setup(test_cut_off, begin),
        cmocka_unit_test_setup(test_lengths_that_lie, begin),
        cmocka_unit_test_setup(test_noise, begin),
        cmocka_unit_test(test_socket),
    };
    return cmocka_run_group_tests_name("dgram/ports/changes", tests, NULL, NULL);
}
