/* Loading third-party libraries at run time, so that programs also run where they are missing. */
#ifndef AQI_BASE_LIBRARY_H
#define AQI_BASE_LIBRARY_H

#include <stddef.h>

struct aqi_symbol {
    const char *name;
    void *slot; /* the function pointer to set */
};

/*
 * Load a library by its name or path and look up all symbols, in order. Returns NULL on success;
 * otherwise the name of what is missing: `library` itself (see dlerror()), or the first symbol that
 * it lacks. In a program linked with -static it is always `library`. The library is never
 * unloaded, since most install exit handlers.
 */
const char *aqi_library_load(const char *library, const struct aqi_symbol *symbols, size_t count);

/*
 * Describe why loading a library just failed: the loader's text, which may be about a dependency or
 * about memory, and what to do. `room` is at least 320. Returns `out`.
 */
const char *aqi_library_advice(const char *packages, size_t room, char *out);

#endif
