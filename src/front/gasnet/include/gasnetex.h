/* GASNet-EX on Aqueduct. The calls are documented in docs/gasnet.md and by GASNet-EX itself. */
#ifndef _GASNETEX_H
#define _GASNETEX_H
#define _INCLUDED_GASNETEX_H 1

#include <gasnet_fwd.h>

#include <aqg/config.h>

#include <aqg/am.h>
#include <aqg/client.h>
#include <aqg/event.h>
#include <aqg/lock.h>
#include <aqg/rma.h>
#include <aqg/system.h>
#include <aqg/types.h>

#endif
