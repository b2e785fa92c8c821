/* The collectives of GASNet-1: an unspecified prototype that old clients still use. */
#ifndef AQG_LEGACY_COLL_H
#define AQG_LEGACY_COLL_H

#include <gasnetex.h>

AQG_BEGIN

typedef uint32_t gasnet_image_t; /* a process, or one of its threads */
typedef gex_Event_t gasnet_coll_handle_t;
#define GASNET_COLL_INVALID_HANDLE ((gasnet_coll_handle_t)(uintptr_t)0)
typedef gex_TM_t gasnet_team_handle_t;
#define GASNET_TEAM_ALL ((gasnet_team_handle_t)aqg_world)

#define GASNET_COLL_IN_NOSYNC              (1 << 0)
#define GASNET_COLL_IN_MYSYNC              (1 << 1)
#define GASNET_COLL_IN_ALLSYNC             (1 << 2)
#define GASNET_COLL_OUT_NOSYNC             (1 << 3)
#define GASNET_COLL_OUT_MYSYNC             (1 << 4)
#define GASNET_COLL_OUT_ALLSYNC            (1 << 5)
#define GASNET_COLL_SINGLE                 (1 << 6)
#define GASNET_COLL_LOCAL                  (1 << 7)
#define GASNET_COLL_AGGREGATE              (1 << 8)
#define GASNET_COLL_DST_IN_SEGMENT         (1 << 9)
#define GASNET_COLL_SRC_IN_SEGMENT         (1 << 10)
#define GASNET_COLL_DISABLE_AUTOTUNE       (1 << 11)
#define GASNET_COLL_NO_IMAGES              (1 << 12)
#define GASNET_COLL_FIXED_THREADS_PER_NODE (1 << 13)
#define GASNET_COLL_INCLUSIVE_SCAN         (1 << 14)
#define GASNET_COLL_EXCLUSIVE_SCAN         (1 << 15)
#define GASNET_COLL_SYNC_FLAG_MASK         0x3f

/* Flags of reduction functions. */
#define GASNET_COLL_AMSAFE  (1 << 0)
#define GASNET_COLL_NONCOMM (1 << 1)

typedef int32_t gasnet_coll_fn_handle_t;
typedef void (*gasnet_coll_reduce_fn_t)(void *results, size_t result_count,
                                        const void *left_operands, size_t left_count,
                                        const void *right_operands, size_t elem_size, int flags,
                                        int arg);
typedef struct {
    gasnet_coll_reduce_fn_t fnptr;
    unsigned int flags;
} gasnet_coll_fn_entry_t;

void gasnet_coll_init(const gasnet_image_t images[], gasnet_image_t my_image,
                      gasnet_coll_fn_entry_t fn_tbl[], size_t fn_count, int flags);

gasnet_team_handle_t gasnet_coll_team_split(gasnet_team_handle_t parent, gasnet_node_t color,
                                            gasnet_node_t relrank, void *clientdata);
gasnet_node_t gasnet_coll_team_size(gasnet_team_handle_t team);
gasnet_node_t gasnet_coll_team_rank2node(gasnet_team_handle_t team, int rank);
gasnet_node_t gasnet_coll_team_node2rank(gasnet_team_handle_t team, gasnet_node_t node);

void gasnet_coll_barrier_notify(gasnet_team_handle_t team, int id, int flags);
int gasnet_coll_barrier_wait(gasnet_team_handle_t team, int id, int flags);
int gasnet_coll_barrier_try(gasnet_team_handle_t team, int id, int flags);
int gasnet_coll_barrier(gasnet_team_handle_t team, int id, int flags);
int gasnet_coll_barrier_result(gasnet_team_handle_t team, int *id);

int gasnet_coll_try_sync(gasnet_coll_handle_t h);
void gasnet_coll_wait_sync(gasnet_coll_handle_t h);
int gasnet_coll_try_sync_some(gasnet_coll_handle_t *ph, size_t n);
void gasnet_coll_wait_sync_some(gasnet_coll_handle_t *ph, size_t n);
int gasnet_coll_try_sync_all(gasnet_coll_handle_t *ph, size_t n);
void gasnet_coll_wait_sync_all(gasnet_coll_handle_t *ph, size_t n);

