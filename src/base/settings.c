/* Settings tables filled from the environment, and warnings about unknown names. */
#include "base/settings.h"

#include "base/fail.h"
#include "base/log.h"
#include "base/nearest.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where a value came from, for aqi_settings_table.origins; the other aliases follow. */
enum settings_origin { SETTINGS_DEFAULT, SETTINGS_NAME, SETTINGS_ALIAS };

/*
 * Texts kept forever, since the environment may change: values of AQI_SET_TEXT rows, unknown names
 * already warned about, and names for aqinfo. Each is stored once, so rereading costs nothing.
 */
struct settings_text {
    struct settings_text *next;
    bool warned;
    char text[];
};
static struct settings_text *settings_texts;

/* The loaded tables, the last one first. */
static struct aqi_settings_table *settings_loaded;

static struct settings_text *settings_keep(const char *text)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    size_t size = strlen(text) + 1;
    pthread_mutex_lock(&lock);
    struct settings_text *kept = settings_texts;
    while (kept != NULL && strcmp(kept->text, text) != 0)
        kept = kept->next;
    if (kept == NULL && (kept = calloc(1, sizeof(*kept) + size)) != NULL) {
        memcpy(kept->text, text, size);
        kept->next = settings_texts;
        settings_texts = kept;
    }
    pthread_mutex_unlock(&lock);
    return kept;
}

const char *aqi_setting_keep(const char *text)
{
    const struct settings_text *kept = settings_keep(text);
    return kept != NULL ? kept->text : "";
}

static aq_status settings_no_memory(void)
{
    return aqi_fail(AQ_ENOMEM, "base", "out of memory while reading the settings");
}

const char *aqi_setting_alias(const struct aqi_setting *row, unsigned index)
{
    const char *const *const lists[] = {row->more_aliases, row->old_aliases};
    if (row->alias != NULL && index-- == 0) return row->alias;
    for (size_t l = 0; l < AQI_COUNT_OF(lists); l++)
        for (size_t i = 0; lists[l] != NULL && lists[l][i] != NULL; i++)
            if (index-- == 0) return lists[l][i];
    return NULL;
}

/* The variable that set the value, or would set a default. */
static const char *settings_variable(const struct aqi_setting *row, uint8_t origin)
{
    return origin < SETTINGS_ALIAS ? row->name : aqi_setting_alias(row, origin - SETTINGS_ALIAS);
}

/*
 * The text for a row from the environment, or its default. An empty alias counts as unset, as in
 * the scripts that set such variables.
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
    *variable = settings_variable(row, origin);
    return text;
}

/* The first complaint becomes the thread's message; later ones are only printed. */
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

static bool settings_read(const struct aqi_setting *row, uint8_t origin, const char *text,
                          void *value, bool *adjusted)
{
    *adjusted = false;
    return origin < SETTINGS_ALIAS ? aqi_setting_read(row, text, value)
                                   : aqi_setting_read_alias(row, text, value, adjusted);
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
        bool adjusted;
        if (settings_read(row, *origin, text, field, &adjusted)) return AQ_OK;
        status = settings_complain(row, *origin, text, first);
        *origin = SETTINGS_DEFAULT;
    }
    /* Without a default, the value is zero or NULL. */
    memset(field, 0, row->type == AQI_SET_TEXT ? sizeof(const char *) : sizeof(uint64_t));
    /* The defaults in the tables are valid: the test of each table loads it. */
    if (row->def != NULL && !aqi_setting_read(row, row->def, field))
        status = settings_complain(row, SETTINGS_DEFAULT, row->def, first && status == AQ_OK);
    return status;
}

static aq_status settings_load_table(struct aqi_settings_table *table, bool first)
{
    if (table->origins == NULL) {
        table->origins = calloc(aqi_max(table->count, 1), 1);
        if (table->origins == NULL) return settings_no_memory();
        table->loaded_before = settings_loaded;
        settings_loaded = table;
    }
    aq_status result = AQ_OK;
    for (size_t i = 0; i < table->count; i++) {
        aq_status status = settings_load_row(table, i, first && result == AQ_OK);
        if (result == AQ_OK) result = status;
    }
    return result;
}

