/*
 * Any text as a list of hosts, as a file of hosts, and as the variables of a batch system. The
 * first byte selects the format, the rest is the text.
 */
#include "../../tools/aqrun/place.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

enum form { FORM_LIST, FORM_LINES, FORM_GRID_ENGINE, FORM_SLURM, FORM_LSF, FORMS };

/* Slurm has two variables, whose texts are on two lines. */
static bool add_slurm(struct hosts *hosts, char *text)
{
    const char *system;
    char *newline = strchr(text, '\n');
    if (newline != NULL) *newline = '\0';
    setenv("SLURM_JOB_NODELIST", text, 1);
    setenv("SLURM_TASKS_PER_NODE", newline != NULL ? newline + 1 : "", 1);
    bool added = hosts_add_batch(hosts, &system);
    unsetenv("SLURM_JOB_NODELIST");
    return added;
}

static bool add_lsf(struct hosts *hosts, const char *text)
{
    const char *system;
    setenv("LSB_MCPU_HOSTS", text, 1);
    bool added = hosts_add_batch(hosts, &system);
    unsetenv("LSB_MCPU_HOSTS");
    return added;
}

static bool add(struct hosts *hosts, enum form form, char *text, size_t len)
{
    switch (form) {
    case FORM_LIST:
        return hosts_add_list(hosts, "--hosts", text);
    case FORM_LINES:
        return hosts_add_lines(hosts, "file", text, len, HOSTS_PLAIN);
    case FORM_GRID_ENGINE:
        return hosts_add_lines(hosts, "file", text, len, HOSTS_GRID_ENGINE);
    case FORM_SLURM:
        return add_slurm(hosts, text);
    default:
        return add_lsf(hosts, text);
    }
}

static void check_hosts(const struct hosts *hosts)
{
    fuzz_require(hosts->count <= HOSTS_MAX, "no more hosts than a job may have");
    for (uint32_t i = 0; i < hosts->count; i++) {
        const char *name = hosts->list[i].name;
        fuzz_require(name[0] != '\0' && name[0] != '-', "a name cannot be an option of ssh");
        fuzz_require(strlen(name) <= HOSTS_NAME, "a name is not too long");
        fuzz_require(name[strcspn(name, " \t\r\n'\"\\$`!;&|<>()*?[]{}#~/")] == '\0',
                     "no character of a name is special in a shell");
        fuzz_require((hosts->list[i].slots > 0) == hosts->counted, "all hosts have slots, or none");
        fuzz_require(hosts->list[i].slots <= HOSTS_MAX, "no more slots than a job may use");
    }
}

static void check_place(const struct hosts *hosts)
{
    char why[HOSTS_WHY];
    struct place place;
    const struct place_request wish = {.ranks = 7, .oversubscribe = true};
    fuzz_require(place_ranks(&place, hosts, &wish, why), "seven ranks can always be placed");
    fuzz_require(place.first[place.hosts] == 7, "all ranks are placed");
    free(place.first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hosts hosts = {0};
    if (size == 0) return 0;
    char *text = malloc(size);
    if (text == NULL) abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (add(&hosts, (enum form)(data[0] % FORMS), text, size - 1)) {
        hosts_settle(&hosts);
        check_hosts(&hosts);
        check_place(&hosts);
    } else {
        fuzz_require(hosts.why[0] != '\0' && strlen(hosts.why) < HOSTS_WHY,
                     "a failure is reported with its cause");
    }
    hosts_free(&hosts);
    free(text);
    return 0;
}
