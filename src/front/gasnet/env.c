/* The environment: GASNET_ variables that Aqueduct has under another name or in another form. */
#include "aqg.h"

/* A size as gasnett_parse_int reads it, or a part of the host's memory such as 0.85 or 85%; then
 * "/H", of all of a host together, or "/P", of each process, which is meant where nothing is said.
 */
static double env_segment_limit(const char *given, double memory, double ranks)
{
    char text[64], *end;
    if ((size_t)snprintf(text, sizeof(text), "%s", given) >= sizeof(text))
        aqgi_die("GASNET_MAX_SEGSIZE=%s: give a size such as 2GB or a part such as 0.85/H", given);
    char *share = strchr(text, '/');
    char whose = share != NULL ? (char)(share[1] & ~0x20) : 'P';
    if (share != NULL && ((whose != 'P' && whose != 'H') || share[2] != '\0'))
        aqgi_die("GASNET_MAX_SEGSIZE=%s: after the slash comes P, of each process, or H, of the "
                 "host",
                 given);
    if (share != NULL) *share = '\0';
    double value = strtod(text, &end);
    if (*end == '%') value /= 100, end++;
    bool part = *end == '\0' && (end[-1] == '%' || value <= 1);
    if (!part)
        value = (double)gasnett_parse_int(text, 1);
    else if (end > text && value > 0 && value <= 1)
        value *= memory;
    else
        aqgi_die("GASNET_MAX_SEGSIZE=%s: a part of memory is more than 0 and at most 1", given);
    return whose == 'H' ? value / ranks : value;
}

/* What is asked for, by the user or else by the client; NULL: nothing is. */
static const char *env_wanted_limit(void)
{
    static char number[32];
    const char *text = getenv("GASNET_MAX_SEGSIZE");
    if (text != NULL && *text != '\0') return text;
    if (gasnet_max_segsize_str != NULL || gasnet_max_segsize == 0) return gasnet_max_segsize_str;
    snprintf(number, sizeof(number), "%llu/P", (unsigned long long)gasnet_max_segsize);
    return number;
}

static bool native_limit; /* AQ_MAX_SEGMENT, by the user: its word counts more */

uint64_t aqgi_segment_max(void)
{
    double share = (double)aq_segment_max(), ranks = aq_team_size(aq_team_host());
    const char *text = env_wanted_limit();
    if (aqgi_everything()) return UINT64_MAX;
    double limit = native_limit
                       ? share
                       : env_segment_limit(text != NULL ? text : "0.85/H", share * ranks, ranks);
    if (limit > share) limit = share;
    if (limit < GASNET_PAGESIZE) limit = GASNET_PAGESIZE;
    return (uint64_t)limit / GASNET_PAGESIZE * GASNET_PAGESIZE;
}

void aqgi_env_report(void)
{
    static const struct {
        const char *name, *dflt;
    } settings[] = {
        {"GASNET_MAX_SEGSIZE", "0.85/H"}, {"GASNET_SUPERNODE_MAXSIZE", "0"},
        {"GASNET_EXITTIMEOUT", "2"},      {"GASNET_COLL_SCRATCH_SIZE", NULL},
        {"GASNET_MAX_THREADS", "256"},    {"GASNET_NO_CATCH_SIGNAL", NULL},
        {"GASNET_CATCH_EXIT", "1"},       {"GASNET_RCV_THREAD", "0"},
        {"GASNET_PSHM_NODES", NULL},
    };
    if (!gasnett_verboseenv()) return;
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
        bool limit = i == 0 && env_wanted_limit() != NULL;
        (void)gasnett_getenv_withdefault(settings[i].name,
                                         limit ? env_wanted_limit() : settings[i].dflt);
    }
}

void aqgi_env_prepare(void)
{
    const char *thread = getenv("GASNET_RCV_THREAD");
    if (thread != NULL && aqgi_tools_yesno(thread) == 1) setenv("AQ_PROGRESS_THREAD", "yes", 0);
    /* Ours to read, with what Aqueduct says of the memory; it knows the name as well. */
    native_limit = getenv("AQ_MAX_SEGMENT") != NULL;
    if (!native_limit) setenv("AQ_MAX_SEGMENT", "0", 1);
    const char *scratch = getenv("GASNET_COLL_SCRATCH_SIZE");
    if (scratch == NULL || *scratch == '\0') return;
    int64_t bytes = gasnett_parse_int(scratch, 1);
    if (bytes >= GASNET_PAGESIZE) aqgi.coll_scratch = (size_t)bytes;
}
