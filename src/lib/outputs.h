/* What a process leaves behind: its counters and its trace, however it ends. */
#ifndef AQI_LIB_OUTPUTS_H
#define AQI_LIB_OUTPUTS_H

#include "base/base.h"

/* Open the files that the settings name, and watch for signals that would end the process. */
aq_status lib_outputs_begin(uint32_t rank, uint32_t size);

/* Write what there is, the first time only. Also in a signal handler. */
void lib_outputs_end(void);

#endif
