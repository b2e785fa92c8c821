/* Tests pins.c, with an adapter that only counts. */
#include "transport/rdma/rdma.h"

#include "reg/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

enum { LEN = 1 << 20, PIECES = 64 };

static struct {
    unsigned made, ended;
    size_t bytes, most;
    enum aqi_pins_access access;
    aq_status status;
} card;

static struct aqi_rdma rdma;
static struct aqi_pins *const pins = &rdma.pins;

static aq_status card_reg(struct aqi_rdma *of, void *addr, size_t len, enum aqi_pins_access access,
                          void *mr[AQI_RDMA_RAILS])
{
    assert_ptr_equal(of, &rdma);
    assert_int_equal((uintptr_t)addr % pins->page, 0);
    if (card.status != AQ_OK) return card.status;
    size_t *bytes = mr[0] = malloc(sizeof(*bytes));
    assert_non_null(bytes);
    *bytes = len;
    card.made++;
    card.access = access;
    card.bytes += len;
    card.most = aqi_max(card.most, card.bytes);
    return AQ_OK;
}

static void card_dereg(struct aqi_rdma *of, void *mr[AQI_RDMA_RAILS])
{
    assert_ptr_equal(of, &rdma);
    card.ended++;
    card.bytes -= *(const size_t *)mr[0];
    free(mr[0]);
}

static size_t card_key(struct aqi_rdma *of, void *const mr[AQI_RDMA_RAILS], uint64_t addr,
                       void *key)
{
    return 0;
}

static const struct aqi_rdma_driver driver = {
    .name = "test", .reg = card_reg, .dereg = card_dereg, .key = card_key};

static bool reaches_what_is_mapped; /* the network does not pin pages */

static void open_with(unsigned monitor, const char *victim, uint64_t registrations)
{
    memset(&card, 0, sizeof(card));
    rdma = (struct aqi_rdma){.driver = &driver, .params.local_size = 1};
    aqi_reg_config.monitor = monitor;
    aqi_reg_config.victim = victim;
    assert_int_equal(aqi_pins_open(&rdma, registrations, !reaches_what_is_mapped), AQ_OK);
}

static void close_all(void)
{
    aqi_pins_close(pins);
    assert_int_equal(card.bytes, 0);
    assert_int_equal(card.made, card.ended);
}

