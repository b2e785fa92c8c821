/* GASNet-1 calls that are also in gasnetex.h: barrier, environment, segments and hosts. */
#ifndef AQG_SYSTEM_H
#define AQG_SYSTEM_H

#include <aqg/types.h>

AQG_BEGIN

typedef gex_Rank_t gasnet_node_t;
typedef void *gasnet_threadinfo_t;

typedef struct {
    void *addr;
    uintptr_t size;
} gasnet_seginfo_t;

typedef struct {
    gasnet_node_t host;
    gasnet_node_t supernode;
    uintptr_t offset;
} gasnet_nodeinfo_t;

char *gasnet_getenv(const char *name);
uintptr_t gasnet_getMaxLocalSegmentSize(void);
uintptr_t gasnet_getMaxGlobalSegmentSize(void);
int gasnet_getSegmentInfo(gasnet_seginfo_t *table, int numentries);
int gasnet_getNodeInfo(gasnet_nodeinfo_t *table, int numentries);

#define GASNET_BARRIERFLAG_ANONYMOUS 0x10
#define GASNET_BARRIERFLAG_MISMATCH  0x20
#define GASNET_BARRIERFLAG_UNNAMED   0x50
#define GASNET_BARRIERFLAG_IMAGES    0x80
void gasnet_barrier_notify(int id, int flags);
int gasnet_barrier_wait(int id, int flags);
int gasnet_barrier_try(int id, int flags);
int gasnet_barrier(int id, int flags);
int gasnet_barrier_result(int *id);

/* A client may define these two with an initializer. */
extern const char *gasnet_max_segsize_str;
extern uint64_t gasnet_max_segsize;
extern void (*gasnet_client_attach_hook)(void *segbase, uintptr_t segsize);
extern volatile int gasnet_frozen;

#define GASNET_GET_THREADINFO()      ((gasnet_threadinfo_t)0)
#define GASNET_POST_THREADINFO(info) ((void)(info))
#define GASNET_BEGIN_FUNCTION()      ((void)0)

AQG_END

#endif
