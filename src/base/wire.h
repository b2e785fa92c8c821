/*
 * The version of every format in which bytes leave a process: messages, memory that processes
 * share, and files. docs/wire.md specifies the bytes, and says which change needs a new version.
 */
#ifndef AQI_WIRE_H
#define AQI_WIRE_H

#include "base/base.h"

enum aqi_wire {
    /* Between the ranks of a job, which compare them at the start. The numbers are part of that
     * comparison: append new ones to this group, and never reuse one. */
    AQI_WIRE_RANKS,
    AQI_WIRE_MESSAGES,
    AQI_WIRE_SHM,
    AQI_WIRE_UDP,
    AQI_WIRE_IBV,
    AQI_WIRE_OFI,
    AQI_WIRE_LENDING,
    /* Between a job's processes and the tools that start or show it. */
    AQI_WIRE_CONTROL,
    AQI_WIRE_AGENTS,
    AQI_WIRE_LINK,
    AQI_WIRE_TOP,
    AQI_WIRE_BOARD,
    /* Between programs that were not started together. */
    AQI_WIRE_CONNECTION,
    AQI_WIRE_CALL,
    AQI_WIRE_GROUP,
    AQI_WIRE_FI,
    AQI_WIRE_CCI,
    AQI_WIRES
};
#define AQI_WIRE_OF_JOB (AQI_WIRE_LENDING + 1)

struct aqi_wire_row {
    const char *name; /* in messages and in docs/wire.md */
    uint8_t version;  /* from 1 on */
};
extern const struct aqi_wire_row aqi_wires[AQI_WIRES];

static inline uint8_t aqi_wire_version(enum aqi_wire wire)
{
    return aqi_wires[wire].version;
}

/*
 * Write why a peer is refused: "THEM uses version 3 of the format "shm", US uses version 2: install
 * the same version of Aqueduct on both sides".
 */
AQI_COLD void aqi_wire_differs(char *why, size_t room, enum aqi_wire wire, const char *them,
                               unsigned theirs, const char *us);

#endif
