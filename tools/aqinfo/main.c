/* aqinfo: prints which transports work here, and why others do not; limits of the machine; and all
 * settings. */
#include "base/nearest.h"
#include "command.h"
#include "data.h"
#include <aqueduct/version.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum format {
    FORMAT_TEXT = 0,
    FORMAT_JSON = 1,
    FORMAT_MARKDOWN = 2,
    FORMAT_TRACE = 4,
    FORMAT_PEERS = 8
};

static unsigned format, sections;

#define SHOW_ALL (SHOW_TRANSPORTS | SHOW_LIMITS | SHOW_SETTINGS)
static const struct command_row rows[] = {
    {0, "transports", NULL,
     "which transports work here, their capabilities, and why others do not work",
     .bits = &sections, .value = SHOW_TRANSPORTS},
    {0, "limits", NULL, "limits of the machine and the process, with advice", .bits = &sections,
     .value = SHOW_LIMITS},
    {0, "settings", NULL, "all settings: value, origin, valid values, description",
     .bits = &sections, .value = SHOW_SETTINGS},
    {0, "all", NULL, "transports, limits and settings", .bits = &sections, .value = SHOW_ALL},
    {0, "json", NULL, "print JSON: {version, transports, limits, settings, problems}",
     .bits = &format, .value = FORMAT_JSON},
    {0, "markdown", NULL, "print the settings as in docs/settings.md", .bits = &format,
     .value = FORMAT_MARKDOWN},
    {0, "merge-traces", NULL,
     "merge the files FILE written by AQ_TRACE_FILE into one timeline, for https://ui.perfetto.dev "
     "and chrome://tracing",
     .bits = &format, .value = FORMAT_TRACE},
    {0, "peers", NULL,
     "the state of udp peers and of connections by URI: of the running job whose launcher or rank "
     "is process PID (for a stopped rank, its last state), or of a finished job, from its "
     "files FILE written by AQ_STATS_FILE",
     .bits = &format, .value = FORMAT_PEERS},
};

static const char head[] =
    "usage: aqinfo [OPTION...] [NAME...]\n"
    "       aqinfo udp HOST...\n"
    "       aqinfo fi\n"
    "       aqinfo --merge-traces FILE...\n"
    "       aqinfo --peers PID|FILE...\n"
    "\n"
    "Shows transports, limits and settings of Aqueduct on this machine. Without options: the\n"
    "transports, the limits, and the settings that differ from their defaults. With names of\n"
    "settings, transports or limits: each of them in full. With udp and hosts: whether UDP\n"
    "packets reach these hosts, and from which address. With fi: how programs of libfabric, such\n"
    "as MPI's, run over Aqueduct.\n"
    "\n";

static const char tail[] =
    "\n"
    "Exit code: 0; 1 if a setting has an invalid value, a named transport does not work here, no\n"
    "packet reaches a host, or the provider is missing; 2 for incorrect usage.\n";

/* Whether one of `names` is in the comma-separated list `known`. */
static int is_named(char *const *names, const char *known)
{
    for (; known != NULL && *known != '\0'; known += *known == ',') {
        size_t len = strcspn(known, ",");
        for (char *const *name = names; *name != NULL; name++)
            if (strncasecmp(*name, known, len) == 0 && (*name)[len] == '\0') return 1;
        known += len;
    }
    return 0;
}

/* Reduce the data to the items named by `names` (NULL-terminated; case is ignored). */
static void keep_named(struct data *data, char *const *names)
{
    size_t kept = 0;
    for (size_t i = 0; i < data->setting_count; i++)
        if (is_named(names, data->settings[i].name) || is_named(names, data->settings[i].alias))
            data->settings[kept++] = data->settings[i];
    data->setting_count = kept;
    kept = 0;
    for (size_t i = 0; i < data->transport_count; i++)
        if (is_named(names, data->transports[i].name))
            data->transports[kept++] = data->transports[i];
    data->transport_count = kept;
    kept = 0;
    for (size_t i = 0; i < data->limit_count; i++)
        if (is_named(names, data->limits[i].name)) data->limits[kept++] = data->limits[i];
    data->limit_count = kept;
}

/* Whether a transport does not work even on request, such as one that is not in this build. */
static int some_fail(const struct data *data)
{
    for (size_t i = 0; i < data->transport_count; i++)
        if (!data->transports[i].usable && !data->transports[i].on_request) return 1;
    return 0;
}

/* Offer comma-separated names; NULL: none. The nearest one is remembered. */
static void offer_aliases(struct aqi_nearest *nearest, const char *names)
{
    static char kept[64];
    for (; names != NULL && *names != '\0'; names += *names == ',') {
        char name[sizeof(kept)];
        size_t len = strcspn(names, ",");
        snprintf(name, sizeof(name), "%.*s", (int)len, names);
        aqi_nearest_offer(nearest, name);
        if (nearest->best == name) nearest->best = strcpy(kept, name);
        names += len;
    }
}

