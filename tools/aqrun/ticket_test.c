/* Tests ticket.c: tickets of this and other versions, truncated anywhere, and malformed. */
#include "ticket.h"

#include "base/capture_test.h"
#include <aqueduct/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *addresses[] = {"192.0.2.1:40123,[2001:db8::1]:40123", "192.0.2.9:40000", NULL};
static const char *argv[] = {"./program", "a b", "", "'\"$\n", NULL};
static const char *environment[] = {"A=", "B=x=y", "AWKWARD=\001\377\n", NULL};
static const struct ticket_host tree[] = {{2, 8, 4, "n2"}, {5, 20, 1, "me@n5"}, {6, 21, 3, "n6"}};
static const struct ticket_limit limits[] = {{3, 8 << 20, UINT64_MAX}, {7, 1024, 4096}};

static const struct ticket whole = {
    .key = "0123456789abcde",
    .job = "4711-abc",
    .ranks = 24,
    .hosts = 7,
    .host = 2,
    .fanout = 2,
    .addresses = addresses,
    .ports = "40000-40200",
    .tree = tree,
    .tree_count = 3,
    .folder = "/home/me/a folder",
    .argv = argv,
    .environment = environment,
    .umask = 022,
    .limits = limits,
    .limit_count = 2,
    .flags = TICKET_BIND | TICKET_SURVIVE,
    .ssh_command = "ssh",
    .ssh_options = "-p 2222",
    .remote_aqrun = "",
    .output = "out/%r",
    .ssh_timeout_ns = 30000000000,
    .start_timeout_ns = 60000000000,
    .exit_timeout_ns = 2000000000,
    .host_timeout_ns = 10000000000,
};

static char why[TICKET_WHY]; /* of the last failure */

static uint8_t *encode(const struct ticket *ticket, size_t *len)
{
    uint8_t *bytes = ticket_encode(ticket, len, why);
    if (bytes == NULL) fail_msg("%s", why);
    return bytes;
}

static ssize_t decode(const uint8_t *bytes, size_t len, struct ticket *ticket)
{
    return ticket_decode(bytes, len, false, "aqrun", ticket, why);
}

static void assert_texts(const char **a, const char **b)
{
    for (; *b != NULL; a++, b++)
        assert_string_equal(*a, *b);
    assert_null(*a);
}

static void there_and_back(void **state)
{
    size_t len;
    struct ticket t;
    uint8_t *bytes = encode(&whole, &len);
    assert_int_equal(decode(bytes, len, &t), len);
    assert_memory_equal(t.key, whole.key, sizeof(t.key));
    assert_string_equal(t.job, whole.job);
    assert_int_equal(t.ranks, whole.ranks);
    assert_string_equal(t.ports, whole.ports);
    assert_texts(t.addresses, addresses);
    assert_texts(t.argv, argv);
    assert_texts(t.environment, environment);
    assert_string_equal(t.folder, whole.folder);
    assert_int_equal(t.tree_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(t.tree[i].number, tree[i].number);
        assert_int_equal(t.tree[i].first, tree[i].first);
        assert_int_equal(t.tree[i].count, tree[i].count);
        assert_string_equal(t.tree[i].name, tree[i].name);
    }
    assert_int_equal(t.limit_count, 2);
    assert_memory_equal(t.limits, limits, sizeof(limits));
    assert_int_equal(t.umask, 022);
    assert_int_equal(t.flags, whole.flags);
    assert_string_equal(t.ssh_options, "-p 2222");
    assert_string_equal(t.output, "out/%r");
    assert_int_equal(t.ssh_timeout_ns, whole.ssh_timeout_ns);
    assert_int_equal(t.start_timeout_ns, whole.start_timeout_ns);
    ticket_free(&t);
    free(bytes);
}

/* Bytes after a ticket are not consumed. */
static void bytes_after(void **state)
{
    size_t len;
    struct ticket t;
    uint8_t *bytes = encode(&whole, &len);
    bytes = realloc(bytes, len + 5);
    assert_non_null(bytes);
    memcpy(bytes + len, "later", 5);
    assert_int_equal(decode(bytes, len + 5, &t), len);
    ticket_free(&t);
    free(bytes);
}

