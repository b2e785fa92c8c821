/*
 * Memory kinds. Only host memory is supported, which is not created: requests for other kinds
 * fail, and calls on kinds are always errors of the program.
 */
#include "aqg.h"

#include <gasnet_mk.h>

static const char *const class_names[] = {
    [GEX_MK_CLASS_HOST] = "GEX_MK_CLASS_HOST",
    [GEX_MK_CLASS_CUDA_UVA] = "GEX_MK_CLASS_CUDA_UVA",
    [GEX_MK_CLASS_HIP] = "GEX_MK_CLASS_HIP",
    [GEX_MK_CLASS_ZE] = "GEX_MK_CLASS_ZE",
};
enum { CLASSES = sizeof(class_names) / sizeof(class_names[0]) };

int gex_MK_Create(gex_MK_t *kind_p, gex_Client_t client, const gex_MK_Create_args_t *args,
                  gex_Flags_t flags)
{
    if (kind_p == NULL || client != &aqgi.client || args == NULL)
        return aqgi_refuse(GASNET_ERR_BAD_ARG, "%s: an argument is NULL, or is not the client",
                           __func__);
    if (flags != 0 || args->gex_flags != 0)
        return aqgi_refuse(GASNET_ERR_BAD_ARG, "%s: flags must be 0", __func__);
    unsigned class = (unsigned)args->gex_class;
    if (class == GEX_MK_CLASS_HOST)
        return aqgi_refuse(GASNET_ERR_BAD_ARG,
                           "%s: the kind for the host's memory already exists: use GEX_MK_HOST",
                           __func__);
    if (class >= CLASSES)
        return aqgi_refuse(GASNET_ERR_BAD_ARG, "%s: class %u does not exist", __func__, class);
    return aqgi_refuse(GASNET_ERR_BAD_ARG,
                       "%s: memory of class %s is not supported: build the program without it "
                       "(GASNET_HAVE_MK_CLASS_... is not defined)",
                       __func__, class_names[class]);
}

/* The only kind is the host's, and the following calls do not allow it. */
static _Noreturn void mk_no_kind(const char *call, gex_MK_t kind)
{
    aqgi_die("%s: kind %p was not created by gex_MK_Create", call, (void *)kind);
}

void gex_MK_Destroy(gex_MK_t kind, gex_Flags_t flags)
{
    mk_no_kind("gex_MK_Destroy", kind);
}

/* The client's data of the host's kind, which it has like any other object. */
static void *host_cdata;

void gex_MK_SetCData(gex_MK_t kind, const void *val)
{
    if (kind != GEX_MK_HOST) mk_no_kind("gex_MK_SetCData", kind);
    host_cdata = (void *)(uintptr_t)val;
}

#define QUERY(type, Name, value)                                                                   \
    type gex_MK_Query##Name(gex_MK_t kind)                                                         \
    {                                                                                              \
        if (kind != GEX_MK_HOST) mk_no_kind("gex_MK_Query" #Name, kind);                           \
        return value;                                                                              \
    }
QUERY(void *, CData, host_cdata)
QUERY(gex_Flags_t, Flags, 0)
QUERY(gex_Client_t, Client, &aqgi.client)
QUERY(gex_MK_Class_t, Class, GEX_MK_CLASS_HOST)
