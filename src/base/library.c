/* Libraries of others, loaded at run time. */
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

const char *aqi_library_load(const char *library, const struct aqi_symbol *symbols, size_t count)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) return library;
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (symbol == NULL) return symbols[i].name;
        /* A function pointer by its bytes: C has no conversion from void *. */
        memcpy(symbols[i].slot, &symbol, sizeof(symbol));
    }
    return NULL;
}
