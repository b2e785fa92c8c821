/* Loading third-party libraries at run time. */
#include "base/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static int library_seek_loader(struct dl_phdr_info *info, size_t size, void *out)
{
    bool *found = out;
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        *found |= info->dlpi_phdr[i].p_type == PT_INTERP;
    return 1; /* only the first one, which is the program */
}

/*
 * Whether the program was linked with -static. A library loaded into such a program brings its own
 * C library, in which libcrypto crashes, and libraries that load others (libibverbs, libpmix) do
 * not find them.
 */
static bool library_in_static_program(void)
{
    bool loader = false;
    dl_iterate_phdr(library_seek_loader, &loader);
    return !loader;
}

const char *aqi_library_load(const char *library, const struct aqi_symbol *symbols, size_t count)
{
    if (library_in_static_program()) return library;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) return library;
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (symbol == NULL) return symbols[i].name;
        /* Copied as bytes, since C cannot convert void * to a function pointer. */
        memcpy(symbols[i].slot, &symbol, sizeof(symbol));
    }
    return NULL;
}

const char *aqi_library_advice(const char *packages, size_t room, char *out)
{
    struct rlimit limit;
    if (library_in_static_program()) {
        snprintf(out, room,
                 "a program linked with -static cannot load a library of %.60s: link it without "
                 "-static (linking with libaqueduct.a is fine)",
                 packages);
        return out;
    }
    const char *said = dlerror();
    int len = snprintf(out, room, "%.180s: install %.60s", said != NULL ? said : "", packages);
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(out + len, room - (size_t)len,
                 ", or if it is installed, raise the memory limit of %llu KiB (ulimit -v)",
                 (unsigned long long)limit.rlim_cur / 1024);
    return out;
}