const char *aqi_settings_nearest(struct aqi_settings_table *const *tables, size_t count,
                                 const char *name)
{
    struct aqi_nearest nearest;
    aqi_nearest_begin(&nearest, name);
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < tables[t]->count; i++)
            if (!tables[t]->rows[i].by_launcher)
                aqi_nearest_offer(&nearest, tables[t]->rows[i].name);
    return nearest.best;
}

/* The state of settings_warn while it walks the environment. */
struct settings_search {
    struct aqi_settings_table *const *tables;
    size_t count;
    const char *const *others;
};

/* The common prefix is rarely misspelled and would make all names seem near. */
static size_t settings_prefix(const char *name)
{
    return strcspn(name, "_") + 1;
}

static bool settings_is_other(const struct settings_search *search, const char *name)
{
    for (size_t i = 0; search->others != NULL && search->others[i] != NULL; i++) {
        const char *other = search->others[i];
        size_t len = strlen(other);
        if (other[len - 1] == '*' ? strncmp(name, other, len - 1) == 0 : strcmp(name, other) == 0)
            return true;
    }
    return false;
}

static bool settings_is_gone(const struct settings_search *search, const char *name)
{
    for (size_t t = 0; t < search->count; t++) {
        const char *const *gone = search->tables[t]->gone;
        while (gone != NULL && *gone != NULL)
            if (strcmp(*gone++, name) == 0) return true;
    }
    return false;
}

/* Whether a name is that of a row or an alias. `nearest` is offered all aliases of its prefix. */
static bool settings_known(const struct settings_search *search, const char *name,
                           struct aqi_nearest *nearest)
{
    size_t prefix = settings_prefix(name);
    for (size_t t = 0; t < search->count; t++)
        for (size_t i = 0; i < search->tables[t]->count; i++) {
            const struct aqi_setting *row = &search->tables[t]->rows[i];
            const char *alias;
            if (strcmp(row->name, name) == 0) return true;
            for (unsigned a = 0; (alias = aqi_setting_alias(row, a)) != NULL; a++) {
                if (strcmp(alias, name) == 0) return true;
                if (strncmp(alias, name, prefix) == 0) aqi_nearest_offer(nearest, alias + prefix);
            }
        }
    return false;
}

static void settings_offer_others(const struct settings_search *search, const char *name,
                                  struct aqi_nearest *nearest)
{
    size_t prefix = settings_prefix(name);
    for (size_t i = 0; search->others != NULL && search->others[i] != NULL; i++)
        if (strncmp(search->others[i], name, prefix) == 0 && strchr(search->others[i], '*') == NULL)
            aqi_nearest_offer(nearest, search->others[i] + prefix);
}

static bool settings_first_time(const char *text)
{
    struct settings_text *kept = settings_keep(text);
    bool first = kept != NULL && !kept->warned;
    if (first) kept->warned = true;
    return first;
}

static void settings_warn_name(const struct settings_search *search, const char *name)
{
    struct aqi_nearest nearest;
    size_t prefix = settings_prefix(name);
    bool own = strncmp(name, "AQ_", 3) == 0;
    aqi_nearest_begin(&nearest, name + prefix);
    if (settings_known(search, name, &nearest) || settings_is_other(search, name)) return;
    if (settings_is_gone(search, name)) {
        if (settings_first_time(name))
            aqi_log(AQI_LOG_WARN, "base",
                    "%.80s is no longer a setting and is ignored: the library chooses the value; "
                    "unset it",
                    name);
        return;
    }
    settings_offer_others(search, name, &nearest);
    const char *best =
        own ? aqi_settings_nearest(search->tables, search->count, name) : nearest.best;
    if ((best == NULL && !own) || !settings_first_time(name)) return;
    if (best != NULL)
        aqi_log(AQI_LOG_WARN, "base", "%.80s is not a setting and is ignored: did you mean %.*s%s?",
                name, own ? 0 : (int)prefix, name, best);
    else
        aqi_log(AQI_LOG_WARN, "base",
                "%.80s is not a setting and is ignored: aqinfo lists all settings", name);
}

