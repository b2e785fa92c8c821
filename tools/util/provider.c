/* Finds the libraries of Aqueduct that programs load at run time. */
#include "provider.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(PROVIDER_PATH >= PATH_MAX, "realpath fills it");

const char *const provider_files[] = {
    [PROVIDER_FI] = "libaqueduct-fi.so", [PROVIDER_CCI] = "libaqueduct-cci.so.2"};

/* Possible directories, relative to that of this program: installed, and in the build tree. */
static const char *const places[][2] = {
    [PROVIDER_FI] = {"../" PROVIDER_LIBDIR "/libfabric", "../../src/front/fi/libfabric"},
    [PROVIDER_CCI] = {"../" PROVIDER_LIBDIR, "../../src/front/cci"}};

int provider_find(enum provider provider, char folder[PROVIDER_PATH])
{
    char self[PATH_MAX], path[2 * PATH_MAX], file[3 * PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (len <= 0) return 0;
    self[len] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", self, places[provider][i]);
        snprintf(file, sizeof(file), "%s/%s", path, provider_files[provider]);
        if (access(file, R_OK) == 0 && realpath(path, folder) != NULL) return 1;
    }
    return 0;
}
