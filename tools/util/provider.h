/* Finds the libraries of Aqueduct that programs load at run time. */
#ifndef UTIL_PROVIDER_H
#define UTIL_PROVIDER_H

enum { PROVIDER_PATH = 4096 };

/* The provider for libfabric, and CCI's library. */
enum provider { PROVIDER_FI, PROVIDER_CCI };

/* Find the directory that contains the library. Returns 0 if there is none. */
int provider_find(enum provider provider, char folder[PROVIDER_PATH]);
extern const char *const provider_files[]; /* their file names */

#endif
