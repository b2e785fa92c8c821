/*
 * Settings, queries and mistakes of a client at the start of a job: variables that it defines for
 * the library, its hook, the environment, deferred threads, refused attaches and handlers, an empty
 * segment, and more threads, one after another, than may exist at a time.
 */
#include <gasnet.h>
#include <gasnet_tools.h>

#include "support.h"

#include <pthread.h>

enum { MINE = 32 << 20, TABLE = 100, FIXED = 200 };

const char *gasnet_max_segsize_str = "32MB/P";

static void *hook_base;
static uintptr_t hook_size;
static unsigned called;

static void on_attach(void *base, uintptr_t size)
{
    hook_base = base;
    hook_size = size;
}

static void on_call(gex_Token_t token)
{
    (void)token;
    one_more(&called);
}

static void test_limits(void)
{
    CHECK_EQUAL(gasnet_getMaxLocalSegmentSize(), gasnet_getMaxGlobalSegmentSize());
    if (gasnet_getenv("GASNET_MAX_SEGSIZE") == NULL)
        CHECK_EQUAL(gasnet_getMaxLocalSegmentSize(), MINE);
    else /* the user's value has priority: START_LIMIT has the original one */
        CHECK_EQUAL(gasnet_getMaxLocalSegmentSize(), atol(gasnet_getenv("START_LIMIT")));
}

/* A client that requests deferred threads has to start them itself; there are none. */
static void test_deferred_threads(void)
{
    const gex_ProgressThreadInfo_t *info = NULL;
    unsigned count = 99;
    CHECK_EQUAL(gex_System_QueryProgressThreads(job.client, NULL, &info, 0), GASNET_ERR_BAD_ARG);
    CHECK_EQUAL(gex_System_QueryProgressThreads(job.client, &count, NULL, 0), GASNET_ERR_BAD_ARG);
    CHECK_EQUAL(gex_System_QueryProgressThreads(job.client, &count, &info, 1), GASNET_ERR_BAD_ARG);
    CHECK_EQUAL(gex_System_QueryProgressThreads(job.client, &count, &info, 0), GASNET_OK);
    CHECK(count == 0 && info != NULL);
    CHECK_EQUAL(gex_System_QueryProgressThreads(job.client, &count, &info, 0), GASNET_ERR_RESOURCE);
}

static void test_attach(void)
{
    uintptr_t most = gasnet_getMaxLocalSegmentSize();
    CHECK_EQUAL(gex_Segment_Attach(&job.segment, job.tm, 12345), GASNET_ERR_BAD_ARG);
    CHECK_EQUAL(gex_Segment_Attach(&job.segment, job.tm, most + GASNET_PAGESIZE),
                GASNET_ERR_BAD_ARG);
    gasnet_client_attach_hook = on_attach;
    CHECK_EQUAL(gex_Segment_Attach(&job.segment, job.tm, 0), GASNET_OK);
    CHECK_EQUAL(gex_Segment_QuerySize(job.segment), GASNET_PAGESIZE);
    CHECK(hook_base == gex_Segment_QueryAddr(job.segment) && hook_size == GASNET_PAGESIZE);
    CHECK_EQUAL(gex_Segment_Attach(&job.segment, job.tm, 0), GASNET_ERR_RESOURCE);
}

/* Handlers without a fixed index get the highest free ones, in the order of the table. */
static void test_handlers(void)
{
    gex_AM_Entry_t table[TABLE];
    int i;
    memset(table, 0, sizeof(table));
    for (i = 0; i < TABLE; i++) {
        table[i].gex_fnptr = (gex_AM_Fn_t)on_call;
        table[i].gex_flags = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP;
    }
    table[1].gex_index = 1; /* reserved for the library */
    CHECK_EQUAL(gex_EP_RegisterHandlers(job.ep, table, TABLE), GASNET_ERR_BAD_ARG);
    CHECK_EQUAL(table[0].gex_index, 0);
    table[1].gex_index = FIXED;
    CHECK_EQUAL(gex_EP_RegisterHandlers(job.ep, table, TABLE), GASNET_OK);
    CHECK_EQUAL(table[0].gex_index, 255);
    for (i = 2; i < TABLE; i++)
        CHECK_EQUAL(table[i].gex_index, 255 - (i - 1) - (255 - (i - 1) <= FIXED));
    CHECK(gex_EP_RegisterHandlers(job.ep, &table[1], 1) != GASNET_OK);
    CHECK_EQUAL(gex_EP_RegisterHandlers(job.ep, NULL, 0), GASNET_OK);
}

static void *calls_itself(void *arg)
{
    (void)arg;
    CHECK_EQUAL(gex_AM_RequestShort0(job.tm, job.rank, FIXED, 0), 0);
    return NULL;
}

static void test_threads_that_go(void)
{
    unsigned wanted = 1;
#ifndef GASNET_SEQ
    pthread_t thread;
    for (wanted = 0; wanted < gex_System_QueryMaxThreads() + 10; wanted++) {
        CHECK_EQUAL(pthread_create(&thread, NULL, calls_itself, NULL), 0);
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
    }
#else
    calls_itself(NULL);
#endif
    GASNET_BLOCKUNTIL(__atomic_load_n(&called, __ATOMIC_ACQUIRE) == wanted);
}

int main(int argc, char **argv)
{
    gex_Flags_t flags = GEX_FLAG_DEFER_THREADS | GEX_FLAG_USES_GASNET1;
    char *path;
    CHECK_EQUAL(gex_Client_Init(&job.client, &job.ep, &job.tm, "start", &argc, &argv, flags),
                GASNET_OK);
    CHECK_EQUAL(gex_Client_QueryFlags(job.client), flags);
    job_learn();
    path = strdup(gasnet_getenv("PATH"));
    CHECK(gasnet_getenv("NO_SUCH_VARIABLE") == NULL);
    gex_System_SetVerboseErrors(0);
    test_limits();
    test_deferred_threads();
    test_attach();
    test_handlers();
    gex_System_SetVerboseErrors(1);
    CHECK(strcmp(path, gasnet_getenv("PATH")) == 0);
    free(path);
    job_barrier();
    test_threads_that_go();
    job_barrier();
    gasnet_exit(0);
    return 0;
}
