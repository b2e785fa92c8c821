/* Invalid calls are refused with the right status and a message, and have no effect. */
#include "../support.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* In this file each refusal must also name the call. */
#undef CHECK_REFUSED
#define CHECK_REFUSED(call, want)                                                                  \
    do {                                                                                           \
        CHECK_STATUS(call, want);                                                                  \
        check_named(#call, __LINE__);                                                              \
    } while (0)

static void check_named(const char *call, int line)
{
    size_t len = strcspn(call, "(");
    if (strncmp(aq_error_message(), call, len) != 0 || aq_error_message()[len] != ':')
        check_failed(__FILE__, line, "%.*s: not named in \"%s\"", (int)len, call,
                     aq_error_message());
}

enum { GOOD = 100, PROBE, TAKEN };

static _Atomic uint32_t received;

static void on_good(aq_am *am)
{
    (void)am;
    received++;
}

/* --- before aq_init and after aq_finalize ------------------------------------------------ */

/* Every call with a status returns AQ_ESTATE; `team` is NULL or stale. */
static void test_outside(aq_team *team)
{
    static char buffer[16];
    aq_event event = AQ_EVENT_DONE;
    aq_segment *segment;
    aq_segment_info info;
    aq_am_buffer reserved;
    aq_atomic_domain *domain;
    uint64_t value;
    CHECK_REFUSED(aq_am_short(team, 0, GOOD, AQ_NO_ARGS, 0), AQ_ESTATE);
    CHECK_REFUSED(aq_am_medium(team, 0, GOOD, buffer, 1, AQ_NO_ARGS, 0, NULL), AQ_ESTATE);
    CHECK_REFUSED(aq_am_long(team, 0, GOOD, buffer, 0, NULL, AQ_NO_ARGS, 0, NULL), AQ_ESTATE);
    CHECK_REFUSED(aq_am_reserve(team, 0, AQ_AM_MEDIUM, NULL, 1, 2, 0, 0, &reserved), AQ_ESTATE);
    CHECK_REFUSED(aq_put(team, 0, buffer, buffer, 1, 0), AQ_ESTATE);
    CHECK_REFUSED(aq_put_nb(team, 0, buffer, buffer, 1, 0, &event), AQ_ESTATE);
    CHECK_REFUSED(aq_put_nbi(team, 0, buffer, buffer, 1, 0), AQ_ESTATE);
    CHECK_REFUSED(aq_put_value(team, 0, buffer, 1, 1, 0), AQ_ESTATE);
    CHECK_REFUSED(aq_get(team, 0, buffer, buffer, 1, 0), AQ_ESTATE);
    CHECK_REFUSED(aq_get_nb(team, 0, buffer, buffer, 1, 0, &event), AQ_ESTATE);
    CHECK_REFUSED(aq_get_nbi(team, 0, buffer, buffer, 1, 0), AQ_ESTATE);
    CHECK_REFUSED(aq_get_value(team, 0, buffer, 1, 0, &value), AQ_ESTATE);
    CHECK_REFUSED(aq_memset(team, 0, buffer, 0, 1, 0), AQ_ESTATE);
    CHECK_REFUSED(aq_segment_attach(team, 4096, &segment), AQ_ESTATE);
    CHECK_REFUSED(aq_segment_query(team, 0, &info), AQ_ESTATE);
    CHECK_REFUSED(aq_atomic_domain_create(team, AQ_TYPE_U32, AQ_OPS_ALL, 0, &domain), AQ_ESTATE);
    CHECK_REFUSED(aq_barrier(team), AQ_ESTATE);
    CHECK_REFUSED(aq_barrier_notify(team, 0, 0), AQ_ESTATE);
    CHECK_REFUSED(aq_barrier_wait(team, 0, 0, AQ_FOREVER), AQ_ESTATE);
    CHECK_REFUSED(aq_nbi_begin(), AQ_ESTATE);
    CHECK_REFUSED(aq_poll(), AQ_ESTATE);
    CHECK_REFUSED(aq_wait_prepare(), AQ_ESTATE);
    CHECK(strncmp(aq_error_message(), "aq_wait_prepare: ", 17) == 0);
    CHECK_REFUSED(aq_finalize(), AQ_ESTATE);
    CHECK(aq_status_name(AQ_ESTATE) != NULL && strcmp(aq_status_name(AQ_ESTATE), "AQ_ESTATE") == 0);
}

static void test_parameters(void)
{
    static const aq_init_params bad[] = {
        {.struct_size = 3},
        {.struct_size = sizeof(*bad), .thread_mode = (aq_thread_mode)3},
        {.struct_size = sizeof(*bad), .segment_modes = AQ_SEGMENT_BIT(3)},
    };
    aq_team *world = NULL;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_REFUSED(aq_init(&bad[i], &world), AQ_EINVAL);
    CHECK_REFUSED(aq_init(NULL, NULL), AQ_EINVAL);
    CHECK(world == NULL);
}

static void test_before(void)
{
    test_outside(NULL);
    CHECK_EQUAL(aq_job_rank(), 0);
    CHECK_EQUAL(aq_job_size(), 1);
}

static void test_names(void)
{
    for (int status = -17; status <= 1; status++) {
        const char *name = aq_status_name((aq_status)status),
                   *text = aq_status_text((aq_status)status);
        CHECK(strncmp(name, "AQ_", 3) == 0 && strcmp(name, "AQ_UNKNOWN") != 0);
        CHECK(text[0] != '\0');
    }
    CHECK(strcmp(aq_status_name((aq_status)-1000), "AQ_UNKNOWN") == 0);
    CHECK(strcmp(aq_status_name((aq_status)1000), "AQ_UNKNOWN") == 0);
    CHECK(aq_status_text((aq_status)-1000)[0] != '\0');
}

/* --- flags ------------------------------------------------------------------------------- */

enum family { ANY, TRANSFER, PUT, ATOMIC, COLLECTIVE, REDUCTION, BARRIER, CONNECTION, ENDPOINT };

static const struct {
    enum family family;
    unsigned bit;
} flag_rows[] = {
    {ANY, AQ_IMMEDIATE},
    {TRANSFER, AQ_REMOTE_OFFSET},
    {PUT, AQ_LOCAL_NOW},
    {ATOMIC, AQ_ATOMIC_ACQUIRE},
    {ATOMIC, AQ_ATOMIC_RELEASE},
    {COLLECTIVE, AQ_COLL_IN_ALL},
    {COLLECTIVE, AQ_COLL_OUT_ALL},
    {REDUCTION, AQ_COLL_ORDERED},
    {BARRIER, AQ_BARRIER_MISMATCH},
    {BARRIER, AQ_BARRIER_ANONYMOUS},
    {CONNECTION, AQ_LISTEN_ANYBODY},
    {CONNECTION, AQ_CONNECT_ANYBODY},
    {CONNECTION, AQ_CONNECT_WAIT},
    {CONNECTION, AQ_CONNECT_ORDERED},
    {CONNECTION, AQ_CONNECT_UNRELIABLE},
    {CONNECTION, AQ_CONNECT_GROUP_SEND},
    {CONNECTION, AQ_CONNECT_GROUP_RECEIVE},
    {ENDPOINT, AQ_EP_RMA},
    {ENDPOINT, AQ_EP_ATOMIC},
    {ENDPOINT, AQ_EP_AM},
    {ENDPOINT, AQ_EP_COLL},
    {ENDPOINT, AQ_EP_AM_SHARED},
};

/* A flag of another family of calls is an error, and does not mean anything else. */
static void test_foreign_flags(void)
{
    static uint64_t word;
    uint64_t got = 0;
    aq_vec piece = {&word, sizeof(word)};
    void *const list = &word;
    aq_event ev = AQ_EVENT_DONE;
    aq_am_buffer reserved;
    aq_segment *made;
    aq_atomic_domain *domain, *another;
    aq_team *split;
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U64, AQ_OPS_ALL, 0, &domain));
    unsigned all = 0;
    for (size_t i = 0; i < COUNT_OF(flag_rows); i++) {
        unsigned bit = flag_rows[i].bit;
        enum family family = flag_rows[i].family;
        CHECK((all & bit) == 0); /* no two are the same */
        all |= bit;
        if (family == ANY) continue;
        bool transfer = family == TRANSFER, put = transfer || family == PUT;
        if (!put) {
            CHECK_REFUSED(aq_put(job.team, 0, &word, &word, 8, bit), AQ_EINVAL);
            CHECK_REFUSED(aq_put_nb(job.team, 0, &word, &word, 8, bit, &ev), AQ_EINVAL);
        }
        if (!transfer) {
            CHECK_REFUSED(aq_get(job.team, 0, &got, &word, 8, bit), AQ_EINVAL);
            CHECK_REFUSED(aq_memset(job.team, 0, &word, 0, 8, bit), AQ_EINVAL);
            CHECK_REFUSED(aq_put_vector(job.team, 0, 1, &piece, 1, &piece, bit), AQ_EINVAL);
            CHECK_REFUSED(aq_get_indexed(job.team, 0, 1, &list, 8, 1, &list, 8, bit), AQ_EINVAL);
        }
        if (!transfer && family != ATOMIC)
            CHECK_REFUSED(aq_atomic(domain, 0, &word, AQ_OP_GET, NULL, NULL, &got, bit), AQ_EINVAL);
        if (family != COLLECTIVE)
            CHECK_REFUSED(aq_coll_broadcast(job.team, 0, &got, &word, 8, bit), AQ_EINVAL);
        if (family != COLLECTIVE && family != REDUCTION)
            CHECK_REFUSED(
                aq_coll_allreduce_nb(job.team, &got, &word, 1, AQ_TYPE_U64, AQ_OP_ADD, bit, &ev),
                AQ_EINVAL);
        if (family != BARRIER) CHECK_REFUSED(aq_barrier_notify(job.team, 0, bit), AQ_EINVAL);
        CHECK_REFUSED(aq_barrier_nb(job.team, bit, &ev), AQ_EINVAL);
        CHECK_REFUSED(aq_am_short(job.team, 0, GOOD, AQ_NO_ARGS, bit), AQ_EINVAL);
        CHECK_REFUSED(aq_am_long(job.team, 0, GOOD, NULL, 0, NULL, AQ_NO_ARGS, bit, NULL),
                      AQ_EINVAL);
        CHECK_REFUSED(aq_am_medium_after_nb(job.team, 0, GOOD, NULL, 0, AQ_NO_ARGS, bit, &ev),
                      AQ_EINVAL);
        CHECK_REFUSED(aq_am_reserve(job.team, 0, AQ_AM_MEDIUM, NULL, 1, 2, 0, bit, &reserved),
                      AQ_EINVAL);
        CHECK_REFUSED(aq_segment_create(NULL, 4096, bit, &made), AQ_EINVAL);
        CHECK_REFUSED(aq_atomic_domain_create(job.team, AQ_TYPE_U64, 1, bit, &another), AQ_EINVAL);
        CHECK_REFUSED(aq_ep_publish(job.team, NULL, 0, bit), AQ_EINVAL);
        CHECK_REFUSED(aq_team_split(job.team, 0, 0, bit, &split), AQ_EINVAL);
    }
    CHECK_OK(aq_atomic_domain_destroy(domain));
}

