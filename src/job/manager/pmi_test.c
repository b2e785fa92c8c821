/* Tests pmi.c: a manager whose answers are written before the queries arrive. */
#include "job/settings.h"
#include "manager_impl.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define HI    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
#define MAXES "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"
#define NAME  "cmd=my_kvsname kvsname=kvs_7\n"
#define MAP   "cmd=get_result rc=0 msg=success value=(vector,(0,2,1))\n"
#define OPEN  HI MAXES NAME MAP
#define PUT   "cmd=put_result rc=0 msg=success\n"
#define OUT   "cmd=barrier_out\n"
#define NONE  "cmd=get_result rc=-1 msg=not_found value=unknown\n"
#define HOST  "cmd=get_result rc=0 msg=success value=8.AAAAAAAAAAA\n"
#define BYE   "cmd=finalize_ack\n"
#define HI2   "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n"

static int other = -1; /* the manager's end */

static void say(const char *text, size_t len)
{
    assert_int_equal(write(other, text, len), len);
}

/* The environment of rank 1 of 2, and the answers of the manager. */
static void prepare(const char *text)
{
    static struct aqi_settings_table *const tables[] = {&aqi_job_settings};
    int pair[2];
    char number[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    other = pair[1];
    clearenv();
    snprintf(number, sizeof(number), "%d", pair[0]);
    setenv("PMI_FD", number, 1);
    setenv("PMI_RANK", "1", 1);
    setenv("PMI_SIZE", "2", 1);
    setenv("AQ_START_TIMEOUT", "100ms", 1);
    assert_int_equal(aqi_settings_load(tables, 1), AQ_OK);
    say(text, strlen(text));
}

static void message(const char *text)
{
    char head[24];
    snprintf(head, sizeof(head), "%6zu", strlen(text));
    say(head, 6);
    say(text, strlen(text));
}

/* Check everything that the rank has sent before it closed its end. */
static void expect_said(const char *text)
{
    static char said[65536];
    size_t used = 0;
    ssize_t got;
    while ((got = read(other, said + used, sizeof(said) - 1 - used)) > 0)
        used += (size_t)got;
    said[used] = '\0';
    if (text != NULL) assert_string_equal(said, text);
    close(other);
    other = -1;
}

/* Put and get a value, and get one that does not exist. */
static void use_values(struct aqi_manager *manager)
{
    char value[8];
    size_t len = 0;
    assert_int_equal(manager->kind->put(manager, "k", "abc", 3), AQ_OK);
    assert_int_equal(manager->kind->fence(manager), AQ_OK);
    assert_int_equal(manager->kind->get(manager, 0, "k", value, sizeof(value), &len), AQ_OK);
    assert_int_equal(len, 3);
    assert_memory_equal(value, "abc", 3);
    assert_int_equal(manager->kind->get(manager, 0, "x", value, 8, &len), AQ_EINVAL);
    aqi_manager_close(manager);
}

static void a_whole_job(void **state)
{
    struct aqi_manager *manager;
    prepare(OPEN PUT OUT "cmd=get_result rc=0 value=3.YWJj\n" NONE BYE);
    assert_int_equal(aqi_manager_open(&aqi_manager_pmi, &manager), AQ_OK);
    assert_int_equal(manager->info.rank, 1);
    assert_int_equal(manager->info.hosts, 2);
    assert_int_equal(manager->info.host, 1);
    assert_string_equal(manager->info.job, "kvs_7");
    assert_string_equal(manager->info.version, "PMI 1.1");
    assert_true(fcntl(atoi(getenv("PMI_FD")), F_GETFD) & FD_CLOEXEC);
    use_values(manager);
    expect_said("cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=get_my_kvsname\n"
                "cmd=get kvsname=kvs_7 key=PMI_process_mapping\n"
                "cmd=put kvsname=kvs_7 key=aq.k.1.0 value=3.YWJj\ncmd=barrier_in\n"
                "cmd=get kvsname=kvs_7 key=aq.k.0.0\ncmd=get kvsname=kvs_7 key=aq.x.0.0\n"
                "cmd=finalize\n");
}

static void a_whole_job_of_pmi2(void **state)
{
    struct aqi_manager *manager;
    prepare(HI2);
    setenv("PMI_JOBID", "5.0", 1);
    message("cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=2;appnum=-1;");
    message("cmd=job-getid-response;rc=0;jobid=5.0;");
    message("cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,1,2));rc=0;");
    message("cmd=kvs-put-response;rc=0;");
    message("cmd=kvs-fence-response;rc=0;");
    message("cmd=kvs-get-response;found=FALSE;rc=0;");
    message("cmd=kvs-get-response;found=TRUE;value=3.YWJj;rc=0;");
    message("cmd=kvs-get-response;found=FALSE;rc=0;");
    message("cmd=finalize-response;rc=0;");
    assert_int_equal(aqi_manager_open(&aqi_manager_pmi2, &manager), AQ_OK);
    assert_int_equal(manager->info.hosts, 1);
    assert_int_equal(manager->info.local_rank, 1);
    use_values(manager);
    expect_said("cmd=init pmi_version=2 pmi_subversion=0\n"
                "    51cmd=fullinit;pmijobid=5.0;pmirank=1;threaded=FALSE;"
                "    14cmd=job-getid;"
                "    44cmd=info-getjobattr;key=PMI_process_mapping;"
                "    38cmd=kvs-put;key=aq.k.1.0;value=3.YWJj;"
                "    14cmd=kvs-fence;"
                "    44cmd=kvs-get;jobid=5.0;srcid=1;key=aq.absent;"
                "    43cmd=kvs-get;jobid=5.0;srcid=0;key=aq.k.0.0;"
                "    43cmd=kvs-get;jobid=5.0;srcid=0;key=aq.x.0.0;"
                "    13cmd=finalize;");
}

/* hydra 4.2 ends the job at an empty pmijobid, and names no version with the rank. */
static void pmi2_without_job_id_and_version(void **state)
{
    struct aqi_manager *manager;
    prepare(HI2);
    unsetenv("PMI_JOBID");
    message("cmd=fullinit-response;rc=0;rank=1;size=2;appnum=0;pmiverbose=0;");
    message("cmd=job-getid-response;rc=0;jobid=5.0;");
    message("cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,1,2));rc=0;");
    message("cmd=kvs-get-response;found=FALSE;rc=0;");
    message("cmd=finalize-response;rc=0;");
    assert_int_equal(aqi_manager_open(&aqi_manager_pmi2, &manager), AQ_OK);
    assert_int_equal(manager->info.rank, 1);
    assert_string_equal(manager->info.version, "PMI 2.0");
    aqi_manager_close(manager);
    expect_said("cmd=init pmi_version=2 pmi_subversion=0\n"
                "    38cmd=fullinit;pmirank=1;threaded=FALSE;"
                "    14cmd=job-getid;"
                "    44cmd=info-getjobattr;key=PMI_process_mapping;"
                "    13cmd=finalize;");
}

/* A manager without a mapping: the ranks exchange host names. */
static void hosts_by_exchange(void **state)
{
    static const char *const answers[] = {
        HI MAXES NAME NONE PUT OUT HOST HOST BYE,
        HI MAXES NAME "cmd=get_result rc=0 value=(vector,\n" PUT OUT HOST HOST BYE};
    for (size_t i = 0; i < AQI_COUNT_OF(answers); i++) {
        struct aqi_manager *manager;
        prepare(answers[i]);
        assert_int_equal(aqi_manager_open(&aqi_manager_pmi, &manager), AQ_OK);
        assert_int_equal(manager->info.hosts, 1);
        assert_int_equal(manager->info.local_size, 2);
        aqi_manager_close(manager);
        expect_said(NULL);
    }
}

/* Managers that cannot be used, and the resulting messages. */
static const struct bad {
    const struct aqi_manager_kind *kind;
    const char *answer;
    bool gone; /* after its answer */
    aq_status status;
    const char *text;
} bads[] = {
    {&aqi_manager_pmi, "", true, AQ_EPEER, "the manager is gone (response_to_init)"},
    {&aqi_manager_pmi, "", false, AQ_ETIMEOUT, "AQ_START_TIMEOUT"},
    {&aqi_manager_pmi, HI "cmd=max", true, AQ_EPEER, "(maxes)"},
    {&aqi_manager_pmi, HI "cmd=max", false, AQ_ETIMEOUT, "(maxes)"},
    {&aqi_manager_pmi, "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n", false,
     AQ_EPROTO, "does not support PMI-1"},
    {&aqi_manager_pmi, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=100\n", false,
     AQ_EPROTO, "does not support PMI-1"},
    {&aqi_manager_pmi, "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n", false,
     AQ_EPROTO, "does not support PMI-1"},
    {&aqi_manager_pmi, "HTTP/1.1 400 Bad Request\n", false, AQ_EPROTO, "an invalid command"},
    {&aqi_manager_pmi, HI HI, false, AQ_EPROTO, "'response_to_init' instead of 'maxes' (PMI-1)"},
    {&aqi_manager_pmi, HI "cmd=maxes keylen_max=16 vallen_max=1024\n", false, AQ_EPROTO, "short"},
    {&aqi_manager_pmi, HI "cmd=maxes keylen_max=64 vallen_max=-1\n", false, AQ_EPROTO, "short"},
    {&aqi_manager_pmi, HI MAXES "cmd=my_kvsname kvsname=\n", false, AQ_EPROTO,
     "does not report the name"},
    {&aqi_manager_pmi, HI MAXES NAME NONE "cmd=put_result rc=-1 msg=full\n", false, AQ_EREFUSED,
     "aq.aq-host.1.0: full"},
    {&aqi_manager_pmi, HI MAXES NAME NONE PUT, false, AQ_ETIMEOUT, "all 2 ranks"},
    {&aqi_manager_pmi, HI MAXES NAME NONE PUT "cmd=barrier_out rc=-1\n", false, AQ_EPEER,
     "aborted"},
    {&aqi_manager_pmi, HI MAXES NAME NONE PUT OUT "cmd=get_result rc=0 value=3.AAAA\n", false,
     AQ_EPROTO, "a host ID of 3 bytes"},
    {&aqi_manager_pmi, HI MAXES NAME NONE PUT OUT "cmd=get_result rc=0 value=junk\n", false,
     AQ_EPROTO, "an invalid value of rank"},
    {&aqi_manager_pmi2, "", true, AQ_EPEER, "(init)"},
    {&aqi_manager_pmi2, "", false, AQ_ETIMEOUT, "(init)"},
    {&aqi_manager_pmi2, HI, false, AQ_EPROTO, "does not support PMI-2"},
    {&aqi_manager_pmi2, HI2 "garbage", false, AQ_EPROTO, "a malformed PMI-2 message"},
    {&aqi_manager_pmi2, HI2 "999999cmd", false, AQ_EPROTO, "a malformed PMI-2 message"},
    {&aqi_manager_pmi2, HI2 "    20cmd=full", false, AQ_ETIMEOUT, "fullinit-response"},
    {&aqi_manager_pmi2, HI2 "    22cmd=job-getid-response", false, AQ_EPROTO, "fullinit-response"},
    {&aqi_manager_pmi2, HI2 "    27cmd=fullinit-response;rc=0;", false, AQ_EPROTO,
     "the rank and the size"},
    {&aqi_manager_pmi2,
     HI2 "    74cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=2;size=2;aa", false,
     AQ_EPROTO, "rank 2 of 2"},
};

static void unusable_managers(void **state)
{
    for (size_t i = 0; i < AQI_COUNT_OF(bads); i++) {
        struct aqi_manager *manager = NULL;
        print_message("%zu: %s\n", i, bads[i].text);
        prepare(bads[i].answer);
        if (bads[i].gone) shutdown(other, SHUT_WR);
        assert_int_equal(aqi_manager_open(bads[i].kind, &manager), bads[i].status);
        assert_null(manager);
        if (strstr(aq_error_message(), bads[i].text) == NULL)
            fail_msg("not in '%s'", aq_error_message());
        expect_said(NULL); /* and it has closed the socket */
    }
}

/* More than the longest message, without an end. */
static void an_endless_message(void **state)
{
    static char flood[MANAGER_MESSAGE];
    struct aqi_manager *manager = NULL;
    memset(flood, 'a', sizeof(flood));
    prepare("");
    say(flood, sizeof(flood));
    assert_int_equal(aqi_manager_open(&aqi_manager_pmi, &manager), AQ_EPROTO);
    assert_non_null(strstr(aq_error_message(), "without the end of a message"));
    expect_said(NULL);
}

/* It is notified, but not waited for. */
static void aborts(void **state)
{
    struct aqi_manager *manager;
    prepare(OPEN);
    assert_int_equal(aqi_manager_open(&aqi_manager_pmi, &manager), AQ_OK);
    manager->kind->abort(manager, 9, "why");
    aqi_manager_close(manager);
    expect_said("cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\ncmd=get_my_kvsname\n"
                "cmd=get kvsname=kvs_7 key=PMI_process_mapping\ncmd=abort exitcode=9\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_job),
        cmocka_unit_test(a_whole_job_of_pmi2),
        cmocka_unit_test(pmi2_without_job_id_and_version),
        cmocka_unit_test(hosts_by_exchange),
        cmocka_unit_test(unusable_managers),
        cmocka_unit_test(an_endless_message),
        cmocka_unit_test(aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
