/* Determines where the processes of the job run, and how they are started. */
#ifndef AQRUN_LAUNCH_H
#define AQRUN_LAUNCH_H

#include "job/launch.h"
#include "place.h"

struct launch {
    enum aqi_spawner spawner; /* never AUTO */
    struct hosts hosts;       /* empty: only this machine */
    struct place place;
};
extern struct launch launch;

/* Read the settings, find the hosts, place the ranks. Exits with a message on failure. */
void launch_open(void);
/* Whether there are ranks on other hosts. */
bool launch_is_remote(void);
/* With a manager: exec it, or print its command with -t. Returns if there is no manager. */
void launch_manager(void);
/* The path of aqrun on other hosts. */
const char *launch_aqrun(void);
/* For -t: print what would be run on all hosts. */
void launch_print(void);

#endif
