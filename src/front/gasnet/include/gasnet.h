/* GASNet-1 on Aqueduct: core and extended API, implemented with the GASNet-EX counterparts. */
#ifndef AQG_GASNET_H
#define AQG_GASNET_H
#define _INCLUDED_GASNET_H 1

#include <gasnetex.h>

#include <aqg/legacy_am.h>

AQG_BEGIN

#define GASNET_SPEC_VERSION_MAJOR 1
#define GASNET_SPEC_VERSION_MINOR 8
#define GASNET_VERSION            GASNET_SPEC_VERSION_MAJOR

typedef gex_RMA_Value_t gasnet_register_value_t;
#define SIZEOF_GASNET_REGISTER_VALUE_T SIZEOF_GEX_RMA_VALUE_T
typedef gex_Event_t gasnet_handle_t;
#define GASNET_INVALID_HANDLE ((gasnet_handle_t)(uintptr_t)0)

typedef struct {
    void *addr;
    size_t len;
} gasnet_memvec_t;

/* A call that returns a handle, and one that polls first. */
#define AQG_HANDLE_CALL(NAME, PARAMS, CALL)                                                        \
    AQG_CALL(AQG_MUST_USE gasnet_handle_t, NAME, PARAMS, CALL)
#define AQG_POLL_CALL(NAME, PARAMS, CALL) AQG_CALL(int, NAME, PARAMS, ((void)gasnet_AMPoll(), CALL))

/* --- job -------------------------------------------------------------------------------------- */

int aqg_init(const struct aqg_build *build, int *argc, char ***argv);
AQG_INLINE int gasnet_init(int *argc, char ***argv)
{
    static const struct aqg_build build = AQG_BUILD_INITIALIZER;
    return aqg_init(&build, argc, argv);
}
int gasnet_attach(gasnet_handlerentry_t *table, int numentries, uintptr_t segsize,
                  uintptr_t minheapoffset);
AQG_CALL(gasnet_node_t, gasnet_mynode, (void), gex_System_QueryJobRank())
AQG_CALL(gasnet_node_t, gasnet_nodes, (void), gex_System_QueryJobSize())
void gasnet_QueryGexObjects(gex_Client_t *client_p, gex_EP_t *endpoint_p, gex_TM_t *tm_p,
                            gex_Segment_t *segment_p);
extern gasnet_node_t gasneti_mynode;

/* --- locks and interrupts -------------------------------------------------------------------- */

typedef gex_HSL_t gasnet_hsl_t;
#define GASNET_HSL_INITIALIZER GEX_HSL_INITIALIZER
#define gasnet_hsl_init        gex_HSL_Init
#define gasnet_hsl_destroy     gex_HSL_Destroy
#define gasnet_hsl_lock        gex_HSL_Lock
#define gasnet_hsl_unlock      gex_HSL_Unlock
#define gasnet_hsl_trylock     gex_HSL_Trylock

/* Handlers run only inside calls of the library, so there is nothing to hold. */
AQG_VOID_CALL(gasnet_hold_interrupts, (void), 0)
AQG_VOID_CALL(gasnet_resume_interrupts, (void), 0)

/* --- puts and gets --------------------------------------------------------------------------- */

#define AQG_PUT1 (gasnet_node_t node, void *dest, const void *src, size_t nbytes)
#define AQG_GET1 (void *dest, gasnet_node_t node, const void *src, size_t nbytes)

AQG_VOID_CALL(gasnet_put, AQG_PUT1, gex_RMA_PutBlocking(aqg_world, node, dest, src, nbytes, 0))
AQG_VOID_CALL(gasnet_get, AQG_GET1, gex_RMA_GetBlocking(aqg_world, dest, node, src, nbytes, 0))
AQG_HANDLE_CALL(gasnet_put_nb, AQG_PUT1,
                gex_RMA_PutNB(aqg_world, node, dest, src, nbytes, GEX_EVENT_NOW, 0))
AQG_HANDLE_CALL(gasnet_put_nb_bulk, AQG_PUT1,
                gex_RMA_PutNB(aqg_world, node, dest, src, nbytes, GEX_EVENT_DEFER, 0))
AQG_HANDLE_CALL(gasnet_get_nb, AQG_GET1, gex_RMA_GetNB(aqg_world, dest, node, src, nbytes, 0))
AQG_VOID_CALL(gasnet_put_nbi, AQG_PUT1,
              gex_RMA_PutNBI(aqg_world, node, dest, src, nbytes, GEX_EVENT_NOW, 0))
AQG_VOID_CALL(gasnet_put_nbi_bulk, AQG_PUT1,
              gex_RMA_PutNBI(aqg_world, node, dest, src, nbytes, GEX_EVENT_DEFER, 0))
AQG_VOID_CALL(gasnet_get_nbi, AQG_GET1, gex_RMA_GetNBI(aqg_world, dest, node, src, nbytes, 0))

/* Alignment is irrelevant here. */
#define gasnet_put_bulk     gasnet_put
#define gasnet_get_bulk     gasnet_get
#define gasnet_get_nb_bulk  gasnet_get_nb
#define gasnet_get_nbi_bulk gasnet_get_nbi