static void truncated(void **state)
{
    size_t len;
    struct ticket t;
    uint8_t *bytes = encode(&whole, &len);
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *piece = malloc(cut + 1); /* so that a read beyond its end is detected */
        assert_non_null(piece);
        memcpy(piece, bytes, cut);
        assert_int_equal(decode(piece, cut, &t), 0);
        assert_int_equal(ticket_decode(piece, cut, true, "aqrun", &t, why), -1);
        assert_non_null(strstr(why, "the ticket ended after"));
        free(piece);
    }
    free(bytes);
}

static void other_versions(void **state)
{
    static const char *const lines[] = {"aqrun ticket 0 0.0.1\n", "aqrun ticket 99 12.3.4-rc1\n",
                                        "aqrun ticket 2 99.0.0\nand what it has"};
    for (size_t i = 0; i < AQI_COUNT_OF(lines); i++) {
        char version[32];
        struct ticket t;
        assert_int_equal(sscanf(lines[i], "aqrun ticket %*u %31s", version), 1);
        assert_int_equal(ticket_decode((const uint8_t *)lines[i], strlen(lines[i]), false,
                                       "/opt/bin/aqrun", &t, why),
                         -1);
        assert_non_null(strstr(why, version));
        assert_non_null(strstr(why, aq_version()));
        assert_non_null(strstr(why, "/opt/bin/aqrun on this host"));
        assert_non_null(strstr(why, "AQ_REMOTE_AQRUN"));
    }
}

static void no_tickets(void **state)
{
    static const char *const texts[][2] = {
        {"Welcome\n", "no ticket on"},
        {"aqrun tickot 1", "no ticket on"},
        {"aqrun ticket x y\n", "the ticket is damaged: its first line is invalid"},
        {"aqrun ticket 1 \033[0m\n", "the ticket is damaged: its first line is invalid"},
        {"aqrun ticket 1 11111111111111111111111111111111111111111111111111111111111111111111111",
         "the ticket is damaged: its first line is invalid"},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(texts); i++) {
        struct ticket t;
        const uint8_t *text = (const uint8_t *)texts[i][0];
        assert_int_equal(decode(text, strlen(texts[i][0]), &t), -1);
        if (strstr(why, texts[i][1]) == NULL) fail_msg("%s: %s", texts[i][0], why);
    }
}

static void refused(const struct ticket *ticket, const char *field)
{
    size_t len;
    char wanted[64];
    struct ticket t;
    uint8_t *bytes = encode(ticket, &len);
    assert_int_equal(decode(bytes, len, &t), -1);
    snprintf(wanted, sizeof(wanted), ": invalid %s", field);
    if (strstr(why, wanted) == NULL) fail_msg("%s: %s", field, why);
    free(bytes);
}

static void invalid_fields(void **state)
{
    static const char *none[] = {NULL}, *nameless[] = {"A=1", "B", NULL};
    static const struct ticket_host beyond[] = {{2, 21, 4, "n2"}}, strange[] = {{3, 0, 1, "n3"}};
    struct ticket t = whole;
    t.ranks = 0;
    refused(&t, "ranks");
    t = whole;
    t.hosts = 26;
    refused(&t, "hosts");
    t = whole;
    t.host = 7;
    refused(&t, "host");
    t.host = 0;
    refused(&t, "host");
    t = whole;
    t.fanout = 0;
    refused(&t, "fanout");
    t = whole;
    t.argv = none;
    refused(&t, "argv");
    t = whole;
    t.addresses = none;
    refused(&t, "addresses");
    t = whole;
    t.environment = nameless;
    refused(&t, "environment");
    t = whole;
    t.tree_count = 0;
    refused(&t, "tree");
    t.tree_count = 1;
    t.tree = beyond;
    refused(&t, "tree");
    t.tree = strange;
    refused(&t, "tree");
    static const struct ticket_host second[][2] = {{{2, 8, 4, "n2"}, {7, 20, 1, "n7"}},
                                                   {{2, 8, 4, "n2"}, {5, 20, 0, "n5"}},
                                                   {{2, 8, 4, "n2"}, {5, 20, 1, ""}},
                                                   {{2, 8, 4, "n2"}, {5, 24, 1, "n5"}}};
    t.tree_count = 2;
    for (size_t i = 0; i < AQI_COUNT_OF(second); i++) {
        t.tree = second[i];
        refused(&t, "tree");
    }
    static const char *empty[] = {"", NULL};
    t = whole;
    t.argv = empty;
    refused(&t, "argv");
    t = whole;
    t.umask = 01000;
    refused(&t, "umask");
}