/* The parameters of the calls, between the team and the flags: from or to one root, or all-to-all,
 * with a list of addresses (LIST) or a single address. */
#define AQG_COLL_FROM (void *dst, gasnet_image_t srcimage, const void *src, size_t nbytes)
#define AQG_COLL_FROM_LIST                                                                         \
    (void *const dstlist[], gasnet_image_t srcimage, const void *src, size_t nbytes)
#define AQG_COLL_TO       (gasnet_image_t dstimage, void *dst, const void *src, size_t nbytes)
#define AQG_COLL_TO_LIST  (gasnet_image_t dstimage, void *dst, void *const srclist[], size_t nbytes)
#define AQG_COLL_ALL      (void *dst, const void *src, size_t nbytes)
#define AQG_COLL_ALL_LIST (void *const dstlist[], void *const srclist[], size_t nbytes)
#define AQG_COLL_REDUCE(SRC)                                                                       \
    (gasnet_image_t dstimage, void *dst, SRC, size_t src_blksz, size_t src_offset,                 \
     size_t elem_size, size_t elem_count, gasnet_coll_fn_handle_t func, int func_arg)

/* The blocking and the nonblocking form of a call. */
#define AQG_COLL(name, PARAMETERS)                                                                 \
    void gasnet_coll_##name(gasnet_team_handle_t team, AQG_UNPACK PARAMETERS, int flags);          \
    gasnet_coll_handle_t gasnet_coll_##name##_nb(gasnet_team_handle_t team, AQG_UNPACK PARAMETERS, \
                                                 int flags);
AQG_COLL(broadcast, AQG_COLL_FROM)
AQG_COLL(broadcastM, AQG_COLL_FROM_LIST)
AQG_COLL(scatter, AQG_COLL_FROM)
AQG_COLL(scatterM, AQG_COLL_FROM_LIST)
AQG_COLL(gather, AQG_COLL_TO)
AQG_COLL(gatherM, AQG_COLL_TO_LIST)
AQG_COLL(gather_all, AQG_COLL_ALL)
AQG_COLL(gather_allM, AQG_COLL_ALL_LIST)
AQG_COLL(exchange, AQG_COLL_ALL)
AQG_COLL(exchangeM, AQG_COLL_ALL_LIST)
AQG_COLL(reduce, AQG_COLL_REDUCE(const void *src))
AQG_COLL(reduceM, AQG_COLL_REDUCE(void *const srclist[]))

/* Tuning: there is no state to tune or save, so these calls do nothing. */
#define AQG_COLL_FILE (char *filename, gasnet_team_handle_t team)
AQG_VOID_CALL(gasnet_coll_dumpTuningState, AQG_COLL_FILE, ((void)filename, (void)team))
AQG_VOID_CALL(gasnet_coll_loadTuningState, AQG_COLL_FILE, ((void)filename, (void)team))
AQG_VOID_CALL(gasnet_coll_dumpProfile, AQG_COLL_FILE, ((void)filename, (void)team))
typedef enum {
    GASNET_COLL_BROADCAST_OP = 0,
    GASNET_COLL_SCATTER_OP,
    GASNET_COLL_GATHER_OP,
    GASNET_COLL_GATHER_ALL_OP,
    GASNET_COLL_EXCHANGE_OP,
    GASNET_COLL_NUM_COLL_OPTYPES
} gasnet_coll_optype_t;
typedef enum {
    GASNET_COLL_PIPE_SEG_SIZE = 0,
    GASNET_COLL_DISSEM_RADIX,
    GASNET_COLL_TREE_TYPE,
    GASNET_COLL_NUM_PARAM_TYPES
} gasnet_coll_tuning_param_type_t;

AQG_END

#endif
