/* Tests hosts.c, hostfile.c and batch.c: lists, files, batch systems, and malformed ones. */
#include "hosts.h"

#include "base/capture_test.h"
#include "base/fail.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "n1*2 n2*1", or without numbers if none are given. */
static const char *written(struct hosts *hosts)
{
    static char text[4096];
    hosts_settle(hosts);
    text[0] = '\0';
    for (uint32_t i = 0; i < hosts->count; i++) {
        const struct host *host = &hosts->list[i];
        aqi_append(text, sizeof(text), "%s%s", i > 0 ? " " : "", host->name);
        if (host->slots > 0) aqi_append(text, sizeof(text), "*%u", host->slots);
    }
    hosts_free(hosts);
    return text;
}

static void lists(void **state)
{
    static const char *const cases[][2] = {
        {"a", "a"},
        {"a,b c\td\n", "a b c d"},
        {",, a ,,b,", "a b"},
        {"a*2,b", "a*2 b*1"},
        {"a:2,b:3", "a*2 b*3"},
        {"a,b,a", "a*2 b*1"},
        {"a*2,A:3", "a*5"},
        {"a*2,a", "a*3"},
        {"n[1-3]", "n1 n2 n3"},
        {"n[1-3,07-11],m4", "n1 n2 n3 n07 n08 n09 n10 n11 m4"},
        {"n[9-11]*4", "n9*4 n10*4 n11*4"},
        {"r[1-2]n[01-02].x", "r1n01.x r1n02.x r2n01.x r2n02.x"},
        {"n[098-101]", "n098 n099 n100 n101"},
        {"n[000000001-000000002]", "n000000001 n000000002"},
        {"[1-2]", "1 2"},
        {"me@n1,n1", "me@n1 n1"},
        {"fe80::1,2001:db8::2*3", "fe80::1*1 2001:db8::2*3"},
        {"[fe80::1],[fe80::2]:4,[fe80::3%eth0]*2", "fe80::1*1 fe80::2*4 fe80::3%eth0*2"},
        {"n1*65536", "n1*65536"},
        {"a0z9,A0Z8", "a0z9 A0Z8"},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct hosts hosts = {0};
        if (!hosts_add_list(&hosts, "--hosts", cases[i][0])) fail_msg("%s", hosts.why);
        assert_string_equal(written(&hosts), cases[i][1]);
    }
}

static void malformed_lists(void **state)
{
    static const char *const cases[][2] = {
        {"", "it contains no host"},
        {" ,, ", "it contains no host"},
        {"-oProxyCommand=x", "is not a host name"},
        {"a,-b", "\"-b\" is not a host name"},
        {"a;b", "\"a;b\" is not a host name"},
        {"a$(b)", "is not a host name"},
        {"a/b", "is not a host name"},
        {"a\001b", "\"a?b\" is not a host name"},
        {"*4", "is empty"},
        {"a*", "not end in a number of slots"},
        {"a*0", "not end in a number of slots from 1 to 65536"},
        {"a:x", "not end in a number of slots"},
        {"a*65537", "not end in a number of slots"},
        {"a*4294967297", "not end in a number of slots"},
        {"a*65536,a", "more than 65536 slots"},
        {"n[", "has a [ without a ]"},
        {"n[1-3", "has a [ without a ]"},
        {"n]", "is not a host name"},
        {"n[]", "is not a range"},
        {"n[a-b]", "is not a range"},
        {"n[3-1]", "is not a range"},
        {"n[1-]", "is not a range"},
        {"n[1,]", "is not a range"},
        {"n[1 -2]", "without a ]"},
        {"n[1-99999999]", "more than 65536 hosts"},
        {"n[1-65536],m", "more than 65536 hosts"},
        {"n[1-9999999999]", "is not a range"},
        {"n[1-2][1-", "without a ]"},
        {"a[1,1][1,1][1,1][1,1][1,1][1,1][1,1][1,1][1,1][1,1][1,1][1,1][1,1][1,1][1,1][1,1][1,1]"
         "[1,1][1,1][1,1][1,1]",
         "65536 slots"},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct hosts hosts = {0};
        if (hosts_add_list(&hosts, "--hosts", cases[i][0])) fail_msg("%s is taken", cases[i][0]);
        assert_int_equal(strncmp(hosts.why, "--hosts: ", 9), 0);
        if (strstr(hosts.why, cases[i][1]) == NULL) fail_msg("%s: %s", cases[i][0], hosts.why);
        hosts_free(&hosts);
    }
}

