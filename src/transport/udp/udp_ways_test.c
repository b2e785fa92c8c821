/*
 * Addresses that processes of a job announce: they are checked, and determine the ways to a peer.
 */
#include "dgram/ports/address.h"
#include "transport/udp/udp_impl.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct {
    struct udp_job_addr addr;
    size_t len;
    aq_status status;
} announced;

static aq_status lookup_announced(void *host, const struct aqi_tp *tp, uint32_t id, void *addr,
                                  size_t *len)
{
    assert_int_equal(id, 3);
    assert_true(*len >= sizeof(announced.addr));
    memcpy(addr, &announced.addr, sizeof(announced.addr));
    *len = announced.len;
    return announced.status;
}

static struct aqi_dgram_addr address_of(const char *ip)
{
    union aqi_sockaddr at = {.any = {.sa_family = AF_INET}};
    struct aqi_dgram_addr addr;
    if (inet_pton(AF_INET, ip, &at.v4.sin_addr) != 1) {
        at.any.sa_family = AF_INET6;
        assert_int_equal(inet_pton(AF_INET6, ip, &at.v6.sin6_addr), 1);
    }
    *aqi_sockaddr_port(&at) = htons(4000);
    ports_address_seen(&at, AQI_DGRAM_COMMAND, &addr);
    ports_address_add(&addr, AQI_DGRAM_DATA, htons(4001));
    return addr;
}

static void fill_announced(unsigned count)
{
    memset(&announced, 0, sizeof(announced));
    memcpy(announced.addr.magic, udp_job_magic, sizeof(announced.addr.magic));
    announced.addr.count = (uint8_t)count;
    for (unsigned i = 0; i < AQI_DGRAM_WAYS; i++)
        announced.addr.at[i] = address_of("127.0.0.1");
    announced.len = sizeof(announced.addr);
}

/* At "127.0.0.1" and, with `several`, one more address, which leads nowhere. */
static struct udp_tp open_udp(struct aqi_port *port, bool several)
{
    struct udp_tp udp = {.tp = {.hooks = {.lookup = lookup_announced}}, .port = port};
    *port = (struct aqi_port){.ops = &aqi_port_socket, .address = address_of("127.0.0.1")};
    port->others[0] = address_of("127.0.0.9");
    port->other_count = several;
    return udp;
}

static void malformed_addresses_are_refused(void **state)
{
    struct aqi_port port;
    struct udp_tp udp = open_udp(&port, false);
    struct udp_job_addr read;
    struct aqi_dgram_addr at;
    for (unsigned count = 0; count <= AQI_DGRAM_WAYS + 1; count++) {
        bool good = count >= 1 && count <= AQI_DGRAM_WAYS;
        fill_announced(count);
        assert_int_equal(udp_ways_announced(&udp, 3, &read), good ? AQ_OK : AQ_EPROTO);
        assert_int_equal(udp_hook_lookup(&udp, 3, &at), good ? AQ_OK : AQ_EPROTO);
        for (unsigned bad = 0; good && bad < AQI_DGRAM_WAYS; bad++)
            for (unsigned len = 0; len <= 32; len += 32) {
                fill_announced(count);
                announced.addr.at[bad].len = (uint8_t)len;
                assert_int_equal(udp_ways_announced(&udp, 3, &read),
                                 bad < count ? AQ_EPROTO : AQ_OK);
            }
    }
    fill_announced(1);
    announced.addr.at[0].len = 31;
    assert_int_equal(udp_ways_announced(&udp, 3, &read), AQ_OK);
    for (unsigned i = 0; i < sizeof(announced.addr.magic); i++) {
        fill_announced(1);
        announced.addr.magic[i] ^= 1;
        assert_int_equal(udp_ways_announced(&udp, 3, &read), AQ_EPROTO);
    }
    for (int off = -1; off <= 1; off += 2) {
        fill_announced(1);
        announced.len = (size_t)((int)sizeof(announced.addr) + off);
        assert_int_equal(udp_ways_announced(&udp, 3, &read), AQ_EPROTO);
    }
    announced.len = 0;
    assert_int_equal(udp_ways_announced(&udp, 3, &read), AQ_ENOTSUP);
    announced.status = AQ_AGAIN;
    assert_int_equal(udp_ways_announced(&udp, 3, &read), AQ_AGAIN);
}

/* Addresses of another family, or without a route, are no ways, unless all are such: then the first
 * is. */
static void ways_have_a_route(void **state)
{
    struct aqi_port port;
    struct udp_tp udp = open_udp(&port, false);
    struct aqi_dgram_addr to, own;
    fill_announced(3);
    announced.addr.at[0] = address_of("::1");
    announced.addr.at[1] = address_of("127.0.0.2");
    assert_false(udp_hook_way(&udp, 3, 0, &to, &own));
    assert_true(udp_hook_way(&udp, 3, 1, &to, &own));
    assert_memory_equal(&to, &announced.addr.at[1], sizeof(to));
    assert_memory_equal(&own, &port.address, sizeof(own));
    assert_true(udp_hook_way(&udp, 3, 2, &to, &own));
    assert_false(udp_hook_way(&udp, 3, 3, &to, &own));
    fill_announced(2);
    announced.addr.at[0] = announced.addr.at[1] = address_of("::1");
    assert_true(udp_hook_way(&udp, 3, 0, &to, &own));
    assert_false(udp_hook_way(&udp, 3, 1, &to, &own));
    announced.addr.count = 0;
    assert_false(udp_hook_way(&udp, 3, 0, &to, &own));
}

/* If we have several addresses, ours is the one that the kernel uses; all of them are announced. */
static void own_address_is_the_kernels(void **state)
{
    struct aqi_port port;
    struct udp_tp udp = open_udp(&port, true);
    struct aqi_dgram_addr to, own, wanted = address_of("127.0.0.1");
    size_t len = 0;
    port.address = address_of("127.0.0.7");
    fill_announced(1);
    assert_true(udp_hook_way(&udp, 3, 0, &to, &own));
    assert_memory_equal(&own, &wanted, sizeof(own));
    fill_announced(1);
    assert_int_equal(udp_address(&udp.tp, &announced.addr, &len), AQ_OK);
    assert_int_equal(len, sizeof(announced.addr));
    struct udp_job_addr read;
    assert_int_equal(udp_ways_announced(&udp, 3, &read), AQ_OK);
    assert_int_equal(read.count, 2);
    assert_memory_equal(&read.at[0], &port.address, sizeof(read.at[0]));
    assert_memory_equal(&read.at[1], &port.others[0], sizeof(read.at[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_addresses_are_refused),
        cmocka_unit_test(ways_have_a_route),
        cmocka_unit_test(own_address_is_the_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
