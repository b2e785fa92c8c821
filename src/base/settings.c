/* Settings tables filled from the environment; names that nobody knows are answered. */
#include "base/settings.h"

#include "base/fail.h"
#include "base/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where a value came from, as kept per row in aqi_settings_table.origins; then the other aliases.
 */
enum settings_origin { SETTINGS_DEFAULT, SETTINGS_NAME, SETTINGS_ALIAS };

#define SETTINGS_NAME_MAX 63 /* longer names are cut for the comparison */

/*
 * Texts kept for ever: values of AQI_SET_TEXT rows (the environment may be changed under us), and
 * the unknown names already warned about. One copy of each, so reading anew costs nothing.
 */
struct settings_text {
    struct settings_text *next;
    bool warned;
    char text[];
};
static struct settings_text *settings_texts;

static struct settings_text *settings_keep(const char *text)
{
    for (struct settings_text *kept = settings_texts; kept != NULL; kept = kept->next)
        if (strcmp(kept->text, text) == 0) return kept;
    size_t size = strlen(text) + 1;
    struct settings_text *kept = malloc(sizeof(*kept) + size);
    if (kept == NULL) return NULL;
    kept->warned = false;
    memcpy(kept->text, text, size);
    kept->next = settings_texts;
    settings_texts = kept;
    return kept;
}

static aq_status settings_no_memory(void)
{
    return aqi_fail(AQ_ENOMEM, "base", "no memory to read the settings");
}

const char *aqi_setting_alias(const struct aqi_setting *row, unsigned index)
{
    if (index == 0 || row->alias == NULL) return row->alias;
    for (unsigned i = 0; row->more_aliases != NULL && row->more_aliases[i] != NULL; i++)
        if (i + 1 == index) return row->more_aliases[i];
    return NULL;
}

/* The variable that an origin stands for. */
static const char *settings_variable(const struct aqi_setting *row, uint8_t origin)
{
    return origin < SETTINGS_ALIAS ? row->name : aqi_setting_alias(row, origin - SETTINGS_ALIAS);
}

/*
 * The text for a row from the environment, or its default. An empty alias is none: in the world
 * that it comes from scripts unset variables so.
 */
static const char *settings_source(const struct aqi_setting *row, uint8_t *origin)
{
    const char *alias, *text = getenv(row->name);
    *origin = SETTINGS_NAME;
    while (text == NULL && (alias = aqi_setting_alias(row, *origin - SETTINGS_NAME)) != NULL) {
        text = getenv(alias);
        if (text != NULL && *text == '\0') text = NULL;
        ++*origin;
    }
    if (text == NULL) {
        text = row->def;
        *origin = SETTINGS_DEFAULT;
    }
    return text;
}

const char *aqi_setting_text(const struct aqi_setting *row, const char **variable)
{
    uint8_t origin;
    const char *text = settings_source(row, &origin);
    *variable = origin == SETTINGS_DEFAULT ? row->name : settings_variable(row, origin);
    return text;
}

/* A row without a default: zero, or no text. */
static void settings_clear(const struct aqi_setting *row, void *field)
{
    const char *no_text = NULL;
    uint64_t zero = 0;
    if (row->type == AQI_SET_TEXT)
        memcpy(field, &no_text, sizeof(no_text));
    else
        memcpy(field, &zero, sizeof(zero));
}

/* Only the first complaint becomes the thread's message; later ones are for the reader's eyes. */
static aq_status settings_complain(const struct aqi_setting *row, uint8_t origin, const char *text,
                                   bool first)
{
    char complaint[512];
    const char *variable = settings_variable(row, origin);
    aqi_setting_complain(row, variable, text, complaint, sizeof(complaint));
    if (first) return aqi_fail(AQ_ESETTING, "base", "%s", complaint);
    aqi_log(AQI_LOG_ERROR, "base", "%s", complaint);
    return AQ_ESETTING;
}

static aq_status settings_load_row(struct aqi_settings_table *table, size_t index, bool first)
{
    const struct aqi_setting *row = &table->rows[index];
    void *field = (char *)table->values + row->offset;
    aq_status status = AQ_OK;
    uint8_t *origin = &table->origins[index];
    const char *text = settings_source(row, origin);
    if (*origin != SETTINGS_DEFAULT) {
        if (row->type == AQI_SET_TEXT) {
            struct settings_text *kept = settings_keep(text);
            if (kept == NULL) return settings_no_memory();
            text = kept->text;
        }
        if (aqi_setting_read(row, text, field)) return AQ_OK;
        status = settings_complain(row, *origin, text, first);
        *origin = SETTINGS_DEFAULT;
    }
    settings_clear(row, field);
    /* The defaults in the tables are legal: the test of each table loads it. */
    if (row->def != NULL && !aqi_setting_read(row, row->def, field))
        status = settings_complain(row, SETTINGS_DEFAULT, row->def, first && status == AQ_OK);
    return status;
}