static void long_names(void **state)
{
    char name[HOSTS_NAME + 8];
    for (unsigned len = HOSTS_NAME - 1; len <= HOSTS_NAME + 1; len++) {
        struct hosts hosts = {0};
        memset(name, 'x', len);
        name[len] = '\0';
        assert_int_equal(hosts_add_list(&hosts, "--hosts", name), len <= HOSTS_NAME);
        hosts_free(&hosts);
        strcpy(name + len - 3, "[9-10]");
        /* 10 has one digit more than 9 */
        assert_int_equal(hosts_add_list(&hosts, "--hosts", name), len - 1 <= HOSTS_NAME);
        hosts_free(&hosts);
    }
}

static void many_hosts(void **state)
{
    struct hosts hosts = {0};
    assert_false(hosts_add_list(&hosts, "--hosts", "n[1-65536],N[00001-65536]"));
    hosts_free(&hosts);
    assert_true(hosts_add_list(&hosts, "--hosts", "n[1-65536] N[1-65536]"));
    assert_int_equal(hosts.count, HOSTS_MAX);
    hosts_settle(&hosts);
    assert_int_equal(hosts_slots(&hosts, hosts.count), 2 * HOSTS_MAX);
    assert_string_equal(hosts.list[65535].name, "n65536");
    hosts_free(&hosts);
}

static void this_machine(void **state)
{
    char own[HOSTS_NAME + 1] = "", list[2 * HOSTS_NAME + 64];
    assert_int_equal(gethostname(own, sizeof(own) - 1), 0);
    own[strcspn(own, ".")] = '\0';
    snprintf(list, sizeof(list), "n1,%s*2,localhost,127.0.0.1,%s.some.where", own, own);
    struct hosts hosts = {0};
    assert_true(hosts_add_list(&hosts, "--hosts", list));
    assert_int_equal(hosts.count, 2);
    assert_false(hosts.list[0].here);
    assert_true(hosts.list[1].here);
    hosts_settle(&hosts);
    assert_int_equal(hosts.list[1].slots, 5);
    hosts_free(&hosts);
    assert_false(hosts_is_here("192.0.2.1"));
    assert_false(hosts_is_here("2001:db8::1"));
    assert_false(hosts_is_here("me@localhost"));
    assert_false(hosts_is_here("localhost2"));
}

static void lines(void **state)
{
    static const struct {
        const char *text, *hosts;
        enum hosts_format format;
    } cases[] = {
        {"a\nb\n", "a b", HOSTS_PLAIN},
        {"# all\n\n  a # the first\r\n\tb slots=2 \n#c", "a*1 b*2", HOSTS_PLAIN},
        {"a:4\nb:2", "a*4 b*2", HOSTS_PLAIN},
        {"a slots=4 max_slots=8\nb SLOTS=2 max-slots=2\nc cpu=1", "a*4 b*2 c*1", HOSTS_PLAIN},
        {"a:4 ifhn=ib0 binding=user\n", "a*4", HOSTS_PLAIN},
        {"a 4\nb 2\n", "a*4 b*2", HOSTS_PLAIN},
        {"a\na\nb\nb\n", "a*2 b*2", HOSTS_PLAIN},
        {"n[1-2] slots=3\n", "n1*3 n2*3", HOSTS_PLAIN},
        {"a 4 all.q@a <NULL>\nb 2 all.q@b 0,1:0,2\n", "a*4 b*2", HOSTS_GRID_ENGINE},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct hosts hosts = {0};
        const char *text = cases[i].text;
        if (!hosts_add_lines(&hosts, "file", text, strlen(text), cases[i].format))
            fail_msg("%s", hosts.why);
        assert_string_equal(written(&hosts), cases[i].hosts);
    }
}

