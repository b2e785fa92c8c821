/* Tests hosts.c: mappings as managers write them, and the resulting hosts. */
#include "manager_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 12

/* The nodes of ranks 0, 1, … as letters. */
static void expect_mapping(const char *text, const char *nodes)
{
    uint64_t node_of[MOST];
    char got[MOST + 1] = "";
    uint32_t size = (uint32_t)strlen(nodes);
    assert_true(manager_mapping(text, size, node_of));
    for (uint32_t rank = 0; rank < size; rank++)
        got[rank] = (char)('a' + node_of[rank]);
    assert_string_equal(got, nodes);
}

static void mappings_of_managers(void **state)
{
    expect_mapping("(vector,(0,1,1))", "a");
    expect_mapping("(vector,(0,2,4))", "aaaabbbb");
    expect_mapping("(vector,(0,1,2),(1,1,1))", "aab");
    expect_mapping("(vector,(0,3,1),(0,1,2),(2,1,1))", "abcaac");
    /* Longer and shorter than the job. */
    expect_mapping("(vector,(0,1,1))", "aaaa");
    expect_mapping("(vector,(0,2,2))", "aabbaabb");
    expect_mapping("(vector,(0,2,2),(2,1,1))", "aabbcaabb");
    expect_mapping("(vector,(0,4294967295,8))", "aaa");
}

static void malformed_mappings(void **state)
{
    static const char *const bad[] = {
        "",
        "(",
        "(vector",
        "(vector)",
        "(vector,)",
        "(vector,(0,1,1)",
        "(vector,(0,1,1)))",
        "(vector,(0,1,0))",
        "(vector,(0,0,1))",
        "(vector,(0,1))",
        "(vector,(0,1,1,1))",
        "(vector,(-1,1,1))",
        "(vector,(0,1,1) )",
        "(vector,(0,1,1),",
        "(vector,(0,1,1),)",
        "(vector,(0,1,4294967296))",
        "(vector,(0,1,99999999999))",
        "(vector,(0,1,4294967297))",
        "(vector,(,1,1))",
        "(vector,(0,1,))",
        "(vector,(0;1,1))",
        "(vector,(0,1,1;)",
        "(vectox,(0,1,1))",
        "(flat,(0,1,1))",
        "(vector,(0,1,1))x",
        "(vector,( 0,1,1))",
    };
    uint64_t node_of[MOST];
    for (size_t i = 0; i < AQI_COUNT_OF(bad); i++)
        if (manager_mapping(bad[i], MOST, node_of)) fail_msg("taken: %s", bad[i]);
}

static void a_mapping_of_too_many_blocks(void **state)
{
    size_t room = 100000;
    char *text = malloc(room);
    uint64_t node_of[MOST];
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "(vector");
    while (used + 20 < room)
        used += (size_t)sprintf(text + used, ",(0,1,1)");
    strcpy(text + used, ")");
    assert_false(manager_mapping(text, MOST, node_of));
    free(text);
}

/* Check what `rank` learns if the ranks are on these nodes. */
static struct aqi_manager hosts_of(uint32_t rank, const char *nodes, char numbers[MOST + 1])
{
    struct aqi_manager manager = {.info = {.rank = rank, .size = (uint32_t)strlen(nodes)}};
    uint64_t node_of[MOST];
    for (uint32_t i = 0; i < manager.info.size; i++)
        node_of[i] = (uint64_t)nodes[i] << 40;
    assert_int_equal(manager_set_hosts(&manager, node_of), AQ_OK);
    for (uint32_t i = 0; i < manager.info.size; i++)
        numbers[i] = (char)('0' + manager.info.host_of[i]);
    numbers[manager.info.size] = '\0';
    return manager;
}

static void hosts_are_numbered_by_ranks(void **state)
{
    char numbers[MOST + 1];
    struct aqi_manager manager = hosts_of(3, "zbzbaa", numbers);
    assert_string_equal(numbers, "010122");
    assert_int_equal(manager.info.hosts, 3);
    assert_int_equal(manager.info.host, 1);
    assert_int_equal(manager.info.local_rank, 1);
    assert_int_equal(manager.info.local_size, 2);
    assert_int_equal(aqi_manager_first(&manager, 0), 0);
    assert_int_equal(aqi_manager_first(&manager, 1), 1);
    assert_int_equal(aqi_manager_first(&manager, 2), 4);
    free(manager.info.host_of);
    manager = hosts_of(0, "q", numbers);
    assert_string_equal(numbers, "0");
    assert_int_equal(manager.info.local_size, 1);
    free(manager.info.host_of);
}