/*
 * Only names with the prefix of the aliases are checked; others (SSH_SERVERS) belong to other
 * programs.
 */
static void settings_warn_unknown(const struct settings_search *search)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, "AQ_", 3) != 0 && strncmp(*entry, "GASNET_", 7) != 0) continue;
        char name[256];
        size_t len = strcspn(*entry, "=");
        if (len >= sizeof(name)) len = sizeof(name) - 1;
        memcpy(name, *entry, len);
        name[len] = '\0';
        settings_warn_name(search, name);
    }
}

/* List the words or numbers accepted from an alias. */
static void settings_legal(const struct aqi_setting *row, char *buf, size_t len)
{
    const struct aqi_setting_word *word = row->alias_words;
    aqi_setting_range(row, buf, len);
    if (row->type != AQI_SET_CHOICE || word == NULL) return;
    buf[0] = '\0';
    for (; word->alias != NULL; word++)
        if (strcmp(word->alias, "*") != 0)
            aqi_append(buf, len, "%s%s", buf[0] == '\0' ? "" : " ", word->alias);
}

static void settings_warn_row(const struct aqi_settings_table *table, size_t index)
{
    const struct aqi_setting *row = &table->rows[index];
    uint8_t origin;
    uint64_t value;
    bool adjusted;
    const char *text = settings_source(row, &origin);
    if (origin < SETTINGS_ALIAS || !settings_read(row, origin, text, &value, &adjusted)) return;
    const char *alias = settings_variable(row, origin);
    for (size_t i = 0; row->old_aliases != NULL && row->old_aliases[i] != NULL; i++)
        if (row->old_aliases[i] == alias && settings_first_time(alias))
            aqi_log(AQI_LOG_WARN, "base", "%s is an old name of this setting: set %s instead",
                    alias, row->alias != NULL ? row->alias : row->name);
    if (!adjusted) return;
    char legal[256], given[256], taken[64];
    snprintf(given, sizeof(given), "%s=%.80s", alias, text);
    if (!settings_first_time(given)) return;
    settings_legal(row, legal, sizeof(legal));
    aqi_setting_format(table, index, taken, sizeof(taken));
    aqi_log(AQI_LOG_WARN, "base", "%s is not supported (valid: %s): using %s", given, legal, taken);
}

void aqi_settings_warn(struct aqi_settings_table *const *tables, size_t count,
                       const char *const *others)
{
    settings_warn_unknown(
        &(struct settings_search){.tables = tables, .count = count, .others = others});
    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < tables[t]->count; i++)
            settings_warn_row(tables[t], i);
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

const char *aqi_setting_variable(const char *name)
{
    for (const struct aqi_settings_table *t = settings_loaded; t != NULL; t = t->loaded_before)
        for (size_t i = 0; i < t->count; i++)
            if (strcmp(t->rows[i].name, name) == 0 && !aqi_setting_is_default(t, i))
                return aqi_setting_origin(t, i);
    return name;
}

bool aqi_setting_is_default(const struct aqi_settings_table *table, size_t row)
{
    return strcmp(aqi_setting_origin(table, row), "default") == 0;
}

size_t aqi_setting_row(const struct aqi_settings_table *table, const char *name)
{
    size_t row = 0;
    while (strcmp(table->rows[row].name, name) != 0)
        row++;
    return row;
}

static uint64_t *settings_number(const struct aqi_settings_table *table, size_t row)
{
    return (uint64_t *)(void *)((char *)table->values + table->rows[row].offset);
}

uint64_t aqi_setting_spare(const struct aqi_settings_table *table, const char *name, bool spared,
                           uint64_t less)
{
    size_t row = aqi_setting_row(table, name);
    return spared && aqi_setting_is_default(table, row) ? less : *settings_number(table, row);
}

void aqi_setting_prefer(const struct aqi_settings_table *table, const char *name, uint64_t value)
{
    size_t row = aqi_setting_row(table, name);
    if (aqi_setting_is_default(table, row)) *settings_number(table, row) = value;
}
