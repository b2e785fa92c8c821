/* For tests that check that a call leaves no descriptors open. */
#ifndef AQI_BASE_DESCRIPTORS_TEST_H
#define AQI_BASE_DESCRIPTORS_TEST_H

#include "base/cmocka_test.h"

#include <dirent.h>

/* Returns the number of open descriptors plus a constant. */
static inline unsigned descriptors(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

#endif
