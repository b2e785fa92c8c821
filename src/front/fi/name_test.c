/* Tests name.c: which names are the same endpoint, and which of two comes first. */
#include "front/fi/name.h"

#include "base/capture_test.h"

#include <string.h>

enum { PORT = 7471 };

static struct afi_name random_name(void)
{
    struct afi_name name;
    assert_int_equal(afi_name_make(&name, 0), 0);
    return name;
}

/* The name of a service of another host, with two addresses. */
static struct afi_name service(uint8_t host, const char *first, const char *second)
{
    struct afi_name name;
    assert_int_equal(afi_name_make(&name, PORT), 0);
    memset(name.host, host, AFI_ID);
    name.count = 2;
    name.transports = AFI_SERVICE | AFI_BY_UDP;
    memcpy(name.address[0], first, 4);
    memcpy(name.address[1], second, 4);
    return name;
}

static struct afi_name looked_up(const char *node)
{
    struct afi_name name;
    assert_int_equal(afi_name_resolve(&name, node, "7471", 0, false), 0);
    return name;
}

static void random_names(void **state)
{
    const struct afi_name a = random_name(), b = random_name();
    assert_true(afi_name_same(&a, &a));
    assert_false(afi_name_same(&a, &b));
    assert_int_equal(afi_name_before(&a, &b), !afi_name_before(&b, &a));
    assert_int_equal(afi_name_service(&a, sizeof(a)), 0);
}

/* Their ids are equal, and they may share the address of a bridge. */
static void services_of_two_hosts(void **state)
{
    const struct afi_name a = service(1, "\xc0\0\2\1", "\xac\x11\0\1");
    const struct afi_name b = service(2, "\xc0\0\2\2", "\xac\x11\0\1");
    assert_false(afi_name_same(&a, &b));
    assert_int_equal(afi_name_before(&a, &b), !afi_name_before(&b, &a));
    assert_int_equal(afi_name_service(&a, sizeof(a)), PORT);
    assert_int_equal(afi_name_service(&a, sizeof(a) - 1), 0);
    assert_int_equal(afi_name_service(NULL, 0), 0);
}

static void sequences(void **state)
{
    static const struct {
        const char *text;
        size_t n;
        const char *sum; /* NULL: there is none */
    } rows[] = {
        {"10.1.1.1", 0, "10.1.1.1"},
        {"10.1.1.255", 2, "10.1.2.1"},
        {"fe80::6:12", 15, "fe80::6:21"},
        {"host10", 1, "host11"},
        {"host09", 1, "host10"},
        {"host9", 1, "host10"},
        {"host", 0, "host"},
        {"host", 1, NULL},
        {"5000", 1, "5001"},
        {"18446744073709551615", 1, NULL},
        {"99999999999999999999", 1, NULL},
        {"", 1, NULL},
        {"a long name of 9", 1, NULL},
    };
    char sum[16];
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++) {
        bool fits = afi_name_add(rows[i].text, rows[i].n, sum, sizeof(sum));
        assert_int_equal(fits, rows[i].sum != NULL);
        if (fits) assert_string_equal(sum, rows[i].sum);
    }
}

static void services_looked_up(void **state)
{
    const struct afi_name a = service(1, "\xc0\0\2\1", "\xac\x11\0\1");
    const struct afi_name b = service(2, "\xc0\0\2\2", "\xac\x11\0\1");
    struct afi_name found = looked_up("192.0.2.1");
    assert_true(afi_name_is_valid(&found));
    assert_true(afi_name_same(&found, &a) && afi_name_same(&a, &found));
    assert_false(afi_name_same(&found, &b));
    assert_false(afi_name_by_shm(&a, &found));
    const struct afi_name again = found;
    const struct afi_name elsewhere = looked_up("192.0.2.3");
    assert_true(afi_name_same(&found, &again));
    assert_false(afi_name_same(&found, &elsewhere));
    struct afi_name stranger = random_name();
    afi_name_learn(&found, &stranger);
    assert_memory_equal(&found, &again, sizeof(found));
    afi_name_learn(&found, &a);
    assert_memory_equal(&found, &a, sizeof(found));
    afi_name_learn(&found, &b); /* only what was looked up changes */
    assert_memory_equal(&found, &a, sizeof(found));
}

static void services_of_ipv6(void **state)
{
    const struct afi_name a = looked_up("2001:db8::1"), b = looked_up("2001:db8::2");
    char uri[64];
    struct afi_name self = random_name();
    self.transports = AFI_BY_UDP6;
    assert_true(afi_name_same(&a, &a));
    assert_false(afi_name_same(&a, &b));
    assert_true(afi_name_uri(&self, &a, 0, uri, sizeof(uri)));
    assert_string_equal(uri, "udp://[2001:db8::1]:7471");
    assert_false(afi_name_uri(&self, &a, 1, uri, sizeof(uri)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_names),     cmocka_unit_test(services_of_two_hosts),
        cmocka_unit_test(sequences),        cmocka_unit_test(services_looked_up),
        cmocka_unit_test(services_of_ipv6),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
