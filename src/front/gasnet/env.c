/* The environment: GASNET_ variables that Aqueduct supports under another name or with other
 * values. */
#include "aqg.h"

uint64_t aqgi_segment_max(void)
{
    return aqgi_everything() ? UINT64_MAX : (uint64_t)aq_segment_max();
}

/*
 * The default limit of segments: the one requested by the client, otherwise a fraction of memory.
 */
static const char *env_segment_limit(void)
{
    static char text[64];
    if (gasnet_max_segsize_str != NULL)
        snprintf(text, sizeof(text), "%s%s", gasnet_max_segsize_str,
                 strchr(gasnet_max_segsize_str, '/') == NULL ? "/P" : "");
    else if (gasnet_max_segsize != 0)
        snprintf(text, sizeof(text), "%llu/P", (unsigned long long)gasnet_max_segsize);
    else
        strcpy(text, "0.85/H");
    return text;
}

/* --- GASNET_VERBOSEENV ----------------------------------------------------------------------- */

/* Values whose meaning differs between this variable and the setting for which it is an alias. */
static const char *env_value(const char *variable, const char *value)
{
    static const struct {
        const char *variable, *own, *text;
    } words[] = {
        {"GASNET_PHYSMEM_NOPROBE", "no", "1"},    {"GASNET_PHYSMEM_NOPROBE", "yes", "0"},
        {"GASNET_USE_FIREHOSE", "auto", "1"},     {"GASNET_USE_FIREHOSE", "none", "0"},
        {"GASNET_USE_UDREG", "auto", "1"},        {"GASNET_USE_UDREG", "none", "0"},
        {"GASNET_FIREHOSE_VERBOSE", "warn", "0"}, {"GASNET_BARRIER", "writes", "RDMADISSEM"},
        {"GASNET_BARRIER", "messages", "DISSEM"},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strcmp(words[i].variable, variable) == 0 && strcmp(words[i].own, value) == 0)
            return words[i].text;
    return value;
}

/* Report all aliases of a setting, each with its own value or with the effective one. */
static void env_report_setting(const aq_setting_info *info)
{
    char names[512], *rest = names;
    snprintf(names, sizeof(names), "%s", info->alias);
    for (char *name = strtok_r(names, ",", &rest); name != NULL;
         name = strtok_r(NULL, ",", &rest)) {
        const char *set = gasnett_getenv(name);
        bool is_set = set != NULL && *set != '\0';
        gasnett_envstr_display(name, is_set ? set : env_value(name, info->value),
                               !is_set && strcmp(info->origin, "default") == 0);
    }
}

void aqgi_env_report(void)
{
    static const struct {
        const char *name, *dflt;
    } settings[] = {
        {"GASNET_AQRUN", NULL},           {"GASNET_COLL_SCRATCH_SIZE", NULL},
        {"GASNET_MAX_THREADS", "256"},    {"GASNET_NO_CATCH_SIGNAL", NULL},
        {"GASNET_PSHM_NODES", NULL},      {"GASNET_VERBOSEENV", NULL},
        {"GASNET_SPAWNER", NULL},         {"GASNET_SPAWNFN", NULL},
        {"GASNET_IBV_SPAWNER", NULL},     {"GASNET_OFI_SPAWNER", NULL},
        {"GASNET_UDP_SPAWNER", NULL},     {"GASNET_VAPI_SPAWNER", NULL},
        {"GASNET_FREEZE_ON_ERROR", "NO"},
    };
    aq_setting_info info;
    if (!gasnett_verboseenv()) return;
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        (void)gasnett_getenv_withdefault(settings[i].name, settings[i].dflt);
    for (size_t i = 0; aq_info_setting(i, &info) == AQ_OK; i++) {
        if (info.alias == NULL) continue;
        /* set by aqgi_env_prepare, not by the user */
        if (strcmp(info.name, "AQ_MAX_SEGMENT") == 0 && strcmp(info.origin, info.name) == 0 &&
            strcmp(info.value, env_segment_limit()) == 0)
            info.origin = "default";
        env_report_setting(&info);
    }
}

void aqgi_env_prepare(void)
{
    const char *limit = getenv("GASNET_MAX_SEGSIZE");
    if (limit == NULL || *limit == '\0') setenv("AQ_MAX_SEGMENT", env_segment_limit(), 0);
    int64_t threads = gasnett_getenv_int_withdefault("GASNET_MAX_THREADS", 0, 0);
    if (threads > 0 && threads < AQGI_THREADS) aqgi.max_threads = (unsigned)threads;
    int64_t scratch = gasnett_getenv_int_withdefault("GASNET_COLL_SCRATCH_SIZE", 0, 1);
    if (scratch >= GASNET_PAGESIZE) aqgi.coll_scratch = (size_t)scratch;
}
