/* Aqueduct: active messages and one-sided put/get between the processes of a parallel program. */
#ifndef AQUEDUCT_AQUEDUCT_H
#define AQUEDUCT_AQUEDUCT_H

#include <aqueduct/am.h>
#include <aqueduct/atomic.h>
#include <aqueduct/barrier.h>
#include <aqueduct/coll.h>
#include <aqueduct/connection.h>
#include <aqueduct/endpoint.h>
#include <aqueduct/event.h>
#include <aqueduct/info.h>
#include <aqueduct/job.h>
#include <aqueduct/region.h>
#include <aqueduct/rma.h>
#include <aqueduct/segment.h>
#include <aqueduct/send.h>
#include <aqueduct/status.h>
#include <aqueduct/team.h>
#include <aqueduct/version.h>
#include <aqueduct/vis.h>
#include <aqueduct/wait.h>

#endif
