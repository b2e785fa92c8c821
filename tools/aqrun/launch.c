/* Determines where the processes of the job run, and how they are started. */
#include "launch.h"

#include "command.h"
#include "job.h"
#include "manager.h"
#include "ssh.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern char **environ;

struct launch launch;
static bool launch_named; /* specified by the user, not by a batch system */

static _Noreturn void launch_error(const char *why)
{
    say("%s", why);
    exit(EXIT_USAGE);
}

/* Use the first source that specifies hosts: command line, settings, batch system. */
static bool launch_find(struct hosts *hosts)
{
    const struct aqi_launch_config *config = &aqi_launch_config;
    const char *system;
    launch_named = true;
    if (job.options.hosts != NULL) return hosts_add_list(hosts, "--hosts", job.options.hosts);
    if (job.options.hostfile != NULL)
        return hosts_add_file(hosts, "--hostfile", job.options.hostfile, HOSTS_PLAIN);
    const char *list = aqi_setting_variable("AQ_HOSTS");
    bool alias = strncmp(list, "AQ_", 3) != 0; /* GASNet has the opposite precedence */
    if (config->hosts[0] != '\0' && !(alias && config->hostfile[0] != '\0'))
        return hosts_add_list(hosts, list, config->hosts);
    if (config->hostfile[0] != '\0')
        return hosts_add_file(hosts, aqi_setting_variable("AQ_HOSTFILE"), config->hostfile,
                              HOSTS_PLAIN);
    launch_named = false;
    if (!hosts_add_batch(hosts, &system)) return false;
    if (system != NULL) tell("%s gave this job %u hosts", system, hosts->count);
    return true;
}

static void launch_place(void)
{
    char why[HOSTS_WHY];
    const struct place_request request = {.ranks = job.options.ranks,
                                          .hosts = job.options.hosts_wanted,
                                          .oversubscribe = job.options.oversubscribe};
    if (!place_ranks(&launch.place, &launch.hosts, &request, why)) launch_error(why);
    job.options.ranks = launch.place.ranks;
}

bool launch_is_remote(void)
{
    for (uint32_t i = 0; i < launch.place.hosts && launch.hosts.count > 0; i++)
        if (!launch.hosts.list[i].here) return true;
    return false;
}

/* Reject options that managers do not support. */
static void launch_check_manager(void)
{
    if (job.options.output != NULL)
        launch_error("--output works only for processes that aqrun starts itself: omit it, or use "
                     "srun --output, mpirun --output-filename");
    if (job.options.timeout_ns != 0)
        launch_error("--timeout works only for processes that aqrun starts itself: omit it, or use "
                     "srun --time, or timeout(1)");
}

void launch_open(void)
{
    struct aqi_settings_table *const tables[] = {&aqi_launch_settings};
    if (aqi_settings_load(tables, 1) != AQ_OK) launch_error(aq_error_message());
    launch.spawner = (enum aqi_spawner)aqi_launch_config.spawner;
    if (job.options.hosts != NULL && job.options.hostfile != NULL)
        command_error("--hosts and --hostfile: give only one of them");
    if (launch.spawner != AQI_SPAWNER_FORK && !launch_find(&launch.hosts))
        launch_error(launch.hosts.why);
    hosts_settle(&launch.hosts);
    /* The batch system's share of this machine is not a limit here. */
    if (!launch_named && launch.hosts.count == 1 && launch.hosts.list[0].here)
        hosts_free(&launch.hosts);
    if (launch.spawner == AQI_SPAWNER_SSH && launch.hosts.count == 0)
        launch_error("--spawner ssh: no hosts are known; name them with --hosts, --hostfile, "
                     "AQ_HOSTS (also GASNET_SSH_SERVERS) or AQ_HOSTFILE (GASNET_SSH_NODEFILE)");
    launch_place();
    if (launch.spawner == AQI_SPAWNER_AUTO)
        launch.spawner = launch_is_remote() ? AQI_SPAWNER_SSH : AQI_SPAWNER_FORK;
    if (launch.spawner >= AQI_SPAWNER_PMIX) launch_check_manager();
}

void launch_manager(void)
{
    if (launch.spawner < AQI_SPAWNER_PMIX) return;
    char why[HOSTS_WHY];
    const char **env = env_select(&job.options.env, environ);
    if (env == NULL) die("no memory for the environment");
    const struct manager_request request = {.spawner = launch.spawner,
                                            .hosts = &launch.hosts,
                                            .place = &launch.place,
                                            .named = launch_named && launch.hosts.count > 0,
                                            .spread = job.options.hosts_wanted,
                                            .prefix = job.options.prefix,
                                            .oversubscribe = job.options.oversubscribe,
                                            .env = env,
                                            .only = job.options.env.only,
                                            .command = job.options.command,
                                            .verbose = job.options.verbose};
    bool mpi = launch.spawner == AQI_SPAWNER_MPI;
    const char *command = mpi ? aqi_launch_config.mpirun : aqi_launch_config.pmirun;
    const char *variable = aqi_setting_variable(mpi ? "AQ_MPIRUN_CMD" : "AQ_PMIRUN_CMD");
    static char **argv; /* never freed: its words are allocated separately */
    argv = *command != '\0' ? manager_template(&request, variable, command, why)
                            : manager_command(&request, why);
    if (argv == NULL) launch_error(why);
    if (job.options.test_only) {
        print_words(argv);
        putchar('\n');
        exit(command_written() ? EXIT_SUCCESS : AQI_EXIT_FAILED);
    }
    tell("becoming %s", argv[0]);
    execvp(argv[0], argv);
    int err = errno;
    say("cannot run %s%s%s: %s", argv[0], *command != '\0' ? ", given by " : "",
        *command != '\0' ? variable : "", strerror(err));
    exit(EXIT_CANNOT_RUN);
}

const char *launch_aqrun(void)
{
    static char own[PATH_MAX];
    const char *there = aqi_launch_config.remote_aqrun;
    if (there[0] != '\0') return there;
    if (readlink("/proc/self/exe", own, sizeof(own) - 1) <= 0)
        die("/proc/self/exe: %s", strerror(errno));
    return own;
}

/* The command that starts the agent of a host, freed by words_free. Exits if it is invalid. */
static char **launch_agent(uint32_t host)
{
    char why[SSH_WHY];
    const struct ssh_config config = {.command = aqi_launch_config.ssh_command,
                                      .options = aqi_launch_config.ssh_options,
                                      .aqrun = launch_aqrun()};
    char **argv = ssh_argv(&config, launch.hosts.list[host].name, why);
    if (argv == NULL) launch_error(why);
    return argv;
}

static void launch_print_host(uint32_t host)
{
    const struct place *place = &launch.place;
    printf("# %s, %u of %u processes, ", launch.hosts.list[host].name, place_count(place, host),
           place->ranks);
    if (launch.hosts.list[host].here) {
        printf("this machine\n");
    } else {
        char **argv = launch_agent(host);
        printf("reached by ");
        print_words(argv);
        putchar('\n');
        words_free(argv);
    }
    for (uint32_t rank = place->first[host]; rank < place->first[host + 1]; rank++) {
        spawn_place(rank, place->ranks, rank - place->first[host], place_count(place, host),
                    print_variable);
        print_words(job.options.command);
        putchar('\n');
    }
}

void launch_print(void)
{
    for (uint32_t host = 0; host < launch.place.hosts; host++)
        launch_print_host(host);
}
