/* The hosts of a job as defined by batch systems. */
#include "hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BLANKS " \t\r\n"

static void batch_set_source(struct hosts *hosts, const char *variable)
{
    snprintf(hosts->source, sizeof(hosts->source), "%s", variable);
}

/* Parse Slurm's counts: 2(x3),1 means 2, 2, 2, 1; one number per host. */
static bool batch_slurm_counts(struct hosts *hosts, const char *list, const char *text)
{
    char shown[HOSTS_SHOWN];
    uint32_t at = 0;
    for (const char *item = text;;) {
        uint32_t slots, times = 1;
        size_t digits = strspn(item, "0123456789");
        bool legal = hosts_number(item, digits, &slots);
        const char *next = item + digits;
        if (legal && strncmp(next, "(x", 2) == 0) {
            next += 2;
            digits = strspn(next, "0123456789");
            legal = hosts_number(next, digits, &times) && next[digits] == ')';
            next += digits + legal;
        }
        if (!legal || (*next != ',' && *next != '\0'))
            return hosts_error(hosts,
                               "\"%s\" is malformed: expected a list such as 2(x3),1; use --hosts, "
                               "or --spawner fork for this machine",
                               hosts_show(text, strlen(text), shown));
        for (; times > 0 && at < hosts->count; times--, at++) {
            hosts->list[at].slots = slots;
            hosts->list[at].bare = 0;
        }
        if (times == 0 && at == hosts->count && *next == '\0') return true;
        if (times > 0 || *next == '\0') break;
        item = next + 1;
    }
    return hosts_error(
        hosts,
        "\"%s\" does not match the %u hosts in %s: use --hosts, or --spawner fork for this machine",
        hosts_show(text, strlen(text), shown), hosts->count, list);
}

static bool batch_slurm(struct hosts *hosts, const char *variable, const char *text)
{
    const char *counts = getenv("SLURM_TASKS_PER_NODE");
    if (!hosts_add_list(hosts, variable, text)) return false;
    if (counts == NULL || *counts == '\0') return true;
    batch_set_source(hosts, "SLURM_TASKS_PER_NODE");
    return batch_slurm_counts(hosts, variable, counts);
}

/* LSF: n1 4 n2 4 */
static bool batch_pairs(struct hosts *hosts, const char *variable, const char *text)
{
    batch_set_source(hosts, variable);
    while (*(text += strspn(text, BATCH_BLANKS)) != '\0') {
        uint32_t slots;
        const char *name = text;
        size_t name_len = strcspn(text, BATCH_BLANKS);
        text += name_len;
        text += strspn(text, BATCH_BLANKS);
        size_t digits = strcspn(text, BATCH_BLANKS);
        if (!hosts_number(text, digits, &slots)) {
            char shown[HOSTS_SHOWN];
            return hosts_error(
                hosts,
                "the number of slots of \"%s\" is missing: expected a list such as n1 4 n2 4",
                hosts_show(name, name_len, shown));
        }
        if (!hosts_add_item(hosts, name, name_len, slots)) return false;
        text += digits;
    }
    return true;
}

static bool batch_file(struct hosts *hosts, const char *variable, const char *text)
{
    return hosts_add_file(hosts, variable, text, HOSTS_PLAIN);
}

static bool batch_grid_engine(struct hosts *hosts, const char *variable, const char *text)
{
    return hosts_add_file(hosts, variable, text, HOSTS_GRID_ENGINE);
}

/* The first variable that is set is used. */
static const struct {
    const char *variable, *system;
    bool (*add)(struct hosts *hosts, const char *variable, const char *text);
    bool counted; /* each host is listed once per slot */
} batch_rows[] = {
    {"SLURM_JOB_NODELIST", "Slurm", batch_slurm, false},
    {"SLURM_NODELIST", "Slurm", batch_slurm, false},
    {"PBS_NODEFILE", "PBS", batch_file, true},
    {"OAR_NODEFILE", "OAR", batch_file, true},
    {"LSB_DJOB_HOSTFILE", "LSF", batch_file, true},
    {"LSB_MCPU_HOSTS", "LSF", batch_pairs, false},
    {"LSB_HOSTS", "LSF", hosts_add_list, true},
    {"PE_HOSTFILE", "Grid Engine", batch_grid_engine, false},
};

bool hosts_add_batch(struct hosts *hosts, const char **system)
{
    *system = NULL;
    for (size_t i = 0; i < AQI_COUNT_OF(batch_rows); i++) {
        const char *text = getenv(batch_rows[i].variable);
        if (text == NULL || text[strspn(text, BATCH_BLANKS)] == '\0') continue;
        *system = batch_rows[i].system;
        hosts->counted = batch_rows[i].counted;
        return batch_rows[i].add(hosts, batch_rows[i].variable, text);
    }
    return true;
}
