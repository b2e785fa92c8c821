/*
 * Shared by the files of the tools library, with the hooks through which the library of a job
 * provides information.
 */
#ifndef AQGI_TOOLS_H
#define AQGI_TOOLS_H

/* The library itself is thread-safe, even if its clients do not require it. */
#ifndef GASNETT_THREAD_SAFE
#define GASNETT_THREAD_SAFE 1
#endif
#include <gasnet_tools.h>

/*
 * Look up a variable in the job's environment; returns NULL if it is not set. The hook is NULL if
 * there is no job.
 */
extern char *(*aqg_getenv_hook)(const char *name);
/*
 * The rank of this process in its job, or -1 if it is not known yet. The hook is NULL if there is
 * no job.
 */
extern int (*aqg_rank_hook)(void);
/* Make SIGABRT run Aqueduct's actions at the end of a process. The hook is NULL if there is no
 * job. */
extern void (*aqg_abort_hook)(void);

/* The rank from the hook, or 0 without a job. */
int aqgi_tools_rank(void);
/* 1 for "1", "y" and "yes", 0 for "0", "n" and "no", otherwise -1. */
int aqgi_tools_yesno(const char *value);
/* gasnett_parse_int of the variable `name`, which is named in the message for an invalid value. */
int64_t aqgi_tools_parse_int(const char *name, const char *str, uint64_t mem_size_multiplier);

#endif
