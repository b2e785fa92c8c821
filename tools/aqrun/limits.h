/* The limits of the system that a job of this size meets, checked before anything is started. */
#ifndef AQRUN_LIMITS_H
#define AQRUN_LIMITS_H

/* Ends aqrun with a message when the job cannot fit. Raises our own soft limit of open files. */
void limits_check(void);

/* In a rank before exec: the limits as they were. */
void limits_restore(void);

#endif
