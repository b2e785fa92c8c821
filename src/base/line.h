/* Files of the kernel with one line, under /proc and /sys. */
#ifndef AQI_LINE_H
#define AQI_LINE_H

#include "base/base.h"

#include <stdio.h>
#include <string.h>

/* Read the first line, without its newline. Returns false if there is none; `text` is then "". */
static inline bool aqi_line_read(const char *path, char *text, size_t len)
{
    FILE *file = fopen(path, "re");
    bool read = file != NULL && fgets(text, (int)len, file) != NULL;
    if (file != NULL) (void)fclose(file);
    text[read ? strcspn(text, "\n") : 0] = '\0';
    return read;
}

#endif