static void malformed_lines(void **state)
{
    static const char *const cases[][2] = {
        {"", "file: it contains no host"},
        {"# nothing\n\n", "file: it contains no host"},
        {"a\nb slots=x\n", "file:2: \"slots=x\": give a number"},
        {"a\nb slots=0\n", "file:2: \"slots=0\": give a number"},
        {"a\n\n\nb c\n", "file:4: unknown \"c\" after a host"},
        {"a color=red\n", "file:1: unknown \"color=red\""},
        {"a slots\n", "file:1: unknown \"slots\""},
        {"a 4 4\n", "file:1: unknown \"4\""},
        {"\177ELF\2\1\n", "file:1: \"?ELF??\" is not a host name"},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct hosts hosts = {0};
        const char *text = cases[i][0];
        if (hosts_add_lines(&hosts, "file", text, strlen(text), HOSTS_PLAIN))
            fail_msg("%s is taken", text);
        if (strstr(hosts.why, cases[i][1]) != hosts.why) fail_msg("%s: %s", text, hosts.why);
        hosts_free(&hosts);
    }
    struct hosts hosts = {0};
    static char line[6000];
    memset(line, 'x', sizeof(line));
    assert_false(hosts_add_lines(&hosts, "file", line, sizeof(line), HOSTS_PLAIN));
    assert_non_null(strstr(hosts.why, "file:1: this line has more than 4096 characters"));
    hosts_free(&hosts);
    assert_false(hosts_add_lines(&hosts, "file", "a\0b", 3, HOSTS_PLAIN));
    hosts_free(&hosts);
}

static void files(void **state)
{
    struct hosts hosts = {0};
    assert_false(hosts_add_file(&hosts, "FILE", "/no/such/file", HOSTS_PLAIN));
    assert_non_null(strstr(hosts.why, "FILE: /no/such/file: cannot open this hostfile: No such"));
    assert_false(hosts_add_file(&hosts, "FILE", "/", HOSTS_PLAIN));
    assert_non_null(strstr(hosts.why, "FILE: /: cannot read it: Is a directory"));
    assert_false(hosts_add_file(&hosts, "FILE", "/dev/zero", HOSTS_PLAIN));
    assert_non_null(strstr(hosts.why, "FILE: /dev/zero: it has more than 64 MB"));
    hosts_free(&hosts);
}

static const char *const batch_variables[] = {
    "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_TASKS_PER_NODE",
    "PBS_NODEFILE",       "OAR_NODEFILE",   "LSB_DJOB_HOSTFILE",
    "LSB_MCPU_HOSTS",     "LSB_HOSTS",      "PE_HOSTFILE"};

static int forget(void **state)
{
    for (size_t i = 0; i < AQI_COUNT_OF(batch_variables); i++)
        unsetenv(batch_variables[i]);
    return 0;
}

static void batch(void **state)
{
    static const struct {
        const char *set[2][2];
        const char *system, *hosts;
    } cases[] = {
        {{{"SLURM_JOB_NODELIST", "n[1-3],m4"}, {"SLURM_TASKS_PER_NODE", "2(x3),1"}},
         "Slurm",
         "n1*2 n2*2 n3*2 m4*1"},
        {{{"SLURM_NODELIST", "n[1-2]"}}, "Slurm", "n1 n2"},
        {{{"SLURM_JOB_NODELIST", "n7"}, {"SLURM_TASKS_PER_NODE", "64"}}, "Slurm", "n7*64"},
        {{{"LSB_MCPU_HOSTS", "a 4 b 2 "}}, "LSF", "a*4 b*2"},
        {{{"LSB_HOSTS", "a a b"}}, "LSF", "a*2 b*1"},
        {{{"LSB_HOSTS", "a b"}}, "LSF", "a*1 b*1"},
        {{{"SLURM_JOB_NODELIST", ""}}, NULL, ""},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct hosts hosts = {0};
        const char *system;
        forget(state);
        for (size_t k = 0; k < 2 && cases[i].set[k][0] != NULL; k++)
            setenv(cases[i].set[k][0], cases[i].set[k][1], 1);
        if (!hosts_add_batch(&hosts, &system)) fail_msg("%s", hosts.why);
        assert_string_equal(system == NULL ? "" : system,
                            cases[i].system == NULL ? "" : cases[i].system);
        assert_string_equal(written(&hosts), cases[i].hosts);
    }
    forget(state);
}