/* Offer all names; returns 1 if `name` is one of them. */
static int is_known(const struct data *data, const char *name, struct aqi_nearest *nearest)
{
    aqi_nearest_begin(nearest, name);
    for (size_t i = 0; i < data->setting_count; i++) {
        aqi_nearest_offer(nearest, data->settings[i].name);
        offer_aliases(nearest, data->settings[i].alias);
    }
    for (size_t i = 0; i < data->transport_count; i++)
        aqi_nearest_offer(nearest, data->transports[i].name);
    for (size_t i = 0; i < data->limit_count; i++)
        aqi_nearest_offer(nearest, data->limits[i].name);
    return nearest->best != NULL && strcasecmp(nearest->best, name) == 0;
}

/* Print an error for each unknown name; returns 1 if all are known. */
static int all_known(const struct data *data, char *const *names)
{
    int known = 1;
    for (; *names != NULL; names++) {
        struct aqi_nearest nearest;
        if (is_known(data, *names, &nearest)) continue;
        known = 0;
        fprintf(stderr, "aqinfo: there is no setting, transport or limit named \"%s\"; ", *names);
        if (nearest.best != NULL) {
            fprintf(stderr, "did you mean %s?\n", nearest.best);
        } else {
            fprintf(stderr, "aqinfo --all lists them all\n");
        }
    }
    return known;
}

/* Whether the names are "udp" followed by unknown words, which are hosts. */
static int names_hosts(const struct data *data, char *const *names)
{
    struct aqi_nearest nearest;
    if (names[0] == NULL || strcasecmp(names[0], "udp") != 0 || names[1] == NULL) return 0;
    if (strncmp(names[1], "AQ_", 3) == 0 || strncmp(names[1], "GASNET_", 7) == 0) return 0;
    return !is_known(data, names[1], &nearest);
}

static const char *udp_interface(const struct data *data)
{
    for (size_t i = 0; i < data->setting_count; i++)
        if (strcmp(data->settings[i].name, "AQ_UDP_INTERFACE") == 0) return data->settings[i].value;
    return "";
}

static void show_in_full(const struct data *data)
{
    for (size_t i = 0; i < data->setting_count; i++)
        text_setting(&data->settings[i]);
    for (size_t i = 0; i < data->transport_count; i++)
        text_transport(&data->transports[i]);
    for (size_t i = 0; i < data->limit_count; i++)
        text_limit(&data->limits[i]);
}

static unsigned sections_of(int named)
{
    if (format == FORMAT_MARKDOWN) return SHOW_SETTINGS;
    if (named) return SHOW_ALL;
    if (sections != 0) return sections;
    if (format == FORMAT_JSON) return SHOW_ALL;
    return SHOW_TRANSPORTS | SHOW_LIMITS | SHOW_CHANGED;
}

static void show(const struct data *data, unsigned shown, int named)
{
    if (format == FORMAT_JSON)
        json_show(data, shown);
    else if (format == FORMAT_MARKDOWN)
        markdown_show(data);
    else if (named)
        show_in_full(data);
    else
        text_show(data, shown);
}

int main(int argc, char **argv)
{
    const struct command_line line = {.tool = "aqinfo",
                                      .version = aq_version(),
                                      .head = head,
                                      .tail = tail,
                                      .rows = rows,
                                      .count = sizeof rows / sizeof rows[0]};
    char **names = argv + command_read(&line, argc, argv);
    int named = *names != NULL;
    if (named && strcmp(names[0], "fi") == 0) {
        if (names[1] != NULL || format != FORMAT_TEXT)
            command_error("fi: accepts no other names, and no other format");
        int missing = fi_show();
        return command_written() ? missing : 1;
    }
    if ((format & (format - 1)) != 0)
        command_error("--json, --markdown, --merge-traces and --peers cannot be combined");
    if (named && format == FORMAT_MARKDOWN)
        command_error("--markdown shows all settings and accepts no names");
    if (!named && format == FORMAT_TRACE) command_error("--merge-traces needs file names");
    if (!named && format == FORMAT_PEERS) command_error("--peers needs a process id or file names");
    if (format == FORMAT_TRACE || format == FORMAT_PEERS) {
        int failed = format == FORMAT_TRACE ? merge_traces(names) : peers_show(names);
        return command_written() ? failed : 1;
    }

    static struct data data; /* used until the end of the program */
    unsigned shown = sections_of(named);
    data_collect(&data, shown);
    for (size_t i = 0; i < data.problem_count; i++)
        fprintf(stderr, "aqinfo: %s\n", data.problems[i]);
    int result = data.problem_count > 0;
    if (format == FORMAT_TEXT && names_hosts(&data, names)) {
        result = probe_show(names + 1, udp_interface(&data));
    } else if (named && !all_known(&data, names)) {
        result = 2;
    } else {
        if (named) {
            keep_named(&data, names);
            result |= some_fail(&data);
        }
        show(&data, shown, named);
    }
    return command_written() ? result : 1;
}
