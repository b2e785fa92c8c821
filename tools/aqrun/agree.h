/* Agreements: what the ranks of a set that still live ask and are all told the same. */
#ifndef AQRUN_AGREE_H
#define AQRUN_AGREE_H

#include "base/base.h"
#include "job/control.h"

struct rank;

/* A rank agrees: AGREE. */
void agree_call(struct rank *rank, const struct aqi_control *message);

/* This rank has died or left: nobody waits for it any more. */
void agree_gone(const struct rank *rank);

#endif
