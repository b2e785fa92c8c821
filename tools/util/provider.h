/* Where the provider for libfabric is. */
#ifndef UTIL_PROVIDER_H
#define UTIL_PROVIDER_H

enum { PROVIDER_PATH = 4096 };

/* The folder that contains libaqueduct-fi.so, in `folder`; 0: there is none. */
int provider_find(char folder[PROVIDER_PATH]);

#endif
