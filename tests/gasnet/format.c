/*
 * The helpers of gasnet_tools.h that need a job: readable forms, memory, values, diagnostics; and
 * memory kinds, which fail in the way that the interface prescribes for unsupported ones.
 */
#include <gasnet.h>

#include <gasnet_mk.h>
#include <gasnet_tools.h>

#include "support.h"

/* Call it twice, as clients do: the second time with a buffer of exactly the required size. */
#define FORMATTED(text, call, set)                                                                 \
    do {                                                                                           \
        size_t need = call(NULL, set), wrote;                                                      \
        CHECK(need > 0 && need <= sizeof(text));                                                   \
        memset(text, '#', sizeof(text));                                                           \
        wrote = call(text, set);                                                                   \
        CHECK(wrote <= need && strlen(text) < need);                                               \
    } while (0)

static char text[4096];

static void sets(void)
{
    gex_DT_t dt;
    gex_OP_t op;
    FORMATTED(text, gasnett_format_dt, 0);
    FORMATTED(text, gasnett_format_op, 0);
    FORMATTED(text, gasnett_format_ti, 0);
    FORMATTED(text, gasnett_format_dt, GEX_DT_I32 | GEX_DT_DBL);
    CHECK(strcmp(text, "GEX_DT_I32|GEX_DT_DBL") == 0);
    FORMATTED(text, gasnett_format_op, GEX_OP_FADD | GEX_OP_CAS | GEX_OP_USER);
    CHECK(strstr(text, "GEX_OP_FADD") && strstr(text, "GEX_OP_CAS") && strstr(text, "GEX_OP_USER"));
    FORMATTED(text, gasnett_format_ti, GEX_TI_ALL);
    CHECK(strstr(text, "GEX_TI_SRCRANK") && strstr(text, "GEX_TI_IS_LONG"));
    for (dt = GEX_DT_I32; dt <= GEX_DT_USER; dt <<= 1) {
        FORMATTED(text, gasnett_format_dt, dt);
        CHECK(strncmp(text, "GEX_DT_", 7) == 0 && strchr(text, '|') == NULL);
    }
    for (op = GEX_OP_AND; op <= GEX_OP_USER_NC; op <<= 1) {
        FORMATTED(text, gasnett_format_op, op);
        CHECK(strncmp(text, "GEX_OP_", 7) == 0 && strchr(text, '|') == NULL);
    }
    FORMATTED(text, gasnett_format_op, 0xFFFFFFFFu);
    FORMATTED(text, gasnett_format_dt, 0xFFFFFFFFu);
}

enum { PIECES = 50 };

static void lists(void)
{
    static char data[PIECES];
    gex_Memvec_t list[PIECES];
    void *addrs[PIECES];
    ptrdiff_t strides[3] = {-9223372036854775807 - 1, 7, -7};
    size_t count[3] = {1, 2, 3};
    size_t i, size;
    for (i = 0; i < PIECES; i++) {
        list[i].gex_addr = addrs[i] = (void *)(uintptr_t)(UINTPTR_MAX - i);
        list[i].gex_len = (size_t)-1 - i;
    }
    (void)data;
#define FITS(bufsz, call)                                                                          \
    size = (bufsz);                                                                                \
    CHECK(size <= sizeof(text));                                                                   \
    memset(text, '#', sizeof(text));                                                               \
    (void)(call);                                                                                  \
    CHECK(strlen(text) < size)
    for (i = 0; i <= PIECES / 2; i += PIECES / 4) {
        FITS(gasnett_format_memveclist_bufsz(i), gasnett_format_memveclist(text, i, list));
        FITS(gasnett_format_addrlist_bufsz(i), gasnett_format_addrlist(text, i, addrs, (size_t)-1));
        FITS(gasnett_format_putvgetv_bufsz(i, i / 2),
             gasnett_format_putvgetv(text, job.tm, 0, i, list, i / 2, list));
        FITS(gasnett_format_putigeti_bufsz(i, i / 2),
             gasnett_format_putigeti(text, job.tm, 0, i, addrs, 1, i / 2, addrs, 2));
    }
    for (i = 0; i <= 3; i++) {
        FITS(gasnett_format_strides_bufsz(i), (gasnett_format_strides(text, i, strides), 0));
        FITS(gasnett_format_putsgets_bufsz(i),
             gasnett_format_putsgets(text, NULL, job.tm, 0, addrs[0], strides, addrs[1], strides, 4,
                                     count, i));
    }
}

