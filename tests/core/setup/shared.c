/*
 * Two libraries of one program use Aqueduct side by side: each calls aq_init and aq_finalize, has
 * an endpoint and a team of its own, and continues when the other has finished.
 *
 * usage: shared
 */
#include "../support.h"

enum { ROUNDS = 50 };

/* One library, with its own team, and its own handler, whose index is the same in all processes. */
struct library {
    aq_team *world, *team, *mine;
    aq_ep *ep;
    aq_segment *segment;
    aq_handler handler;
    _Atomic uint32_t received;
};

static void on_message(aq_am *am)
{
    struct library *library = am->context;
    library->received++;
}

static void library_open(struct library *library, aq_thread_mode mode)
{
    aq_init_params params = aq_init_defaults();
    params.thread_mode = mode;
    params.segment_modes = job.segment_modes;
    CHECK_OK(aq_init(&params, &library->world));
    CHECK(library->world == job.team);
    CHECK_OK(aq_ep_create(AQ_EP_ALL, &library->ep));
    aq_handler_entry entry = {.fn = on_message, .context = library, .name = "library"};
    CHECK_OK(aq_am_register(library->ep, &entry, 1));
    library->handler = entry.index;
    CHECK_OK(aq_segment_create(NULL, 4096, 0, &library->segment));
    CHECK_OK(aq_ep_bind(library->ep, library->segment));
    CHECK_OK(aq_team_split(library->world, 0, 0, 0, &library->team));
    CHECK_OK(aq_ep_publish(library->team, &library->ep, 1, 0));
    library->mine = aq_team_pair(library->ep, aq_ep_index(library->ep));
}

static void library_work(struct library *library, uint32_t value)
{
    aq_rank next = job_next();
    uint32_t sum = 0, one = 1, got = 0, before = library->received;
    aq_segment_info there;
    CHECK_OK(aq_coll_allreduce(library->team, &sum, &one, 1, AQ_TYPE_U32, AQ_OP_ADD, 0));
    CHECK_EQUAL(sum, job.size);
    CHECK_OK(aq_segment_query(library->mine, next, &there));
    CHECK_OK(aq_put(library->mine, next, there.addr, &value, sizeof(value), 0));
    CHECK_OK(aq_am_short(library->mine, next, library->handler, AQ_NO_ARGS, 0));
    job_await(&library->received, before + 1);
    CHECK_OK(aq_barrier(library->team));
    memcpy(&got, aq_segment_addr(library->segment), sizeof(got));
    CHECK_EQUAL(got, value);
}

static void test_refused(void)
{
    aq_init_params params = aq_init_defaults();
    aq_team *world = NULL;
    params.thread_mode = AQ_THREAD_MULTIPLE;
    CHECK_REFUSED(aq_init(&params, &world), AQ_ESTATE);
    CHECK(strstr(aq_error_message(), "AQ_THREAD_MULTIPLE") != NULL);
    params = aq_init_defaults();
    params.segment_modes = AQ_SEGMENT_BIT(AQ_SEGMENT_EVERYTHING);
    CHECK_REFUSED(aq_init(&params, &world), AQ_ESTATE);
    params.struct_size = 1;
    CHECK_REFUSED(aq_init(&params, &world), AQ_EINVAL);
    CHECK(world == NULL);
}

int main(void)
{
    static struct library one, two;
    job_open(AQ_THREAD_SERIALIZED, 65536);
    test_refused();
    library_open(&one, AQ_THREAD_SINGLE);
    library_open(&two, AQ_THREAD_SERIALIZED);
    CHECK(one.handler == two.handler); /* in separate tables */
    for (uint32_t i = 0; i < ROUNDS; i++) {
        library_work(&one, i);
        library_work(&two, i + 1);
    }
    CHECK_OK(aq_team_destroy(one.team));
    CHECK_OK(aq_finalize());
    library_work(&two, 7);
    CHECK_OK(aq_team_destroy(two.team));
    if (job.self % 2 == 0) CHECK_OK(aq_finalize());
    job_barrier(); /* the program itself still communicates */
    if (job.self % 2 != 0) CHECK_OK(aq_finalize());
    job_close();
    CHECK_REFUSED(aq_init(NULL, &one.world), AQ_ESTATE);
    return 0;
}
