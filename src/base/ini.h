/* INI files: sections "[name]" of lines "key = value". */
#ifndef AQI_INI_H
#define AQI_INI_H

#include "base/base.h"

#include <stdio.h>

struct aqi_ini {
    FILE *file;        /* set by the caller; everything else by aqi_ini_next */
    const char *name;  /* of a section or key */
    const char *value; /* NULL: a section begins */
    char line[1024];
};

/*
 * Read the next section or key. Returns false at the end of the file, or if it cannot be read
 * (ferror).
 *
 * "#" begins a comment. A value ends at the first blank. Other lines, and the rest of a line that
 * is too long, are skipped.
 */
bool aqi_ini_next(struct aqi_ini *ini);

#endif
