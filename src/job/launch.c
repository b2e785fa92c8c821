/* The table of aqrun's settings. */
#include "job/launch.h"

#include "job/boot.h"

#define LAUNCH_SECOND 1000000000ull

struct aqi_launch_config aqi_launch_config = {
    .hosts = "",
    .hostfile = "",
    .ssh_command = "ssh",
    .ssh_options = "",
    .ssh_fanout = 16,
    .ssh_timeout_ns = 30 * LAUNCH_SECOND,
    .remote_aqrun = "",
};

/* In the order of enum aqi_spawner. */
static const char *const launch_spawners[] = {"auto", "fork", "ssh", "pmix",
                                              "pmi2", "pmi",  "mpi", NULL};

static const char *const launch_more_hosts[] = {"SSH_SERVERS", NULL};
static const char *const launch_more_files[] = {"GASNET_NODEFILE", NULL};

/* Whether every quote is closed, by the rules of the shell. */
static bool launch_is_words(const char *text)
{
    char quote = '\0';
    for (; *text != '\0'; text++) {
        if (*text == quote)
            quote = '\0';
        else if (quote == '\0' && (*text == '\'' || *text == '"'))
            quote = *text;
        else if (*text == '\\' && quote != '\'' && text[1] != '\0')
            text++;
    }
    return quote == '\0';
}

#define LAUNCH_WORDS "words quoted as for a shell"

static const struct aqi_setting launch_rows[] = {
    {.name = "AQ_SPAWNER",
     .choices = launch_spawners,
     .def = "auto",
     .doc = "How aqrun starts processes: fork, all on this machine; ssh, on the hosts; pmix, pmi2, "
            "pmi or mpi, by srun, mpirun or mpiexec.hydra, whichever is found; auto, fork if all "
            "hosts are this machine, otherwise ssh. Set by aqrun --spawner.",
     .advice = "Set fork to stay on this machine inside a job of a batch system.",
     AQI_SETTING_IN(CHOICE, struct aqi_launch_config, spawner)},
    {.name = "AQ_MPIRUN_CMD",
     .alias = "MPIRUN_CMD",
     .check = launch_is_words,
     .legal = LAUNCH_WORDS,
     .def = "",
     .doc = "With AQ_SPAWNER=mpi, the manager's command, quoted as for a shell. %N stands for the "
            "number of processes, %C for the program with its arguments (%P is the program alone, "
            "%A the arguments), %V for -v if aqrun was given it, %% for a percent sign. If empty, "
            "aqrun looks for a manager and passes options for hosts and environment.",
     .advice = "Set it for managers that need other options: mpirun --mca btl tcp,self -n %N %C.",
     AQI_SETTING_IN(TEXT, struct aqi_launch_config, mpirun)},
    {.name = "AQ_PMIRUN_CMD",
     .alias = "PMIRUN_CMD",
     .check = launch_is_words,
     .legal = LAUNCH_WORDS,
     .def = "",
     .doc = "Like AQ_MPIRUN_CMD, but for AQ_SPAWNER=pmix, pmi2 or pmi.",
     .advice = "For example: srun --mpi=pmix -K0 -W60 %V -mblock -n %N %C.",
     AQI_SETTING_IN(TEXT, struct aqi_launch_config, pmirun)},
    {.name = "AQ_HOSTS",
     .alias = "GASNET_SSH_SERVERS",
     .more_aliases = launch_more_hosts,
     .def = "",
     .doc = "The hosts of jobs that aqrun starts, in the format of aqrun --hosts: n1,n2*4,n[3-8].",
     AQI_SETTING_IN(TEXT, struct aqi_launch_config, hosts)},
    {.name = "AQ_HOSTFILE",
     .alias = "GASNET_SSH_NODEFILE",
     .more_aliases = launch_more_files,
     .def = "",
     .doc =
         "A file with the hosts of jobs that aqrun starts, one per line, as for aqrun --hostfile. "
         "AQ_HOSTS takes precedence over this file, and this file over GASNET_SSH_SERVERS.",
     AQI_SETTING_IN(TEXT, struct aqi_launch_config, hostfile)},
    {.name = "AQ_SSH_CMD",
     .alias = "GASNET_SSH_CMD",
     .check = launch_is_words,
     .legal = LAUNCH_WORDS,
     .def = "ssh",
     .doc = "The command by which aqrun reaches other hosts, quoted as for a shell. Options, the "
            "host and a command line are appended to it.",
     .advice = "Set it at sites with their own command, such as rsh or oarsh.",
     AQI_SETTING_IN(TEXT, struct aqi_launch_config, ssh_command)},
    {.name = "AQ_SSH_OPTIONS",
     .alias = "GASNET_SSH_OPTIONS",
     .check = launch_is_words,
     .legal = LAUNCH_WORDS,
     .def = "",
     .doc = "Options for AQ_SSH_CMD, quoted as for a shell. They precede aqrun's own (-T, "
            "BatchMode=yes, ForwardX11=no, if the command is ssh), and so take precedence.",
     .advice = "For example: -p 2222, -i KEY, or -o StrictHostKeyChecking=accept-new.",
     AQI_SETTING_IN(TEXT, struct aqi_launch_config, ssh_options)},
    {.name = "AQ_SSH_FANOUT",
     .clamp = true,
     .alias = "GASNET_SSH_OUT_DEGREE",
     .def = "16",
     .max = AQI_MAX_RANKS,
     .doc = "The maximum number of other hosts that one host starts, in a tree whose root is "
            "aqrun; 0: aqrun starts them all itself.",
     .advice = "Set 0 if hosts cannot reach each other by ssh.",
     AQI_SETTING_IN(COUNT, struct aqi_launch_config, ssh_fanout)},
    {.name = "AQ_SSH_TIMEOUT",
     .def = "30s",
     .unit = "s",
     .min = LAUNCH_SECOND / 10,
     .max = 86400 * LAUNCH_SECOND,
     .doc = "Time limit for a host to answer after its ssh session was started.",
     .advice = "Raise it if logins are slow.",
     AQI_SETTING_IN(TIME, struct aqi_launch_config, ssh_timeout_ns)},
    {.name = "AQ_REMOTE_AQRUN",
     .def = "",
     .doc = "The path of aqrun on the other hosts. If empty: the same as on this one.",
     .advice = "Set it if aqrun is installed elsewhere there.",
     AQI_SETTING_IN(TEXT, struct aqi_launch_config, remote_aqrun)},
};

struct aqi_settings_table aqi_launch_settings = {
    .group = "aqrun",
    .rows = launch_rows,
    .count = AQI_COUNT_OF(launch_rows),
    .values = &aqi_launch_config,
};
