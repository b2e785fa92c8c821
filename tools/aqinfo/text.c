/* aqinfo's human-readable output. */
#include "command.h"
#include "data.h"
#include <aqueduct/version.h>
#include <stdio.h>
#include <string.h>

/* Prints nothing if the text is empty. */
static void paragraph(const char *text, int indent)
{
    if (text[0] == '\0') return;
    printf("%*s", indent, "");
    command_wrap(text, indent);
}

/* A field of the full description; omitted if empty. */
static void field(const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0') printf("  %-10s %s\n", name, text);
}

static const char *shown(const char *value)
{
    return value[0] != '\0' ? value : "(empty)";
}

void text_setting(const aq_setting_info *setting)
{
    printf("%s = %s\n", setting->name, shown(setting->value));
    field("from", setting->origin);
    field("default", shown(setting->default_value));
    field("values", setting->range);
    field("type", setting->type);
    field("unit", setting->unit);
    field("alias", setting->alias);
    field("group", setting->group);
    paragraph(setting->doc, 2);
    paragraph(setting->advice, 2);
}

void text_transport(const aq_transport_info *transport)
{
    printf("%s: %s\n", transport->name,
           transport->usable       ? "works here"
           : transport->on_request ? "used here only on request"
                                   : "does not work here");
    paragraph(transport->doc, 2);
    field("device", transport->device);
    field("can", transport->caps);
    if (transport->max_medium > 0)
        printf("  %-10s up to %zu bytes\n", "Mediums", transport->max_medium);
    field(transport->usable ? "note" : "why not", transport->reason);
}

void text_limit(const aq_limit_info *limit)
{
    printf("%s = %s\n", limit->name, limit->value);
    paragraph(limit->advice, 2);
}

static void setting_in_list(const aq_setting_info *setting)
{
    int width = printf("  %s = %s", setting->name, shown(setting->value));
    printf("%*s", width < 44 ? 44 - width : 1, "");
    if (setting_is_changed(setting))
        printf(" from %s, default %s;", setting->origin, shown(setting->default_value));
    printf(" %s%s%s\n", setting->type, setting->range[0] != '\0' ? ": " : "", setting->range);
    paragraph(setting->doc, 6);
    paragraph(setting->advice, 6);
}

static void show_transports(const struct data *data)
{
    printf("Transports, in order of preference\n");
    for (size_t i = 0; i < data->transport_count; i++) {
        const aq_transport_info *transport = &data->transports[i];
        char abilities[400];
        snprintf(abilities, sizeof abilities, "%s%s%s; Mediums up to %zu bytes", transport->device,
                 transport->device[0] != '\0' ? "; " : "", transport->caps, transport->max_medium);
        printf("  %-6s %-4s ", transport->name,
               transport->usable       ? "yes"
               : transport->on_request ? "ask"
                                       : "no");
        command_wrap(transport->doc, 14);
        if (transport->usable) paragraph(abilities, 14);
        paragraph(transport->reason, 14);
    }
    putchar('\n');
}

static void show_limits(const struct data *data)
{
    printf("Limits and properties of the machine and the process\n");
    for (size_t i = 0; i < data->limit_count; i++) {
        printf("  %-20s %s\n", data->limits[i].name, data->limits[i].value);
        paragraph(data->limits[i].advice, 6);
    }
    putchar('\n');
}

static void show_settings(const struct data *data)
{
    const char *group = "";
    for (size_t i = 0; i < data->setting_count; i++) {
        const aq_setting_info *setting = &data->settings[i];
        if (strcmp(group, setting->group) != 0) printf("Settings: %s\n", setting->group);
        group = setting->group;
        setting_in_list(setting);
        if (i + 1 == data->setting_count || strcmp(group, data->settings[i + 1].group) != 0)
            putchar('\n');
    }
}

static void show_changed(const struct data *data)
{
    size_t changed = 0;
    for (size_t i = 0; i < data->setting_count; i++)
        changed += setting_is_changed(&data->settings[i]) != 0;
    printf("Settings: %zu; %zu of them differ from the default%s\n", data->setting_count, changed,
           changed == 0 ? "; aqinfo --settings lists them" : "");
    for (size_t i = 0; i < data->setting_count; i++)
        if (setting_is_changed(&data->settings[i])) setting_in_list(&data->settings[i]);
}

void text_show(const struct data *data, unsigned sections)
{
    printf("Aqueduct %s\n\n", aq_version());
    if (sections & SHOW_TRANSPORTS) show_transports(data);
    if (sections & SHOW_LIMITS) show_limits(data);
    if (sections & SHOW_SETTINGS) show_settings(data);
    if (sections & SHOW_CHANGED) show_changed(data);
}