static gex_RMA_Value_t value_returned(const void *from, size_t nbytes)
{
    GASNETT_VALUE_RETURN(from, nbytes);
}

static void memory(void)
{
    unsigned char *pages = (unsigned char *)gasnett_mmap(3 * GASNET_PAGESIZE), copy[8];
    uint16_t half = 0;
    CHECK((uintptr_t)pages % GASNET_PAGESIZE == 0);
    CHECK(gasnett_count0s(pages, 3 * GASNET_PAGESIZE) == 3 * GASNET_PAGESIZE);
    memset(pages, 1, 3 * GASNET_PAGESIZE);
    GASNETT_VALUE_ASSIGN(&half, 0x12345678, sizeof(half));
    CHECK_EQUAL(half, 0x5678);
    CHECK_EQUAL(value_returned(&half, sizeof(half)), 0x5678);
    GASNETT_FAST_ALIGNED_MEMCPY(copy, pages, 8);
    GASNETT_FAST_UNALIGNED_MEMCPY(copy + 1, pages, 5);
    CHECK_EQUAL(copy[7], 1);
    CHECK(GASNETT_MAX_THREADS >= 1 && gasneti_mynode == gasnet_mynode());
}

static void kinds(void)
{
    gex_MK_t kind = GEX_MK_INVALID;
    gex_MK_Create_args_t args;
    gex_Segment_t segment = GEX_SEGMENT_INVALID;
    memset(&args, 0, sizeof(args));
    gex_System_SetVerboseErrors(0);
    args.gex_class = GEX_MK_CLASS_CUDA_UVA;
    args.gex_args.gex_class_cuda_uva.gex_CUdevice = 0;
    CHECK_EQUAL(gex_MK_Create(&kind, job.client, &args, 0), GASNET_ERR_BAD_ARG);
    args.gex_class = GEX_MK_CLASS_HIP;
    CHECK_EQUAL(gex_MK_Create(&kind, job.client, &args, 0), GASNET_ERR_BAD_ARG);
    args.gex_class = GEX_MK_CLASS_ZE;
    args.gex_args.gex_class_ze.gex_zeMemoryOrdinal = 1;
    CHECK_EQUAL(gex_MK_Create(&kind, job.client, &args, 0), GASNET_ERR_BAD_ARG);
    CHECK_EQUAL(gex_MK_Create(&kind, job.client, &args, 1), GASNET_ERR_BAD_ARG);
    CHECK_EQUAL(gex_MK_Create(&kind, job.client, NULL, 0), GASNET_ERR_BAD_ARG);
    args.gex_class = GEX_MK_CLASS_HOST;
    CHECK_EQUAL(gex_MK_Create(&kind, job.client, &args, 0), GASNET_ERR_BAD_ARG);
    CHECK(kind == GEX_MK_INVALID);
    gex_System_SetVerboseErrors(1);
    CHECK(gex_MK_QueryClass(GEX_MK_HOST) == GEX_MK_CLASS_HOST);
    CHECK(gex_MK_QueryClient(GEX_MK_HOST) == job.client && gex_MK_QueryFlags(GEX_MK_HOST) == 0);
    gex_MK_SetCData(GEX_MK_HOST, &args);
    CHECK(gex_MK_QueryCData(GEX_MK_HOST) == &args);
    CHECK_EQUAL(gex_Segment_Create(&segment, job.client, NULL, GASNET_PAGESIZE, GEX_MK_HOST, 0),
                GASNET_OK);
    gex_Segment_Destroy(segment, 0);
}

int main(int argc, char **argv)
{
    gex_AM_Entry_t *handlers = NULL;
    int count = -1;
    job_open(&argc, &argv, 16 * GASNET_PAGESIZE);
    sets();
    lists();
    memory();
    kinds();
    gasnett_diagnostic_gethandlers(&handlers, &count);
    CHECK_EQUAL(gex_EP_RegisterHandlers(job.ep, handlers, (size_t)count), GASNET_OK);
    job_barrier();
    CHECK_EQUAL(
        gasnett_run_diagnostics(200, 4, NULL, job.tm, job.base, job.next, job_at(job.next, 0), 17),
        0);
    CHECK(GASNETT_TRACE_ENABLED == 0 && strcmp(GASNETT_TRACE_GETMASK(), "") == 0);
    job_barrier();
    gasnet_exit(0);
}
