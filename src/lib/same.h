/* Settings that must have one value in all processes of a job. */
#ifndef AQI_LIB_SAME_H
#define AQI_LIB_SAME_H

#include "job/boot.h"

/*
 * Compare the rows marked `same` with those of all ranks. Collective.
 *
 * @return AQ_OK, or AQ_ESETTING everywhere: the message names the variable, two ranks and values.
 */
aq_status lib_compare_settings(struct aqi_boot *boot);

#endif
