/* The helper that single-steps, and a decoder for the few instructions of interest. */
#include "stepper.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Prefixes other than 0xf0, the one for locking. */
static bool is_prefix(uint8_t byte)
{
    return byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e ||
           byte == 0x36 || byte == 0x3e || byte == 0x26 || byte == 0x64 || byte == 0x65;
}

enum stepper_kind stepper_decode(const uint8_t bytes[16])
{
    size_t i = 0;
    while (i < 12 && is_prefix(bytes[i]))
        i++;
    if (bytes[i] == 0xf0) return STEPPER_LOCKED;
    if ((bytes[i] & 0xf0) == 0x40) i++; /* REX */
    uint8_t mod = bytes[i + 1] >> 6;
    if ((bytes[i] == 0x86 || bytes[i] == 0x87) && mod != 3) return STEPPER_LOCKED; /* xchg */
    if (bytes[i] != 0x0f) return STEPPER_PLAIN;
    if (bytes[i + 1] == 0x05) return STEPPER_SYSCALL;
    if (bytes[i + 1] == 0xae && (bytes[i + 2] & 0xf8) == 0xf0) return STEPPER_LOCKED; /* mfence */
    return STEPPER_PLAIN;
}

#if defined(__x86_64__) && defined(__linux__)

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* Shared with the helper. */
static struct board {
    atomic_int ready; /* 1: it traces this process; otherwise minus the errno */
    struct stepped result;
} * board;
static bool stepper_traced;

enum { TRAP = 0xcc, VDSO_BYTES = 4 * 4096 };

static void read_code(pid_t pid, uint64_t at, uint8_t bytes[16])
{
    struct iovec here = {bytes, 16}, there = {(void *)(uintptr_t)at, 16};
    memset(bytes, 0, 16);
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) > 0) return;
    for (size_t i = 0; i < 16; i += sizeof(long)) {
        long word = ptrace(PTRACE_PEEKTEXT, pid, (void *)(uintptr_t)(at + i), NULL);
        memcpy(bytes + i, &word, sizeof(word));
    }
}

/* Continue to the return address of this function. */
static bool skip(pid_t pid, struct user_regs_struct *regs)
{
    int status;
    void *stack = (void *)(uintptr_t)regs->rsp;
    void *back = (void *)(uintptr_t)ptrace(PTRACE_PEEKTEXT, pid, stack, NULL);
    long word = ptrace(PTRACE_PEEKTEXT, pid, back, NULL);
    if (ptrace(PTRACE_POKETEXT, pid, back, (void *)((word & ~0xffL) | TRAP)) != 0 ||
        ptrace(PTRACE_CONT, pid, NULL, NULL) != 0 || waitpid(pid, &status, 0) != pid ||
        !WIFSTOPPED(status) || ptrace(PTRACE_POKETEXT, pid, back, (void *)word) != 0 ||
        ptrace(PTRACE_GETREGS, pid, NULL, regs) != 0)
        return false;
    regs->rip = (uintptr_t)back;
    return ptrace(PTRACE_SETREGS, pid, NULL, regs) == 0;
}

/* Step from the first mark to the second, and past it. Returns false if the process ended. */
static bool step(pid_t pid, struct stepped *result)
{
    struct user_regs_struct regs;
    uint64_t previous = 0, vdso = getauxval(AT_SYSINFO_EHDR);
    *result = (struct stepped){0};
    for (int status;;) {
        uint8_t code[16];
        if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) != 0) return false;
        /* Do not step through the vDSO: its clock repeats itself whenever the kernel changes the
         * data meanwhile, so that slow steps might never end. */
        if (regs.rip - vdso < VDSO_BYTES && !skip(pid, &regs)) return false;
        read_code(pid, regs.rip, code);
        if (code[0] == TRAP) break;
        /* A repeated string instruction stops after each iteration. */
        if (regs.rip != previous) result->instructions++;
        previous = regs.rip;
        enum stepper_kind kind = stepper_decode(code);
        if (kind == STEPPER_SYSCALL) result->syscalls++;
        if (kind == STEPPER_LOCKED && result->locked++ == 0) {
            result->at = regs.rip;
            memcpy(result->bytes, code, sizeof(result->bytes));
        }
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0) return false;
        if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return false;
    }
    regs.rip++;
    return ptrace(PTRACE_SETREGS, pid, NULL, &regs) == 0;
}

static _Noreturn void helper(pid_t pid)
{
    int status;
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0) {
        atomic_store(&board->ready, -errno);
        _exit(0);
    }
    atomic_store(&board->ready, 1);
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        int sig = WSTOPSIG(status);
        if (status >> 16 != 0) sig = 0; /* a group stop */
        if (sig == SIGTRAP) {
            if (!step(pid, &board->result)) break;
            sig = 0;
        }
        if (ptrace(PTRACE_CONT, pid, NULL, (void *)(uintptr_t)sig) != 0) break;
    }
    _exit(0);
}

const char *stepper_open(void)
{
    static char why[200];
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) return "no memory to share with the helper";
    pid_t self = getpid(), child = fork();
    if (child < 0) return "cannot fork the helper";
    if (child == 0) {
        /*
         * Where only ancestors may trace (Yama), the child must not start before the parent has
         * allowed it.
         */
        while (atomic_load(&board->ready) == 0)
            usleep(100);
        helper(self);
    }
#ifdef PR_SET_PTRACER
    (void)prctl(PR_SET_PTRACER, child, 0, 0, 0);
#endif
    atomic_store(&board->ready, 2);
    int ready;
    while ((ready = atomic_load(&board->ready)) == 2)
        usleep(100);
    if (ready < 0) {
        snprintf(why, sizeof(why), "ptrace is forbidden here: %s", strerror(-ready));
        return why;
    }
    stepper_traced = true;
    return NULL;
}

static inline void mark(void)
{
    if (stepper_traced) __asm__ volatile("int3" ::: "memory");
}

/* A function of its own, to which callgrind can limit its counts. */
__attribute__((noinline)) void stepper_measured(void (*run)(void *arg), void *arg);
__attribute__((noinline)) void stepper_measured(void (*run)(void *arg), void *arg)
{
    run(arg);
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

struct stepped stepper_run(void (*run)(void *arg), void *arg)
{
    mark();
    stepper_measured(run, arg);
    mark();
    return stepper_traced ? board->result : (struct stepped){0};
}

#else

const char *stepper_open(void)
{
    return "the decoder knows x86-64 only";
}

struct stepped stepper_run(void (*run)(void *arg), void *arg)
{
    run(arg);
    return (struct stepped){0};
}

#endif