static void open_with_monitor_or_skip(void)
{
    open_with(AQI_REG_MONITOR_AUTO, "", 0);
    if (pins->monitor != NULL) return;
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

/* Pin all pieces of a transfer at once, then release them; returns the number of bytes pinned. */
static size_t transfer(unsigned char *at, bool get)
{
    struct aqi_transfer op = {.get = get, .by = AQI_BY_PINS, .local = at, .len = LEN};
    struct aqi_reg_use *uses[PIECES];
    unsigned count = 0;
    size_t done = 0;
    while (done < LEN) {
        assert_true(count < PIECES);
        size_t len = LEN - done;
        uses[count] = aqi_pins_get(pins, &op, done, &len);
        if (uses[count] == NULL) break;
        assert_true(len != 0 && len <= LEN - done);
        done += len;
        count++;
    }
    while (count != 0)
        aqi_pins_put(pins, uses[--count]);
    while (pins->due)
        aqi_pins_progress(pins);
    return done;
}

static void kept_memory_is_pinned_once(void **unused)
{
    open_with_monitor_or_skip();
    unsigned char *at = map(NULL);
    assert_int_equal(transfer(at, false), LEN);
    unsigned made = card.made;
    assert_true(made >= LEN / aqi_reg_config.region);
    assert_int_equal(card.access, AQI_PINS_WRITE); /* since a get may also use it */
    assert_int_equal(transfer(at, true), LEN);
    assert_int_equal(transfer(at, false), LEN);
    assert_int_equal(card.made, made);
    assert_int_equal(card.ended, 0);
    munmap(at, LEN);
    close_all();
}

static void changed_memory_is_pinned_again(void **unused)
{
    open_with_monitor_or_skip();
    unsigned char *at = map(NULL);
    assert_int_equal(transfer(at, false), LEN);
    unsigned made = card.made;
    map(at); /* over it */
    assert_int_equal(transfer(at, false), LEN);
    assert_int_equal(card.made, 2 * made);
    munmap(at, LEN);
    do /* without another transfer; a call unpins a few */
        aqi_pins_progress(pins);
    while (pins->due);
    assert_int_equal(card.bytes, 0);
    close_all();
}

static void without_a_monitor_nothing_is_kept(void **unused)
{
    open_with(AQI_REG_MONITOR_NONE, "", 0);
    assert_null(pins->monitor);
    unsigned char *at = map(NULL);
    assert_int_equal(transfer(at, false), LEN);
    assert_int_equal(card.access, AQI_PINS_READ);
    assert_int_equal(card.bytes, 0);
    unsigned made = card.made;
    assert_int_equal(transfer(at, true), LEN);
    assert_int_equal(card.access, AQI_PINS_WRITE);
    assert_int_equal(card.made, 2 * made);
    munmap(at, LEN);
    close_all();
}

static void without_pages_nothing_is_watched(void **unused)
{
    reaches_what_is_mapped = true;
    for (unsigned monitor = AQI_REG_MONITOR_AUTO; monitor <= AQI_REG_MONITOR_NONE; monitor++) {
        open_with(monitor, "", 0);
        assert_null(pins->monitor);
        unsigned char *at = map(NULL);
        assert_int_equal(transfer(at, false), LEN);
        unsigned made = card.made;
        map(at); /* over it */
        assert_int_equal(transfer(at, true), LEN);
        assert_int_equal(card.made, made);
        munmap(at, LEN);
        close_all();
    }
    reaches_what_is_mapped = false;
}

/* For lack of descriptors; a container's system call filter has the same effect. */
static void aqinfo_reports_that_userfaultfd_is_refused(void **unused)
{
    struct rlimit was, none;
    char advice[320] = "?";
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    open_with(AQI_REG_MONITOR_AUTO, "", 0);
    aqi_pins_advise(advice, sizeof(advice));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_null(pins->monitor);
    assert_non_null(strstr(advice, "memory outside the segments is registered for each transfer"));
    unsigned char *at = map(NULL);
    assert_int_equal(transfer(at, false), LEN);
    assert_int_equal(card.bytes, 0);
    munmap(at, LEN);
    close_all();
    aqi_reg_config.monitor = AQI_REG_MONITOR_NONE; /* as wanted */
    aqi_pins_advise(advice, sizeof(advice));
    assert_string_equal(advice, "");
}

static void files_are_not_kept(void **unused)
{
    open_with(AQI_REG_MONITOR_AUTO, "", 0);
    void *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    assert_int_equal(transfer(at, false), LEN);
    assert_int_equal(card.bytes, 0);
    munmap(at, LEN);
    close_all();
}

/* A provider may have few. */
static void registrations_are_bounded(void **unused)
{
    open_with(AQI_REG_MONITOR_AUTO, "", 3);
    unsigned char *at = map(NULL), *other = map(NULL);
    for (unsigned i = 0; i < 4; i++) {
        size_t done = transfer(i % 2 != 0 ? other : at, i > 1);
        assert_in_range(done, 2 * aqi_reg_config.region + 1, 3 * aqi_reg_config.region);
        assert_true(card.made - card.ended <= 3);
    }
    munmap(other, LEN);
    munmap(at, LEN);
    close_all();
}

/* A rejected piece is copied by the caller, and requested again by the next transfer. */
static void refusals_and_limits(void **unused)
{
    open_with(AQI_REG_MONITOR_NONE, "", 0);
    unsigned char *at = map(NULL);
    card.status = AQ_ENOTSUP;
    assert_int_equal(transfer(at, false), 0);
    card.status = AQ_OK;
    assert_int_equal(transfer(at, false), LEN);
    card.status = AQ_ELIMIT; /* lowers the limit for a while */
    assert_int_equal(transfer(at, false), 0);
    card.status = AQ_OK;
    assert_int_not_equal(transfer(at, false), 0);
    close_all();
    open_with(AQI_REG_MONITOR_AUTO, "256K", 0);
    assert_in_range(transfer(at, false), 128 << 10, 256 << 10);
    assert_in_range(transfer(at, true), 128 << 10, 256 << 10);
    assert_true(card.most <= 256 << 10);
    munmap(at, LEN);
    close_all();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_memory_is_pinned_once),
        cmocka_unit_test(changed_memory_is_pinned_again),
        cmocka_unit_test(without_a_monitor_nothing_is_kept),
        cmocka_unit_test(without_pages_nothing_is_watched),
        cmocka_unit_test(aqinfo_reports_that_userfaultfd_is_refused),
        cmocka_unit_test(files_are_not_kept),
        cmocka_unit_test(registrations_are_bounded),
        cmocka_unit_test(refusals_and_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
