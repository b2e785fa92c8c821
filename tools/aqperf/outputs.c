/* The results as files: JSON, comma-separated values, and a plot. */
#include "json.h"
#include "perf.h"
#include <errno.h>
#include <string.h>

static void write_json(FILE *out, const struct perf *perf);
static void write_csv(FILE *out, const struct perf *perf);

enum { OUTPUT_JSON, OUTPUT_CSV, OUTPUT_PLOT, OUTPUT_COUNT };

struct outputs {
    struct {
        const char *path; /* NULL: not requested */
        FILE *file;
    } each[OUTPUT_COUNT];
};

static void (*const writers[OUTPUT_COUNT])(FILE *out, const struct perf *perf) = {
    [OUTPUT_JSON] = write_json, [OUTPUT_CSV] = write_csv, [OUTPUT_PLOT] = plot_write};

struct outputs *outputs_open(const struct options *options)
{
    static struct outputs outputs;
    outputs.each[OUTPUT_JSON].path = options->json;
    outputs.each[OUTPUT_CSV].path = options->csv;
    outputs.each[OUTPUT_PLOT].path = options->plot;
    for (size_t i = 0; i < OUTPUT_COUNT; i++) {
        const char *path = outputs.each[i].path;
        if (path == NULL) continue;
        outputs.each[i].file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
        if (outputs.each[i].file != NULL) continue;
        fprintf(stderr, "aqperf: cannot write %s: %s\n", path, strerror(errno));
        return NULL;
    }
    return &outputs;
}

int outputs_write(struct outputs *outputs, const struct perf *perf)
{
    int result = 0;
    for (size_t i = 0; i < OUTPUT_COUNT; i++) {
        FILE *file = outputs->each[i].file;
        if (file == NULL) continue;
        writers[i](file, perf);
        if (file == stdout) continue; /* main checks the result */
        int failed = fflush(file) != 0 || ferror(file);
        if (fclose(file) != 0) failed = 1;
        if (!failed) continue;
        fprintf(stderr, "aqperf: cannot write %s: %s\n", outputs->each[i].path, strerror(errno));
        result = -1;
    }
    return result;
}

/* Write a number, or null instead of 0, which means that there is no value. */
static void json_figure(FILE *out, const char *name, double value)
{
    fprintf(out, ",\n    \"%s\": ", name);
    if (value > 0) {
        fprintf(out, "%.6g", value);
    } else {
        fputs("null", out);
    }
}

static void json_text(FILE *out, const char *name, const char *text)
{
    fprintf(out, ",\n    \"%s\": ", name);
    json_string(out, text);
}

static void write_json(FILE *out, const struct perf *perf)
{
    fputc('[', out);
    for (size_t i = 0; i < perf->result_count; i++) {
        const struct result *result = &perf->results[i];
        fprintf(out, "%s\n  {\n    \"pattern\": ", i > 0 ? "," : "");
        json_string(out, result->row.pattern->name);
        json_text(out, "api", perf->api->name);
        json_text(out, "transport", perf->transport);
        fprintf(out, ",\n    \"ranks\": %u,\n    \"size\": %zu", perf->ranks, result->row.size);
        json_figure(out, "median", result->median);
        json_figure(out, "min", result->min);
        json_figure(out, "max", result->max);
        json_text(out, "unit", unit_names[result->row.pattern->kind->unit]);
        json_figure(out, "limit", result->limit);
        json_text(out, "limit_name", result->limit_name);
        json_figure(out, "limit_min", result->limit_min);
        json_figure(out, "limit_max", result->limit_max);
        json_figure(out, "ratio", result_ratio(result));
        json_figure(out, "cma", result->second);
        json_figure(out, "interval_ns", result->row.interval_ns);
        fprintf(out, ",\n    \"progress_thread\": %s", perf->progress_thread ? "true" : "false");
        fprintf(out, "\n  }");
    }
    fprintf(out, "%s]\n", perf->result_count > 0 ? "\n" : "");
}

static void csv_figure(FILE *out, double value)
{
    fputc(',', out);
    if (value > 0) fprintf(out, "%.6g", value);
}

static void write_csv(FILE *out, const struct perf *perf)
{
    fprintf(out, "pattern,api,transport,ranks,size,unit,median,min,max,limit_name,limit,limit_min,"
                 "limit_max,ratio,cma,interval_ns,progress_thread\n");
    for (size_t i = 0; i < perf->result_count; i++) {
        const struct result *result = &perf->results[i];
        fprintf(out, "%s,%s,%s,%u,%zu,%s", result->row.pattern->name, perf->api->name,
                perf->transport, perf->ranks, result->row.size,
                unit_names[result->row.pattern->kind->unit]);
        csv_figure(out, result->median);
        csv_figure(out, result->min);
        csv_figure(out, result->max);
        fprintf(out, ",%s", result->limit_name != NULL ? result->limit_name : "");
        csv_figure(out, result->limit);
        csv_figure(out, result->limit_min);
        csv_figure(out, result->limit_max);
        csv_figure(out, result_ratio(result));
        csv_figure(out, result->second);
        csv_figure(out, result->row.interval_ns);
        fprintf(out, ",%s\n", perf->progress_thread ? "yes" : "no");
    }
}
