/* --output: a file for what each rank prints. */
#ifndef AQRUN_FILES_H
#define AQRUN_FILES_H

#include "base/base.h"

#define FILES_WHY 512u

/*
 * In a pattern %r becomes the rank, %s out or err, %j the name of the job and %% a %. One without
 * %r is a folder, in which are RANK.out and RANK.err; without %s both go to one file.
 *
 * False: the pattern makes no sense; `why`.
 */
bool files_check(const char *pattern, char why[FILES_WHY]);

/* Open those of a rank, empty, for streams 1 and 2; -1 is put where there is none. False: nothing
 * is open; `why` names the file. */
bool files_open(const char *pattern, uint32_t rank, const char *job_id, int fds[2],
                char why[FILES_WHY]);

/* Whether both streams of a rank go to one file. */
bool files_are_same(const char *pattern);

/*
 * For ranks of other hosts, whose output comes to the aqrun that the user has started: their files,
 * empty; then what comes for them. What cannot be written is reported once, for all of them, and
 * the rest of that file is passed over.
 */
bool files_begin(const char *pattern, uint32_t rank, const char *job_id, char why[FILES_WHY]);
void files_append(const char *pattern, uint32_t rank, unsigned stream, const char *job_id,
                  const void *bytes, size_t len);
/* How many could not be written to their end. */
unsigned files_lost(void);

#endif
