/*
 * The contract suite: every case in one kind of world.
 *
 *   contract TRANSPORT [--ranks N] [--as-threads] [--threads] [--fault SPEC]
 *            [--case PART|PART] [--without PART|PART] [--hosts PATH] [--shows TEXT] [--in-memory]
 *
 * --in-memory: the packets of udp go through a network inside the process.
 * TEST_SEED repeats a run; the seed is printed.
 */
#include "harness.h"
#include "toy.h"

#include "base/settings.h"
#include "dgram/ports/memory_port_test.h"
#include "transport/layers/fault.h"
#include "transport/udp/udp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct ct_config contract_config = {.ranks = 1, .timeout_s = 120, .seed = 1};
static const char *contract_part = "", *contract_without;

static const struct ct_case *const contract_tables[] = {
    ct_cases_life,   ct_cases_am,         ct_cases_flow,   ct_cases_rma,
    ct_cases_atomic, ct_cases_rendezvous, ct_cases_threads};

static void contract_run(void **state)
{
    const struct ct_case *c = *state;
    char reason[128];
    int result = ct_world_run(&contract_config, c, reason);
    if (result == 77) {
        print_message("          %s\n", reason);
        skip();
    }
    if (result != 0)
        fail_msg("%s: see above (TEST_SEED=%llu)", c->name,
                 (unsigned long long)contract_config.seed);
}

/* Whether the name contains one of the parts, which are separated by "|". */
static bool contract_is_named(const struct ct_case *c, const char *parts)
{
    char part[64];
    for (const char *at = parts;; at++) {
        size_t len = strcspn(at, "|");
        snprintf(part, sizeof(part), "%.*s", (int)len, at);
        if (strstr(c->name, part) != NULL) return true;
        at += len;
        if (*at == 0) return false;
    }
}

static bool contract_applies(const struct ct_case *c)
{
    const struct ct_config *config = &contract_config;
    if ((c->needs & CT_PEERS) != 0 && config->ranks < 2) return false;
    if ((c->needs & CT_PROCESSES) != 0 && config->as_threads) return false;
    if ((c->needs & CT_THREADS) != 0 && !config->threads) return false;
    bool deadly = config->fault != NULL && strstr(config->fault, "die=") != NULL;
    if (deadly != ((c->needs & CT_DEADLY) != 0)) return false;
    if ((c->needs & CT_CLEAN) != 0 && config->fault != NULL) return false;
    if (contract_without != NULL && contract_is_named(c, contract_without)) return false;
    return contract_is_named(c, contract_part);
}

static int contract_usage(const char *what)
{
    fprintf(stderr,
            "contract: %s\nusage: contract TRANSPORT [--ranks N] [--as-threads] [--threads] "
            "[--fault SPEC] [--case PART|PART] [--without PART|PART] [--hosts PATH] [--shows TEXT] "
            "[--weather LOSS,DUPLICATION,OVERTAKING] [--in-memory]\n",
            what);
    return 2;
}

static bool contract_weather(const char *text)
{
    return sscanf(text, "%u,%u,%u", &toy_weather.loss, &toy_weather.duplication,
                  &toy_weather.overtaking) == 3;
}

static int contract_read(int argc, char **argv)
{
    struct ct_config *config = &contract_config;
    const char *seed = getenv("TEST_SEED");
    if (seed != NULL) config->seed = strtoull(seed, NULL, 0);
    toy_weather.seed = config->seed;
    if (argc < 2) return contract_usage("which transport?");
    config->transport = strcmp(argv[1], "toy") == 0 ? &toy_transport : aqi_transport_find(argv[1]);
    if (config->transport == NULL) return contract_usage("no such transport");
    for (int i = 2; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--as-threads") == 0)
            config->as_threads = true;
        else if (strcmp(argv[i], "--threads") == 0)
            config->threads = true;
        else if (strcmp(argv[i], "--in-memory") == 0)
            aqi_udp_test_port = &memory_port_ops;
        else if (more && strcmp(argv[i], "--ranks") == 0)
            config->ranks = (uint32_t)strtoul(argv[++i], NULL, 0);
        else if (more && strcmp(argv[i], "--fault") == 0)
            config->fault = argv[++i];
        else if (more && strcmp(argv[i], "--weather") == 0 && contract_weather(argv[i + 1]))
            i++;
        else if (more && strcmp(argv[i], "--hosts") == 0)
            config->hosts = argv[++i];
        else if (more && strcmp(argv[i], "--shows") == 0)
            config->shows = argv[++i];
        else if (more && strcmp(argv[i], "--case") == 0)
            contract_part = argv[++i];
        else if (more && strcmp(argv[i], "--without") == 0)
            contract_without = argv[++i];
        else
            return contract_usage(argv[i]);
    }
    if (config->ranks < 1 || config->ranks > CT_MAX_RANKS) return contract_usage("bad --ranks");
    return 0;
}

/* Configure the transports, then the faults, as lib/init.c does for a program. */
static aq_status contract_configure(void)
{
    struct aqi_settings_table *tables[16];
    size_t count = 0;
    for (size_t i = 0; aqi_transports[i] != NULL && count < AQI_COUNT_OF(tables); i++)
        if (aqi_transports[i]->settings != NULL) tables[count++] = aqi_transports[i]->settings;
    aq_status status = aqi_settings_load(tables, count);
    if (status != AQ_OK) return status;
    return aqi_fault_configure(contract_config.fault == NULL ? "" : contract_config.fault);
}

/* Whether this machine has what the transport needs: networks may be missing. */
static bool contract_possible(void)
{
    struct aqi_tp_probe probe;
    const struct aqi_transport *transport = contract_config.transport;
    if ((transport->caps & AQI_CAP_FAR) == 0) return true;
    (void)transport->probe(0, &probe);
    if (!probe.usable) printf("skipped: %s\n", probe.reason);
    return probe.usable;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[128];
    size_t count = 0;
    int usage = contract_read(argc, argv);
    if (usage != 0) return usage;
    if (contract_configure() != AQ_OK) return 2;
    if (!contract_possible()) return 77;
    printf("seed %llu\n", (unsigned long long)contract_config.seed);
    for (size_t t = 0; t < AQI_COUNT_OF(contract_tables); t++)
        for (const struct ct_case *c = contract_tables[t]; c->name != NULL; c++)
            if (contract_applies(c) && count < AQI_COUNT_OF(tests))
                tests[count++] = (struct CMUnitTest){
                    .name = c->name, .test_func = contract_run, .initial_state = (void *)c};
    return _cmocka_run_group_tests("contract", tests, count, NULL, NULL) == 0 ? 0 : 1;
}
