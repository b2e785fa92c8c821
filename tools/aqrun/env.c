/* Selects the environment variables that are passed to other hosts. */
#include "env.h"

#include <stdlib.h>
#include <string.h>

/* Variables that are meaningful only on this host; * matches any rest. */
static const char *const env_local[] = {
    /* the user's login and display */
    "SSH_*", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "SESSION_MANAGER", "DESKTOP_*", "WINDOWID",
    "DBUS_*", "XDG_RUNTIME_DIR", "XDG_SESSION_*", "XDG_SEAT*", "XDG_VTNR", "GPG_AGENT_INFO",
    "GPG_TTY", "GNOME_*", "KDE_*", "ICEAUTHORITY", "VSCODE_*",
    /* the terminal and the shell */
    "TMUX", "TMUX_*", "STY", "WINDOW", "TTY", "COLUMNS", "LINES", "SHLVL", "_", "OLDPWD", "PWD",
    "HOST", "HOSTNAME", "MAIL", "SUDO_*",
    /* daemons */
    "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "LISTEN_*", "SYSTEMD_*", "MANAGERPID",
    "WATCHDOG_*", "CREDENTIALS_DIRECTORY",
    /* the place of a process in the job of a manager */
    "PMI_*", "PMIX_*", "PMI2_*", "HYDI_*", "HYDRA_*", "OMPI_COMM_*", "OMPI_UNIVERSE_*", "PRTE_*",
    "ORTE_*", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "ALPS_*", "FLUX_URI", "FLUX_TASK_*",
    "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_TASK_PID", "SLURM_STEP*",
    "SLURM_SRUN_*", "SLURM_LAUNCH_*", "SLURM_TOPOLOGY_*", "SLURM_CPU_BIND*", "SLURM_MEM_BIND*",
    "SLURM_CPUS_ON_NODE", "SLURM_PTY_*", "SLURM_PMI*", "SLURMD_*", "PBS_NODENUM", "PBS_TASKNUM",
    "PBS_VNODENUM", "PBS_MOMPORT", "PBS_JOBCOOKIE", "LS_JOBPID", "LSF_EAUTH_*",
    /* the place of a rank in this job */
    "AQ_RANK", "AQ_SIZE", "AQ_LOCAL_*", "AQ_BOOT_FD", "AQ_JOB_ID"};

static bool env_matches(const char *name, size_t len, const char *pattern)
{
    const char *star = strchr(pattern, '*');
    size_t fixed = star != NULL ? (size_t)(star - pattern) : strlen(pattern);
    return strncmp(name, pattern, fixed) == 0 && (star != NULL ? len >= fixed : len == fixed);
}

/* Whether to pass on `entry`, NAME=VALUE. Those named by -E always are. */
static bool env_is_selected(const struct env_filter *filter, const char *entry)
{
    size_t len = strcspn(entry, "=");
    if (entry[len] == '\0' || len == 0) return false;
    for (const char *const *name = filter->names; name != NULL && *name != NULL; name++)
        if (strlen(*name) == len && strncmp(entry, *name, len) == 0) return true;
    for (size_t i = 0; i < AQI_COUNT_OF(env_local); i++)
        if (env_matches(entry, len, env_local[i])) return false;
    return !filter->only || strncmp(entry, "AQ_", 3) == 0 || strncmp(entry, "GASNET_", 7) == 0;
}

const char **env_select(const struct env_filter *filter, char *const *environment)
{
    size_t count = 0, used = 0;
    while (environment[count] != NULL)
        count++;
    const char **list = calloc(count + 1, sizeof(*list));
    for (size_t i = 0; list != NULL && i < count; i++)
        if (env_is_selected(filter, environment[i])) list[used++] = environment[i];
    return list;
}
