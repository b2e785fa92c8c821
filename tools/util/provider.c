/* Where the provider for libfabric is. */
#include "provider.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(PROVIDER_PATH >= PATH_MAX, "realpath fills it");

/* Where it may be, from the folder of this program: installed, or in the build tree. */
static const char *const places[] = {"../" PROVIDER_LIBDIR "/libfabric",
                                     "../../src/front/fi/libfabric"};

int provider_find(char folder[PROVIDER_PATH])
{
    char self[PATH_MAX], path[2 * PATH_MAX], file[3 * PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (len <= 0) return 0;
    self[len] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof(path), "%s/%s", self, places[i]);
        snprintf(file, sizeof(file), "%s/libaqueduct-fi.so", path);
        if (access(file, R_OK) == 0 && realpath(path, folder) != NULL) return 1;
    }
    return 0;
}
