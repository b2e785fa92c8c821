/*
 * A program closes descriptors of the library: waits report it and do not spin.
 *
 * Alone, in thread mode multiple; the descriptors are those of eventfd().
 */
#include "../../common/capture.h"
#include "../support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MS = 500, MOST_SLEEPS = 2 * MS };

static uint64_t sleeps(void)
{
    aq_counter_info info;
    for (size_t i = 0; aq_info_counter(i, &info) == AQ_OK; i++)
        if (strcmp(info.name, "sleep") == 0) return info.value;
    fprintf(stderr, "no counter is named sleep\n");
    exit(1);
}

static unsigned close_events(void)
{
    unsigned count = 0;
    for (int fd = 3; fd < 1024; fd++) {
        char name[64], target[64] = "";
        snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
        if (readlink(name, target, sizeof(target) - 1) < 0) continue;
        if (strstr(target, "eventfd") == NULL) continue;
        CHECK_EQUAL(close(fd), 0);
        count++;
    }
    return count;
}

int main(void)
{
    struct capture capture;
    job_open(AQ_THREAD_MULTIPLE, 0);
    capture_begin(&capture); /* before others may take the numbers of closed descriptors */
    CHECK(close_events() != 0);
    uint64_t before = sleeps();
    while (aq_poll_for(MS * 1000000ull) != AQ_AGAIN)
        continue;
    uint64_t count = sleeps() - before;
    CHECK(strstr(capture_end(&capture), "the program must not close descriptors") != NULL);
    CHECK(count <= MOST_SLEEPS);
    aq_exit(0);
}
