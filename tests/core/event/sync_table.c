/*
 * "When synchronization is needed": one test for each row of the table in the specification.
 *
 * For a row with local "I" or a leaf event, the source is overwritten as soon as the table allows
 * it, and the target must still receive the original data. For remote "I" and "S", the target gets
 * a message after the call with the guarantee, and its handler checks the memory at once.
 */
#include "../support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK = 100, LANDED, LARGEST = 70000 };

static _Atomic uint32_t looked, landed;
static uint64_t seed_now; /* of the data under way; equal on all ranks */
static unsigned char *source, *copy;

static uint64_t seed_of(aq_rank rank)
{
    return mix(seed_now) + rank;
}

/*
 * The data that a sender has put into its slice of this segment is there when its message arrives.
 */
static void on_look(aq_am *am)
{
    CHECK(
        filled(job.base + am->source * (size_t)LARGEST, (size_t)am->args[0], seed_of(am->source)));
    looked++;
}

static void on_landed(aq_am *am)
{
    CHECK(am->payload == job.base + am->source * (size_t)LARGEST);
    CHECK(filled(am->payload, am->nbytes, seed_of(am->source)));
    landed++;
}

static void *there(void)
{
    return job_at(job_next(), job.self * (size_t)LARGEST);
}

static void spoil(size_t len)
{
    memset(source, 0xee, len);
}

static void tell(size_t len)
{
    CHECK_OK(aq_am_short(job.team, job_next(), LOOK, AQ_ARGS((aq_arg)len), 0));
}

/* --- Longs: remote completion is the handler's run --------------------------------------- */

