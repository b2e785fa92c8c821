/*
 * Run a program where some system calls fail, as containers arrange it: `forbid CALL[,CALL…]
 * PROGRAM [ARGUMENT…]`. They fail with EPERM, the answer of the usual filters; exit code 77 when
 * the machine allows no filter.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 32 };

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    {"close_range", SYS_close_range},
    {"io_uring_setup", SYS_io_uring_setup},
    {"mbind", SYS_mbind},
    {"membarrier", SYS_membarrier},
    {"memfd_create", SYS_memfd_create},
    {"mlock", SYS_mlock},
    {"move_pages", SYS_move_pages},
    {"pidfd_getfd", SYS_pidfd_getfd},
    {"pidfd_open", SYS_pidfd_open},
    {"process_vm_readv", SYS_process_vm_readv},
    {"process_vm_writev", SYS_process_vm_writev},
    {"ptrace", SYS_ptrace},
    {"sched_getaffinity", SYS_sched_getaffinity},
    {"sched_setaffinity", SYS_sched_setaffinity},
    {"setpriority", SYS_setpriority},
};

static unsigned number_of(const char *name)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (strcmp(calls[i].name, name) == 0) return calls[i].number;
    fprintf(stderr, "forbid: system call %s is not in the table\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    struct sock_filter filter[2 * MOST + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short count = 1;
    if (argc < 3) return 2;
    for (char *name = strtok(argv[1], ","); name != NULL && count < 2 * MOST;
         name = strtok(NULL, ",")) {
        filter[count++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number_of(name), 0, 1);
        filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
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
