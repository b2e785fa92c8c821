/*
 * Simulates future versions: linked in place of base/wire.c, it adds 1 to the version of each
 * format named in COMPAT_NEWER (separated by commas). So the same objects form a newer library.
 */
#define aqi_wires newer_than
#include "../../src/base/wire.c"
#undef aqi_wires

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern struct aqi_wire_row aqi_wires[AQI_WIRES];
struct aqi_wire_row aqi_wires[AQI_WIRES];

/* Before all other constructors, which may already read a version. */
__attribute__((constructor(101))) static void newer_begin(void)
{
    char list[256];
    const char *names = getenv("COMPAT_NEWER");
    unsigned known = 0, wanted = 0;
    memcpy(aqi_wires, newer_than, sizeof(aqi_wires));
    snprintf(list, sizeof(list), "%s", names != NULL ? names : "");
    for (char *rest, *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        wanted++;
        for (size_t i = 0; i < AQI_WIRES; i++) {
            if (strcmp(aqi_wires[i].name, name) != 0) continue;
            aqi_wires[i].version++;
            known++;
        }
    }
    if (known == wanted) return;
    fprintf(stderr, "COMPAT_NEWER=%s: not all of these are formats\n", names);
    abort();
}
