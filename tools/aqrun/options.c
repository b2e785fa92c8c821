/* The command line of aqrun, as a table. */
#include "base/settings.h"
#include "command.h"
#include "files.h"
#include "job.h"
#include "job/boot.h"

#include <aqueduct/version.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/personality.h>

static void option_output(const char *value)
{
    char why[FILES_WHY];
    if (!files_check(value, why)) command_error("%s", why);
    job.options.output = value;
}

/* Variables named explicitly are always passed to other hosts. */
static void option_pass(const char *name, size_t len)
{
    static size_t count;
    const char **longer = realloc(job.options.env.names, (count + 2) * sizeof(*longer));
    char *copy = strndup(name, len);
    if (longer == NULL || copy == NULL) die("-E %s: %s", name, strerror(errno));
    job.options.env.names = longer;
    longer[count++] = copy;
    longer[count] = NULL;
}

static bool option_is_name(const char *text, size_t len)
{
    bool digit = text[0] >= '0' && text[0] <= '9';
    return len > 0 && !digit && strspn(text, LETTERS_AND_DIGITS "_") >= len;
}

/* The processes inherit the whole environment, so the variable only has to exist. */
static void option_require(const char *value, size_t len)
{
    char *name = strndup(value, len);
    if (name == NULL) die("-E %s: %s", value, strerror(errno));
    if (getenv(name) == NULL)
        command_error("-E %s: this variable is not set; set it, or write -E %s=VALUE", name, name);
    free(name);
}

static void option_environment(const char *value)
{
    size_t name_len = strcspn(value, "=,");
    if (value[name_len] == '=' && option_is_name(value, name_len)) {
        if (putenv((char *)(uintptr_t)value) != 0) die("-E %s: %s", value, strerror(errno));
        option_pass(value, name_len);
        return;
    }
    for (const char *at = value;; at++) {
        size_t len = strcspn(at, ",");
        if (!option_is_name(at, len))
            command_error(
                "-E %.80s: \"%.*s\" is not a variable name; write -E NAME,NAME or -E NAME=VALUE",
                value, (int)aqi_min(len, 40), at);
        option_require(at, len);
        option_pass(at, len);
        at += len;
        if (*at == '\0') return;
    }
}

/* The processes inherit this setting. If a container forbids it, they run without it. */
static void option_same_addresses(const char *value)
{
    (void)value;
    int now = personality(0xffffffff);
    if (now == -1 || personality((unsigned long)now | ADDR_NO_RANDOMIZE) == -1)
        say("--same-addresses: this system refuses personality(ADDR_NO_RANDOMIZE) (%s): static "
            "data has different addresses in each process; allow it in the container's seccomp "
            "profile, or link the program with -no-pie",
            strerror(errno));
}

static void option_timeout(const char *value)
{
    static const struct aqi_setting row = {.name = "--timeout",
                                           .type = AQI_SET_TIME,
                                           .unit = "s",
                                           .min = 1000000,
                                           .max = 10000000ull * 1000000000};
    if (!aqi_setting_read(&row, value, &job.options.timeout_ns)) {
        char complaint[256];
        aqi_setting_complain(&row, row.name, value, complaint, sizeof(complaint));
        command_error("%s", complaint);
    }
}

static const struct command_row option_rows[] = {
    {'n', "ranks", "N",
     "start N processes, 1 to 65536 (default: one per slot, or one per host if there are no slots; "
     "1 without hosts)",
     .number = &job.options.ranks, .min = 1, .max = AQI_MAX_RANKS},
    {0, "np", "N", "the same; may begin with one dash, as in mpirun", .number = &job.options.ranks,
     .min = 1, .max = AQI_MAX_RANKS},
    {'N', "nodes", "HOSTS",
     "use this many hosts, and spread the processes evenly over them, within their slots",
     .number = &job.options.hosts_wanted, .min = 1, .max = AQI_MAX_RANKS},
    {0, "hosts", "LIST", "comma-separated hosts, such as n1,n2*4,n3:2,n[04-16]*8",
     .text = &job.options.hosts},
    {0, "hostfile", "FILE", "a file that lists the hosts", .text = &job.options.hostfile},
    {0, "oversubscribe", NULL, "allow more processes than slots",
     .flag = &job.options.oversubscribe},
    {0, "spawner", "HOW",
     "how to start the processes: fork (all on this machine), ssh, or by a process manager: pmix, "
     "pmi2, pmi or mpi (sets AQ_SPAWNER)",
     .variable = "AQ_SPAWNER"},
    {0, "ssh-command", "WORDS", "the command that reaches other hosts (sets AQ_SSH_CMD)",
     .variable = "AQ_SSH_CMD"},
    {0, "ssh-options", "WORDS", "options for that command (sets AQ_SSH_OPTIONS)",
     .variable = "AQ_SSH_OPTIONS"},
    {0, "fanout", "N", "the maximum number of hosts that each host starts (sets AQ_SSH_FANOUT)",
     .variable = "AQ_SSH_FANOUT"},
    {'E', "env", "VAR[,VAR...]",
     "pass these variables, which must be set here, to all processes, including those on other "
     "hosts; VAR=VALUE sets a variable",
     .take = option_environment},
    {0, "env-only", NULL,
     "pass only variables named by -E, and those that begin with AQ_ or GASNET_, to other hosts",
     .flag = &job.options.env.only},
    {'T', "transport", "LIST",
     "transports that may be used (sets AQ_TRANSPORTS; aqinfo lists them)",
     .variable = "AQ_TRANSPORTS"},
    {0, "bind", "WHERE",
     "core: bind each process to one core, in turn; none (default): do not bind (sets AQ_BIND)",
     .variable = "AQ_BIND"},
    {'p', "prefix", NULL, "prefix each line of output with the rank of its process: [3] text",
     .flag = &job.options.prefix},
    {0, "output", "DIR",
     "write the output of rank 3 to DIR/3.out and DIR/3.err on this host, wherever the rank runs; "
     "or a file name with %r for the rank, %s for out or err, %j for the name of the job",
     .take = option_output},
    {'v', "verbose", NULL, "report progress on standard error", .flag = &job.options.verbose},
    {'t', "test", NULL,
     "dry run: print the commands that would be run, one line per process, and run nothing",
     .flag = &job.options.test_only},
    {'k', "keep", NULL, "keep temporary files (accepted for compatibility: aqrun creates none)",
     .take = NULL},
    {0, "survive", NULL,
     "continue when a process dies, and notify the others (sets AQ_SURVIVE=yes)",
     .variable = "AQ_SURVIVE"},
    {0, "same-addresses", NULL,
     "place programs and their static data at the same addresses in all processes, if the system "
     "permits",
     .take = option_same_addresses},
    {0, "timeout", "TIME",
     "end the job if it runs longer than TIME, such as 90s or 10m; the exit code is then 124",
     .take = option_timeout},
};