/* --- handlers ---------------------------------------------------------------------------- */

static void refuse_table(aq_handler_entry bad, aq_status want)
{
    aq_handler_entry table[] = {{PROBE, 0, 0, on_good, NULL, "probe"}, bad};
    CHECK_REFUSED(aq_am_register(job.ep, table, 2), want);
}

static void test_register(void)
{
    refuse_table((aq_handler_entry){63, 0, 0, on_good, NULL, NULL}, AQ_EHANDLER);
    refuse_table((aq_handler_entry){1, 0, 0, on_good, NULL, NULL}, AQ_EHANDLER);
    refuse_table((aq_handler_entry){PROBE, 0, 0, on_good, NULL, NULL}, AQ_EHANDLER);
    refuse_table((aq_handler_entry){GOOD, 0, 0, on_good, NULL, NULL}, AQ_EHANDLER);
    refuse_table((aq_handler_entry){TAKEN, 0, 0, NULL, NULL, NULL}, AQ_EINVAL);
    refuse_table((aq_handler_entry){TAKEN, 17, 0, on_good, NULL, NULL}, AQ_EINVAL);
    CHECK_REFUSED(aq_am_register(NULL, NULL, 1), AQ_EINVAL);
    CHECK_OK(aq_am_register(job.ep, NULL, 0));
    /*
     * None of the failed tables left its first row registered. Free indices are assigned from the
     * top.
     */
    aq_handler_entry autos[] = {{AQ_HANDLER_AUTO, 0, 0, on_good, NULL, "first"},
                                {255, 0, 0, on_good, NULL, "fixed"},
                                {AQ_HANDLER_AUTO, 0, 0, on_good, NULL, "second"},
                                {PROBE, 0, 0, on_good, NULL, "probe"}};
    CHECK_OK(aq_am_register(job.ep, autos, 4));
    CHECK_EQUAL(autos[0].index, 254);
    CHECK_EQUAL(autos[2].index, 253);
    job_barrier();
    received = 0;
    job_barrier();
    CHECK_OK(aq_am_short(job.team, job_next(), autos[2].index, AQ_NO_ARGS, 0));
    job_await(&received, 1);
}