static void row_long_async(size_t len)
{
    aq_event event;
    CHECK_OK(aq_am_long(job.team, job_next(), LANDED, source, len, there(), AQ_NO_ARGS, 0, &event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    spoil(len);
    job_await(&landed, 1);
}

static void row_long(size_t len)
{
    CHECK_OK(aq_am_long(job.team, job_next(), LANDED, source, len, there(), AQ_NO_ARGS, 0, NULL));
    spoil(len);
    job_await(&landed, 1);
}

/* --- puts -------------------------------------------------------------------------------- */

/* Non-bulk: the source may be reused once the initiator has waited for the leaf. */
static void row_put_nb(size_t len)
{
    aq_event event;
    CHECK_OK(aq_put_nb(job.team, job_next(), there(), source, len, 0, &event));
    aq_event leaf = aq_event_local(event);
    CHECK_OK(aq_event_wait(&leaf, AQ_FOREVER));
    CHECK(leaf == AQ_EVENT_DONE);
    spoil(len);
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    tell(len);
}

static void row_put_nbi(size_t len)
{
    CHECK_OK(aq_put_nbi(job.team, job_next(), there(), source, len, 0));
    CHECK_OK(aq_nbi_wait(AQ_NBI_LOCAL, AQ_FOREVER));
    spoil(len);
    CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
    tell(len);
}

/* The same without a leaf: the call itself waits. */
static void row_put_nb_now(size_t len)
{
    aq_event event;
    CHECK_OK(aq_put_nb(job.team, job_next(), there(), source, len, AQ_LOCAL_NOW, &event));
    CHECK(aq_event_local(event) == AQ_EVENT_DONE);
    spoil(len);
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    tell(len);
}

static void row_put_nbi_now(size_t len)
{
    CHECK_OK(aq_put_nbi(job.team, job_next(), there(), source, len, AQ_LOCAL_NOW));
    spoil(len);
    CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
    tell(len);
}

static void row_put_nb_bulk(size_t len)
{
    aq_event event;
    CHECK_OK(aq_put_nb(job.team, job_next(), there(), source, len, 0, &event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    spoil(len);
    tell(len);
}

static void row_put_nbi_bulk(size_t len)
{
    CHECK_OK(aq_put_nbi(job.team, job_next(), there(), source, len, 0));
    CHECK_OK(aq_nbi_wait(AQ_NBI_ALL, AQ_FOREVER));
    spoil(len);
    tell(len);
}

/* Puts in a region, whose single event covers all of them. */
static void row_put_nbi_region(size_t len)
{
    aq_event event;
    size_t half = len / 2;
    CHECK_OK(aq_nbi_begin());
    CHECK_OK(aq_put_nbi(job.team, job_next(), there(), source, half, 0));
    CHECK_OK(
        aq_put_nbi(job.team, job_next(), (char *)there() + half, source + half, len - half, 0));
    CHECK_OK(aq_nbi_end(&event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    spoil(len);
    tell(len);
}

static uint64_t value_of_source(void)
{
    uint64_t value;
    memcpy(&value, source, sizeof(value));
    return value;
}

static void row_put_nb_val(size_t len)
{
    aq_event event;
    CHECK_OK(aq_put_value_nb(job.team, job_next(), there(), value_of_source(), len, 0, &event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    tell(len);
}

static void row_put_nbi_val(size_t len)
{
    CHECK_OK(aq_put_value_nbi(job.team, job_next(), there(), value_of_source(), len, 0));
    CHECK_OK(aq_nbi_wait(AQ_NBI_PUT, AQ_FOREVER));
    tell(len);
}

static void row_put(size_t len)
{
    CHECK_OK(aq_put(job.team, job_next(), there(), source, len, 0));
    spoil(len);
    tell(len);
}

static void row_put_val(size_t len)
{
    CHECK_OK(aq_put_value(job.team, job_next(), there(), value_of_source(), len, 0));
    tell(len);
}

/* --- gets: the data is there after the call that synchronizes ---------------------------- */

static void check_copy(size_t len)
{
    CHECK(filled(copy, len, seed_of(job_next())));
}

/* The data in the segment of the next rank. */
static void *theirs(void)
{
    return job_at(job_next(), job.size * (size_t)LARGEST);
}

static void row_get_nb(size_t len)
{
    aq_event event;
    CHECK_OK(aq_get_nb(job.team, job_next(), copy, theirs(), len, 0, &event));
    CHECK_OK(aq_event_wait(&event, AQ_FOREVER));
    check_copy(len);
}

static void row_get_nb_by_test(size_t len)
{
    aq_event event;
    CHECK_OK(aq_get_nb(job.team, job_next(), copy, theirs(), len, 0, &event));
    while (aq_event_test(&event) == AQ_AGAIN)
        (void)aq_poll();
    CHECK(event == AQ_EVENT_DONE);
    check_copy(len);
}

static void row_get_nbi(size_t len)
{
    CHECK_OK(aq_get_nbi(job.team, job_next(), copy, theirs(), len, 0));
    CHECK_OK(aq_nbi_wait(AQ_NBI_GET, AQ_FOREVER));
    check_copy(len);
}

static void row_get(size_t len)
{
    CHECK_OK(aq_get(job.team, job_next(), copy, theirs(), len, 0));
    check_copy(len);
}

static void row_get_val(size_t len)
{
    uint64_t value = 0;
    CHECK_OK(aq_get_value(job.team, job_next(), theirs(), len, 0, &value));
    memcpy(copy, &value, len);
    check_copy(len);
}

/* --- the table --------------------------------------------------------------------------- */

enum kind { LONGS, PUTS, VALUE_PUTS, GETS, VALUE_GETS };

static const struct row {
    const char *name; /* of the row in the document */
    enum kind kind;
    void (*run)(size_t len);
} rows[] = {
    {"LongAsync", LONGS, row_long_async},
    {"Long", LONGS, row_long},
    {"put_nb", PUTS, row_put_nb},
    {"put_nbi", PUTS, row_put_nbi},
    {"put_nb, the call waits", PUTS, row_put_nb_now},
    {"put_nbi, the call waits", PUTS, row_put_nbi_now},
    {"put_nb_bulk", PUTS, row_put_nb_bulk},
    {"put_nbi_bulk", PUTS, row_put_nbi_bulk},
    {"put_nbi in a region", PUTS, row_put_nbi_region},
    {"put_nb_val", VALUE_PUTS, row_put_nb_val},
    {"put_nbi_val", VALUE_PUTS, row_put_nbi_val},
    {"put, put_bulk", PUTS, row_put},
    {"put_val", VALUE_PUTS, row_put_val},
    {"get_nb, get_nb_bulk, get_nb_val", GETS, row_get_nb},
    {"get_nb by test", GETS, row_get_nb_by_test},
    {"get_nbi, get_nbi_bulk", GETS, row_get_nbi},
    {"get, get_bulk", GETS, row_get},
    {"get_val", VALUE_GETS, row_get_val},
};

static void run_row(const struct row *row, size_t len)
{
    bool values = row->kind == VALUE_PUTS || row->kind == VALUE_GETS;
    if (values && (len < 1 || len > 8)) return;
    looked = landed = 0;
    seed_now = mix(seed_now + len);
    fill(source, len > 8 ? len : 8, seed_of(job.self));
    fill(job.base + job.size * (size_t)LARGEST, len, seed_of(job.self));
    memset(copy, 0, len);
    memset(job.base + job_previous() * (size_t)LARGEST, 0, len);
    job_barrier();
    row->run(len);
    if (row->kind == PUTS || row->kind == VALUE_PUTS) job_await(&looked, 1);
    job_barrier();
}

int main(void)
{
    static const size_t sizes[] = {1, 3, 8, 100, 1024, 4096, 5000, LARGEST};
    aq_handler_entry table[] = {
        {LOOK, 1, AQ_AM_SHORT | AQ_AM_REQUEST, on_look, NULL, "look"},
        {LANDED, 0, AQ_AM_LONG | AQ_AM_REQUEST, on_landed, NULL, "landed"},
    };
    job.segment_modes = ALL_SEGMENT_MODES;
    job_open(AQ_THREAD_SINGLE, 0);
    job_attach((job.size + 1) * (size_t)LARGEST);
    job_handlers(table, COUNT_OF(table));
    source = malloc(LARGEST);
    copy = malloc(LARGEST);
    CHECK(source != NULL && copy != NULL);
    for (size_t row = 0; row < COUNT_OF(rows); row++) {
        for (size_t i = 0; i < COUNT_OF(sizes); i++)
            for (int times = 0; times < 3; times++)
                run_row(&rows[row], sizes[i]);
        if (job.self == 0) printf("%s\n", rows[row].name);
    }
    free(source);
    free(copy);
    job_close();
    return 0;
}
