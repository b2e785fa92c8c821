/*
 * Compilation mode of a client: threading mode, network and segment mode, and the corresponding
 * names and numbers. Included first by every communication header.
 */
#ifndef AQG_CONFIG_H
#define AQG_CONFIG_H

#ifdef _INCLUDED_GASNET_TOOLS_H
#error include gasnetex.h or gasnet.h before gasnet_tools.h
#endif

#if (defined(GASNET_SEQ) + defined(GASNET_PAR) + defined(GASNET_PARSYNC)) != 1
#error define exactly one of GASNET_SEQ, GASNET_PAR and GASNET_PARSYNC (the .mak files do)
#endif

#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <aqg/base.h>
#include <gasnet_core.h> /* from include/NET-conduit: selects the network */

#ifdef GASNET_SEQ
#undef GASNET_SEQ
#define GASNET_SEQ      1
#define AQG_MODE_LOWER  seq
#define AQG_MODE_STRING "SEQ"
#define AQG_MODE        0
#elif defined(GASNET_PARSYNC)
#undef GASNET_PARSYNC
#define GASNET_PARSYNC  1
#define AQG_MODE_LOWER  parsync
#define AQG_MODE_STRING "PARSYNC"
#define AQG_MODE        1
#else
#undef GASNET_PAR
#define GASNET_PAR      1
#define AQG_MODE_LOWER  par
#define AQG_MODE_STRING "PAR"
#define AQG_MODE        2
#endif

/* A client selects another segment mode with -DGASNET_SEGMENT_LARGE or _EVERYTHING. */
#if defined(GASNET_SEGMENT_EVERYTHING)
#undef GASNET_SEGMENT_EVERYTHING
#define GASNET_SEGMENT_EVERYTHING 1
#define AQG_SEGMENT_STRING        "EVERYTHING"
#define AQG_SEGMENT               2
#elif defined(GASNET_SEGMENT_LARGE)
#undef GASNET_SEGMENT_LARGE
#define GASNET_SEGMENT_LARGE 1
#define AQG_SEGMENT_STRING   "LARGE"
#define AQG_SEGMENT          1
#else
#undef GASNET_SEGMENT_FAST
#define GASNET_SEGMENT_FAST 1
#define AQG_SEGMENT_STRING  "FAST"
#define AQG_SEGMENT         0
#endif

#define GASNET_NDEBUG 1 /* there is only one library; its checks do not depend on the client */
#undef GASNET_DEBUG

#define GASNET_ALIGNED_SEGMENTS            0
#define GASNET_PSHM                        1
#define GASNET_MAXNODES                    65536
#define GASNET_MAXEPS                      8
#define GASNET_PAGESIZE                    4096
#define GASNET_NULL_ARGV_OK                1
#define GASNET_HIDDEN_AM_CONCURRENCY_LEVEL 1 /* the progress thread, if enabled */
#define GASNET_SUPPORTS_TI_SRCRANK         1
#define GASNET_SUPPORTS_TI_EP              1
#define GASNET_SUPPORTS_TI_ENTRY           1
#define GASNET_SUPPORTS_TI_IS_REQ          1
#define GASNET_SUPPORTS_TI_IS_LONG         1
#define GASNET_NATIVE_NP_ALLOC_REQ_MEDIUM  1
#define GASNET_NATIVE_NP_ALLOC_REP_MEDIUM  1
#define GASNET_SUPPORTS_AM_CANCEL          20240418L
#define GASNET_SUPPORTS_AM_COMMIT_V2       20240906L
#define GASNET_HAVE_MK_CLASS_HOST          1
#define SIZEOF_GEX_RMA_VALUE_T             8

#define GASNET_CONFIG_STRING                                                                       \
    "RELEASE=" AQG_RELEASE_STRING ",SPEC=" AQG_STRING(GEX_SPEC_VERSION_MAJOR) "." AQG_STRING(      \
        GEX_SPEC_VERSION_MINOR) ",CONDUIT=" GASNET_CONDUIT_NAME_STR "(" GASNET_CORE_NAME_STR       \
                                "-" GASNET_CORE_VERSION_STR "/" GASNET_EXTENDED_NAME_STR           \
                                "-" GASNET_EXTENDED_VERSION_STR ")"                                \
                                ",THREADMODEL=" AQG_MODE_STRING ",SEGMENT=" AQG_SEGMENT_STRING     \
                                ",PTR=64bit,CACHE_LINE_BYTES=64,noalign,pshm,nodebug,notrace,"     \
                                "nostats,nodebugmalloc,nosrclines,aqueduct"

#endif
