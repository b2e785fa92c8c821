/*
 * Settings tables: each folder declares its environment variables as rows of a const table that
 * fill a struct of values. Everything else (parsing, units, ranges, aliases, unknown names, aqinfo,
 * the generated documentation) is derived from the rows.
 */
#ifndef AQI_SETTINGS_H
#define AQI_SETTINGS_H

#include "base/base.h"

/* The type of a row determines the type of the field at `offset`. */
enum aqi_setting_type {
    AQI_SET_BOOL,   /* uint64_t 0/1:  0 1 no yes off on false true n y */
    AQI_SET_COUNT,  /* uint64_t:      a plain number */
    AQI_SET_BYTES,  /* uint64_t:      a number, optional K M G T (binary), optional B or iB */
    AQI_SET_TIME,   /* uint64_t ns:   a number with ns us ms s m; without, in `unit` or else ns */
    AQI_SET_CHOICE, /* uint64_t index into `choices` */
    AQI_SET_TEXT    /* const char *, owned by the settings, never freed */
};

/* A word that a row accepts under its aliases, and the text that it stands for. */
struct aqi_setting_word {
    const char *alias, *own;
};

struct aqi_setting {
    const char *name;                /* "AQ_SHM_RING_SLOTS" */
    const char *alias;               /* "GASNET_..." or NULL; if both are set, the AQ_ name wins */
    const char *const *more_aliases; /* NULL-terminated list, or NULL; earlier ones win */
    const char *const *old_aliases;  /* likewise, after those; using them prints a warning */
    const struct aqi_setting_word
        *alias_words;       /* ended by a row of NULL, or NULL; "*": any other word */
    const char *alias_unit; /* "M" if that is the unit of a bare number under an alias, or NULL */
    const char *def;        /* the default as text, parsed like a value */
    const char *doc;        /* one sentence about what it does */
    const char *advice;     /* when to change it, or NULL */
    const char *unit;       /* the unit of a time without one: "us", ... or NULL */
    const char *const *choices;      /* AQI_SET_CHOICE: NULL-terminated */
    bool (*check)(const char *text); /* AQI_SET_TEXT: true if valid; NULL: all are */
    const char *legal;               /* with `check`: the valid texts, to be printed after "give" */
    uint64_t min, max;               /* inclusive, in the stored unit; both 0: no limit */
    enum aqi_setting_type type;
    bool power_of_two; /* the value must be a power of two */
    bool words_only;   /* under an alias, only its words are valid */
    bool clamp; /* a number outside the range, under an alias, becomes the nearest valid one, which
                   the documents that define the alias allow */
    bool by_launcher; /* set by aqrun for its ranks, not by users */
    bool same;        /* must be the same in all processes of a job */
    size_t offset;    /* of the field in the struct of values */
};

/* The words for a bool under an alias: each stands for one of the texts `no` and `yes`. */
#define AQI_SETTING_WORDS(no, yes)                                                                 \
    {"0", no}, {"no", no}, {"off", no}, {"false", no}, {"n", no}, {"1", yes}, {"yes", yes},        \
        {"on", yes}, {"true", yes}, {"y", yes},                                                    \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }

/* The type of a row, and the field of a struct of values that it fills. */
#define AQI_SETTING_IN(kind, values, field)                                                        \
    .type = AQI_SET_##kind, .offset = offsetof(values, field)

struct aqi_settings_table {
    const char *group; /* name of the folder */
    const struct aqi_setting *rows;
    size_t count;
    void *values;            /* the struct that the rows fill, with static storage */
    const char *const *gone; /* former settings, ended by NULL; the library chooses their values */
    uint8_t *origins;        /* where each value came from; allocated by load, never freed */
    struct aqi_settings_table *loaded_before; /* in the list of loaded tables */
};

/*
 * Fill the structs of all tables from the environment, which is read again at each call. Not
 * thread-safe.
 *
 * @return AQ_OK, or AQ_ESETTING for the first bad value (variable, value, what is valid); that row
 *         then has its default, and the other rows are set nevertheless. All bad values are logged;
 *         the thread's message is about the first.
 */
aq_status aqi_settings_load(struct aqi_settings_table *const *tables, size_t count);

/*
 * Print the warnings that load did not, once per name and process. Separate, because one process of
 * a job is enough:
 * - AQ_ names in the environment that are in no table, with the nearest known name ("did you
 *   mean AQ_WAIT?"), or with the advice to unset it if it is a former one;
 * - names with the prefix of an alias that are close to an alias but are neither one nor among
 *   `others` (ended by NULL; a trailing * matches any ending); those that are not close are
 *   ignored;
 * - values under an alias that were adjusted, and obsolete aliases.
 */
void aqi_settings_warn(struct aqi_settings_table *const *tables, size_t count,
                       const char *const *others);

/*
 * Parse a text for a row into `value`, which has the field's type. Returns false if it is not
 * valid, with `value` unchanged. This parser is fuzzed. For AQI_SET_TEXT, the value is `text`
 * itself, not a copy.
 */
bool aqi_setting_read(const struct aqi_setting *row, const char *text, void *value);

/*
 * Likewise for a text given under an alias: also accepts the alias's words and unit, and numbers
 * outside the range if the row allows them. `*adjusted`: the value differs from the one requested.
 */
bool aqi_setting_read_alias(const struct aqi_setting *row, const char *text, void *value,
                            bool *adjusted);

/* Write the error message for an invalid `variable`=`text`; what does not fit is cut off. */
void aqi_setting_complain(const struct aqi_setting *row, const char *variable, const char *text,
                          char *buf, size_t len);

/* The known name (but not one of aqrun's) nearest to `name`, or NULL if none is near. */
const char *aqi_settings_nearest(struct aqi_settings_table *const *tables, size_t count,
                                 const char *name);

/* The text for a row and the variable that gave it, or the row's default and name. */
const char *aqi_setting_text(const struct aqi_setting *row, const char **variable);

/* The alias with this index, in order of precedence, or NULL after the last. */
const char *aqi_setting_alias(const struct aqi_setting *row, unsigned index);

/* For messages: the variable that gave the setting `name` its value, or `name` if none did. */
const char *aqi_setting_variable(const char *name);

/* Where the value of a row came from after load: "default" or the name of the variable. */
const char *aqi_setting_origin(const struct aqi_settings_table *table, size_t row);

/* The index of the row `name`, which the table must have. */
size_t aqi_setting_row(const struct aqi_settings_table *table, const char *name);

bool aqi_setting_is_default(const struct aqi_settings_table *table, size_t row);

/* Change the value of the number setting `name`, unless a variable has set it. */
void aqi_setting_prefer(const struct aqi_settings_table *table, const char *name, uint64_t value);

/* The value of the number setting `name`; `less` if `spared` is set and it has its default. */
uint64_t aqi_setting_spare(const struct aqi_settings_table *table, const char *name, bool spared,
                           uint64_t less);

/* A copy of a text that is never freed, shared by equal texts; "" if out of memory. */
const char *aqi_setting_keep(const char *text);

/* Get the current value, the valid range and the type as text; what does not fit is cut off. */
void aqi_setting_format(const struct aqi_settings_table *table, size_t row, char *buf, size_t len);
void aqi_setting_range(const struct aqi_setting *row, char *buf, size_t len);
const char *aqi_setting_type_name(enum aqi_setting_type type);

#endif
