/* Standard input for rank 0: as it is, or relayed when it is a terminal. */
#ifndef AQRUN_INPUT_H
#define AQRUN_INPUT_H

#include <stdint.h>

/* The descriptor that rank 0 gets as its standard input; 0 when it may simply inherit ours. */
int input_open(void);
/* Rank 0 was forked: its end of the pipe is not ours any more. */
void input_handed_over(void);
void input_close(void);

/* The next time it wants to be called, UINT64_MAX for never. */
uint64_t input_tick(uint64_t now);

#endif
