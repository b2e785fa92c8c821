/*
 * The self-test of ofi.
 *
 *   ofi_trial PROVIDER TEXT...   the provider opens, and its description contains each TEXT
 *   ofi_trial memory             an endpoint of tcp;ofi_rxm takes little memory
 *   ofi_trial broken             over the libfabric of this folder, which breaks one thing at a
 *                                time: the messages of the self-test, and the features that are
 *                                then not used
 */

#include "base/capture_test.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/resident_test.h"
#include "base/settings.h"
#include "transport/ofi/ofi.h"

#include <rdma/fabric.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct aqi_tp_params params = {
    .size = 2, .max_medium = 4032, .local_size = 2, .key = "of the self-test"};

static const char *describe(struct aqi_tp *tp)
{
    static char text[512];
    aqi_ofi_transport.describe(tp, text, sizeof(text));
    return text;
}

/* --- intact providers ------------------------------------------------------------------------ */

static aq_status open_timed(uint64_t bound_ns, struct aqi_tp **tp)
{
    ofi_config.self_test_ns = bound_ns;
    uint64_t start = aqi_now_ns();
    aq_status st = aqi_ofi_transport.open(&params, tp);
    printf("%s self-test: %.1f ms\n", bound_ns != 0 ? "with" : "without",
           (double)(aqi_now_ns() - start) / 1e6);
    return st;
}

/* The first open loads everything that the provider needs. */
static int provider_opens(int count, char *const *texts)
{
    struct aqi_tp *tp;
    uint64_t bound_ns = ofi_config.self_test_ns;
    for (unsigned n = 0; n < 2; n++) {
        if (open_timed(0, &tp) != AQ_OK) return 77;
        if (strstr(describe(tp), "not self-tested") == NULL) return 1;
        aqi_ofi_transport.close(tp);
    }
    if (open_timed(bound_ns, &tp) != AQ_OK) return 1;
    puts(describe(tp));
    for (int i = 0; i < count; i++)
        if (strstr(describe(tp), texts[i]) == NULL) return 1;
    aqi_ofi_transport.close(tp);
    return 0;
}

/* The memory that an endpoint of tcp;ofi_rxm takes. */
static int endpoint_is_small(void)
{
    enum { MOST = FI_MAJOR_VERSION >= 2 ? 40 << 20 : 32 << 20 };
    struct aqi_tp *tp;
    size_t before = resident();
    if (before == 0 || open_timed(0, &tp) != AQ_OK) return 77;
    size_t taken = resident() - before;
    printf("%s: %zu KB\n", describe(tp), taken >> 10);
    bool rxm = strstr(describe(tp), "tcp;ofi_rxm") != NULL;
    aqi_ofi_transport.close(tp);
    return !rxm ? 77 : taken <= MOST ? 0 : 1;
}

/* --- with something broken ------------------------------------------------------------------- */

#define LATE   "after 2000 ms it "
#define REMOTE "puts and gets go by messages"
#define POLLS  "waits poll"
#define EACH   "each message has a buffer of its own"
#define PUT    "Longs are put before their header is sent"

static const struct row {
    const char *breaks, *tried, *error;
    const char *instead; /* NULL: it does not open */
} rows[] = {
    {"itself", "a message to itself", LATE "had been sent but had not arrived",
     "it cannot reach itself"},
    {"astray", "a message to itself", LATE "had been sent but had not arrived", EACH},
    {"greedy", "many messages in a buffer", "a buffer with no room", EACH},
    {"inject", "an injected message", LATE "had been sent but had not arrived",
     "messages are not injected"},
    {"flip", "a message that fills a buffer", "its byte", NULL},
    {"cut", "a message that fills a buffer", "256 bytes arrived instead of", NULL},
    {"refuse", "a message that fills a buffer", "it was rejected: ", NULL},
    {"base", "a remote write of 8 bytes", "its byte 0 of 8 is 0x00", REMOTE},
    {"wide", "a remote write of 8 bytes", "memory -8 bytes from its start", REMOTE},
    {"key", "a remote write of 8 bytes", "it ended with: ", REMOTE},
    {"silent", "a remote write of 8 bytes", LATE "was not complete", REMOTE},
    {"write", "a remote write of 12288 bytes", "its byte 12287 of 12288 is 0x00", REMOTE},
    {"read", "a remote read of 12288 bytes", "its byte 12287 of 12288 is 0x00", REMOTE},
    {"unreported", "a remote write that the target's queue reports",
     LATE "was complete but not reported", PUT},
    {"lend", "an injected remote write", "its byte 0 of 64 is 0x00", "puts are not injected"},
    {"asleep", "the descriptor of the completion queue", "it was not readable", POLLS},
    {"restless", "the descriptor of the completion queue", "although there are no comp", POLLS},
};

static void says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("\"%s\" is not in: %s", part, text);
}

