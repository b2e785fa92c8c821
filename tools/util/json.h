/* Writing JSON text. */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdio.h>

/*
 * Write `text` as a quoted JSON string. Invalid UTF-8 is replaced by U+FFFD, so that the result
 * can always be parsed; NULL is written as null.
 */
void json_string(FILE *out, const char *text);

#endif
