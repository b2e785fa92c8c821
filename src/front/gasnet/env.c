/* The environment: GASNET_ variables that Aqueduct has under another name or in another form. */
#include "aqg.h"

static bool is_yes(const char *text)
{
    return text != NULL && (strcasecmp(text, "1") == 0 || strcasecmp(text, "y") == 0 ||
                            strcasecmp(text, "yes") == 0);
}

/* The number that a size is multiplied by for its suffix; 0: no suffix that there is. */
static double unit_of(const char *suffix)
{
    static const char units[] = "BKMGT";
    const char *found = *suffix != '\0' ? strchr(units, *suffix & ~0x20) : NULL;
    if (found == NULL) return 0;
    double unit = 1;
    for (const char *at = units; at < found; at++)
        unit *= 1024;
    return unit;
}

static double host_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (double)pages * (double)size : 0;
}

static double ranks_of_host(void)
{
    const char *text = getenv("AQ_LOCAL_SIZE");
    long ranks = text != NULL ? strtol(text, NULL, 10) : 1;
    return ranks > 0 ? (double)ranks : 1;
}

/* "SIZE", a size with a suffix, or a fraction of the host's memory, "/P" per process or "/H". */
static double segment_limit(const char *text)
{
    char *end;
    double value;
    const char *share = strrchr(text, '/');
    bool of_host = share != NULL && (share[1] & ~0x20) == 'H';
    value = strtod(text, &end);
    double unit = unit_of(end);
    bool fraction = unit == 0 && value > 0 && value <= 1;
    if (fraction)
        value *= host_memory();
    else if (unit != 0)
        value *= unit;
    /* A fraction of memory is the host's share unless it says otherwise. */
    if (of_host || (fraction && share == NULL)) value /= ranks_of_host();
    return value;
}

static void set_segment_limit(void)
{
    const char *text = getenv("GASNET_MAX_SEGSIZE");
    char number[32];
    double bytes = 0;
    if (getenv("AQ_MAX_SEGMENT") != NULL) return;
    if (text == NULL || *text == '\0') text = gasnet_max_segsize_str;
    if (text != NULL)
        bytes = segment_limit(text);
    else if (gasnet_max_segsize != 0)
        bytes = (double)gasnet_max_segsize;
    if (bytes < GASNET_PAGESIZE) return;
    snprintf(number, sizeof(number), "%.0f", bytes);
    setenv("AQ_MAX_SEGMENT", number, 1);
}

void aqgi_env_prepare(const struct aqg_build *build)
{
    static const char *const segments[] = {NULL, "large", "everything"};
    if (segments[build->segment] != NULL) setenv("AQ_SEGMENT_MODE", segments[build->segment], 0);
    if (is_yes(getenv("GASNET_RCV_THREAD"))) setenv("AQ_PROGRESS_THREAD", "yes", 0);
    set_segment_limit();
    const char *scratch = getenv("GASNET_COLL_SCRATCH_SIZE");
    if (scratch != NULL && segment_limit(scratch) >= GASNET_PAGESIZE)
        aqgi.coll_scratch = (size_t)segment_limit(scratch);
}