static void batch_files(void **state)
{
    static const char *const cases[][4] = {
        {"PBS_NODEFILE", "a\nb\n", "PBS", "a*1 b*1"},
        {"PBS_NODEFILE", "a\na\nb\n", "PBS", "a*2 b*1"},
        {"LSB_DJOB_HOSTFILE", "a\na\n", "LSF", "a*2"},
        {"PE_HOSTFILE", "a 2 q UNDEFINED\nb 1 q UNDEFINED\n", "Grid Engine", "a*2 b*1"},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct hosts hosts = {0};
        const char *system;
        char path[] = "/tmp/aq-hosts-test-XXXXXX";
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, cases[i][1], strlen(cases[i][1])), strlen(cases[i][1]));
        close(fd);
        forget(state);
        setenv(cases[i][0], path, 1);
        bool added = hosts_add_batch(&hosts, &system);
        unlink(path);
        if (!added) fail_msg("%s", hosts.why);
        assert_string_equal(system, cases[i][2]);
        assert_string_equal(written(&hosts), cases[i][3]);
    }
    forget(state);
}

static void malformed_batch(void **state)
{
    static const char *const cases[][4] = {
        {"SLURM_JOB_NODELIST", "n[1-", "2", "SLURM_JOB_NODELIST: \"n[1-\" has a [ without a ]"},
        {"SLURM_JOB_NODELIST", "n[1-3]", "2(x2)",
         "does not match the 3 hosts in SLURM_JOB_NODELIST"},
        {"SLURM_JOB_NODELIST", "n[1-3]", "2(x4)", "does not match the 3 hosts"},
        {"SLURM_JOB_NODELIST", "n[1-3]", "2(x65536)", "does not match the 3 hosts"},
        {"SLURM_JOB_NODELIST", "n[1-3]", "2(x3),", "is malformed"},
        {"SLURM_JOB_NODELIST", "n[1-3]", "2(x3", "is malformed"},
        {"SLURM_JOB_NODELIST", "n[1-3]", "2(x)", "is malformed"},
        {"SLURM_JOB_NODELIST", "n[1-3]", "(x3)", "is malformed"},
        {"SLURM_JOB_NODELIST", "n[1-3]", "many", "is malformed"},
        {"LSB_MCPU_HOSTS", "a 4 b", NULL, "LSB_MCPU_HOSTS: the number of slots of \"b\" is"},
        {"LSB_MCPU_HOSTS", "a b 4", NULL, "the number of slots of \"a\" is missing"},
        {"PBS_NODEFILE", "/no/such/file", NULL, "PBS_NODEFILE: /no/such/file: cannot"},
    };
    for (size_t i = 0; i < AQI_COUNT_OF(cases); i++) {
        struct hosts hosts = {0};
        const char *system;
        forget(state);
        setenv(cases[i][0], cases[i][1], 1);
        if (cases[i][2] != NULL) setenv("SLURM_TASKS_PER_NODE", cases[i][2], 1);
        if (hosts_add_batch(&hosts, &system)) fail_msg("%s %s", cases[i][1], cases[i][2]);
        if (strstr(hosts.why, cases[i][3]) == NULL) fail_msg("%s", hosts.why);
        hosts_free(&hosts);
    }
    forget(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),           cmocka_unit_test(malformed_lists),
        cmocka_unit_test(long_names),      cmocka_unit_test(many_hosts),
        cmocka_unit_test(this_machine),    cmocka_unit_test(lines),
        cmocka_unit_test(malformed_lines), cmocka_unit_test(files),
        cmocka_unit_test(batch),           cmocka_unit_test(batch_files),
        cmocka_unit_test(malformed_batch),
    };
    return cmocka_run_group_tests(tests, forget, forget);
}