static void extreme_fields(void **state)
{
    static const char *shortest[] = {"x", NULL};
    static const struct ticket_host last[] = {{2, 23, 1, "n"}, {6, 0, 24, "n"}};
    size_t len;
    struct ticket t = whole, got;
    t.argv = shortest;
    t.umask = 0777;
    t.tree = last;
    t.tree_count = 2;
    uint8_t *bytes = encode(&t, &len);
    assert_int_equal(decode(bytes, len, &got), len);
    ticket_free(&got);
    free(bytes);
}

static size_t find(const uint8_t *bytes, size_t len, const char *name)
{
    const uint8_t *at = memmem(bytes, len, name, strlen(name));
    assert_non_null(at);
    return (size_t)(at - bytes);
}

/* A ticket of a compatible version is accepted, with a message. */
static void other_patch(void **state)
{
    struct ticket got;
    size_t len, head;
    uint8_t *bytes = encode(&whole, &len);
    strcpy(why, "x");
    assert_true(ticket_decode(bytes, len, true, "aqrun", &got, why) > 0);
    assert_string_equal(why, "");
    ticket_free(&got);
    head = (size_t)((uint8_t *)memchr(bytes, '\n', len) - bytes);
    bytes[head - 1] ^= 1; /* the last digit */
    assert_int_equal(ticket_decode(bytes, len, true, "aqrun", &got, why), len);
    assert_non_null(strstr(why, "they are compatible"));
    assert_non_null(strstr(why, aq_version()));
    ticket_free(&got);
    free(bytes);
}

/* A field with another name is skipped, but then its own is missing. */
static void missing_or_repeated(void **state)
{
    size_t len;
    struct ticket t;
    uint8_t *bytes = encode(&whole, &len);
    bytes[find(bytes, len, "umask")] = 'x';
    assert_int_equal(decode(bytes, len, &t), -1);
    assert_non_null(strstr(why, "umask is missing"));
    memcpy(bytes + find(bytes, len, "xmask"), "ranks", 5);
    assert_int_equal(decode(bytes, len, &t), -1);
    assert_non_null(strstr(why, "it contains ranks twice"));
    free(bytes);
}

static void unknown_fields(void **state)
{
    static const uint8_t later[] = "\5later\3\0\0\0abc";
    size_t len, more = sizeof(later) - 1;
    struct ticket t;
    uint8_t *bytes = encode(&whole, &len), *longer = malloc(len + more);
    assert_non_null(longer);
    memcpy(longer, bytes, len);
    memcpy(longer + len, later, more);
    size_t at = (size_t)((uint8_t *)memchr(bytes, '\n', len) - bytes) + 1;
    uint32_t body = (uint32_t)(len + more - at - 4);
    memcpy(longer + at, &body, sizeof(body));
    assert_int_equal(decode(longer, len + more, &t), len + more);
    ticket_free(&t);
    free(bytes);
    free(longer);
}

static void too_large(void **state)
{
    size_t len;
    struct ticket t = whole;
    char *folder = malloc(TICKET_MAX + 1);
    assert_non_null(folder);
    memset(folder, 'x', TICKET_MAX);
    folder[TICKET_MAX] = '\0';
    t.folder = folder;
    assert_null(ticket_encode(&t, &len, why));
    assert_non_null(strstr(why, "at most 32 MB can be sent to other hosts: pass fewer variables"));
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),      cmocka_unit_test(bytes_after),
        cmocka_unit_test(truncated),           cmocka_unit_test(other_versions),
        cmocka_unit_test(other_patch),         cmocka_unit_test(no_tickets),
        cmocka_unit_test(invalid_fields),      cmocka_unit_test(extreme_fields),
        cmocka_unit_test(missing_or_repeated), cmocka_unit_test(unknown_fields),
        cmocka_unit_test(too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
