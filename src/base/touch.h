/*
 * Touching each page of memory before it is handed to what cannot raise a signal: the kernel and
 * network adapters fail where a page may not be read or written. So the signal comes here, in the
 * caller, as from memcpy; and whoever watches pages by signals makes them accessible in time.
 */
#ifndef AQI_TOUCH_H
#define AQI_TOUCH_H

#include "base/base.h"

#define AQI_TOUCH_PAGE 4096u /* no page is smaller */

/* Nothing is changed. */
void aqi_touch_read(const void *at, size_t len);
/* Nothing is changed, whoever else writes it meanwhile. */
void aqi_touch_write(void *at, size_t len);

#endif