void gasnet_memset(gasnet_node_t node, void *dest, int val, size_t nbytes);
gasnet_handle_t gasnet_memset_nb(gasnet_node_t node, void *dest, int val,
                                 size_t nbytes) AQG_MUST_USE;
void gasnet_memset_nbi(gasnet_node_t node, void *dest, int val, size_t nbytes);

/* --- values ---------------------------------------------------------------------------------- */

#define AQG_PUT1_VALUE                                                                             \
    (gasnet_node_t node, void *dest, gasnet_register_value_t value, size_t nbytes)

AQG_VOID_CALL(gasnet_put_val, AQG_PUT1_VALUE,
              gex_RMA_PutBlockingVal(aqg_world, node, dest, value, nbytes, 0))
AQG_HANDLE_CALL(gasnet_put_nb_val, AQG_PUT1_VALUE,
                gex_RMA_PutNBVal(aqg_world, node, dest, value, nbytes, 0))
AQG_VOID_CALL(gasnet_put_nbi_val, AQG_PUT1_VALUE,
              gex_RMA_PutNBIVal(aqg_world, node, dest, value, nbytes, 0))
AQG_CALL(gasnet_register_value_t, gasnet_get_val,
         (gasnet_node_t node, const void *src, size_t nbytes),
         gex_RMA_GetBlockingVal(aqg_world, node, src, nbytes, 0))

/* The value, or the pending get that will return it. */
typedef struct {
    gasnet_register_value_t value;
    struct aqg_valget *pending;
} gasnet_valget_handle_t;
struct aqg_valget *aqg_valget_begin(gasnet_node_t node, const void *src, size_t nbytes);
gasnet_register_value_t aqg_valget_end(struct aqg_valget *pending);

AQG_MUST_USE AQG_INLINE gasnet_valget_handle_t gasnet_get_nb_val(gasnet_node_t node,
                                                                 const void *src, size_t nbytes)
{
    gasnet_valget_handle_t handle = {0, NULL};
    if (AQG_LIKELY(aqg_mapped(aqg_world, node, src, nbytes) != NULL))
        handle.value = gasnet_get_val(node, src, nbytes);
    else
        handle.pending = aqg_valget_begin(node, src, nbytes);
    return handle;
}
AQG_CALL(gasnet_register_value_t, gasnet_wait_syncnb_valget, (gasnet_valget_handle_t handle),
         AQG_LIKELY(handle.pending == NULL) ? handle.value : aqg_valget_end(handle.pending))

/* --- synchronization: unlike those of GASNet-EX, try calls poll ------------------------------- */

#define AQG_HANDLES (gasnet_handle_t * ph, size_t n)

AQG_VOID_CALL(gasnet_wait_syncnb, (gasnet_handle_t h), gex_Event_Wait(h))
AQG_VOID_CALL(gasnet_wait_syncnb_all, AQG_HANDLES, gex_Event_WaitAll(ph, n, 0))
AQG_VOID_CALL(gasnet_wait_syncnb_some, AQG_HANDLES, gex_Event_WaitSome(ph, n, 0))
AQG_CALL(int, gasnet_try_syncnb_nopoll, (gasnet_handle_t h), gex_Event_Test(h))
AQG_CALL(int, gasnet_try_syncnb_all_nopoll, AQG_HANDLES, gex_Event_TestAll(ph, n, 0))
AQG_CALL(int, gasnet_try_syncnb_some_nopoll, AQG_HANDLES, gex_Event_TestSome(ph, n, 0))
AQG_POLL_CALL(gasnet_try_syncnb, (gasnet_handle_t h), gex_Event_Test(h))
AQG_POLL_CALL(gasnet_try_syncnb_all, AQG_HANDLES, gex_Event_TestAll(ph, n, 0))
AQG_POLL_CALL(gasnet_try_syncnb_some, AQG_HANDLES, gex_Event_TestSome(ph, n, 0))

AQG_VOID_CALL(gasnet_wait_syncnbi_gets, (void), gex_NBI_Wait(GEX_EC_GET, 0))
AQG_VOID_CALL(gasnet_wait_syncnbi_puts, (void), gex_NBI_Wait(GEX_EC_PUT, 0))
AQG_VOID_CALL(gasnet_wait_syncnbi_all, (void), gex_NBI_Wait(GEX_EC_GET | GEX_EC_PUT, 0))
AQG_POLL_CALL(gasnet_try_syncnbi_gets, (void), gex_NBI_Test(GEX_EC_GET, 0))
AQG_POLL_CALL(gasnet_try_syncnbi_puts, (void), gex_NBI_Test(GEX_EC_PUT, 0))
AQG_POLL_CALL(gasnet_try_syncnbi_all, (void), gex_NBI_Test(GEX_EC_GET | GEX_EC_PUT, 0))
AQG_VOID_CALL(gasnet_begin_nbi_accessregion, (void), gex_NBI_BeginAccessRegion(0))
AQG_HANDLE_CALL(gasnet_end_nbi_accessregion, (void), gex_NBI_EndAccessRegion(0))

AQG_END

#include <gasnet_coll.h>
#include <gasnet_tools.h>

#include <aqg/legacy_vis.h>

#endif
