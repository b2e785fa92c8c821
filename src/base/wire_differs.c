/* The message about a peer that uses another version. Needs only libc, for aqinfo. */
#include "base/wire.h"

#include <stdio.h>

void aqi_wire_differs(char *why, size_t room, enum aqi_wire wire, const char *them, unsigned theirs,
                      const char *us)
{
    snprintf(why, room,
             "%s uses version %u of the format \"%s\", %s uses version %u: install the same "
             "version of Aqueduct on both sides",
             them, theirs, aqi_wires[wire].name, us, aqi_wire_version(wire));
}
