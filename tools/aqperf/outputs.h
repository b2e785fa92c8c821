/* The results as files; shared by outputs.c and plot.c. */
#ifndef AQPERF_OUTPUTS_H
#define AQPERF_OUTPUTS_H

#include "perf.h"
#include <stdio.h>

/* Draw all results as one self-contained SVG picture. */
void plot_write(FILE *out, const struct perf *perf);

#endif
