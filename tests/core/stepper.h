/*
 * Watch a piece of a program instruction by instruction: a helper process traces this one and steps
 * through what lies between two marks. It counts what is executed and finds what other processors
 * take part in: lock prefixes, exchanges with memory, full fences.
 */
#ifndef AQT_STEPPER_H
#define AQT_STEPPER_H

#include <stdint.h>

struct stepped {
    uint32_t instructions; /* but for those that read the clock */
    uint32_t locked;       /* of them: lock prefix, xchg with memory, mfence */
    uint32_t syscalls;     /* of them: system calls */
    uint64_t at;           /* where the first locked one is */
    uint8_t bytes[8];      /* and its first bytes */
};

/* Start the helper, before any other thread. NULL, or why this machine or container has none. */
const char *stepper_open(void);

/* Step through run(arg), the call itself included. Without a helper it is merely called. */
struct stepped stepper_run(void (*run)(void *arg), void *arg);

/* What one instruction is, from its first bytes (x86-64). For the test of the decoder. */
enum stepper_kind { STEPPER_PLAIN, STEPPER_LOCKED, STEPPER_SYSCALL };
enum stepper_kind stepper_decode(const uint8_t bytes[16]);

#endif
