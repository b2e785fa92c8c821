/* --output: a file for the output of each rank. */
#ifndef AQRUN_FILES_H
#define AQRUN_FILES_H

#include "base/base.h"

#define FILES_WHY 512u

/*
 * In a pattern, %r becomes the rank, %s out or err, %j the name of the job and %% a %. A pattern
 * without %r is a directory for RANK.out and RANK.err; without %s both streams go to one file.
 *
 * Returns false if the pattern is malformed, with the reason in `why`.
 */
bool files_check(const char *pattern, char why[FILES_WHY]);

/*
 * Open and truncate the files for standard output and error of a rank. Returns false if one cannot
 * be opened, with its name in `why`.
 */
bool files_open(const char *pattern, uint32_t rank, const char *job_id, int fds[2],
                char why[FILES_WHY]);

/* Whether both streams of a rank go to one file. */
bool files_are_same(const char *pattern);

/* Whether neither is a FIFO or a device. */
bool files_are_regular(const int fds[2]);

/*
 * For output that arrives at the aqrun started by the user: create the files of ranks on other
 * hosts, and write the output of any rank. Failed writes are reported once for all files; all
 * further output for such a file is dropped.
 */
bool files_begin(const char *pattern, uint32_t rank, const char *job_id, char why[FILES_WHY]);
void files_append(const char *pattern, uint32_t rank, unsigned stream, const char *job_id,
                  const void *bytes, size_t len);
/* Close the files. Returns the number of incomplete ones. */
unsigned files_end(void);

#endif
