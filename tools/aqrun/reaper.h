/* Signals to aqrun, and the ends of its children. */
#ifndef AQRUN_REAPER_H
#define AQRUN_REAPER_H

/* Take over the signals; from now on they come through the loop. */
void reaper_open(void);

/* In a rank before exec: the signals as aqrun found them. */
void reaper_restore_signals(void);

/* Kill and reap whatever the ranks started that still runs. All ranks have ended. */
void reaper_kill_strays(void);

#endif
