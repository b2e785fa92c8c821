/* Merges traces of several ranks into one time line. Traces may be complete, or truncated within an
 * event. */
#include "data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The length of an event: a line inside the brackets, with or without a trailing comma. 0: none,
 * or truncated.
 */
static size_t event_of(const char *line, size_t len)
{
    while (len > 0 && strchr(" \t\r\n,", line[len - 1]) != NULL)
        len--;
    return len > 1 && line[0] == '{' && line[len - 1] == '}' ? len : 0;
}

static int merge_file(const char *name, int *first)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    FILE *file = fopen(name, "r");
    if (file == NULL) {
        fprintf(stderr, "aqinfo: cannot read %s: %s\n", name, strerror(errno));
        return 1;
    }
    int any = 0;
    while ((len = getline(&line, &room, file)) > 0) {
        size_t event = event_of(line, (size_t)len);
        if (event == 0) continue;
        printf("%s%.*s", *first ? "" : ",\n", (int)event, line);
        *first = 0;
        any = 1;
    }
    free(line);
    fclose(file);
    if (!any) fprintf(stderr, "aqinfo: %s is not a trace in chrome format\n", name);
    return !any;
}

int merge_traces(char *const *names)
{
    int first = 1, failed = 0;
    printf("[\n");
    for (; *names != NULL; names++)
        failed |= merge_file(*names, &first);
    printf("\n]\n");
    return failed;
}
