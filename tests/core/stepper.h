/*
 * Watch a piece of a program instruction by instruction: a helper process traces this one and steps
 * through the code between two marks. It counts the instructions, and finds those that involve
 * other processors: lock prefixes, exchanges with memory, full fences.
 */
#ifndef AQT_STEPPER_H
#define AQT_STEPPER_H

#include <stdint.h>

struct stepped {
    uint32_t instructions; /* except those that read the clock */
    uint32_t locked;       /* of these: lock prefix, xchg with memory, mfence */
    uint32_t syscalls;     /* of these: system calls */
    uint64_t at;           /* address of the first locked one */
    uint8_t bytes[8];      /* and its first bytes */
};

/*
 * Start the helper, before any other thread. Returns NULL, or why this is impossible on this
 * machine or in this container.
 */
const char *stepper_open(void);

/* Step through run(arg), including the call itself. Without a helper, only call it. */
struct stepped stepper_run(void (*run)(void *arg), void *arg);

/* Classify one instruction by its first bytes (x86-64). For the test of the decoder. */
enum stepper_kind { STEPPER_PLAIN, STEPPER_LOCKED, STEPPER_SYSCALL };
enum stepper_kind stepper_decode(const uint8_t bytes[16]);

#endif
