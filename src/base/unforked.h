/*
 * Descriptors that a forked child must not hold: otherwise a connection would stay open when the
 * parent ends, and so would a port that no process reads. In the child they refer to /dev/null,
 * with the same numbers, so that closing them there closes nothing else.
 */
#ifndef AQI_UNFORKED_H
#define AQI_UNFORKED_H

/* Any thread, without locks. Descriptors from 65,536 on are not covered, nor is a child made by a
 * bare clone(): they stay open there. */
void aqi_unforked_add(int fd);
/* Close a descriptor that was added. */
void aqi_unforked_close(int fd);

#endif
