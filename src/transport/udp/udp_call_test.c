/* Calls over UDP: packets altered in each byte, proofs, secrets and where they are read, and URIs.
 */
#include "transport/udp/udp_call.h"

#include "transport/udp/udp_mac_test.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct udp_secret nothing, one = {{1}, true}, other = {{2}, true};

static struct udp_call sample(enum udp_call_kind kind, const struct udp_secret *secret)
{
    struct udp_call call = {.port = 7, .caller = "caller", .listener = "listener", .cookie = "c"};
    udp_call_seal(mac, secret, kind, &call);
    return call;
}

static void test_packets(void **state)
{
    struct udp_call call, read;
    unsigned char bytes[sizeof(call) + 1] = {0};
    for (unsigned kind = 1; kind < UDP_CALL_KINDS; kind++) {
        call = sample((enum udp_call_kind)kind, &one);
        memcpy(bytes, &call, sizeof(call));
        assert_true(udp_call_read(mac, bytes, sizeof(call), &read));
        assert_memory_equal(&read, &call, sizeof(call));
        for (size_t len = 0; len <= sizeof(bytes); len++)
            assert_int_equal(udp_call_read(mac, bytes, len, &read), len == sizeof(call));
        for (size_t i = 0; i < sizeof(call); i++) {
            bytes[i] ^= 0x10;
            assert_false(udp_call_read(mac, bytes, sizeof(call), &read));
            bytes[i] ^= 0x10;
        }
    }
    call = sample(UDP_CALL_KINDS, &one);
    assert_false(udp_call_read(mac, &call, sizeof(call), &read));
    call = sample((enum udp_call_kind)0, &one);
    assert_false(udp_call_read(mac, &call, sizeof(call), &read));
}

/* Packets that are whole, but of another version, or of another protocol. */
static void test_other_versions(void **state)
{
    static const uint8_t zeros[AQI_MAC_BYTES];
    struct udp_call read;
    for (unsigned i = 0; i < 4 * UDP_CALL_KINDS; i++) {
        enum udp_call_kind kind = (enum udp_call_kind)(i / 4);
        struct udp_call call = sample(kind, &one), wanted = {0};
        if (i % 4 == 1) call.version++;
        if (i % 4 == 2) call.packets++;
        if (i % 4 == 3) call.magic++;
        struct iovec iov = {.iov_base = &call, .iov_len = offsetof(struct udp_call, check)};
        aqi_mac_of(mac, zeros, &iov, 1, call.check);
        assert_int_equal(udp_call_read(mac, &call, sizeof(call), &read), i % 4 == 0 && kind != 0);
        bool same = kind == UDP_CALL_KNOCK || kind == UDP_CALL_OTHER;
        bool known = same && i % 4 != 0 && i % 4 != 3;
        assert_int_equal(udp_call_read_other(mac, &call, sizeof(call), &read), known);
        if (!known) continue;
        memcpy(&wanted, &call, offsetof(struct udp_call, listener));
        assert_memory_equal(&read, &wanted, sizeof(read));
        for (size_t at = 0; at < sizeof(call); at++) {
            assert_false(udp_call_read_other(mac, &call, at, &read));
            ((unsigned char *)&call)[at] ^= 0x10;
            assert_false(udp_call_read_other(mac, &call, sizeof(call), &read));
            ((unsigned char *)&call)[at] ^= 0x10;
        }
    }
}

/* A proof cannot be made without the secret, and no packet passes for one of another kind. */
static void test_proofs(void **state)
{
    const struct udp_secret *const secrets[] = {&nothing, &one, &other};
    for (unsigned i = 0; i < 3; i++)
        for (unsigned j = 0; j < 3; j++) {
            struct udp_call call = sample(UDP_CALL_TAKEN, secrets[i]);
            assert_int_equal(udp_call_proved(mac, secrets[j], &call), i == j);
            call.port++;
            assert_false(udp_call_proved(mac, secrets[j], &call));
            call.port--;
            call.kind = UDP_CALL_CALL;
            assert_false(udp_call_proved(mac, secrets[j], &call));
        }
}

