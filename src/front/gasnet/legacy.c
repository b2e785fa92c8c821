/* GASNet-1 calls that are not merely other names of GASNet-EX calls. */
#include "aqg.h"

#include <gasnet.h>

/* --- job -------------------------------------------------------------------------------------- */

int aqg_init(const struct aqg_build *build, int *argc, char ***argv)
{
    return aqg_client_init(build, NULL, NULL, NULL, "LEGACY", argc, argv, GEX_FLAG_USES_GASNET1);
}

static int legacy_register(const char *call, gasnet_handlerentry_t *table, size_t count)
{
    gex_AM_Entry_t entries[AQGI_HANDLERS];
    if (count == 0) return GASNET_OK;
    if (table == NULL || count > AQGI_HANDLERS)
        return aqgi_refuse(GASNET_ERR_BAD_ARG,
                           "%s: a table of %zu handlers is too large, or it is NULL", call, count);
    for (size_t i = 0; i < count; i++)
        entries[i] = (gex_AM_Entry_t){
            .gex_index = table[i].index, .gex_fnptr = table[i].fnptr, .gex_nargs = AQ_AM_ANY_ARGS};
    int code = aqgi_register(call, &aqgi.ep, entries, count);
    for (size_t i = 0; i < count && code == GASNET_OK; i++)
        table[i].index = entries[i].gex_index;
    return code;
}

int gasnet_attach(gasnet_handlerentry_t *table, int numentries, uintptr_t segsize,
                  uintptr_t minheapoffset)
{
    if (!aqgi.open || (aqgi.client.flags & GEX_FLAG_USES_GASNET1) == 0)
        return aqgi_refuse(
            GASNET_ERR_NOT_INIT,
            "%s: call gasnet_init first, or gex_Client_Init with GEX_FLAG_USES_GASNET1", __func__);
    if (numentries < 0)
        return aqgi_refuse(GASNET_ERR_BAD_ARG, "%s: the number of handlers, %d, is negative",
                           __func__, numentries);
    int code = aqgi_attachable(__func__, segsize);
    if (code != GASNET_OK) return code;
    code = legacy_register(__func__, table, (size_t)numentries);
    if (code != GASNET_OK) return code;
    return gex_Segment_Attach(NULL, aqg_world, segsize);
}

void gasnet_QueryGexObjects(gex_Client_t *client_p, gex_EP_t *endpoint_p, gex_TM_t *tm_p,
                            gex_Segment_t *segment_p)
{
    if (client_p != NULL) *client_p = &aqgi.client;
    if (endpoint_p != NULL) *endpoint_p = &aqgi.ep;
    if (tm_p != NULL) *tm_p = aqg_world;
    if (segment_p != NULL) *segment_p = aqgi.ep.segment;
}

/* --- active messages -------------------------------------------------------------------------- */

int gasnet_AMGetMsgSource(gasnet_token_t token, gasnet_node_t *src)
{
    *src = aqgi_am(token)->source;
    return GASNET_OK;
}

void aqg_check_count(const char *name, unsigned announced, unsigned counted)
{
    if (AQG_UNLIKELY(announced != counted))
        aqgi_die("%s: %u arguments were announced, but %u were passed", name, announced, counted);
}

/* An implicit operation of kind AQ_NBI_LOCAL, for which no GASNet-1 call waits: the client waits
 * for the reply. */
int aqg_request_long_async(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler, const void *src,
                           size_t nbytes, void *dest_addr, const gex_AM_Arg_t *args, unsigned nargs)
{
    aqgi_done("gasnet_AMRequestLongAsync", aq_am_long(aqgi_aq(tm), rank, handler, src, nbytes,
                                                      dest_addr, args, nargs, 0, AQ_EVENT_GROUP));
    return GASNET_OK;
}

/* --- one-sided -------------------------------------------------------------------------------- */

void gasnet_memset(gasnet_node_t node, void *dest, int val, size_t nbytes)
{
    aqgi_done("gasnet_memset", aq_memset(aqgi.world.aq, node, dest, val, nbytes, 0));
}

gasnet_handle_t gasnet_memset_nb(gasnet_node_t node, void *dest, int val, size_t nbytes)
{
    aq_event event = AQ_EVENT_DONE;
    aqgi_done("gasnet_memset_nb", aq_memset_nb(aqgi.world.aq, node, dest, val, nbytes, 0, &event));
    return aqgi_event(event);
}

void gasnet_memset_nbi(gasnet_node_t node, void *dest, int val, size_t nbytes)
{
    aqgi_done("gasnet_memset_nbi", aq_memset_nbi(aqgi.world.aq, node, dest, val, nbytes, 0));
}

/* A pending get of a value. */
struct aqg_valget {
    gex_RMA_Value_t value;
    gex_Event_t event;
};

struct aqg_valget *aqg_valget_begin(gasnet_node_t node, const void *src, size_t nbytes)
{
    struct aqg_valget *pending = aqgi_alloc(1, sizeof(*pending), "gasnet_get_nb_val");
    if (nbytes - 1 >= sizeof(pending->value))
        aqgi_die("gasnet_get_nb_val: the size is %zu; it must be 1 to 8", nbytes);
    void *at = (void *)(uintptr_t)aqg_value_bytes(&pending->value, nbytes);
    pending->event = aqg_get_nb(aqg_world, at, node, src, nbytes, 0);
    return pending;
}

gasnet_register_value_t aqg_valget_end(struct aqg_valget *pending)
{
    gex_Event_Wait(pending->event);
    gasnet_register_value_t value = pending->value;
    free(pending);
    return value;
}