/* --- arguments --------------------------------------------------------------------------- */

/* If a call has several arguments, the message names the invalid one. */
static void test_texts(void)
{
#define CHECK_TEXT(call, text)                                                                     \
    do {                                                                                           \
        CHECK_REFUSED(call, AQ_EINVAL);                                                            \
        CHECK(strstr(aq_error_message(), text) != NULL);                                           \
    } while (0)
    aq_segment *segment;
    aq_am_buffer reserved;
    aq_connection *conn;
    aq_connect_params params = {.struct_size = 3};
    char byte = 0, uri[400] = "shm:///";
    CHECK_TEXT(aq_put(job.team, 0, &byte, &byte, 1, 0x8000), "unknown flags 0x8000");
    CHECK_TEXT(aq_put(job.team, 0, &byte, NULL, 1, 0),
               "1 bytes of this process, but the address is NULL");
    CHECK_TEXT(aq_put_nb(job.team, 0, &byte, &byte, 1, 0, NULL), "the event is NULL");
    CHECK_TEXT(aq_segment_create((void *)(UINTPTR_MAX - 7), 64, 0, &segment),
               "the end of the address space");
    CHECK_TEXT(aq_segment_create(NULL, 0, 0, &segment), "the size is 0");
    CHECK_TEXT(aq_am_reserve(job.team, 0, 0, NULL, 1, 2, 0, 0, &reserved), "category");
    CHECK_TEXT(aq_am_reserve(job.team, 0, AQ_AM_MEDIUM, NULL, 3, 2, 0, 0, &reserved), "least (3)");
    CHECK_TEXT(aq_coll_allreduce(job.team, &byte, &byte, 1, AQ_TYPE_I32, AQ_OP_SUB, 0),
               "operator 5");
    CHECK_TEXT(aq_connect("shm:///x", &params, &conn), "sizeof(aq_connect_params)");
    params = (aq_connect_params){.struct_size = sizeof(params), .flags = 0x8000};
    CHECK_TEXT(aq_connect("shm:///x", &params, &conn), "unknown flags 0x8000");
    CHECK_TEXT(aq_connect(NULL, NULL, &conn), "uri is NULL");
    CHECK_TEXT(aq_event_test(NULL), "event is NULL");
    CHECK_TEXT(aq_event_wait(NULL, AQ_FOREVER), "events is NULL");
    CHECK_TEXT(aq_event_test_all(NULL, 3), "events is NULL");
    CHECK_TEXT(aq_event_test_some(NULL, 1), "events is NULL");
    CHECK_TEXT(aq_event_wait_all(NULL, 3, AQ_FOREVER), "events is NULL");
    CHECK_OK(aq_event_test_all(NULL, 0));
    memset(uri + 7, 'x', sizeof(uri) - 8);
    CHECK_TEXT(aq_connect(uri, NULL, &conn), "longer than");
    CHECK(aq_connection_team(NULL) == NULL);
#undef CHECK_TEXT
}

