/* Captures what this process writes to standard error between begin and end. */
#ifndef AQT_CAPTURE_H
#define AQT_CAPTURE_H

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct capture {
    int kept; /* the real standard error */
    int file;
    char text[4096];
};

static inline void capture_begin(struct capture *capture)
{
    capture->kept = dup(STDERR_FILENO);
    capture->file = memfd_create("capture", MFD_CLOEXEC);
    if (capture->kept < 0 || dup2(capture->file, STDERR_FILENO) < 0) abort();
}

/* The text, valid as long as `capture`. */
static inline const char *capture_end(struct capture *capture)
{
    ssize_t n = pread(capture->file, capture->text, sizeof(capture->text) - 1, 0);
    if (n < 0 || dup2(capture->kept, STDERR_FILENO) < 0) abort();
    capture->text[n] = '\0';
    close(capture->kept);
    close(capture->file);
    return capture->text;
}

#endif
