/* aqinfo's machine-readable output: one object with a list for each section. */
#include "json.h"
#include "data.h"
#include <aqueduct/version.h>

static void member(const char *name, const char *text, int last)
{
    printf("      \"%s\": ", name);
    json_string(stdout, text);
    printf("%s\n", last ? "" : ",");
}

static void list_begin(const char *name)
{
    printf(",\n  \"%s\": [", name);
}

static void object_begin(size_t index)
{
    printf("%s\n    {\n", index > 0 ? "," : "");
}

static void object_end(void)
{
    printf("    }");
}

static void list_end(size_t count)
{
    printf("%s]", count > 0 ? "\n  " : "");
}

static void show_transports(const struct data *data)
{
    list_begin("transports");
    for (size_t i = 0; i < data->transport_count; i++) {
        const aq_transport_info *transport = &data->transports[i];
        object_begin(i);
        member("name", transport->name, 0);
        member("doc", transport->doc, 0);
        printf("      \"usable\": %s,\n", transport->usable ? "true" : "false");
        printf("      \"on_request\": %s,\n", transport->on_request ? "true" : "false");
        member("reason", transport->reason, 0);
        member("device", transport->device, 0);
        member("caps", transport->caps, 0);
        printf("      \"max_medium\": %zu\n", transport->max_medium);
        object_end();
    }
    list_end(data->transport_count);
}

static void show_limits(const struct data *data)
{
    list_begin("limits");
    for (size_t i = 0; i < data->limit_count; i++) {
        object_begin(i);
        member("name", data->limits[i].name, 0);
        member("value", data->limits[i].value, 0);
        member("advice", data->limits[i].advice, 1);
        object_end();
    }
    list_end(data->limit_count);
}

static void show_settings(const struct data *data)
{
    list_begin("settings");
    for (size_t i = 0; i < data->setting_count; i++) {
        const aq_setting_info *setting = &data->settings[i];
        object_begin(i);
        member("name", setting->name, 0);
        member("alias", setting->alias, 0);
        member("group", setting->group, 0);
        member("type", setting->type, 0);
        member("unit", setting->unit, 0);
        member("range", setting->range, 0);
        member("default", setting->default_value, 0);
        member("value", setting->value, 0);
        member("origin", setting->origin, 0);
        member("doc", setting->doc, 0);
        member("advice", setting->advice, 1);
        object_end();
    }
    list_end(data->setting_count);
}

static void show_problems(const struct data *data)
{
    list_begin("problems");
    for (size_t i = 0; i < data->problem_count; i++) {
        printf("%s\n    ", i > 0 ? "," : "");
        json_string(stdout, data->problems[i]);
    }
    list_end(data->problem_count);
}

void json_show(const struct data *data, unsigned sections)
{
    printf("{\n  \"version\": ");
    json_string(stdout, aq_version());
    if (sections & SHOW_TRANSPORTS) show_transports(data);
    if (sections & SHOW_LIMITS) show_limits(data);
    if (sections & SHOW_SETTINGS) {
        show_settings(data);
        show_problems(data);
    }
    printf("\n}\n");
}