static void test_am_arguments(void)
{
    static char payload[1 << 20];
    aq_arg args[AQ_AM_MAX_ARGS + 1] = {0};
    aq_am_buffer buffer;
    aq_rank next = job_next();
    size_t over = aq_am_max_medium(job.team) + 1;
    CHECK(over <= sizeof(payload));
    static const aq_rank ranks[] = {AQ_RANK_NONE, INT32_MAX, 0x80000000u};
    for (size_t i = 0; i < COUNT_OF(ranks); i++)
        CHECK_REFUSED(aq_am_short(job.team, ranks[i], GOOD, AQ_NO_ARGS, 0), AQ_ERANK);
    CHECK_REFUSED(aq_am_short(job.team, job.size, GOOD, AQ_NO_ARGS, 0), AQ_ERANK);
    CHECK_REFUSED(aq_am_medium(job.team, job.size, GOOD, payload, 1, AQ_NO_ARGS, 0, NULL),
                  AQ_ERANK);
    CHECK_REFUSED(aq_am_long(job.team, job.size, GOOD, payload, 1, job.base, AQ_NO_ARGS, 0, NULL),
                  AQ_ERANK);
    CHECK_REFUSED(aq_am_short(NULL, next, GOOD, AQ_NO_ARGS, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_am_short(job.team, next, 0, AQ_NO_ARGS, 0), AQ_EHANDLER);
    CHECK_REFUSED(aq_am_short(job.team, next, 63, AQ_NO_ARGS, 0), AQ_EHANDLER);
    CHECK_REFUSED(aq_am_short(job.team, next, GOOD, args, AQ_AM_MAX_ARGS + 1, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_am_short(job.team, next, GOOD, args, UINT_MAX, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_am_short(job.team, next, GOOD, NULL, 1, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_am_short(job.team, next, GOOD, AQ_NO_ARGS, 0x8000), AQ_EINVAL);
    CHECK_REFUSED(aq_am_medium(job.team, next, GOOD, payload, over, AQ_NO_ARGS, 0, NULL), AQ_ESIZE);
    CHECK_REFUSED(aq_am_medium(job.team, next, GOOD, payload, SIZE_MAX, AQ_NO_ARGS, 0, NULL),
                  AQ_ESIZE);
    CHECK_REFUSED(aq_am_medium(job.team, next, GOOD, NULL, 1, AQ_NO_ARGS, 0, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_am_reserve(job.team, next, AQ_AM_MEDIUM, NULL, over, over, 0, 0, &buffer),
                  AQ_ESIZE);
    CHECK_REFUSED(aq_am_reserve(job.team, next, AQ_AM_SHORT, NULL, 1, 2, 0, 0, &buffer), AQ_EINVAL);
    CHECK_REFUSED(aq_am_reserve(job.team, next, AQ_AM_MEDIUM, NULL, 3, 2, 0, 0, &buffer),
                  AQ_EINVAL);
    CHECK_REFUSED(aq_am_reserve(job.team, next, AQ_AM_MEDIUM, NULL, 1, 2, 17, 0, &buffer),
                  AQ_EINVAL);
    CHECK_REFUSED(aq_am_reserve(job.team, next, AQ_AM_MEDIUM, NULL, 1, 2, 0, 0, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_am_reserve(job.team, job.size, AQ_AM_MEDIUM, NULL, 1, 2, 0, 0, &buffer),
                  AQ_ERANK);
}

/* Ranges that are not inside the segment of `rank`, each for a different reason. */
static void test_ranges(aq_rank rank)
{
    static char local[64];
    unsigned char *first = job_at(rank, 0), *last = job_at(rank, job.len);
    aq_event event = AQ_EVENT_DONE;
    uint64_t value, one = 1;
    aq_segment_info info;
    CHECK_OK(aq_segment_query(job.team, rank, &info));
    last = first + info.size;
    const struct {
        unsigned char *at;
        size_t len;
    } bad[] = {{first - 1, 1},  {first - 8, 16},          {last, 1},         {last - 1, 2},
               {last + 100, 8}, {first, info.size + 1},   {first, SIZE_MAX}, {last - 1, SIZE_MAX},
               {NULL, 8},       {first + 8, SIZE_MAX - 4}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        unsigned char *at = bad[i].at;
        size_t len = bad[i].len;
        CHECK_REFUSED(aq_put(job.team, rank, at, local, len, 0), AQ_ERANGE);
        CHECK_REFUSED(aq_put_nb(job.team, rank, at, local, len, 0, &event), AQ_ERANGE);
        CHECK_REFUSED(aq_put_nbi(job.team, rank, at, local, len, 0), AQ_ERANGE);
        CHECK_REFUSED(aq_get(job.team, rank, local, at, len, 0), AQ_ERANGE);
        CHECK_REFUSED(aq_get_nb(job.team, rank, local, at, len, 0, &event), AQ_ERANGE);
        CHECK_REFUSED(aq_get_nbi(job.team, rank, local, at, len, 0), AQ_ERANGE);
        CHECK_REFUSED(aq_memset(job.team, rank, at, 1, len, 0), AQ_ERANGE);
        CHECK_REFUSED(aq_memset_nb(job.team, rank, at, 1, len, 0, &event), AQ_ERANGE);
        CHECK_REFUSED(aq_memset_nbi(job.team, rank, at, 1, len, 0), AQ_ERANGE);
        if (len <= aq_am_max_long(job.team))
            CHECK_REFUSED(aq_am_long(job.team, rank, GOOD, local, len, at, AQ_NO_ARGS, 0, NULL),
                          AQ_ERANGE);
        if (len > 8) continue;
        CHECK_REFUSED(aq_put_value(job.team, rank, at, one, len, 0), AQ_ERANGE);
        CHECK_REFUSED(aq_put_value_nb(job.team, rank, at, one, len, 0, &event), AQ_ERANGE);
        CHECK_REFUSED(aq_put_value_nbi(job.team, rank, at, one, len, 0), AQ_ERANGE);
        CHECK_REFUSED(aq_get_value(job.team, rank, at, len, 0, &value), AQ_ERANGE);
    }
    CHECK(event == AQ_EVENT_DONE); /* outputs are written on success only */
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
}

static void test_rma_arguments(void)
{
    static char local[64];
    aq_event event = AQ_EVENT_DONE;
    uint64_t value = 0;
    aq_segment_info info;
    aq_segment *segment;
    void *at = job_at(job_next(), 0);
    CHECK_REFUSED(aq_put(job.team, job.size, at, local, 1, 0), AQ_ERANK);
    CHECK_REFUSED(aq_get(job.team, job.size, local, at, 1, 0), AQ_ERANK);
    CHECK_REFUSED(aq_memset(job.team, AQ_RANK_NONE, at, 1, 1, 0), AQ_ERANK);
    CHECK_REFUSED(aq_put_value(job.team, job.size, at, 1, 1, 0), AQ_ERANK);
    CHECK_REFUSED(aq_get_value(job.team, job.size, at, 1, 0, &value), AQ_ERANK);
    CHECK_REFUSED(aq_segment_query(job.team, job.size, &info), AQ_ERANK);
    CHECK_REFUSED(aq_segment_query(job.team, 0, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_put(NULL, job_next(), at, local, 1, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_put(job.team, job_next(), at, NULL, 1, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_get(job.team, job_next(), NULL, at, 1, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_put_nb(job.team, job_next(), at, local, 1, 0, NULL), AQ_EINVAL);
    CHECK_REFUSED(aq_get_nb(job.team, job_next(), local, at, 1, 0, NULL), AQ_EINVAL);
    static const size_t lengths[] = {0, 9, 100, SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        CHECK_REFUSED(aq_put_value(job.team, job_next(), at, 1, lengths[i], 0), AQ_ESIZE);
        CHECK_REFUSED(aq_put_value_nb(job.team, job_next(), at, 1, lengths[i], 0, &event),
                      AQ_ESIZE);
        CHECK_REFUSED(aq_put_value_nbi(job.team, job_next(), at, 1, lengths[i], 0), AQ_ESIZE);
        CHECK_REFUSED(aq_get_value(job.team, job_next(), at, lengths[i], 0, &value), AQ_ESIZE);
    }
    /* Empty ranges are valid anywhere in the segment, and at its very end. */
    CHECK_OK(aq_put(job.team, job_next(), at, local, 0, 0));
    CHECK_OK(aq_get(job.team, job_next(), local, job_at(job_next(), job.len), 0, 0));
    CHECK_OK(aq_memset(job.team, job_next(), at, 1, 0, 0));
    CHECK_REFUSED(aq_segment_attach(job.team, 4096, &segment), AQ_ESTATE);
}

static void test_atomic_arguments(void)
{
    aq_atomic_domain *domain = NULL, *adds = NULL, *reals = NULL;
    uint64_t one = 1, old;
    double real = 1;
    aq_rank next = job_next();
    void *at = job_at(next, 0);
    CHECK_REFUSED(aq_atomic_domain_create(job.team, AQ_TYPE_U64, 0, 0, &domain), AQ_EINVAL);
    CHECK_REFUSED(aq_atomic_domain_create(job.team, AQ_TYPE_U64, 0x10000, 0, &domain), AQ_EINVAL);
    CHECK_REFUSED(aq_atomic_domain_create(job.team, (aq_type)6, 1, 0, &domain), AQ_EINVAL);
    CHECK_REFUSED(aq_atomic_domain_create(job.team, AQ_TYPE_F64, AQ_OPS_ALL, 0, &domain),
                  AQ_EINVAL);
    CHECK_REFUSED(aq_atomic_domain_create(job.team, AQ_TYPE_F32, AQ_OP_BIT(AQ_OP_XOR), 0, &domain),
                  AQ_EINVAL);
    CHECK_REFUSED(aq_atomic_domain_create(job.team, AQ_TYPE_U64, 1, 0, NULL), AQ_EINVAL);
    CHECK(domain == NULL);
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U64, AQ_OPS_ALL, 0, &domain));
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_U64,
                                     AQ_OP_BIT(AQ_OP_ADD) | AQ_OP_BIT(AQ_OP_GET), 0, &adds));
    CHECK_OK(aq_atomic_domain_create(job.team, AQ_TYPE_F64, AQ_OP_BIT(AQ_OP_ADD), 0, &reals));
    CHECK_REFUSED(aq_atomic(domain, job.size, at, AQ_OP_ADD, &one, NULL, NULL, 0), AQ_ERANK);
    CHECK_REFUSED(aq_atomic(adds, next, at, AQ_OP_SUB, &one, NULL, NULL, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_atomic(reals, next, at, AQ_OP_XOR, &real, NULL, NULL, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_atomic(domain, next, at, (aq_op)14, &one, NULL, NULL, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_atomic(domain, next, at, (aq_op)-1, &one, NULL, NULL, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_atomic(domain, next, at, AQ_OP_ADD, NULL, NULL, NULL, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_atomic(domain, next, at, AQ_OP_CAS, &one, NULL, &old, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_atomic(domain, next, at, AQ_OP_SET, &one, NULL, &old, 0), AQ_EINVAL);
    for (size_t skew = 1; skew < 8; skew++)
        CHECK_REFUSED(aq_atomic(domain, next, job_at(next, skew), AQ_OP_ADD, &one, NULL, NULL, 0),
                      AQ_EINVAL);
    CHECK_REFUSED(aq_atomic(domain, next, job_at(next, job.len), AQ_OP_ADD, &one, NULL, NULL, 0),
                  AQ_ERANGE);
    CHECK_REFUSED(aq_atomic(domain, next, (char *)at - 8, AQ_OP_ADD, &one, NULL, NULL, 0),
                  AQ_ERANGE);
    CHECK_REFUSED(aq_atomic(NULL, next, at, AQ_OP_ADD, &one, NULL, NULL, 0), AQ_EINVAL);
    aq_atomic_domain_destroy(domain);
    aq_atomic_domain_destroy(adds);
    aq_atomic_domain_destroy(reals);
    aq_atomic_domain_destroy(NULL);
}

/* --- from inside a handler --------------------------------------------------------------- */

static int never(void *arg)
{
    (void)arg;
    return 1;
}

/* Blocking calls are refused in handlers; queries are not. */
static void on_probe(aq_am *am)
{
    static char local[8];
    aq_event event = AQ_EVENT_DONE;
    uint64_t value;
    void *at = job_at(am->source, 0);
    aq_am_buffer buffer;
    CHECK_REFUSED(aq_am_short(job.team, am->source, GOOD, AQ_NO_ARGS, 0), AQ_ECONTEXT);
    CHECK_REFUSED(aq_am_medium(job.team, am->source, GOOD, local, 1, AQ_NO_ARGS, 0, NULL),
                  AQ_ECONTEXT);
    CHECK_REFUSED(aq_am_long(job.team, am->source, GOOD, local, 1, at, AQ_NO_ARGS, 0, NULL),
                  AQ_ECONTEXT);
    CHECK_REFUSED(aq_am_reserve(job.team, am->source, AQ_AM_MEDIUM, NULL, 1, 2, 0, 0, &buffer),
                  AQ_ECONTEXT);
    CHECK_REFUSED(aq_put(job.team, am->source, at, local, 1, 0), AQ_ECONTEXT);
    CHECK_REFUSED(aq_get(job.team, am->source, local, at, 1, 0), AQ_ECONTEXT);
    CHECK_REFUSED(aq_get_value(job.team, am->source, at, 1, 0, &value), AQ_ECONTEXT);
    CHECK_REFUSED(aq_put_nb(job.team, am->source, at, local, 1, 0, &event), AQ_ECONTEXT);
    CHECK_REFUSED(aq_put_nbi(job.team, am->source, at, local, 1, 0), AQ_ECONTEXT);
    CHECK_REFUSED(aq_event_wait(&event, AQ_FOREVER), AQ_ECONTEXT);
    CHECK_REFUSED(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER), AQ_ECONTEXT);
    CHECK_REFUSED(aq_poll(), AQ_ECONTEXT);
    CHECK_REFUSED(aq_poll_until(never, NULL, AQ_FOREVER), AQ_ECONTEXT);
    CHECK_REFUSED(aq_barrier(job.team), AQ_ECONTEXT);
    CHECK_REFUSED(aq_barrier_notify(job.team, 0, 0), AQ_ECONTEXT);
    CHECK_REFUSED(aq_barrier_wait(job.team, 0, 0, 0), AQ_ECONTEXT);
    CHECK_REFUSED(aq_finalize(), AQ_ECONTEXT);
    CHECK_EQUAL(aq_job_rank(), job.self);
    CHECK_EQUAL(aq_job_size(), job.size);
    CHECK(aq_am_max_medium(job.team) >= 512);
    received++;
}

static void on_reply_probe(aq_am *am)
{
    CHECK(am->is_reply);
    CHECK_REFUSED(aq_am_reply_short(am, GOOD, AQ_NO_ARGS, 0), AQ_ECONTEXT);
    CHECK_REFUSED(aq_am_reply_medium(am, GOOD, am, 1, AQ_NO_ARGS, 0), AQ_ECONTEXT);
    on_probe(am);
}

/*
 * Invalid replies are refused; afterwards one valid reply is still sent, and a second one is
 * refused.
 */
static void on_replier(aq_am *am)
{
    static char payload[8];
    aq_handler back = (aq_handler)am->args[0];
    aq_arg args[AQ_AM_MAX_ARGS + 1] = {0};
    CHECK_REFUSED(aq_am_reply_short(am, 3, AQ_NO_ARGS, 0), AQ_EHANDLER);
    CHECK_REFUSED(aq_am_reply_short(am, back, args, 17, 0), AQ_EINVAL);
    CHECK_REFUSED(aq_am_reply_medium(am, back, payload, SIZE_MAX, AQ_NO_ARGS, 0), AQ_ESIZE);
    CHECK_REFUSED(aq_am_reply_long(am, back, payload, 8, payload, AQ_NO_ARGS, 0), AQ_ERANGE);
    CHECK_OK(aq_am_reply_short(am, back, AQ_NO_ARGS, 0));
    CHECK_REFUSED(aq_am_reply_short(am, back, AQ_NO_ARGS, 0), AQ_ECONTEXT);
}

static void test_inside_handlers(void)
{
    aq_handler_entry table[] = {
        {AQ_HANDLER_AUTO, 0, AQ_AM_REQUEST | AQ_AM_SHORT, on_probe, NULL, "probe"},
        {AQ_HANDLER_AUTO, 0, AQ_AM_REPLY | AQ_AM_SHORT, on_reply_probe, NULL, "reply probe"},
        {AQ_HANDLER_AUTO, 1, AQ_AM_REQUEST | AQ_AM_SHORT, on_replier, NULL, "replier"}};
    job_handlers(table, COUNT_OF(table));
    received = 0;
    job_barrier();
    CHECK_OK(aq_am_short(job.team, job_next(), table[0].index, AQ_NO_ARGS, 0));
    CHECK_OK(aq_am_short(job.team, job_next(), table[2].index, AQ_ARGS(table[1].index), 0));
    job_await(&received, 2);
    job_barrier();
}

/* --- a second thread in mode single ---------------------------------------------------------- */

static void *call_from_here(void *arg)
{
    char text[40];
    bool checked = *(bool *)arg;
    aq_status st = aq_poll();
    snprintf(text, sizeof(text), "thread %d,", (int)syscall(SYS_gettid));
    CHECK(checked ? st == AQ_ESTATE : st >= AQ_OK);
    if (checked) CHECK(strncmp(aq_error_message(), "aq_poll: called by ", 19) == 0);
    if (checked) CHECK(strstr(aq_error_message(), text) != NULL);
    snprintf(text, sizeof(text), "but thread %d called aq_init", (int)getpid());
    if (checked) CHECK(strstr(aq_error_message(), text) != NULL);
    if (checked) CHECK_STATUS(aq_put_value(job.team, 0, job.base, 1, 1, 0), AQ_ESTATE);
    if (checked) CHECK_STATUS(aq_nbi_begin(), AQ_ESTATE);
    return NULL;
}

static void test_second_thread(void)
{
    pthread_t thread;
    bool checked = getenv("AQ_CHECK_THREADS") != NULL;
    CHECK(pthread_create(&thread, NULL, call_from_here, &checked) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_STATUS(aq_barrier(job.team), AQ_OK);
}

int main(void)
{
    aq_handler_entry table[] = {{GOOD, 0, 0, on_good, NULL, "good"}};
    aq_team *again;
    test_names();
    test_before();
    test_parameters(); /* from now on errors may name the rank */
    job_open(AQ_THREAD_SINGLE, 65536);
    CHECK_OK(aq_init(NULL, &again)); /* counted, so one aq_finalize does not end the job */
    CHECK(again == job.team);
    CHECK_OK(aq_finalize());
    job_handlers(table, COUNT_OF(table));
    test_texts();
    test_foreign_flags();
    test_register();
    test_am_arguments();
    for (aq_rank rank = 0; rank < job.size; rank++)
        test_ranges(rank);
    test_rma_arguments();
    test_atomic_arguments();
    test_inside_handlers();
    test_second_thread();
    /* After all this the library still works. */
    received = 0;
    job_barrier();
    CHECK_OK(aq_am_short(job.team, job_next(), GOOD, AQ_NO_ARGS, 0));
    job_await(&received, 1);
    aq_team *stale = job.team;
    CHECK_OK(aq_barrier_notify(job.team, 1, 0));
    CHECK_REFUSED(aq_finalize(), AQ_ESTATE);
    CHECK_OK(aq_barrier_wait(job.team, 1, 0, AQ_FOREVER));
    job_close();
    test_outside(stale);
    CHECK_REFUSED(aq_init(NULL, &again), AQ_ESTATE);
    return 0;
}
