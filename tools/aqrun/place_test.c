/* Tests place.c: which ranks run on which host, for many lists of hosts. */
#include "place.h"

#include "base/capture_test.h"
#include "base/fail.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hosts hosts_of(const char *list)
{
    struct hosts hosts = {0};
    if (*list != '\0' && !hosts_add_list(&hosts, "--hosts", list)) fail_msg("%s", hosts.why);
    hosts_settle(&hosts);
    return hosts;
}

static void placements(void **state)
{
    static const struct {
        const char *hosts;
        struct place_request request;
        const char *counts; /* of ranks, per host */
    } cases[] = {
        {"", {0, 0, false}, "1"},
        {"", {7, 0, false}, "7"},
        {"", {7, 1, false}, "7"},
        {"a,b,c", {0, 0, false}, "1 1 1"},
        {"a,b,c", {7, 0, false}, "3 2 2"},
        {"a,b,c", {2, 0, false}, "1 1"},
        {"a,b,c", {7, 2, false}, "4 3"},
        {"a,b,c", {0, 2, false}, "1 1"},
        {"a*4,b*2,c*3", {0, 0, false}, "4 2 3"},
        {"a*4,b*2,c*3", {5, 0, false}, "4 1"},
        {"a*4,b*2,c*3", {4, 0, false}, "4"},
        {"a*4,b*2,c*3", {0, 2, false}, "4 2"},
        {"a*4,b*2,c*3", {6, 3, false}, "2 2 2"},
        {"a*4,b*2,c*3", {8, 3, false}, "3 2 3"},
        {"a*4,b*1,c*3", {7, 3, false}, "3 1 3"},
        {"a*4,b*2,c*3", {9, 3, false}, "4 2 3"},
        {"a*4,b*2,c*3", {9, 0, true}, "4 2 3"},
        {"a*4,b*2", {7, 0, true}, "5 2"},
        {"a*4,b*2", {17, 0, true}, "12 5"},
        {"a*4,b*2", {15, 2, true}, "10 5"},
        {"a*1", {5, 0, true}, "5"},
        {"a*60000,b*60000", {65536, 0, false}, "60000 5536"},
        {"a*60000,b*60000", {65536, 2, false}, "32768 32768"},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct hosts hosts = hosts_of(cases[i].hosts);
        struct place place;
        char why[HOSTS_WHY], text[256] = "";
        if (!place_ranks(&place, &hosts, &cases[i].request, why)) fail_msg("%s", why);
        for (uint32_t k = 0; k < place.hosts; k++)
            aqi_append(text, sizeof(text), "%s%u", k > 0 ? " " : "", place_count(&place, k));
        assert_string_equal(text, cases[i].counts);
        free(place.first);
        hosts_free(&hosts);
    }
}

static void impossible_requests(void **state)
{
    static const struct {
        const char *hosts;
        struct place_request request;
        const char *why;
    } cases[] = {
        {"", {4, 2, false}, "-N 2: only this machine is known; name hosts"},
        {"a,b", {4, 3, false}, "-N 3: only 2 hosts are known; name more"},
        {"a,b", {1, 2, false}, "-n 1 -N 2: each host needs at least one process"},
        {"a*4,b*2", {7, 0, false}, "-n 7: the hosts in use (2) have only 6 slots;"},
        {"a*4,b*2", {7, 0, false}, "--oversubscribe"},
        {"a*4,b*2", {5, 1, false}, "-n 5: the hosts in use (1) have only 4 slots"},
        {"a*60000,b*60000", {0, 0, false}, "have 120000 slots, but a job has at most 65536"},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct hosts hosts = hosts_of(cases[i].hosts);
        struct place place;
        char why[HOSTS_WHY] = "";
        assert_false(place_ranks(&place, &hosts, &cases[i].request, why));
        if (strstr(why, cases[i].why) == NULL) fail_msg("%s", why);
        hosts_free(&hosts);
    }
}

/* For any request, all ranks are placed, each host used has some, and ranks map back to their
 * hosts. */
static void check_any(unsigned seed)
{
    char list[512] = "", why[HOSTS_WHY];
    srandom(seed);
    unsigned count = 1 + (unsigned)random() % 9;
    bool counted = random() % 2 == 0;
    for (unsigned i = 0; i < count; i++)
        aqi_append(list, sizeof(list), counted ? "n%u*%u," : "n%u,", i, 1 + (unsigned)random() % 5);
    struct hosts hosts = hosts_of(list);
    struct place_request request = {.ranks = (uint32_t)random() % 40,
                                    .hosts = (uint32_t)random() % (count + 1),
                                    .oversubscribe = random() % 2 == 0};
    struct place place;
    if (!place_ranks(&place, &hosts, &request, why)) {
        assert_true(why[0] != '\0');
        hosts_free(&hosts);
        return;
    }
    assert_true(request.ranks == 0 || place.ranks == request.ranks);
    assert_true(request.hosts == 0 || place.hosts == request.hosts);
    assert_true(place.first[0] == 0 && place.first[place.hosts] == place.ranks);
    for (uint32_t host = 0; host < place.hosts; host++) {
        assert_true(place_count(&place, host) > 0);
        if (hosts.counted && !request.oversubscribe)
            assert_true(place_count(&place, host) <= hosts.list[host].slots);
    }
    free(place.first);
    hosts_free(&hosts);
}

static void any(void **state)
{
    for (unsigned seed = 0; seed < 5000; seed++)
        check_any(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placements),
        cmocka_unit_test(impossible_requests),
        cmocka_unit_test(any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
