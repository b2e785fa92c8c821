/* Shared by the files of aqtop: the monitored job, its ranks and their rates. */
#ifndef AQTOP_H
#define AQTOP_H

#include "job/top.h"

#include <sys/types.h>

/* The activity of a rank, from two samples. */
struct rates {
    double messages, out, in; /* per second: calls that communicate, bytes to and from others */
    double size;              /* mean size in bytes of a message or put sent */
    double again;             /* packets retransmitted per second */
    double waits;             /* fraction of the time, 0 to 1 */
};

struct rank {
    bool known, rated;
    struct aqi_top_row before, now; /* `before` is the start of the interval */
    struct rates rates;
    char host[64];
};

/* watch.c */
struct watch {
    int fd;
    pid_t job;
    char program[64];
    char why[200];  /* why the data cannot be read; "": no error */
    uint32_t count; /* number of ranks; 0: no data received yet */
    struct rank *ranks;
};

/*
 * Find the running jobs of this user, or of all users for root. Stores at most `max` and returns
 * the number found.
 */
struct found_job {
    unsigned user;
    pid_t pid;
};
size_t watch_find(struct found_job *jobs, size_t max);
/* Connect to a job. Returns false on failure, after printing the reason. */
bool watch_open(struct watch *watch, const struct found_job *job, unsigned interval_ms);
/* Receive packets. Returns false if the job has ended or, with `why` set, uses another version. */
bool watch_read(struct watch *watch);
/* Whether all known ranks have been sampled again since the rates were last computed. */
bool watch_is_fresh(const struct watch *watch);
/* Compute all rates. Returns false if there are none yet. */
bool watch_rate(struct watch *watch);
struct rates watch_total(const struct watch *watch, unsigned *ranks, unsigned *hosts);
void watch_close(struct watch *watch);

/* rates.c: computation only */
struct rates rates_between(const struct aqi_top_row *before, const struct aqi_top_row *now);
void rates_add(struct rates *total, const struct rates *one);

/* print.c */
/* The columns, for --sort. */
enum column { BY_RANK, BY_HOST, BY_MESSAGES, BY_OUT, BY_IN, BY_SIZE, BY_AGAIN, BY_WAITS, COLUMNS };
extern const char *const column_names[COLUMNS];
/* The ranks that have rates, sorted; freed by the caller. */
const struct rank **print_sorted(const struct watch *watch, enum column by, bool reverse,
                                 size_t *count);
#define PRINT_LINE 200
void print_head(const struct watch *watch, char line[PRINT_LINE]);
void print_titles(char line[PRINT_LINE]);
void print_rank(const struct rank *rank, char line[PRINT_LINE]);
void print_text(const struct watch *watch, enum column by, bool reverse);
void print_json(const struct watch *watch, enum column by, bool reverse);

/* screen.c: whether there is a suitable terminal; run until `q` is pressed or the job ends. */
bool screen_possible(void);
void screen_run(struct watch *watch, unsigned interval_ms, enum column by);

#endif