static void test_keys(void **state)
{
    uint8_t a[UDP_CALL_BYTES] = {1}, b[UDP_CALL_BYTES] = {2}, key[6][AQI_MAC_BYTES];
    udp_secret_derive(mac, &one, "channel", a, b, key[0]);
    udp_secret_derive(mac, &one, "channel", b, a, key[1]);
    udp_secret_derive(mac, &one, "connection", a, b, key[2]);
    udp_secret_derive(mac, &other, "channel", a, b, key[3]);
    udp_secret_derive(mac, &nothing, "channel", a, b, key[4]);
    udp_secret_derive(mac, &one, "channel", a, b, key[5]);
    assert_memory_equal(key[0], key[5], AQI_MAC_BYTES);
    for (unsigned i = 0; i < 5; i++)
        for (unsigned j = 0; j < i; j++)
            assert_memory_not_equal(key[i], key[j], AQI_MAC_BYTES);
}

static void test_secrets(void **state)
{
    static const char *const bad[] = {"the secret itself", "fd:",   "fd:x",
                                      "fd:9999",           "fd:-1", "file:/nosuch/file"};
    struct udp_secret read, again;
    char setting[32];
    int pair[2], memory = memfd_create("secret", MFD_CLOEXEC);
    assert_int_equal(udp_secret_read("", mac, &read), AQ_OK);
    assert_false(read.is_set);
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++) {
        assert_int_equal(udp_secret_read(bad[i], mac, &read), AQ_ESETTING);
        assert_null(strstr(aq_error_message(), "the secret itself:"));
    }
    assert_int_equal(udp_secret_read("fd:x1", mac, &read), AQ_ESETTING);
    assert_non_null(strstr(aq_error_message(), "give file:PATH or fd:NUMBER"));
    /* A pipe and a file, whatever its offset, and the second time without it. */
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    assert_int_equal(write(pair[1], "sixteen bytes!!!", 16), 16);
    assert_int_equal(write(memory, "sixteen bytes!!!", 16), 16);
    close(pair[1]);
    snprintf(setting, sizeof(setting), "fd:%d", pair[0]);
    assert_int_equal(udp_secret_read(setting, mac, &read), AQ_OK);
    assert_true(read.is_set);
    assert_int_equal(fcntl(pair[0], F_GETFD), -1);
    assert_int_equal(udp_secret_read(setting, mac, &again), AQ_OK);
    assert_memory_equal(&read, &again, sizeof(read));
    snprintf(setting, sizeof(setting), "fd:%d", memory);
    assert_int_equal(udp_secret_read(setting, mac, &again), AQ_OK);
    assert_memory_equal(&read, &again, sizeof(read));
    /* Too short. */
    memory = memfd_create("secret", MFD_CLOEXEC);
    assert_int_equal(write(memory, "fifteen bytes!!", 15), 15);
    snprintf(setting, sizeof(setting), "fd:%d", dup(memory));
    assert_int_equal(udp_secret_read(setting, mac, &again), AQ_ESETTING);
    close(memory);
}

/* A descriptor of a secret, not closed by exec, like one that a program is given. */
static int secret_from(int least, const char *text)
{
    int memory = memfd_create("secret", MFD_CLOEXEC);
    assert_int_equal(write(memory, text, strlen(text)), strlen(text));
    int fd = fcntl(memory, F_DUPFD, least);
    assert_true(fd >= least);
    close(memory);
    return fd;
}

