/*
 * Run a program with some system calls forbidden, as in containers: `forbid CALL[,CALL…] PROGRAM
 * [ARGUMENT…]`. They fail with EPERM, as with the usual filters. Exits with code 77 if the machine
 * does not permit filters.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 32, EACH = 5 };

static const struct forbidden {
    const char *name;
    unsigned number;
    unsigned second; /* only if the second argument is this; 0: always */
} calls[] = {
    {"close_range", SYS_close_range, 0},
    {"epoll_create1", SYS_epoll_create1, 0},
    {"F_ADD_SEALS", SYS_fcntl, F_ADD_SEALS},
    {"ftruncate", SYS_ftruncate, 0},
    {"io_uring_setup", SYS_io_uring_setup, 0},
    {"mbind", SYS_mbind, 0},
    {"membarrier", SYS_membarrier, 0},
    {"memfd_create", SYS_memfd_create, 0},
    {"mlock", SYS_mlock, 0},
    {"move_pages", SYS_move_pages, 0},
    {"personality", SYS_personality, 0},
    {"pidfd_getfd", SYS_pidfd_getfd, 0},
    {"pidfd_open", SYS_pidfd_open, 0},
    {"prctl", SYS_prctl, 0},
    {"process_vm_readv", SYS_process_vm_readv, 0},
    {"process_vm_writev", SYS_process_vm_writev, 0},
    {"ptrace", SYS_ptrace, 0},
    {"sched_getaffinity", SYS_sched_getaffinity, 0},
    {"sched_setaffinity", SYS_sched_setaffinity, 0},
    {"setpriority", SYS_setpriority, 0},
};

static const struct forbidden *find(const char *name)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(calls[i].name, name) == 0) return &calls[i];
    fprintf(stderr, "forbid: system call %s is not in the table\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    static const struct sock_filter number =
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    static const struct sock_filter second =
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]));
    struct sock_filter filter[EACH * MOST + 2] = {number};
    unsigned short count = 1;
    if (argc < 3) return 2;
    for (char *name = strtok(argv[1], ","); name != NULL && count < EACH * MOST;
         name = strtok(NULL, ",")) {
        const struct forbidden *call = find(name);
        filter[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call->number, 0,
                                                       call->second != 0 ? 3 : 1);
        if (call->second != 0) filter[count++] = second;
        if (call->second != 0)
            filter[count++] =
                (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call->second, 0, 1);
        filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
        filter[count++] = number;
    }
    filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = count, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        fprintf(stderr, "forbid: no filter of system calls: %s\n", strerror(errno));
        return 77;
    }
    execvp(argv[2], argv + 2);
    fprintf(stderr, "forbid: %s: %s\n", argv[2], strerror(errno));
    return 127;
}