static const char options_head[] =
    "usage: aqrun [OPTION...] PROGRAM [ARGUMENT...]\n"
    "\n"
    "Starts the processes of a job, on this machine or on several hosts, and ends them together.\n"
    "\n";

static const char options_tail[] =
    "\n"
    "The processes inherit the environment, the working directory, and standard output and\n"
    "error. Rank 0 also has the standard input of aqrun; the others read /dev/null. Each process\n"
    "finds its rank in AQ_RANK and AQ_LOCAL_RANK, the number of processes in AQ_SIZE and\n"
    "AQ_LOCAL_SIZE, and the name of the job in AQ_JOB_ID, which a shell can use:\n"
    "\n"
    "    aqrun -n 2 sh -c 'taskset -c $AQ_RANK ./program'\n"
    "\n"
    "A process ends the job if it is killed, if it ends without aq_finalize after calling\n"
    "aq_init, or if it ends with a nonzero code without calling aq_init. The other processes\n"
    "are notified, get SIGTERM after a quarter of AQ_EXIT_TIMEOUT (default 2s) and SIGKILL after\n"
    "three quarters. SIGINT, SIGTERM and SIGHUP to aqrun do the same; a second signal kills at\n"
    "once. Nothing that the processes started survives the job.\n"
    "\n"
    "With --survive, a death after all processes have left aq_init does not end the job: the\n"
    "others are notified (aq_on_peer_lost) and continue. Only aq_exit, the end of the last\n"
    "process, and the signals above end the job. Deaths are reported at once and again at the\n"
    "end.\n"
    "\n"
    "Hosts come from --hosts, --hostfile, AQ_HOSTS, AQ_HOSTFILE, or from Slurm, PBS, OAR, LSF or\n"
    "Grid Engine; otherwise only this machine is used. A host file has one host per line, as\n"
    "NAME, NAME slots=N, NAME:N or NAME N; # begins a comment. A host that is listed several\n"
    "times, even by a batch system, has one slot for each time. If any host has slots, a host\n"
    "without a number has one. Ranks are placed in blocks: each host is filled up to its slots\n"
    "before the next. Without slots, or with -N, ranks are spread evenly. More processes than\n"
    "slots are an error without --oversubscribe. localhost, the host name and its own addresses\n"
    "mean this machine.\n"
    "\n"
    "Other hosts are reached by ssh, which must not prompt (keys, known hosts). They get the\n"
    "environment, except for variables that are meaningful only here: those of ssh, terminals,\n"
    "displays and daemons. While hosts start, aqrun repeatedly lists those that have not\n"
    "answered, if standard error is a terminal or with -v.\n"
    "\n"
    "With --spawner pmix, pmi2, pmi or mpi, aqrun becomes srun, mpirun or mpiexec.hydra:\n"
    "the first of them that is on PATH and supports it; -t shows the command. --prefix then\n"
    "works as in that command, and --output and --timeout are not available. Long options may\n"
    "begin with one dash: -spawner=ssh.\n"
    "\n"
    "Environment:\n"
    "  AQ_START_TIMEOUT  how long aq_init waits for other processes (default 60s)\n"
    "  AQ_EXIT_TIMEOUT   how long the end of the job may take (default 2s)\n"
    "  AQ_BIND           core: like --bind core (default none)\n"
    "  AQ_SURVIVE        yes: like --survive (default no)\n"
    "  AQ_SSH_TIMEOUT    how long a host may take to answer (default 30s)\n"
    "  AQ_REMOTE_AQRUN   the path of aqrun on other hosts (default: as here)\n"
    "\n"
    "Exit code: the first nonzero code of a process, or the code passed to aq_exit; for a\n"
    "signal, 128 plus its number; 127 if the program is not found, 126 if it cannot be run; 124\n"
    "after --timeout; 2 for a bad command line; 1 for other failures; otherwise 0.\n";

void options_read(int argc, char **argv)
{
    const struct command_line line = {.tool = "aqrun",
                                      .version = aq_version(),
                                      .head = options_head,
                                      .tail = options_tail,
                                      .rows = option_rows,
                                      .count = AQI_COUNT_OF(option_rows),
                                      .stops = true,
                                      .dash = true};
    int first = command_read(&line, argc, argv);
    if (first >= argc) command_error("no program given");
    job.options.command = argv + first;
    if (job.options.output != NULL && job.options.prefix)
        command_error("--output and --prefix: give only one of them; a file for each process needs "
                      "no prefix");
}
