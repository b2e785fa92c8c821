/* Where the processes of a job would run, what would start them, and the files for their output. */
#include "harness.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[64];

static const char *in_top(const char *name)
{
    static char path[2][128];
    static int which;
    which = !which;
    snprintf(path[which], sizeof(path[which]), "%s/%s", top, name);
    return path[which];
}

static void write_file(const char *name, const char *text)
{
    int fd = open(in_top(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void expect_file(const char *name, const char *text)
{
    char got[256];
    int fd = open(in_top(name), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail_msg("%s is not there", name);
    ssize_t n = read(fd, got, sizeof(got) - 1);
    close(fd);
    got[n > 0 ? n : 0] = '\0';
    assert_string_equal(got, text);
    assert_int_equal(unlink(in_top(name)), 0);
}

/* Variables of this machine that name hosts must not affect the tests. */
static int begin(void **state)
{
    (void)state;
    static const char *const variables[] = {"AQ_HOSTS",
                                            "AQ_HOSTFILE",
                                            "GASNET_SSH_SERVERS",
                                            "SSH_SERVERS",
                                            "GASNET_SSH_NODEFILE",
                                            "GASNET_NODEFILE",
                                            "SLURM_JOB_NODELIST",
                                            "SLURM_NODELIST",
                                            "SLURM_JOB_ID",
                                            "SLURM_TASKS_PER_NODE",
                                            "PBS_NODEFILE",
                                            "OAR_NODEFILE",
                                            "LSB_DJOB_HOSTFILE",
                                            "LSB_MCPU_HOSTS",
                                            "LSB_HOSTS",
                                            "PE_HOSTFILE",
                                            "AQ_SPAWNER",
                                            "MPIRUN_CMD",
                                            "PMIRUN_CMD",
                                            "AQ_SSH_CMD",
                                            "AQ_SSH_OPTIONS",
                                            "AQ_REMOTE_AQRUN"};
    for (size_t i = 0; i < COUNT(variables); i++)
        unsetenv(variables[i]);
    strcpy(top, "/tmp/aq-job-hosts-XXXXXX");
    return mkdtemp(top) == NULL;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

/* Each test removes its files, unless it failed. */
static int end(void **state)
{
    (void)state;
    if (rmdir(top) == 0) return 0;
    (void)nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return -1;
}

static void test_plans(void **state)
{
    (void)state;
    struct run run;
    job_run(&run, "-t", "--hosts", "n1*2,localhost,n[3-4]", "--ssh-options", "-p 22", "prog",
            "a b");
    expect_code(&run, 0);
    expect_text(&run, OUT, "# n1, 2 of 5 processes, reached by ssh -p 22 -T ");
    expect_text(&run, OUT,
                " --agent'\nAQ_RANK=0 AQ_SIZE=5 AQ_LOCAL_RANK=0 AQ_LOCAL_SIZE=2 prog 'a b'\n"
                "AQ_RANK=1 ");
    expect_text(&run, OUT, " n1 'exec ");
    expect_text(&run, OUT, JOB_AQRUN);
    expect_text(&run, OUT,
                "# localhost, 1 of 5 processes, this machine\nAQ_RANK=2 AQ_SIZE=5 "
                "AQ_LOCAL_RANK=0 AQ_LOCAL_SIZE=1 prog");
    expect_text(&run, OUT, "# n4, 1 of 5 processes, reached by ssh");
    run_free(&run);
    job_run(&run, "-t", "-n", "5", "-N", "2", "-hosts=a,b,c", "-ssh-command", "rsh", "--", "prog");
    expect_code(&run, 0);
    expect_text(&run, OUT, "# a, 3 of 5 processes, reached by rsh a 'exec ");
    expect_text(&run, OUT, "# b, 2 of 5 processes, reached by rsh b 'exec ");
    expect_count(&run, OUT, "# ", 2);
    run_free(&run);
    job_run(&run, "-t", "-E", "AQ_REMOTE_AQRUN=/opt/a b/aqrun", "--hosts", "a", "prog");
    expect_text(&run, OUT, "'exec '\\''/opt/a b/aqrun'\\'' --agent'");
    run_free(&run);
}

static void test_sources(void **state)
{
    (void)state;
    struct run run;
    write_file("hosts", "# mine\nh1 slots=2\n\nh2\n");
    job_run(&run, "-t", "--hostfile", in_top("hosts"), "prog");
    expect_text(&run, OUT, "# h1, 2 of 3 processes");
    expect_text(&run, OUT, "# h2, 1 of 3 processes");
    run_free(&run);
    setenv("SLURM_JOB_NODELIST", "s[1-2]", 1);
    setenv("SLURM_TASKS_PER_NODE", "3(x2)", 1);
    job_run(&run, "-t", "-v", "prog");
    expect_text(&run, ERR, "Slurm gave this job 2 hosts");
    expect_text(&run, OUT, "# s2, 3 of 6 processes");
    run_free(&run);
    setenv("GASNET_SSH_SERVERS", "g1 g2", 1);
    job_run(&run, "-t", "prog");
    expect_text(&run, OUT, "# g2, 1 of 2");
    run_free(&run);
    /* Among GASNet's variables, the file has priority; among Aqueduct's, the list. */
    setenv("GASNET_SSH_NODEFILE", in_top("hosts"), 1);
    job_run(&run, "-t", "prog");
    expect_text(&run, OUT, "# h1, 2 of 3");
    run_free(&run);
    setenv("AQ_HOSTS", "a1 a2", 1);
    job_run(&run, "-t", "prog");
    expect_text(&run, OUT, "# a2, 1 of 2");
    run_free(&run);
    unsetenv("AQ_HOSTS");
    unsetenv("GASNET_SSH_NODEFILE");
    setenv("GASNET_NODEFILE", "/no/such", 1);
    job_run(&run, "-t", "prog");
    expect_code(&run, 2);
    expect_text(&run, ERR, "GASNET_NODEFILE: /no/such: cannot open this hostfile: No such");
    run_free(&run);
    unsetenv("GASNET_NODEFILE");
    setenv("AQ_HOSTFILE", in_top("hosts"), 1);
    job_run(&run, "-t", "prog");
    expect_text(&run, OUT, "# h1, 2 of 3");
    run_free(&run);
    setenv("GASNET_EXITTIMEOUT", "0", 1); /* adjusted */
    job_run(&run, "-t", "prog");
    expect_text(&run, OUT, "# h1, 2 of 3");
    run_free(&run);
    unsetenv("GASNET_EXITTIMEOUT");
    job_run(&run, "-t", "--hosts", "c1", "prog");
    expect_text(&run, OUT, "# c1, 1 of 1");
    run_free(&run);
    job_run(&run, "--spawner", "fork", "-n", "2", "sh", "-c", "echo rank $AQ_RANK of $AQ_SIZE");
    expect_code(&run, 0);
    expect_text(&run, OUT, "rank 1 of 2\n");
    run_free(&run);
    unsetenv("SLURM_JOB_NODELIST");
    unsetenv("SLURM_TASKS_PER_NODE");
    unsetenv("AQ_HOSTFILE");
    unsetenv("GASNET_SSH_SERVERS");
    unlink(in_top("hosts"));
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *args[6];
        const char *text;
    } cases[] = {
        {{"--hosts", "a[1-", "true"}, "--hosts: \"a[1-\" has a [ without a ]"},
        {{"--hostfile", "/no/such", "true"},
         "--hostfile: /no/such: cannot open this hostfile: No such"},
        {{"--hosts", "a", "--hostfile", "b", "true"}, "--hosts and --hostfile: give only one"},
        {{"-n", "3", "--hosts", "a:2", "true"}, "--oversubscribe"},
        {{"-n", "2", "-N", "2", "true"}, "-N 2: only this machine is known"},
        {{"-N", "0", "true"}, "-N 0: give a number from 1 to 65536"},
        {{"-spawner=ssh", "true"}, "--spawner ssh: no hosts are known; name them with --hosts"},
        {{"-spawner=slurm", "true"}, "give one of auto fork ssh pmix pmi2 pmi mpi"},
        {{"--output", "x/%q", "true"}, "%q is unknown"},
        {{"--output", "x/%s", "true"}, "without %r, all processes would write to one file"},
        {{"--output", "x", "--prefix", "true"}, "give only one of them"},
        {{"--ssh-command", " ", "--hosts", "a", "-t", "true"}, "is empty: set AQ_SSH_CMD"},
        {{"-spawner=mpi", "--output", "x", "true"}, "--output works only for processes that"},
        {{"-spawner=mpi", "--timeout", "9s", "true"}, "--timeout works only for processes"},
        {{"-spawner"}, "--spawner needs an argument"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *const *a = cases[i].args;
        struct run run;
        job_run(&run, a[0], a[1], a[2], a[3], a[4], a[5]);
        expect_code(&run, 2);
        expect_text(&run, ERR, cases[i].text);
        run_free(&run);
    }
}

/* A replacement for a manager, which prints its version or its arguments. */
static void stand_in(const char *name, const char *version)
{
    char text[512];
    snprintf(text, sizeof(text),
             "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '%s'; exit 0; fi\n"
             "printf '%s:'; printf ' [%%s]' \"$@\"; echo\nexit 5\n",
             version, name);
    write_file(name, text);
}

static void test_managers(void **state)
{
    (void)state;
    static const struct {
        const char *args[9];
        const char *start, *end; /* between these are variables that the harness has set */
    } cases[] = {
        {{"-spawner=pmix", "-n", "4", "-E", "B=2", "prog", "a b"},
         "mpirun: [-n] [4] [-x] [",
         " [-x] [B] [prog] [a b]\n"},
        {{"-spawner=pmix", "-p", "--oversubscribe", "--hosts", "a:2,b", "prog"},
         "mpirun: [-n] [3] [--host] [a:2,b:1] [-x] [",
         "] [--tag-output] [--oversubscribe] [prog]\n"},
        {{"-spawner=mpi", "-n", "2", "prog"}, "mpirun: [-n] [2] [-x] [", "] [prog]\n"},
        {{"-spawner=pmi", "-n", "4", "-p", "prog"},
         "mpiexec: [-n] [4] [-prepend-rank] [prog]\n",
         NULL},
        {{"-spawner=pmi", "-n", "4", "-N", "2", "--hosts", "a,b,c", "prog"},
         "mpiexec: [-n] [4] [-hosts] [a:2,b:2] [prog]\n",
         NULL},
        {{"-spawner=pmi", "-n", "2", "--env-only", "-E", "ONLY=1", "prog"},
         "mpiexec: [-n] [2] [-genvlist] [",
         ",ONLY] [prog]\n"},
        {{"-spawner=pmi2", "-n", "4", "-p", "prog"},
         "srun: [--mpi=pmi2] [--ntasks=4] [--export=ALL] [--label] [prog]\n",
         NULL},
        {{"-spawner=pmi2", "-n", "5", "--hosts", "a,b", "prog"},
         "srun: [--mpi=pmi2] [--ntasks=5] [--nodes=2] [--nodelist=a,b] [--export=ALL] [prog]\n",
         NULL},
        {{"-spawner=pmi2", "-n", "2", "--env-only", "-E", "ONLY=1", "prog"},
         "srun: [--mpi=pmi2] [--ntasks=2] [--export=",
         ",ONLY] [prog]\n"},
    };
    char *path = strdup(getenv("PATH"));
    assert_non_null(path);
    stand_in("mpirun", "mpirun (Open MPI) 4.1.4");
    stand_in("mpiexec", "HYDRA build details:");
    stand_in("srun", "slurm 22.05");
    setenv("PATH", top, 1);
    struct run run;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *const *a = cases[i].args;
        job_run(&run, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
        expect_code(&run, 5);
        expect_text(&run, OUT, cases[i].start);
        if (cases[i].end != NULL) expect_text(&run, OUT, cases[i].end);
        run_free(&run);
    }
    job_run(&run, "-t", "-spawner=pmix", "-n", "4", "prog", "a b");
    expect_code(&run, 0);
    expect_text(&run, OUT, "mpirun -n 4 -x ");
    expect_text(&run, OUT, " prog 'a b'\n");
    run_free(&run);
    setenv("MPIRUN_CMD", "mpirun 'a %% b' -np%N %V %C -- %P", 1);
    setenv("PMIRUN_CMD", "srun -K0 %V -mblock -n %N %C", 1);
    job_run(&run, "-spawner=mpi", "-n", "3", "prog", "x y", "");
    expect_text(&run, OUT, "mpirun: [a % b] [-np3] [prog] [x y] [] [--] [prog]\n");
    run_free(&run);
    job_run(&run, "-v", "-spawner=pmi", "-n", "3", "prog", "x y");
    expect_text(&run, OUT, "srun: [-K0] [-v] [-mblock] [-n] [3] [prog] [x y]\n");
    run_free(&run);
    static const char *const wrong[][2] = {
        {"mpirun -n %N", "MPIRUN_CMD=\"mpirun -n %N\" does not contain the program: add %C"},
        {"mpirun %X %C", "MPIRUN_CMD: unknown %X"},
        {"mpirun 'a %C", "MPIRUN_CMD=\"mpirun 'a %C\" is not valid: give words"},
        {"mpirun %C %", "MPIRUN_CMD: unknown %"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        setenv("MPIRUN_CMD", wrong[i][0], 1);
        job_run(&run, "-spawner=mpi", "-n", "3", "prog");
        expect_code(&run, 2);
        expect_text(&run, ERR, wrong[i][1]);
        run_free(&run);
    }
    setenv("MPIRUN_CMD", "/no/manager %C", 1);
    job_run(&run, "-n", "2", "--spawner=mpi", "true");
    expect_code(&run, 126);
    expect_text(&run, ERR, "cannot run /no/manager, given by MPIRUN_CMD: No such file");
    run_free(&run);
    unsetenv("MPIRUN_CMD");
    unsetenv("PMIRUN_CMD");
    setenv("SLURM_JOB_ID", "7", 1);
    job_run(&run, "-t", "-spawner=pmix", "-n", "4", "-N", "1", "--hosts", "a,b", "prog");
    expect_text(&run, OUT, "srun --mpi=pmix --ntasks=4 --nodes=1 --nodelist=a --export=ALL prog\n");
    run_free(&run);
    job_run(&run, "-spawner=pmix", "--hosts", "a:1,b:4", "prog");
    expect_code(&run, 2);
    expect_text(&run, ERR, "srun distributes processes evenly");
    run_free(&run);
    unsetenv("SLURM_JOB_ID");
    unlink(in_top("mpiexec"));
    job_run(&run, "-spawner=pmi", "-n", "4", "prog");
    expect_code(&run, 2);
    expect_text(&run, ERR, "no suitable mpiexec.hydra or mpiexec or mpirun was found in PATH");
    run_free(&run);
    setenv("PATH", path, 1);
    free(path);
    unlink(in_top("mpirun"));
    unlink(in_top("srun"));
}

static void test_output_files(void **state)
{
    (void)state;
    static const char script[] = "echo out $AQ_RANK; echo err $AQ_RANK >&2";
    struct run run;
    job_run(&run, "-n", "2", "--output", in_top("a/b"), "sh", "-c", script);
    expect_code(&run, 0);
    assert_string_equal(run.text[OUT], "");
    assert_string_equal(run.text[ERR], "");
    expect_file("a/b/0.out", "out 0\n");
    expect_file("a/b/0.err", "err 0\n");
    expect_file("a/b/1.out", "out 1\n");
    expect_file("a/b/1.err", "err 1\n");
    run_free(&run);
    job_run(&run, "-n", "2", "--output", in_top("a/%%%r-%r"), "sh", "-c", script);
    expect_code(&run, 0);
    expect_file("a/%0-0", "out 0\nerr 0\n");
    expect_file("a/%1-1", "out 1\nerr 1\n");
    run_free(&run);
    rmdir(in_top("a/b"));
    rmdir(in_top("a"));
    write_file("file", "");
    job_run(&run, "-n", "2", "--output", in_top("file"), "sh", "-c", script);
    expect_code(&run, 1);
    expect_text(&run, ERR, "/file/0.out for the output of rank 0: Not a directory");
    run_free(&run);
    unlink(in_top("file"));
    assert_int_equal(mkfifo(in_top("0"), 0700), 0);
    job_run(&run, "--output", in_top("%r"), "sh", "-c", script);
    expect_code(&run, 1);
    expect_text(&run, ERR, "/0 for the output of rank 0: No such device");
    run_free(&run);
    unlink(in_top("0"));
    /* The program writes to a device itself. */
    assert_int_equal(symlink("/dev/full", in_top("0.out")), 0);
    job_run(&run, "--output", top, "sh", "-c", "echo text || exit 9");
    expect_code(&run, 9);
    run_free(&run);
    unlink(in_top("0.out"));
    unlink(in_top("0.err"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_errors),       cmocka_unit_test(test_managers),
        cmocka_unit_test(test_output_files),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