static aq_status settings_load_table(struct aqi_settings_table *table, bool first)
{
    if (table->origins == NULL) table->origins = calloc(aqi_max(table->count, 1), 1);
    if (table->origins == NULL) return settings_no_memory();
    aq_status result = AQ_OK;
    for (size_t i = 0; i < table->count; i++) {
        aq_status status = settings_load_row(table, i, first && result == AQ_OK);
        if (result == AQ_OK) result = status;
    }
    return result;
}

static unsigned char settings_upper(char c)
{
    return (unsigned char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
}

/* Edit distance (insert, delete, replace, and swap of neighbours count one), ignoring case. */
static size_t settings_distance(const char *a, const char *b)
{
    size_t rows[3][SETTINGS_NAME_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    size_t a_len = strnlen(a, SETTINGS_NAME_MAX), b_len = strnlen(b, SETTINGS_NAME_MAX);
    for (size_t j = 0; j <= b_len; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        now[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned char ca = settings_upper(a[i - 1]), cb = settings_upper(b[j - 1]);
            now[j] = aqi_min(aqi_min(last[j], now[j - 1]) + 1, last[j - 1] + (ca != cb));
            if (i > 1 && j > 1 && ca == settings_upper(b[j - 2]) && cb == settings_upper(a[i - 2]))
                now[j] = aqi_min(now[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[b_len];
}

const char *aqi_settings_nearest(struct aqi_settings_table *const *tables, size_t count,
                                 const char *name)
{
    const char *nearest = NULL;
    /* Beyond a third of the name it would be a guess. */
    size_t best = aqi_max(strnlen(name, SETTINGS_NAME_MAX) / 3, 2) + 1;
    for (size_t t = 0; t < count; t++) {
        for (size_t i = 0; i < tables[t]->count; i++) {
            if (tables[t]->rows[i].by_launcher) continue;
            size_t distance = settings_distance(name, tables[t]->rows[i].name);
            if (distance >= best) continue;
            best = distance;
            nearest = tables[t]->rows[i].name;
        }
    }
    return nearest;
}

static bool settings_known(struct aqi_settings_table *const *tables, size_t count, const char *name)
{
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < tables[t]->count; i++)
            if (strcmp(tables[t]->rows[i].name, name) == 0) return true;
    return false;
}

static void settings_warn_unknown(struct aqi_settings_table *const *tables, size_t count,
                                  const char *name)
{
    struct settings_text *kept = settings_keep(name);
    if (kept == NULL || kept->warned) return;
    kept->warned = true;
    const char *nearest = aqi_settings_nearest(tables, count, name);
    if (nearest != NULL)
        aqi_log(AQI_LOG_WARN, "base", "%.80s is no setting and is ignored: maybe %s?", name,
                nearest);
    else
        aqi_log(AQI_LOG_WARN, "base",
                "%.80s is no setting and is ignored: aqinfo lists those there are", name);
}

void aqi_settings_warn_unknown(struct aqi_settings_table *const *tables, size_t count)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, "AQ_", 3) != 0) continue;
        char name[256];
        size_t len = strcspn(*entry, "=");
        if (len >= sizeof(name)) len = sizeof(name) - 1;
        memcpy(name, *entry, len);
        name[len] = '\0';
        if (!settings_known(tables, count, name)) settings_warn_unknown(tables, count, name);
    }
}

aq_status aqi_settings_load(struct aqi_settings_table *const *tables, size_t count)
{
    aq_status result = AQ_OK;
    for (size_t t = 0; t < count; t++) {
        aq_status status = settings_load_table(tables[t], result == AQ_OK);
        if (result == AQ_OK) result = status;
    }
    return result;
}

const char *aqi_setting_origin(const struct aqi_settings_table *table, size_t row)
{
    uint8_t origin = table->origins == NULL ? SETTINGS_DEFAULT : table->origins[row];
    return origin == SETTINGS_DEFAULT ? "default" : settings_variable(&table->rows[row], origin);
}
