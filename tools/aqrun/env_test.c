/* Tests env.c: which variables are passed to other hosts. */
#include "env.h"

#include "base/capture_test.h"
#include <stdlib.h>
#include <string.h>

static char *environment[] = {"PATH=/bin",
                              "HOME=/home/me",
                              "A=",
                              "SSH_AUTH_SOCK=/tmp/x",
                              "DISPLAY=:0",
                              "DISPLAYS=2",
                              "PMIX_RANK=3",
                              "PMI=1",
                              "SLURM_JOB_ID=7",
                              "SLURM_PROCID=0",
                              "SLURM_STEP_ID=0",
                              "AQ_RANK=1",
                              "AQ_WAIT=spin",
                              "AQ_LOCAL_RANK=1",
                              "GASNET_X=1",
                              "NAMELESS",
                              "=C:=strange",
                              "TERM=xterm",
                              "BASH_FUNC_f%%=() { :;\n}",
                              "_=/usr/bin/env",
                              "LD_LIBRARY_PATH=/opt/lib",
                              NULL};

static void expect(const struct env_filter *filter, const char *names)
{
    char text[1024] = "";
    const char **list = env_select(filter, environment);
    assert_non_null(list);
    for (const char **entry = list; *entry != NULL; entry++) {
        strncat(text, *entry, strcspn(*entry, "="));
        strcat(text, " ");
    }
    assert_string_equal(text, names);
    free(list);
}

static void all_but_local(void **state)
{
    const struct env_filter filter = {NULL, false};
    expect(&filter, "PATH HOME A DISPLAYS PMI SLURM_JOB_ID AQ_WAIT GASNET_X TERM BASH_FUNC_f%% "
                    "LD_LIBRARY_PATH ");
}

static void named_and_others(void **state)
{
    static const char *names[] = {"DISPLAY", "NOT_SET", NULL};
    const struct env_filter filter = {names, false};
    expect(&filter, "PATH HOME A DISPLAY DISPLAYS PMI SLURM_JOB_ID AQ_WAIT GASNET_X TERM "
                    "BASH_FUNC_f%% LD_LIBRARY_PATH ");
}

static void named_only(void **state)
{
    static const char *names[] = {"A", "SSH_AUTH_SOCK", NULL};
    const struct env_filter filter = {names, true};
    expect(&filter, "A SSH_AUTH_SOCK AQ_WAIT GASNET_X ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_but_local),
        cmocka_unit_test(named_and_others),
        cmocka_unit_test(named_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
