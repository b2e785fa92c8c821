/* Addresses to text and back, and the ranking of interfaces. */
#include "base/inet.h"

#include "base/cmocka_test.h"

#include <net/if.h>
#include <string.h>

static void test_there_and_back(void **state)
{
    static const char *const texts[] = {"10.0.0.7:4000",   "127.0.0.1:1",
                                        "[fd00::7]:65535", "[fe80::1%lo]:4000",
                                        "[::1]:80",        "255.255.255.255:65535"};
    for (unsigned i = 0; i < AQI_COUNT_OF(texts); i++) {
        union aqi_sockaddr at;
        char text[AQI_SOCKADDR_TEXT];
        assert_true(aqi_sockaddr_read(texts[i], &at));
        assert_string_equal(aqi_sockaddr_text(&at, text), texts[i]);
        assert_int_equal(aqi_sockaddr_len(&at), texts[i][0] == '[' ? sizeof(at.v6) : sizeof(at.v4));
    }
}

static void check_refused(const char *text)
{
    union aqi_sockaddr at, before;
    memset(&at, 0x5a, sizeof(at));
    before = at;
    if (aqi_sockaddr_read(text, &at)) fail_msg("\"%s\" was read", text);
    assert_memory_equal(&at, &before, sizeof(at));
}

static void test_refused(void **state)
{
    static const char *const texts[] = {
        /* IPv4 */
        "", ":", "10.0.0.7", "10.0.0.7:", "10.0.0.7:0", "10.0.0:1", "10.0.0.7:-1", "10.0.0.7:65536",
        "10.0.0.7:1x", "10.0.0.7:100000",
        /* IPv6, or neither */
        "fd00::7:1", "[fd00::7]", "[fd00::7]1", "[fd00::g]:1", "[10.0.0.7]:1", "host:1",
        "[fe80::1%]:1", " 10.0.0.7:1", "10.0.0.7 :1"};
    for (unsigned i = 0; i < AQI_COUNT_OF(texts); i++)
        check_refused(texts[i]);
    check_refused("[fe80::1%no such]:1");
    check_refused(
        "[000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "00000]:1");
}

static void test_mapped(void **state)
{
    union aqi_sockaddr at;
    char text[AQI_SOCKADDR_TEXT];
    assert_true(aqi_sockaddr_read("[::ffff:10.0.0.7]:4000", &at));
    assert_string_equal(aqi_sockaddr_text(&at, text), "10.0.0.7:4000");
    memset(&at, 0, sizeof(at));
    assert_string_equal(aqi_sockaddr_text(&at, text), "?:0");
}

static void test_ranks(void **state)
{
    const unsigned up = IFF_UP | IFF_RUNNING;
    assert_int_equal(aqi_interface_rank("eth0", up), AQI_INTERFACE_REAL);
    assert_int_equal(aqi_interface_rank("eth0", IFF_UP), AQI_INTERFACE_NEVER);
    assert_int_equal(aqi_interface_rank("veth12", up), AQI_INTERFACE_VIRTUAL);
    assert_int_equal(aqi_interface_rank("ppp0", up | IFF_POINTOPOINT), AQI_INTERFACE_VIRTUAL);
    assert_int_equal(aqi_interface_rank("lo", up | IFF_LOOPBACK), AQI_INTERFACE_LOOPBACK);
    assert_int_equal(aqi_interface_rank("docker0", up), AQI_INTERFACE_NEVER);
    union aqi_sockaddr at;
    assert_true(aqi_sockaddr_read("10.0.0.7:1", &at));
    assert_int_equal(aqi_sockaddr_rank(&at.any), 2);
    assert_true(aqi_sockaddr_read("[fd00::7]:1", &at));
    assert_int_equal(aqi_sockaddr_rank(&at.any), 1);
    assert_true(aqi_sockaddr_read("[fe80::7%lo]:1", &at));
    assert_int_equal(aqi_sockaddr_rank(&at.any), 0);
    assert_int_equal(aqi_sockaddr_rank(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_mapped),
        cmocka_unit_test(test_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
