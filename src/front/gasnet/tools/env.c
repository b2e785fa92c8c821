/*
 * The environment for gasnet_tools.h: that of the job if there is one, with changes by the
 * program.
 */
#include "tools.h"

#include <strings.h>

char *(*aqg_getenv_hook)(const char *name);
int (*aqg_rank_hook)(void);

/* A set of names. */
struct env_name {
    struct env_name *next;
    char text[];
};
static gasnett_mutex_t env_lock = GASNETT_MUTEX_INITIALIZER;
static struct env_name *env_changed;  /* set by this process, overriding the job's */
static struct env_name *env_reported; /* printed in verbose mode, once each */

static struct env_name *env_find(struct env_name *list, const char *name)
{
    while (list != NULL && strcmp(list->text, name) != 0)
        list = list->next;
    return list;
}

/*
 * Add a name to a list; returns 1 if it is new. Names are only added at the head, so an acquire
 * load suffices for readers, without the lock.
 */
static int env_add(struct env_name **list, const char *name)
{
    size_t size = strlen(name) + 1;
    gasnett_mutex_lock(&env_lock);
    int added = env_find(*list, name) == NULL;
    struct env_name *new = added ? malloc(sizeof(*new) + size) : NULL;
    if (new != NULL) {
        memcpy(new->text, name, size);
        new->next = *list;
        __atomic_store_n(list, new, __ATOMIC_RELEASE); /* for the acquire in gasnett_getenv */
    }
    gasnett_mutex_unlock(&env_lock);
    return added;
}

int aqgi_tools_rank(void)
{
    return aqg_rank_hook != NULL ? aqg_rank_hook() : 0;
}

char *gasnett_getenv(const char *name)
{
    struct env_name *changed = __atomic_load_n(&env_changed, __ATOMIC_ACQUIRE);
    if (aqg_getenv_hook != NULL && env_find(changed, name) == NULL) {
        char *value = aqg_getenv_hook(name);
        if (value != NULL) return value;
    }
    return getenv(name);
}

void gasnett_setenv(const char *name, const char *value)
{
    env_add(&env_changed, name);
    if (setenv(name, value, 1) != 0)
        gasnett_fatalerror_nopos("cannot set the environment variable \"%s\": %m", name);
}

void gasnett_unsetenv(const char *name)
{
    env_add(&env_changed, name);
    if (unsetenv(name) != 0)
        gasnett_fatalerror_nopos("cannot unset the environment variable \"%s\": %m", name);
}

int aqgi_tools_yesno(const char *value)
{
    static const char *const words[][3] = {{"0", "n", "no"}, {"1", "y", "yes"}};
    for (int answer = 0; answer < 2; answer++)
        for (int i = 0; i < 3; i++)
            if (strcasecmp(value, words[answer][i]) == 0) return answer;
    return -1;
}

int gasnett_verboseenv(void)
{
    const char *value = gasnett_getenv("GASNET_VERBOSEENV");
    return value != NULL && *value != '\0' && aqgi_tools_yesno(value) != 0 &&
           aqgi_tools_rank() == 0;
}

void gasnett_envstr_display(const char *name, const char *val, int is_dflt)
{
    if (!gasnett_verboseenv()) return;
    fprintf(stderr, "ENV parameter: %s = %s%s\n", name, val == NULL ? "*not set*" : val,
            is_dflt ? "   (default)" : "");
}

void gasnett_envint_display(const char *name, int64_t val, int is_dflt, int is_mem_size)
{
    char text[40];
    gasnett_envstr_display(name, gasnett_format_number(val, text, sizeof(text), is_mem_size),
                           is_dflt);
}

void gasnett_envdbl_display(const char *name, double val, int is_dflt)
{
    char text[40];
    snprintf(text, sizeof(text), "%g", val);
    gasnett_envstr_display(name, text, is_dflt);
}

/* The value of a setting; NULL if it is unset or empty. `*report`: whether to print it. */
static const char *env_query(const char *name, int *report)
{
    const char *value = gasnett_getenv(name);
    *report = gasnett_verboseenv() && env_add(&env_reported, name);
    return value != NULL && *value != '\0' ? value : NULL;
}

char *gasnett_getenv_withdefault(const char *name, const char *dflt)
{
    int report;
    const char *value = env_query(name, &report);
    const char *result = value != NULL ? value : dflt;
    if (report) gasnett_envstr_display(name, result, value == NULL);
    return (char *)(uintptr_t)result;
}

int gasnett_getenv_yesno_withdefault(const char *name, int dflt)
{
    int report;
    const char *value = env_query(name, &report);
    int answer = value != NULL ? aqgi_tools_yesno(value) : dflt;
    if (answer < 0)
        gasnett_fatalerror_nopos("the environment variable %s is \"%s\": give yes or no", name,
                                 value);
    if (report) gasnett_envstr_display(name, answer ? "YES" : "NO", value == NULL);
    return answer;
}

int64_t gasnett_getenv_int_withdefault(const char *name, int64_t dflt, uint64_t mem_size_multiplier)
{
    int report;
    const char *value = env_query(name, &report);
    int64_t result = value != NULL ? aqgi_tools_parse_int(name, value, mem_size_multiplier) : dflt;
    if (report) gasnett_envint_display(name, result, value == NULL, mem_size_multiplier != 0);
    return result;
}

/* Parse a decimal number, or a fraction of two. */
static int env_number(const char *text, double *number)
{
    char *end;
    *number = strtod(text, &end);
    if (end == text) return 0;
    if (*end == '/') {
        const char *below = end + 1;
        double divisor = strtod(below, &end);
        if (end == below || divisor == 0) return 0;
        *number /= divisor;
    }
    return *end == '\0';
}

double gasnett_getenv_dbl_withdefault(const char *name, double dflt)
{
    int report;
    const char *value = env_query(name, &report);
    double result = dflt;
    if (value != NULL && !env_number(value, &result))
        gasnett_fatalerror_nopos("the environment variable %s is \"%s\": give a number such as "
                                 "0.25, 1e-3 or 3/8",
                                 name, value);
    if (report) gasnett_envdbl_display(name, result, value == NULL);
    return result;
}