static void check_open(const struct row *row, struct aqi_tp *tp)
{
    static unsigned char memory[4096];
    struct aqi_mem *mem;
    bool remote = strcmp(row->instead, REMOTE) != 0, waits = strcmp(row->instead, POLLS) != 0;
    says(describe(tp), row->instead);
    assert_int_equal(aqi_ofi_transport.wait_fd(tp) >= 0, waits);
    aq_status st = aqi_ofi_transport.mem_reg(tp, memory, sizeof(memory), &mem);
    assert_int_equal(st, remote ? AQ_OK : AQ_ENOTSUP);
    if (remote) aqi_ofi_transport.mem_dereg(tp, mem);
    aqi_ofi_transport.close(tp);
}

static void broken(void **state)
{
    const struct row *row = *state;
    struct capture capture;
    struct aqi_tp *tp = NULL;
    assert_int_equal(setenv("DEMANDING_BREAKS", row->breaks, 1), 0);
    capture_start(&capture);
    aq_status st = aqi_ofi_transport.open(&params, &tp);
    const char *text = capture_end(&capture);
    print_message("%s", text);
    says(text, "tcp;ofi_rxm on ");
    says(text, "AQ_OFI_PROVIDER");
    says(text, row->tried);
    says(text, row->error);
    assert_int_equal(st, row->instead != NULL ? AQ_OK : AQ_ENOTSUP);
    if (st == AQ_OK) check_open(row, tp);
}

static void whole(void **state)
{
    struct capture capture;
    struct aqi_tp *tp;
    (void)state;
    capture_start(&capture);
    aq_status st = aqi_ofi_transport.open(&params, &tp);
    const char *text = capture_end(&capture);
    assert_int_equal(st, AQ_OK);
    says(text, " registrations: "); /* nothing else */
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    const char *end = strstr(describe(tp), ", self-tested");
    assert_non_null(end);
    assert_string_equal(end, ", self-tested");
    aqi_ofi_transport.close(tp);
}

/* The bound is too short for any message. The self-test passes nevertheless, since a bound counts
 * only after enough polls: otherwise it would fail on a busy machine. */
static void hurried(void **state)
{
    struct aqi_tp *tp;
    (void)state;
    uint64_t bound_ns = ofi_config.self_test_ns;
    ofi_config.self_test_ns = 1;
    assert_int_equal(aqi_ofi_transport.open(&params, &tp), AQ_OK);
    ofi_config.self_test_ns = bound_ns;
    says(describe(tp), "for many messages, self-tested");
    aqi_ofi_transport.close(tp);
}

/* A small adapter has room for the peers of this job, but not for the 256 of FI_UNIVERSE_SIZE, if
 * that is set. aqinfo reports the same as a job would. */
static void small(void **state)
{
    static const char said[] = "no room for as many peers as FI_UNIVERSE_SIZE says (256): set it";
    struct aqi_tp *tp;
    struct aqi_tp_probe probe;
    (void)state;
    assert_int_equal(setenv("DEMANDING_BREAKS", "universe", 1), 0);
    ofi_config.provider = "tcp;ofi_rxm";
    assert_int_equal(unsetenv("FI_UNIVERSE_SIZE"), 0);
    assert_true(aqi_ofi_transport.probe(0, &probe) && probe.usable);
    assert_int_equal(unsetenv("FI_UNIVERSE_SIZE"), 0);
    assert_int_equal(aqi_ofi_transport.open(&params, &tp), AQ_OK);
    aqi_ofi_transport.close(tp);
    assert_int_equal(setenv("FI_UNIVERSE_SIZE", "256", 1), 0);
    assert_true(aqi_ofi_transport.probe(0, &probe));
    assert_false(probe.usable);
    says(probe.reason, said);
    assert_int_equal(aqi_ofi_transport.open(&params, &tp), AQ_ESYS);
    says(aq_error_message(), said);
    assert_int_equal(unsetenv("FI_UNIVERSE_SIZE"), 0);
}

/* Out of memory: the error names the limit on memory, if there is one, and not the number of
 * peers. */
