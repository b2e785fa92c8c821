/* Loading libraries of others at run time. */
#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

const char *aqi_library_load(const char *library, const struct aqi_symbol *symbols, size_t count)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) return library;
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (symbol == NULL) return symbols[i].name;
        /* Function pointers are set by their bytes, since C cannot convert them from void *. */
        memcpy(symbols[i].slot, &symbol, sizeof(symbol));
    }
    return NULL;
}

const char *aqi_library_advice(const char *packages, size_t room, char *out)
{
    struct rlimit limit;
    const char *said = dlerror();
    int len = snprintf(out, room, "%.180s: install %.60s", said != NULL ? said : "", packages);
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(out + len, room - (size_t)len,
                 ", or if it is installed raise the limit of %llu KiB on memory (ulimit -v)",
                 (unsigned long long)limit.rlim_cur / 1024);
    return out;
}
