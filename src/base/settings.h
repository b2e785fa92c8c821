/*
 * Settings tables: each folder declares its environment variables as rows of a const table that
 * fill a struct of values. Everything else (parsing, units, ranges, aliases, unknown names, aqinfo,
 * the generated documentation) works from the rows.
 */
#ifndef AQI_SETTINGS_H
#define AQI_SETTINGS_H

#include "base/base.h"

/* The type of a row decides the type of the field at `offset`. */
enum aqi_setting_type {
    AQI_SET_BOOL,   /* uint64_t 0/1:  0 1 no yes off on false true n y */
    AQI_SET_COUNT,  /* uint64_t:      plain number */
    AQI_SET_BYTES,  /* uint64_t:      number, optional K M G T (binary), optional B or iB */
    AQI_SET_TIME,   /* uint64_t ns:   number with ns us ms s m; a bare one is in `unit`, else ns */
    AQI_SET_CHOICE, /* uint64_t index into `choices` */
    AQI_SET_TEXT    /* const char *, owned by the settings, valid for ever */
};

/* A word that a row takes under its aliases, and the text that it stands for. */
struct aqi_setting_word {
    const char *alias, *own;
};

struct aqi_setting {
    const char *name;                /* "AQ_SHM_RING_SLOTS" */
    const char *alias;               /* "GASNET_..." or NULL; the AQ_ name wins when both are set */
    const char *const *more_aliases; /* NULL-terminated, or NULL; an earlier one wins */
    const char *const *old_aliases;  /* the same, after those: names to warn of */
    const struct aqi_setting_word
        *alias_words;       /* ended by a row of NULL, or NULL; "*": any other */
    const char *alias_unit; /* "M" where that is the unit of a bare number under an alias, or NULL
                             */
    const char *def;        /* default as text, parsed like a value */
    const char *doc;        /* one sentence: what it does */
    const char *advice;     /* when to change it, or NULL */
    const char *unit;       /* "us" for a time whose bare number is microseconds, ... or NULL */
    const char *const *choices;      /* AQI_SET_CHOICE: NULL-terminated */
    bool (*check)(const char *text); /* AQI_SET_TEXT: is it legal? NULL: any text is */
    const char *legal;               /* with `check`: what is, to follow "give" */
    uint64_t min, max;               /* inclusive, in the stored unit; both 0: no limit */
    enum aqi_setting_type type;
    bool power_of_two; /* the value must be one */
    bool words_only;   /* under an alias nothing is legal but its words */
    bool clamp;        /* a number outside the range, under an alias, is the nearest legal one: the
                        * documents that the alias comes from allow it */
    bool by_launcher;  /* set by aqrun for its ranks; not for people */
    bool same;         /* must have the same value in all processes of a job */
    size_t offset;     /* of the field in the struct of values */
};

/* The words of a bool, each standing for one of two texts. */
#define AQI_SETTING_WORDS(no, yes)                                                                 \
    {"0", no}, {"no", no}, {"off", no}, {"false", no}, {"n", no}, {"1", yes}, {"yes", yes},        \
        {"on", yes}, {"true", yes}, {"y", yes},                                                    \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }

/* Of a row: its type, and the field of a struct of values that it fills. */
#define AQI_SETTING_IN(kind, values, field)                                                        \
    .type = AQI_SET_##kind, .offset = offsetof(values, field)

struct aqi_settings_table {
    const char *group; /* the folder */
    const struct aqi_setting *rows;
    size_t count;
    void *values;     /* the struct that the rows fill; has static storage */
    uint8_t *origins; /* where each value came from; load makes it and keeps it for ever */
    struct aqi_settings_table *loaded_before; /* the list of those that load has seen */
};

/*
 * Fill the structs of all tables from the environment. Reads the variables anew at each call. Not
 * safe against itself in another thread.
 *
 * @return AQ_OK, or AQ_ESETTING for the first bad value (variable, value, what is legal); then the
 *         bad row has its default and the other rows are set all the same. All bad values are
 *         logged; the thread's message tells the first.
 */
aq_status aqi_settings_load(struct aqi_settings_table *const *tables, size_t count);

/*
 * Warn, once per name and process, of what load has taken in silence; apart from it, because one
 * process of a job is enough:
 * - AQ_ names in the environment that are in no table, with the nearest known name ("maybe
 *   AQ_WAIT?");
 * - names with an alias's prefix that are neither an alias nor among `others` (ended by NULL; with
 * a
 *   * at the end: all that begin so), but near to one that is; of what is not near nothing is said;
 * - values under an alias that were adjusted, and old aliases.
 */
void aqi_settings_warn(struct aqi_settings_table *const *tables, size_t count,
                       const char *const *others);

/*
 * Parse one text for one row into `value` (the field's type); false: it is not legal, and `value`
 * is untouched. The parser that is fuzzed. For AQI_SET_TEXT the value is `text` itself, not a copy.
 */
bool aqi_setting_read(const struct aqi_setting *row, const char *text, void *value);

/*
 * The same for a text that was given under an alias: its words, its unit, and numbers outside the
 * range if the row has it so. `*adjusted`: the value is another one than was asked for.
 */
bool aqi_setting_read_alias(const struct aqi_setting *row, const char *text, void *value,
                            bool *adjusted);

/* What to say of an illegal `variable`=`text`; returns what snprintf would. */
int aqi_setting_complain(const struct aqi_setting *row, const char *variable, const char *text,
                         char *buf, size_t len);

/* The known name (not of the launcher's) that `name` may have meant, or NULL when none is near. */
const char *aqi_settings_nearest(struct aqi_settings_table *const *tables, size_t count,
                                 const char *name);

/* What the environment has for a row, or its default; the variable that said it, or the row's. */
const char *aqi_setting_text(const struct aqi_setting *row, const char **variable);

/* The alias with this index, in the order in which they win; NULL: there are no more. */
const char *aqi_setting_alias(const struct aqi_setting *row, unsigned index);

/* The variable that set the setting `name` of any loaded table, or `name`: for messages. */
const char *aqi_setting_variable(const char *name);

/* Where the value of a row came from after load: "default" or the variable's name. */
const char *aqi_setting_origin(const struct aqi_settings_table *table, size_t row);

/* Has nobody set it? */
bool aqi_setting_is_default(const struct aqi_settings_table *table, size_t row);

/* A copy of a text that lives as long as the process, one for all that are equal; "": no memory. */
const char *aqi_setting_keep(const char *text);

/* The value in force, the legal range and the type as text; return what snprintf would. */
int aqi_setting_format(const struct aqi_settings_table *table, size_t row, char *buf, size_t len);
int aqi_setting_range(const struct aqi_setting *row, char *buf, size_t len);
const char *aqi_setting_type_name(enum aqi_setting_type type);

#endif
