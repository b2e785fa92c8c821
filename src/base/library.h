/* Libraries of others, loaded at run time, so that a program runs where they are absent. */
#ifndef AQI_BASE_LIBRARY_H
#define AQI_BASE_LIBRARY_H

#include <stddef.h>

struct aqi_symbol {
    const char *name;
    void *slot; /* the function pointer that it is for */
};

/*
 * Load a library by its name or path, and fill the slots in their order. NULL: all are filled; else
 * what is missing: `library` itself, of which dlerror() says why, or the name of the first symbol
 * that it does not have. It stays loaded: most have handlers for the end of the process.
 */
const char *aqi_library_load(const char *library, const struct aqi_symbol *symbols, size_t count);

/* For a message about the library that could not be loaded last: what the loader says, which may be
 * about one that it needs or about memory, and what to do. `room` is at least 320. Returns `out`.
 */
const char *aqi_library_advice(const char *packages, size_t room, char *out);

#endif
