/* aqinfo: which transports work here and why not, the limits of the machine, and every setting. */
#include "data.h"
#include "names.h"
#include <aqueduct/version.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_MARKDOWN, FORMAT_TRACE };

struct options {
    enum format format;
    unsigned sections;
};

static void help(void)
{
    printf("usage: aqinfo [OPTION]… [NAME]…\n"
           "       aqinfo --merge-traces FILE…\n"
           "\n"
           "Shows what Aqueduct finds on this machine. Without options: the transports, the\n"
           "limits, and the settings that are not at their default. With names of settings,\n"
           "transports or limits: each of them in full.\n"
           "\n"
           "  --transports  which work here, what they can do, and why one does not work\n"
           "  --limits      of machine and process, with advice where one costs something\n"
           "  --settings    every setting: value, origin, what is legal, what it does\n"
           "  --all         all three\n"
           "  --json        as JSON: {version, transports, limits, settings, problems}\n"
           "  --markdown    the settings as docs/settings.md\n"
           "  --merge-traces FILE…  one time line out of what AQ_TRACE_FILE made, for\n"
           "                https://ui.perfetto.dev and chrome://tracing\n"
           "  --version     the version of the library\n"
           "  --help        this text\n"
           "\n"
           "Exit code: 0; 1 if a setting has an illegal value; 2 for wrong usage.\n");
}

static void options_parse(struct options *options, int argc, char **argv)
{
    enum {
        OPT_ALL = 1,
        OPT_TRANSPORTS,
        OPT_LIMITS,
        OPT_SETTINGS,
        OPT_JSON,
        OPT_MARKDOWN,
        OPT_TRACE
    };
    static const struct option known[] = {{"all", no_argument, NULL, OPT_ALL},
                                          {"transports", no_argument, NULL, OPT_TRANSPORTS},
                                          {"limits", no_argument, NULL, OPT_LIMITS},
                                          {"settings", no_argument, NULL, OPT_SETTINGS},
                                          {"json", no_argument, NULL, OPT_JSON},
                                          {"markdown", no_argument, NULL, OPT_MARKDOWN},
                                          {"merge-traces", no_argument, NULL, OPT_TRACE},
                                          {"version", no_argument, NULL, 'V'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    for (int found; (found = getopt_long(argc, argv, "hV", known, NULL)) != -1;) {
        switch (found) {
        case OPT_ALL:
            options->sections |= SHOW_TRANSPORTS | SHOW_LIMITS | SHOW_SETTINGS;
            break;
        case OPT_TRANSPORTS:
            options->sections |= SHOW_TRANSPORTS;
            break;
        case OPT_LIMITS:
            options->sections |= SHOW_LIMITS;
            break;
        case OPT_SETTINGS:
            options->sections |= SHOW_SETTINGS;
            break;
        case OPT_JSON:
            options->format = FORMAT_JSON;
            break;
        case OPT_MARKDOWN:
            options->format = FORMAT_MARKDOWN;
            break;
        case OPT_TRACE:
            options->format = FORMAT_TRACE;
            break;
        case 'V':
            printf("aqinfo %s\n", aq_version());
            exit(0);
        case 'h':
            help();
            exit(0);
        default:
            fprintf(stderr, "aqinfo: aqinfo --help lists the options\n");
            exit(2);
        }
    }
}

/* Is one of `names` one of those in `known`, which are separated by commas? */
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

/* Reduce the data to what has one of `names` (NULL-terminated; letters in either case). */
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

/* Names separated by commas; NULL: none. The nearest of them is kept until the next is found. */
static void offer_aliases(struct nearest *nearest, const char *names)
{
    static char kept[64];
    for (; names != NULL && *names != '\0'; names += *names == ',') {
        char name[sizeof(kept)];
        size_t len = strcspn(names, ",");
        snprintf(name, sizeof(name), "%.*s", (int)len, names);
        nearest_offer(nearest, name);
        if (nearest->best == name) nearest->best = strcpy(kept, name);
        names += len;
    }
}

/* Offer every name there is; 1 if `name` is one of them. */
static int is_known(const struct data *data, const char *name, struct nearest *nearest)
{
    nearest_begin(nearest, name);
    for (size_t i = 0; i < data->setting_count; i++) {
        nearest_offer(nearest, data->settings[i].name);
        offer_aliases(nearest, data->settings[i].alias);
    }
    for (size_t i = 0; i < data->transport_count; i++)
        nearest_offer(nearest, data->transports[i].name);
    for (size_t i = 0; i < data->limit_count; i++)
        nearest_offer(nearest, data->limits[i].name);
    return nearest->best != NULL && strcasecmp(nearest->best, name) == 0;
}

/* Complain about every name that there is not; 1 if all are known. */
static int all_known(const struct data *data, char *const *names)
{
    int known = 1;
    for (; *names != NULL; names++) {
        struct nearest nearest;
        if (is_known(data, *names, &nearest)) continue;
        known = 0;
        fprintf(stderr, "aqinfo: no setting, transport or limit is called \"%s\"; ", *names);
        if (nearest.best != NULL) {
            fprintf(stderr, "maybe %s?\n", nearest.best);
        } else {
            fprintf(stderr, "aqinfo --all lists what there is\n");
        }
    }
    return known;
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

static unsigned sections_of(const struct options *options, int named)
{
    if (options->format == FORMAT_MARKDOWN) return SHOW_SETTINGS;
    if (named) return SHOW_TRANSPORTS | SHOW_LIMITS | SHOW_SETTINGS;
    if (options->sections != 0) return options->sections;
    if (options->format == FORMAT_JSON) return SHOW_TRANSPORTS | SHOW_LIMITS | SHOW_SETTINGS;
    return SHOW_TRANSPORTS | SHOW_LIMITS | SHOW_CHANGED;
}

static void show(enum format format, const struct data *data, unsigned sections, int named)
{
    switch (format) {
    case FORMAT_JSON:
        json_show(data, sections);
        break;
    case FORMAT_MARKDOWN:
        markdown_show(data);
        break;
    case FORMAT_TRACE: /* is done already */
        break;
    case FORMAT_TEXT:
        if (named) {
            show_in_full(data);
        } else {
            text_show(data, sections);
        }
        break;
    }
}

int main(int argc, char **argv)
{
    struct options options = {0};
    options_parse(&options, argc, argv);
    char **names = argv + optind;
    int named = *names != NULL;
    if (named && options.format == FORMAT_MARKDOWN) {
        fprintf(stderr, "aqinfo: --markdown shows all settings and takes no names\n");
        return 2;
    }

    if (options.format == FORMAT_TRACE) {
        if (!named) fprintf(stderr, "aqinfo: --merge-traces needs the names of files\n");
        return named ? merge_traces(names) : 2;
    }

    struct data data;
    unsigned sections = sections_of(&options, named);
    data_collect(&data, sections);
    for (size_t i = 0; i < data.problem_count; i++)
        fprintf(stderr, "aqinfo: %s\n", data.problems[i]);
    int result = data.problem_count > 0;
    if (named && !all_known(&data, names)) {
        result = 2;
    } else {
        if (named) keep_named(&data, names);
        show(options.format, &data, sections, named);
    }
    data_free(&data);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("aqinfo: cannot write the output");
        return 1;
    }
    return result;
}
