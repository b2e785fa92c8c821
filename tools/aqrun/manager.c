/* Selects a manager that is available, and translates the options to its own. */
#include "manager.h"
#include "base/fail.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANAGER_TIMEOUT_MS 5000

/* The manager whose options a program accepts. */
enum manager_flavor { MANAGER_UNKNOWN, MANAGER_SLURM, MANAGER_OPENMPI, MANAGER_HYDRA };

struct manager_row {
    enum aqi_spawner spawner;
    const char *program;
    enum manager_flavor flavor; /* MANAGER_UNKNOWN: determined from its version */
    unsigned accepted;          /* flavors, as bits */
    const char *option;         /* selects the protocol */
};

#define MANAGER_BIT(flavor) (1u << (flavor))
#define MANAGER_ANY         (~0u)

/* In order of preference; srun is first inside a job of Slurm, and last otherwise. */
static const struct manager_row manager_rows[] = {
    {AQI_SPAWNER_PMIX, "srun", MANAGER_SLURM, MANAGER_ANY, "--mpi=pmix"},
    {AQI_SPAWNER_PMIX, "prterun", MANAGER_OPENMPI, MANAGER_ANY, NULL},
    {AQI_SPAWNER_PMIX, "mpirun.openmpi", MANAGER_OPENMPI, MANAGER_ANY, NULL},
    {AQI_SPAWNER_PMIX, "mpirun", MANAGER_UNKNOWN, MANAGER_BIT(MANAGER_OPENMPI), NULL},
    {AQI_SPAWNER_PMIX, "mpiexec", MANAGER_UNKNOWN, MANAGER_BIT(MANAGER_OPENMPI), NULL},
    {AQI_SPAWNER_PMI2, "srun", MANAGER_SLURM, MANAGER_ANY, "--mpi=pmi2"},
    {AQI_SPAWNER_PMI, "mpiexec.hydra", MANAGER_HYDRA, MANAGER_ANY, NULL},
    {AQI_SPAWNER_PMI, "mpiexec", MANAGER_UNKNOWN, MANAGER_BIT(MANAGER_HYDRA), NULL},
    {AQI_SPAWNER_PMI, "mpirun", MANAGER_UNKNOWN, MANAGER_BIT(MANAGER_HYDRA), NULL},
    {AQI_SPAWNER_MPI, "mpirun", MANAGER_UNKNOWN, MANAGER_ANY, NULL},
    {AQI_SPAWNER_MPI, "mpiexec", MANAGER_UNKNOWN, MANAGER_ANY, NULL},
    {AQI_SPAWNER_MPI, "mpiexec.hydra", MANAGER_HYDRA, MANAGER_ANY, NULL},
    {AQI_SPAWNER_MPI, "mpirun.openmpi", MANAGER_OPENMPI, MANAGER_ANY, NULL},
    {AQI_SPAWNER_MPI, "srun", MANAGER_SLURM, MANAGER_ANY, NULL},
};

/* Words in the output of --version. */
static const struct {
    const char *word;
    enum manager_flavor flavor;
} manager_signatures[] = {
    {"Open MPI", MANAGER_OPENMPI},   {"OpenRTE", MANAGER_OPENMPI}, {"PRRTE", MANAGER_OPENMPI},
    {"prterun", MANAGER_OPENMPI},    {"HYDRA", MANAGER_HYDRA},     {"Hydra", MANAGER_HYDRA},
    {"Intel(R) MPI", MANAGER_HYDRA}, {"slurm", MANAGER_SLURM},
};

static bool manager_on_path(const char *program)
{
    char path[4096];
    const char *folders = getenv("PATH");
    for (const char *at = folders; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, ":");
        int n = snprintf(path, sizeof(path), "%.*s/%s", (int)len, at, program);
        if (len > 0 && n < (int)sizeof(path) && access(path, X_OK) == 0) return true;
        at += len + (at[len] == ':');
    }
    return false;
}