/* The number of a descriptor is read completely, and as decimal only. */
static void test_numbers_of_descriptors(void **state)
{
    static const char *const forms[] = {"fd:%lld", "fd:0%lld", "fd:000000000000000000000%lld"};
    struct udp_secret read;
    char setting[64];
    for (size_t i = 0; i < AQI_COUNT_OF(forms); i++) {
        long long fd = secret_from(90, "sixteen bytes!!!");
        /* Not a number; and a number that is a descriptor only modulo 2^32. */
        snprintf(setting, sizeof(setting), "fd:%lldx", fd);
        assert_int_equal(udp_secret_read(setting, mac, &read), AQ_ESETTING);
        snprintf(setting, sizeof(setting), "fd:%lld", fd + (1ll << 32));
        assert_int_equal(udp_secret_read(setting, mac, &read), AQ_ESETTING);
        snprintf(setting, sizeof(setting), forms[i], fd);
        assert_int_equal(udp_secret_read(setting, mac, &read), AQ_OK);
        assert_true(read.is_set);
        assert_int_equal(fcntl((int)fd, F_GETFD), -1);
    }
}

/* The contents of a descriptor are kept, unless the setting is too long for that. */
static void test_secrets_kept(void **state)
{
    for (int len = 31; len <= 33; len++) {
        struct udp_secret read, again;
        char setting[64];
        int fd = secret_from(90, "sixteen bytes!!!");
        snprintf(setting, sizeof(setting), "fd:%0*d", len - 3, fd);
        assert_int_equal(udp_secret_read(setting, mac, &read), AQ_OK);
        assert_int_equal(udp_secret_read(setting, mac, &again), len < 32 ? AQ_OK : AQ_ESETTING);
        assert_int_equal(again.is_set, len < 32);
        if (again.is_set) assert_memory_equal(&read, &again, sizeof(read));
    }
}

/* Reasons of failures: it cannot be read, or is too short, even empty. */
static void test_descriptors_that_fail(void **state)
{
    struct udp_secret read;
    char setting[32];
    int pair[2];
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    snprintf(setting, sizeof(setting), "fd:%d", pair[1]);
    assert_int_equal(udp_secret_read(setting, mac, &read), AQ_ESETTING);
    assert_non_null(strstr(aq_error_message(), "cannot read AQ_CONNECT_SECRET"));
    close(pair[0]);
    snprintf(setting, sizeof(setting), "fd:%d", secret_from(90, ""));
    assert_int_equal(udp_secret_read(setting, mac, &read), AQ_ESETTING);
    assert_non_null(strstr(aq_error_message(), "holds 0 bytes: it must have 16 to 4095"));
    assert_false(read.is_set);
}

/* All of it is read, and only once, whatever its offset, the number of pieces, and any failure
 * before. */