/* A manager without a mapping, which passes on the values put by ranks. */
static struct {
    uint64_t other; /* what ranks 1 and 2 have put */
    uint64_t mine;
    size_t other_len;
    uint32_t missing; /* this rank has put nothing */
    aq_status put, fence;
    bool fenced;
} asked;

static aq_status asked_put(struct aqi_manager *manager, const char *key, const void *value,
                           size_t len)
{
    assert_string_equal(key, "aq-host");
    assert_int_equal(len, sizeof(asked.mine));
    memcpy(&asked.mine, value, len);
    return asked.put;
}

static aq_status asked_fence(struct aqi_manager *manager)
{
    asked.fenced = true;
    return asked.fence;
}

static aq_status asked_get(struct aqi_manager *manager, uint32_t rank, const char *key, void *value,
                           size_t room, size_t *len)
{
    assert_true(asked.fenced);
    assert_int_equal(room, sizeof(uint64_t));
    if (rank == asked.missing) return AQ_EINVAL;
    bool other = rank == 1 || rank == 2;
    *len = other ? asked.other_len : sizeof(uint64_t);
    memcpy(value, other ? &asked.other : &asked.mine, *len);
    return AQ_OK;
}

static const struct aqi_manager_kind asked_kind = {
    .name = "test", .put = asked_put, .fence = asked_fence, .get = asked_get};

static aq_status ask(const char *mapping, struct aqi_manager *manager)
{
    *manager = (struct aqi_manager){.kind = &asked_kind, .info = {.rank = 3, .size = 4}};
    asked.fenced = false;
    return manager_map_hosts(manager, mapping);
}

static void names_are_exchanged_without_a_mapping(void **state)
{
    static const char *const mappings[] = {NULL, "", "(flat,(0,1,1))"};
    struct aqi_manager manager;
    memset(&asked, 0, sizeof(asked));
    asked.other_len = sizeof(uint64_t);
    asked.missing = UINT32_MAX;
    for (size_t i = 0; i < AQI_COUNT_OF(mappings); i++) {
        asked.other = 7;
        assert_int_equal(ask(mappings[i], &manager), AQ_OK);
        assert_true(asked.mine != 0 && asked.mine != AQI_HASH_SEED);
        assert_int_equal(manager.info.hosts, 2);
        assert_int_equal(manager.info.host, 0);
        assert_int_equal(manager.info.local_rank, 1);
        assert_int_equal(manager.info.local_size, 2);
        assert_int_equal(manager.info.host_of[1], 1);
        assert_int_equal(manager.info.host_of[2], 1);
        free(manager.info.host_of);
    }
    assert_int_equal(ask("(vector,(0,1,4))", &manager), AQ_OK);
    assert_false(asked.fenced);
    assert_int_equal(manager.info.hosts, 1);
    free(manager.info.host_of);
    asked.other_len = 4;
    assert_int_equal(ask(NULL, &manager), AQ_EPROTO);
    asked.other_len = sizeof(uint64_t);
    asked.missing = 0;
    assert_int_equal(ask(NULL, &manager), AQ_EINVAL);
    asked.missing = UINT32_MAX;
    asked.fence = AQ_EPEER;
    assert_int_equal(ask(NULL, &manager), AQ_EPEER);
    asked.put = AQ_EREFUSED;
    assert_int_equal(ask(NULL, &manager), AQ_EREFUSED);
    assert_false(asked.fenced);
}

static void invalid_ranks(void **state)
{
    static const struct {
        uint32_t rank, size;
        bool can;
    } cases[] = {{0, 1, true},  {65535, 65536, true}, {0, 0, false},
                 {1, 1, false}, {0, 65537, false},    {UINT32_MAX, 2, false}};
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct aqi_manager manager = {.kind = &aqi_manager_pmi,
                                      .info = {.rank = cases[i].rank, .size = cases[i].size}};
        aq_status status = manager_check_ranks(&manager);
        assert_int_equal(status, cases[i].can ? AQ_OK : AQ_EPROTO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mappings_of_managers),
        cmocka_unit_test(malformed_mappings),
        cmocka_unit_test(a_mapping_of_too_many_blocks),
        cmocka_unit_test(hosts_are_numbered_by_ranks),
        cmocka_unit_test(names_are_exchanged_without_a_mapping),
        cmocka_unit_test(invalid_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
