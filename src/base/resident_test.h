/* For tests that bound the memory of this process. */
#ifndef AQI_BASE_RESIDENT_TEST_H
#define AQI_BASE_RESIDENT_TEST_H

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

/* Bytes of memory that this process has now; 0: unknown. */
static inline size_t resident(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%*s %zu", &pages) != 1) pages = 0;
    if (file != NULL) fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
