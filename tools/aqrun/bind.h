/* Which processors each rank may use: --bind and AQ_BIND. */
#ifndef AQRUN_BIND_H
#define AQRUN_BIND_H

#include "base/base.h"

/* Learn what there is to deal out; ends aqrun with a message when the system does not say. */
void bind_open(void);

/* How many processors all ranks together may use; 0: they are not bound. */
unsigned bind_processors(void);

/* " on processors 0,64", or nothing when they are not bound; cut where there is no room. */
#define BIND_TEXT_BYTES 120
const char *bind_text(uint32_t rank, char text[BIND_TEXT_BYTES]);

/* In a rank before exec; false: errno says why not. */
bool bind_rank(uint32_t rank);

#endif