static void limited(void **state)
{
    struct aqi_tp *tp;
    struct rlimit was, limit;
    (void)state;
    assert_int_equal(setenv("DEMANDING_BREAKS", "memory", 1), 0);
    ofi_config.provider = "tcp;ofi_rxm";
    assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
    limit = (struct rlimit){.rlim_cur = (rlim_t)1 << 60, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_int_equal(aqi_ofi_transport.open(&params, &tp), AQ_ESYS);
    says(aq_error_message(),
         "Cannot allocate memory: raise the memory limit of 1125899906842624 KiB");
    assert_null(strstr(aq_error_message(), "FI_UNIVERSE_SIZE"));
    assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
    assert_int_equal(aqi_ofi_transport.open(&params, &tp), AQ_ESYS);
    if (was.rlim_cur == RLIM_INFINITY) assert_null(strstr(aq_error_message(), "ulimit -v"));
    assert_int_equal(unsetenv("FI_UNIVERSE_SIZE"), 0);
}

/* Two registrations are refused, which is reported once. */
static void full(void **state)
{
    static unsigned char memory[(1 << 20) + 1];
    struct aqi_mem *mem;
    struct capture capture;
    struct aqi_tp *tp;
    (void)state;
    assert_int_equal(setenv("DEMANDING_BREAKS", "full", 1), 0);
    assert_int_equal(aqi_ofi_transport.open(&params, &tp), AQ_OK);
    capture_start(&capture);
    aq_status refused = aqi_ofi_transport.mem_reg(tp, memory, sizeof(memory), &mem);
    const char *text = capture_end(&capture);
    assert_int_equal(refused, AQ_ELIMIT);
    says(text, "tcp;ofi_rxm cannot register 1048577 bytes (No space left on device)");
    capture_start(&capture);
    refused = aqi_ofi_transport.mem_reg(tp, memory, sizeof(memory), &mem);
    assert_string_equal(capture_end(&capture), "");
    assert_int_equal(refused, AQ_ELIMIT);
    assert_int_equal(aqi_ofi_transport.mem_reg(tp, memory, sizeof(memory) - 1, &mem), AQ_OK);
    aqi_ofi_transport.mem_dereg(tp, mem);
    aqi_ofi_transport.close(tp);
}

/* Two local processes, which may have half of the endpoints each. */
static void few(void **state)
{
    struct aqi_tp *tp;
    (void)state;
    assert_int_equal(setenv("DEMANDING_BREAKS", "few", 1), 0);
    params.threads = true;
    ofi_config.domains = 4;
    assert_int_equal(aqi_ofi_transport.open(&params, &tp), AQ_OK);
    char text[512];
    tp->ops.describe(tp, text, sizeof(text));
    tp->ops.close(tp);
    params.threads = false;
    ofi_config.domains = 1;
    says(text, "3 domains, each: ");
}

static void check_order(uint64_t order, const char *text)
{
    struct aqi_tp *tp;
    ofi_config.order = order;
    assert_int_equal(aqi_ofi_transport.open(&params, &tp), AQ_OK);
    says(describe(tp), text);
    says(describe(tp), "for many messages");
    aqi_ofi_transport.close(tp);
    ofi_config.order = 0;
}

/* The provider keeps messages in the requested order, or does not. */
static void ordered(void **state)
{
    (void)state;
    assert_int_equal(setenv("DEMANDING_BREAKS", "", 1), 0);
    check_order(1, ", in order, ");
    check_order(2, ", in strict order, ");
    assert_int_equal(setenv("DEMANDING_BREAKS", "order", 1), 0);
    check_order(2, ", without the requested order, ");
}

static void check_progress(const char *breaks, const char *text)
{
    struct aqi_tp *tp;
    assert_int_equal(setenv("DEMANDING_BREAKS", breaks, 1), 0);
    ofi_config.progress = 1;
    assert_int_equal(aqi_ofi_transport.open(&params, &tp), AQ_OK);
    says(describe(tp), "for many messages");
    says(describe(tp), text);
    ofi_config.progress = 0;
    aqi_ofi_transport.close(tp);
}

/* The provider makes progress by itself, or does not. */
static void progress(void **state)
{
    (void)state;
    check_progress("", ", which claims to make progress on its own, ");
    check_progress("manual", ", which makes no progress on its own, ");
}

static int run_broken(void)
{
    enum { WHOLE = 7 };
    struct CMUnitTest tests[AQI_COUNT_OF(rows) + WHOLE] = {
        cmocka_unit_test(whole), cmocka_unit_test(hurried), cmocka_unit_test(full),
        cmocka_unit_test(few),   cmocka_unit_test(ordered), cmocka_unit_test(progress),
        cmocka_unit_test(small), cmocka_unit_test(limited)};
    for (size_t i = 0; i < AQI_COUNT_OF(rows); i++)
        tests[i + WHOLE] = (struct CMUnitTest){.name = rows[i].breaks,
                                               .test_func = broken,
                                               .initial_state = (void *)(uintptr_t)&rows[i]};
    ofi_config.self_test_ns = 2000000000;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    struct aqi_settings_table *const tables[] = {&aqi_ofi_settings};
    if (argc < 2) return 2;
    bool broken = strcmp(argv[1], "broken") == 0, memory = strcmp(argv[1], "memory") == 0;
    if (setenv("AQ_OFI_PROVIDER", broken || memory ? "tcp;ofi_rxm" : argv[1], 1) != 0) return 2;
    if (aqi_settings_load(tables, 1) != AQ_OK || aqi_log_configure("info") != AQ_OK) return 2;
    if (memory) return endpoint_is_small();
    return broken ? run_broken() : provider_opens(argc - 2, argv + 2);
}
