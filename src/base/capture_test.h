/* For tests: captures what is written to standard error between start and end. */
#ifndef AQI_CAPTURE_TEST_H
#define AQI_CAPTURE_TEST_H

#include "base/cmocka_test.h"

#include <sys/mman.h>
#include <unistd.h>

struct capture {
    int kept; /* the real standard error */
    int file;
    char text[8192];
};

static inline void capture_start(struct capture *capture)
{
    capture->kept = dup(STDERR_FILENO);
    capture->file = memfd_create("capture", MFD_CLOEXEC);
    assert_true(capture->kept >= 0 && capture->file >= 0);
    assert_int_equal(dup2(capture->file, STDERR_FILENO), STDERR_FILENO);
}

/* The text, valid as long as `capture`. */
static inline const char *capture_end(struct capture *capture)
{
    dup2(capture->kept, STDERR_FILENO);
    ssize_t n = pread(capture->file, capture->text, sizeof(capture->text) - 1, 0);
    capture->text[n < 0 ? 0 : n] = '\0';
    close(capture->kept);
    close(capture->file);
    return capture->text;
}

#endif
