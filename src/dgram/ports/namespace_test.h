/* A network namespace for a test, and the interfaces in it. */
#ifndef PORTS_NAMESPACE_TEST_H
#define PORTS_NAMESPACE_TEST_H

#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Run a command with these words in it, quietly. Returns false if it failed. */
static inline bool does(const char *format, const char *words)
{
    char command[256], line[300];
    snprintf(command, sizeof(command), format, words);
    snprintf(line, sizeof(line), "%s >/dev/null 2>&1", command);
    int status = system(line);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static inline bool ip(const char *words)
{
    return does("ip %s", words);
}

static inline void assert_ip(const char *words)
{
    if (!ip(words)) fail_msg("ip %s", words);
}

/* The kernel marks an interface running a little after it was brought up. */
static inline bool interface_runs(const char *name)
{
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bool is = ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_RUNNING) != 0;
    close(fd);
    return is;
}

/* Enter a network namespace in which we are root. */
static inline bool namespace_enter(void)
{
    char map[32];
    snprintf(map, sizeof(map), "0 %u 1", (unsigned)geteuid());
    if (unshare(CLONE_NEWNET) == 0) return true;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    FILE *file = fopen("/proc/self/uid_map", "w");
    return file != NULL && fputs(map, file) >= 0 && fclose(file) == 0;
}

/* The same; if the test cannot run there, a line says why it is skipped. */
static inline bool namespace_usable(void)
{
    if (!namespace_enter()) {
        puts("skipped: no network namespace of one's own can be made here");
        return false;
    }
    if (!ip("link add net7 type veth peer name net8") || !ip("link del net7")) {
        puts("skipped: no interfaces can be made here (ip link add … type veth; iproute2)");
        return false;
    }
    return true;
}

#endif