static void test_all_is_read(void **state)
{
    struct udp_secret read[3];
    char setting[32];
    int pair[2];
    for (unsigned i = 0; i < 2; i++) {
        int fd = secret_from(90 + (int)i, "seventeen bytes!!");
        assert_int_equal(lseek(fd, 0, i == 0 ? SEEK_SET : SEEK_END), i == 0 ? 0 : 17);
        snprintf(setting, sizeof(setting), "fd:00%d", fd);
        errno = ESPIPE;
        assert_int_equal(udp_secret_read(setting, mac, &read[i]), AQ_OK);
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(send(pair[1], "seventeen bytes!", 16, 0), 16);
    assert_int_equal(send(pair[1], "!", 1, 0), 1);
    close(pair[1]);
    snprintf(setting, sizeof(setting), "fd:0000%d", pair[0]);
    assert_int_equal(udp_secret_read(setting, mac, &read[2]), AQ_OK);
    for (unsigned i = 1; i < 3; i++)
        assert_memory_equal(&read[0], &read[i], sizeof(read[0]));
}

/* The file may become descriptor 0 in a process without standard input. */
static void test_without_an_input(void **state)
{
    struct udp_secret read;
    char setting[64];
    int input = fcntl(0, F_DUPFD_CLOEXEC, 3), memory = secret_from(90, "sixteen bytes!!!");
    assert_int_equal(fchmod(memory, 0600), 0);
    snprintf(setting, sizeof(setting), "file:/proc/self/fd/%d", memory);
    close(0);
    aq_status st = udp_secret_read(setting, mac, &read);
    if (input >= 0) dup2(input, 0), close(input);
    assert_int_equal(st, AQ_OK);
    assert_true(read.is_set);
    close(memory);
}

/* A file that no other user may read, with the greatest and the least length. */
static void test_secret_files(void **state)
{
    static const struct {
        mode_t mode;
        off_t len;
        aq_status status;
    } files[] = {{0600, 16, AQ_OK},         {0400, 4095, AQ_OK},       {0600, 15, AQ_ESETTING},
                 {0600, 4096, AQ_ESETTING}, {0640, 16, AQ_EACCESS},    {0601, 16, AQ_EACCESS},
                 {0604, 16, AQ_EACCESS},    {0600, 10000, AQ_ESETTING}};
    struct udp_secret read, again;
    for (size_t i = 0; i < AQI_COUNT_OF(files); i++) {
        char setting[64];
        /* A file without a name, so that nothing is left behind, however this ends. */
        int fd = memfd_create("secret", MFD_CLOEXEC);
        assert_true(fd >= 0);
        snprintf(setting, sizeof(setting), "file:/proc/self/fd/%d", fd);
        assert_int_equal(ftruncate(fd, files[i].len) | fchmod(fd, files[i].mode), 0);
        assert_int_equal(udp_secret_read(setting, mac, &read), files[i].status);
        assert_int_equal(read.is_set, files[i].status == AQ_OK);
        /* Unlike a descriptor it is read each time. */
        assert_int_equal(pwrite(fd, "x", 1, 0), 1);
        if (read.is_set) {
            assert_int_equal(udp_secret_read(setting, mac, &again), AQ_OK);
            assert_memory_not_equal(&read, &again, sizeof(read));
        }
        close(fd);
    }
}

static void test_uris(void **state)
{
    static const struct {
        const char *uri, *host, *port;
    } good[] = {{"udp://", "", "0"},         {"udp://:7000", "", "7000"},
                {"udp://host", "host", "0"}, {"udp://10.0.0.7:65535", "10.0.0.7", "65535"},
                {"udp://[::1]", "::1", "0"}, {"udp://[fe80::1%eth0]:1", "fe80::1%eth0", "1"}};
    static const char *const bad[] = {
        "",           "udp",        "udp:/",        "shm://x",        "udp://h:",   "udp://h:65536",
        "udp://h:1x", "udp://::1",  "udp://[]:1",   "udp://[::1",     "udp://a b",  "udp://a/b",
        "udp://u@h",  "udp://h:-1", "udp://[::1]x", "udp://h:000001", "UDP://host", "udp://a]"};
    struct udp_uri read;
    char longer[AQI_URI_MAX + 32] = "udp://";
    for (size_t i = 0; i < AQI_COUNT_OF(good); i++) {
        assert_true(udp_uri_read(good[i].uri, &read));
        assert_string_equal(read.host, good[i].host);
        assert_string_equal(read.port, good[i].port);
    }
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++)
        assert_false(udp_uri_read(bad[i], &read));
    memset(longer + 6, 'a', AQI_URI_MAX + 1);
    assert_false(udp_uri_read(longer, &read));
    longer[6 + UDP_HOST_MAX + 1] = 0;
    assert_false(udp_uri_read(longer, &read));
    longer[6 + UDP_HOST_MAX] = 0;
    assert_true(udp_uri_read(longer, &read));
    assert_true(udp_uri_read("udp://~!:1", &read));
    assert_string_equal(read.host, "~!");
    assert_false(udp_uri_read("udp://a\177", &read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packets),      cmocka_unit_test(test_other_versions),
        cmocka_unit_test(test_proofs),       cmocka_unit_test(test_keys),
        cmocka_unit_test(test_secrets),      cmocka_unit_test(test_numbers_of_descriptors),
        cmocka_unit_test(test_secrets_kept), cmocka_unit_test(test_descriptors_that_fail),
        cmocka_unit_test(test_all_is_read),  cmocka_unit_test(test_without_an_input),
        cmocka_unit_test(test_secret_files), cmocka_unit_test(test_uris),
    };
    if (mac_is_missing()) return 77;
    return cmocka_run_group_tests_name("transport/udp/udp_call", tests, test_open, test_close);
}
