/* The text of docs/settings.md, from the settings tables; it does not depend on the machine. */
#include "data.h"
#include <stdio.h>
#include <string.h>

/* A cell of a table, which a bar or newline would end. */
static void cell(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|') putchar('\\');
        putchar(*text == '\n' ? ' ' : *text);
    }
}

static void code_cell(const char *text)
{
    if (text == NULL || text[0] == '\0') return;
    putchar('`');
    cell(text);
    putchar('`');
}

static void row(const aq_setting_info *setting)
{
    printf("| ");
    code_cell(setting->name);
    for (const char *alias = setting->alias; alias != NULL && *alias != '\0';) {
        char name[128];
        size_t len = strcspn(alias, ",");
        snprintf(name, sizeof(name), "%.*s", (int)len, alias);
        printf(", ");
        code_cell(name);
        alias += len + (alias[len] == ',');
    }
    printf(" | ");
    cell(setting->type);
    printf(" | ");
    code_cell(setting->default_value);
    printf(" | ");
    cell(setting->range);
    printf(" | ");
    cell(setting->doc);
    printf(" | ");
    cell(setting->advice);
    printf(" |\n");
}

void markdown_show(const struct data *data)
{
    printf(
        "# Settings\n\n"
        "Everything that can be tuned is an environment variable. `aqinfo --settings` shows the "
        "values in\nforce and where each came from; `aqinfo NAME` shows one in full. An invalid "
        "value is an error that\nnames the valid ones; an unknown `AQ_` name gets a warning with "
        "the nearest known one. Where a\n`GASNET_` name is given, it is also accepted, but the "
        "`AQ_` name takes precedence if both are set.\n\n"
        "This file is generated: `aqinfo --markdown > docs/settings.md`.\n");
    const char *group = "";
    for (size_t i = 0; i < data->setting_count; i++) {
        const aq_setting_info *setting = &data->settings[i];
        if (strcmp(group, setting->group) != 0)
            printf("\n## %s\n\n| name | type | default | values | what it does | when to change it "
                   "|\n|---|---|---|---|---|---|\n",
                   setting->group);
        group = setting->group;
        row(setting);
    }
}
