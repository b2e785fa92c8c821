/* Twin of hca_pins.c, with an adapter that only counts. */
#include "reg/limits.h"
#include "transport/ibv/hca_impl.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

enum { LEN = 1 << 20, PIECES = 64 };

static struct {
    unsigned made, ended;
    size_t bytes, most;
    int access, error;
} card;

static struct ibv_mr *card_register(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    errno = card.error;
    if (card.error != 0) return NULL;
    struct ibv_mr *mr = calloc(1, sizeof(*mr));
    assert_non_null(mr);
    *mr = (struct ibv_mr){.pd = pd, .addr = addr, .length = len, .lkey = ++card.made};
    card.access = access;
    card.bytes += len;
    card.most = aqi_max(card.most, card.bytes);
    return mr;
}

static int card_deregister(struct ibv_mr *mr)
{
    card.ended++;
    card.bytes -= mr->length;
    free(mr);
    return 0;
}

static struct hca_tp *hca;

static void open_with(unsigned monitor, const char *victim)
{
    memset(&card, 0, sizeof(card));
    hca_verbs.reg_mr = card_register;
    hca_verbs.dereg_mr = card_deregister;
    aqi_reg_config.monitor = monitor;
    aqi_reg_config.victim = victim;
    hca = calloc(1, sizeof(*hca));
    assert_non_null(hca);
    hca->rails = 1;
    hca->params.local_size = 1;
    assert_int_equal(hca_pins_open(hca), AQ_OK);
}

static void close_all(void)
{
    hca_pins_close(hca);
    free(hca);
    assert_int_equal(card.bytes, 0);
    assert_int_equal(card.made, card.ended);
}

static void open_with_monitor_or_skip(void)
{
    open_with(AQI_REG_MONITOR_AUTO, "");
    if (hca->pins.monitor != NULL) return;
    close_all();
    skip();
}

static unsigned char *map(void *at)
{
    void *got = mmap(at, LEN, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | (at != NULL ? MAP_FIXED : 0), -1, 0);
    assert_true(got != MAP_FAILED);
    return got;
}

/* Pin for a transfer, all pieces at once, and let go; how much of it could be. */
static size_t transfer(unsigned char *at, bool get)
{
    struct hca_op op = {.get = get, .by = HCA_BY_PINS, .local = at, .len = LEN};
    struct hca_sent sent[PIECES];
    unsigned count = 0;
    size_t done = 0;
    while (done < LEN) {
        assert_true(count < PIECES);
        struct hca_sent *piece = &sent[count];
        *piece = (struct hca_sent){.op = &op, .offset = done, .len = LEN - done};
        if (!hca_pins_get(hca, piece)) break;
        assert_true(piece->len != 0 && piece->len <= LEN - done);
        assert_int_not_equal(hca_pins_lkey(piece, 0), 0);
        done += piece->len;
        count++;
    }
    while (count != 0)
        hca_pins_put(hca, &sent[--count]);
    while (hca->pins.due)
        hca_pins_progress(hca);
    return done;
}

static void what_is_kept_costs_no_call(void **unused)
{
    (void)unused;
    open_with_monitor_or_skip();
    unsigned char *at = map(NULL);
    assert_int_equal(transfer(at, false), LEN);
    unsigned made = card.made;
    assert_true(made >= LEN / aqi_reg_config.region);
    assert_int_equal(card.access, IBV_ACCESS_LOCAL_WRITE); /* since a get may use it, too */
    assert_int_equal(transfer(at, true), LEN);
    assert_int_equal(transfer(at, false), LEN);
    assert_int_equal(card.made, made);
    assert_int_equal(card.ended, 0);
    munmap(at, LEN);
    close_all();
}

static void what_changes_is_pinned_anew(void **unused)
{
    (void)unused;
    open_with_monitor_or_skip();
    unsigned char *at = map(NULL);
    assert_int_equal(transfer(at, false), LEN);
    unsigned made = card.made;
    map(at); /* over it */
    assert_int_equal(transfer(at, false), LEN);
    assert_int_equal(card.made, 2 * made);
    munmap(at, LEN);
    do /* without another transfer; a call unpins a few */
        hca_pins_progress(hca);
    while (hca->pins.due);
    assert_int_equal(card.bytes, 0);
    close_all();
}

static void without_a_monitor_nothing_is_kept(void **unused)
{
    (void)unused;
    open_with(AQI_REG_MONITOR_NONE, "");
    assert_null(hca->pins.monitor);
    unsigned char *at = map(NULL);
    assert_int_equal(transfer(at, false), LEN);
    assert_int_equal(card.access, 0); /* it may be for reading only */
    assert_int_equal(card.bytes, 0);
    unsigned made = card.made;
    assert_int_equal(transfer(at, true), LEN);
    assert_int_equal(card.access, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(card.made, 2 * made);
    munmap(at, LEN);
    close_all();
}

/* For want of descriptors; a container's filter of system calls does the same. */
static void where_userfaultfd_is_refused_aqinfo_says_so(void **unused)
{
    struct rlimit was, none;
    char advice[320] = "?";
    (void)unused;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    open_with(AQI_REG_MONITOR_AUTO, "");
    hca_pins_advise(advice, sizeof(advice));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_null(hca->pins.monitor);
    assert_non_null(strstr(advice, "memory outside the segments is registered for each transfer"));
    unsigned char *at = map(NULL);
    assert_int_equal(transfer(at, false), LEN);
    assert_int_equal(card.bytes, 0);
    munmap(at, LEN);
    close_all();
    aqi_reg_config.monitor = AQI_REG_MONITOR_NONE; /* as wanted */
    hca_pins_advise(advice, sizeof(advice));
    assert_string_equal(advice, "");
}

static void files_are_not_kept(void **unused)
{
    (void)unused;
    open_with(AQI_REG_MONITOR_AUTO, "");
    void *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    assert_int_equal(transfer(at, false), LEN);
    assert_int_equal(card.bytes, 0);
    munmap(at, LEN);
    close_all();
}

/* What is refused is copied by the caller, and asked for again by the next transfer. */
static void refusals_and_limits(void **unused)
{
    (void)unused;
    open_with(AQI_REG_MONITOR_NONE, "");
    unsigned char *at = map(NULL);
    card.error = EFAULT;
    assert_int_equal(transfer(at, false), 0);
    card.error = 0;
    assert_int_equal(transfer(at, false), LEN);
    card.error = ENOMEM; /* lowers the limit for a while */
    assert_int_equal(transfer(at, false), 0);
    card.error = 0;
    assert_int_not_equal(transfer(at, false), 0);
    close_all();
    open_with(AQI_REG_MONITOR_AUTO, "256K");
    assert_in_range(transfer(at, false), 128 << 10, 256 << 10);
    assert_in_range(transfer(at, true), 128 << 10, 256 << 10);
    assert_true(card.most <= 256 << 10);
    munmap(at, LEN);
    close_all();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_costs_no_call),
        cmocka_unit_test(what_changes_is_pinned_anew),
        cmocka_unit_test(without_a_monitor_nothing_is_kept),
        cmocka_unit_test(where_userfaultfd_is_refused_aqinfo_says_so),
        cmocka_unit_test(files_are_not_kept),
        cmocka_unit_test(refusals_and_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
