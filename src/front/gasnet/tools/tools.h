/* What the files of the tools library share, and the hooks by which a job's library tells them. */
#ifndef AQGI_TOOLS_H
#define AQGI_TOOLS_H

/* The library itself serves threads, whatever its clients promise. */
#ifndef GASNETT_THREAD_SAFE
#define GASNETT_THREAD_SAFE 1
#endif
#include <gasnet_tools.h>

/* The environment of the job, NULL for what is not in it; NULL itself: there is no job. */
extern char *(*aqg_getenv_hook)(const char *name);
/* The rank of this process in its job, -1 while it is not known; NULL itself: there is no job. */
extern int (*aqg_rank_hook)(void);
/* Leaves SIGABRT to what is to be done at the end of a process; NULL itself: there is no job. */
extern void (*aqg_abort_hook)(void);

/* The rank as the hook tells it, 0 without a job. */
int aqgi_tools_rank(void);
/* 1 for "1", "y" and "yes", 0 for "0", "n" and "no", -1 for all else. */
int aqgi_tools_yesno(const char *value);
/* gasnett_parse_int of the variable `name`, which the message for a bad value names. */
int64_t aqgi_tools_parse_int(const char *name, const char *str, uint64_t mem_size_multiplier);

#endif