/* Read the output of `program --version`, as far as it fits and arrives in time. */
static void manager_run_version(const char *program, char *text, size_t room)
{
    int ends[2];
    size_t used = 0;
    text[0] = '\0';
    if (pipe(ends) != 0) return;
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp(program, program, "--version", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    struct pollfd state = {.fd = ends[0], .events = POLLIN};
    while (pid > 0 && used < room - 1 && poll(&state, 1, MANAGER_TIMEOUT_MS) > 0) {
        ssize_t got = read(ends[0], text + used, room - 1 - used);
        if (got <= 0) break;
        used += (size_t)got;
    }
    text[used] = '\0';
    close(ends[0]);
    if (pid <= 0) return;
    kill(pid, SIGKILL); /* no more output is needed */
    waitpid(pid, NULL, 0);
}

static enum manager_flavor manager_identify(const char *program)
{
    char text[4096];
    manager_run_version(program, text, sizeof(text));
    for (size_t i = 0; i < AQI_COUNT_OF(manager_signatures); i++)
        if (strstr(text, manager_signatures[i].word) != NULL) return manager_signatures[i].flavor;
    return MANAGER_UNKNOWN;
}

/* Find the first suitable manager, either only among Slurm's or only among the others. */
static const struct manager_row *manager_search(enum aqi_spawner spawner, bool slurm,
                                                enum manager_flavor *flavor)
{
    for (size_t i = 0; i < AQI_COUNT_OF(manager_rows); i++) {
        const struct manager_row *row = &manager_rows[i];
        if (row->spawner != spawner || (row->flavor == MANAGER_SLURM) != slurm) continue;
        if (!manager_on_path(row->program)) continue;
        *flavor = row->flavor == MANAGER_UNKNOWN ? manager_identify(row->program) : row->flavor;
        if (*flavor != MANAGER_UNKNOWN && (row->accepted & MANAGER_BIT(*flavor)) != 0) return row;
    }
    return NULL;
}

static const struct manager_row *manager_find(enum aqi_spawner spawner, enum manager_flavor *flavor,
                                              char why[HOSTS_WHY])
{
    bool inside = getenv("SLURM_JOB_ID") != NULL;
    const struct manager_row *row = manager_search(spawner, inside, flavor);
    if (row == NULL) row = manager_search(spawner, !inside, flavor);
    if (row != NULL) return row;
    char names[128] = "";
    for (size_t i = 0; i < AQI_COUNT_OF(manager_rows); i++)
        if (manager_rows[i].spawner == spawner)
            aqi_append(names, sizeof(names), "%s%s", names[0] != '\0' ? " or " : "",
                       manager_rows[i].program);
    aqi_explain(why, HOSTS_WHY,
                "no suitable %s was found in PATH: install one or load its module, or use "
                "--spawner ssh, which needs none",
                names);
    return NULL;
}

/* --- the command ------------------------------------------------------------------------------ */

/* List hosts as "a:2,b:1", or without the numbers. */
static char *manager_list(const struct manager_request *request, bool numbers)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return NULL;
    for (uint32_t i = 0; i < request->place->hosts; i++) {
        fprintf(file, "%s%s", i > 0 ? "," : "", request->hosts->list[i].name);
        if (numbers) fprintf(file, ":%u", place_count(request->place, i));
    }
    if (fclose(file) == 0) return text;
    free(text);
    return NULL;
}

/* Whether ranks are placed as srun does by default: evenly, with one more on the first hosts. */
static bool manager_is_even(const struct place *place)
{
    for (uint32_t i = 0; i < place->hosts; i++) {
        uint32_t even = place->ranks / place->hosts + (i < place->ranks % place->hosts);
        if (place_count(place, i) != even) return false;
    }
    return true;
}

/* Managers reject names of variables with unusual characters. */
static bool manager_accepts_name(const char *entry, size_t *len)
{
    *len = strspn(entry, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    return *len > 0 && entry[*len] == '=' && (entry[0] < '0' || entry[0] > '9');
}

static char *manager_variable_names(const struct manager_request *request)
{
    char *text = NULL;
    size_t size, len;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return NULL;
    const char *comma = "";
    for (size_t i = 0; request->env[i] != NULL; i++) {
        if (!manager_accepts_name(request->env[i], &len)) continue;
        fprintf(file, "%s%.*s", comma, (int)len, request->env[i]);
        comma = ",";
    }
    if (fclose(file) == 0) return text;
    free(text);
    return NULL;
}

static bool manager_slurm(struct words *to, const struct manager_request *request,
                          char why[HOSTS_WHY])
{
    uint32_t hosts = request->named ? request->place->hosts : request->spread;
    if (request->named && !manager_is_even(request->place))
        return aqi_explain(
            why, HOSTS_WHY,
            "srun distributes processes evenly, but these hosts have different numbers of slots: "
            "add -N, give each host the same number, or use --spawner ssh");
    words_add(to, "--ntasks=%u", request->place->ranks);
    if (hosts > 0) words_add(to, "--nodes=%u", hosts);
    if (request->named) words_add_text(to, "--nodelist=", manager_list(request, false));
    if (request->only)
        words_add_text(to, "--export=", manager_variable_names(request));
    else
        words_add(to, "--export=ALL");
    if (request->prefix) words_add(to, "--label");
    if (request->oversubscribe) words_add(to, "--overcommit");
    return true;
}

static void manager_mpi(struct words *to, const struct manager_request *request, bool hydra)
{
    size_t len;
    words_add(to, "-n");
    words_add(to, "%u", request->place->ranks);
    if (request->hosts->count > 0 && (request->named || request->spread > 0)) {
        words_add(to, hydra ? "-hosts" : "--host");
        words_add_text(to, "", manager_list(request, true));
    }
    if (hydra && request->only) {
        words_add(to, "-genvlist");
        words_add_text(to, "", manager_variable_names(request));
    }
    for (size_t i = 0; !hydra && request->env[i] != NULL; i++) {
        if (!manager_accepts_name(request->env[i], &len)) continue;
        words_add(to, "-x");
        words_add(to, "%.*s", (int)len, request->env[i]);
    }
    if (request->prefix) words_add(to, hydra ? "-prepend-rank" : "--tag-output");
    if (request->oversubscribe && !hydra) words_add(to, "--oversubscribe");
}

char **manager_command(const struct manager_request *request, char why[HOSTS_WHY])
{
    enum manager_flavor flavor;
    struct words to = {0};
    const struct manager_row *row = manager_find(request->spawner, &flavor, why);
    if (row == NULL) return NULL;
    words_add(&to, "%s", row->program);
    if (row->option != NULL) words_add(&to, "%s", row->option);
    if (flavor != MANAGER_SLURM) {
        manager_mpi(&to, request, flavor == MANAGER_HYDRA);
    } else if (!manager_slurm(&to, request, why)) {
        words_free(to.argv);
        return NULL;
    }
    for (char *const *word = request->command; *word != NULL; word++)
        words_add(&to, "%s", *word);
    char **argv = words_finish(&to);
    if (argv == NULL) aqi_explain(why, HOSTS_WHY, "no memory for the command of %s", row->program);
    return argv;
}
