/* Formats arguments of calls as text; also small helpers of gasnet_tools.h that need a job. */
#include "aqg.h"

#include <stdarg.h>
#include <sys/mman.h>

/* The output buffer, if any, and the length so far. */
struct text {
    char *buf;
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *at = text->buf != NULL ? text->buf + text->len : NULL;
    /* The caller has queried the size, so its buffer is large enough. */
    int len = vsnprintf(at, at != NULL ? (size_t)INT_MAX : 0, fmt, args);
    va_end(args);
    if (len > 0) text->len += (size_t)len;
}

/* --- sets of constants ------------------------------------------------------------------------ */

/* Format the names of a set's bits; names[i] is that of bit i. */
static size_t format_set(char *buf, uint32_t set, const char *const names[], size_t count)
{
    struct text text = {buf, 0};
    const char *between = "";
    for (size_t i = 0; i < count; i++) {
        if (!(set >> i & 1)) continue;
        add(&text, "%s%s", between, names[i]);
        between = "|";
        set &= ~(1u << i);
    }
    if (set != 0 || *between == '\0') add(&text, "%s0x%x", between, (unsigned)set);
    return text.len + 1;
}

size_t gasnett_format_dt(char *buf, gex_DT_t set)
{
    static const char *const names[] = {
        "GEX_DT_I32", "GEX_DT_U32", "GEX_DT_I64",  "GEX_DT_U64",
        "GEX_DT_FLT", "GEX_DT_DBL", "GEX_DT_USER",
    };
    static_assert(GEX_DT_USER == 1 << (sizeof(names) / sizeof(*names) - 1), "a name for each bit");
    return format_set(buf, set, names, sizeof(names) / sizeof(*names));
}

size_t gasnett_format_op(char *buf, gex_OP_t set)
{
    static const char *const names[] = {
        "GEX_OP_AND",  "GEX_OP_OR",      "GEX_OP_XOR",   "GEX_OP_ADD",  "GEX_OP_SUB",
        "GEX_OP_MULT", "GEX_OP_MIN",     "GEX_OP_MAX",   "GEX_OP_INC",  "GEX_OP_DEC",
        "GEX_OP_SET",  "GEX_OP_CAS",     "GEX_OP_FAND",  "GEX_OP_FOR",  "GEX_OP_FXOR",
        "GEX_OP_FADD", "GEX_OP_FSUB",    "GEX_OP_FMULT", "GEX_OP_FMIN", "GEX_OP_FMAX",
        "GEX_OP_FINC", "GEX_OP_FDEC",    "GEX_OP_SWAP",  "GEX_OP_FCAS", "GEX_OP_GET",
        "GEX_OP_USER", "GEX_OP_USER_NC",
    };
    static_assert(GEX_OP_USER_NC == 1 << (sizeof(names) / sizeof(*names) - 1), "for each bit");
    return format_set(buf, set, names, sizeof(names) / sizeof(*names));
}

size_t gasnett_format_ti(char *buf, gex_TI_t set)
{
    static const char *const names[] = {
        "GEX_TI_SRCRANK", "GEX_TI_EP", "GEX_TI_ENTRY", "GEX_TI_IS_REQ", "GEX_TI_IS_LONG",
    };
    static_assert(GEX_TI_ALL == (1 << sizeof(names) / sizeof(*names)) - 1, "a name for each bit");
    return format_set(buf, set, names, sizeof(names) / sizeof(*names));
}

/* --- lists ------------------------------------------------------------------------------------ */

/* Upper bounds of the length of a number, of an entry of a list, and of the text around them. */
enum { NUMBER = 24, ENTRY = 2 * NUMBER, HEAD = 128 };

AQG_DEFINE(size_t, gasnett_format_memveclist_bufsz, (size_t count), HEAD + count * ENTRY)
AQG_DEFINE(size_t, gasnett_format_addrlist_bufsz, (size_t count), HEAD + count * ENTRY)
AQG_DEFINE(size_t, gasnett_format_strides_bufsz, (size_t count), HEAD + count * NUMBER)

static aqg_list_stats_t format_add_memvecs(struct text *text, size_t count,
                                           gex_Memvec_t const *list)
{
    aqg_list_stats_t stats = {count, 0};
    for (size_t i = 0; i < count; i++)
        stats.aqg_bytes += list[i].gex_len;
    add(text, "%zu pieces, %zu bytes:", count, stats.aqg_bytes);
    for (size_t i = 0; i < count; i++)
        add(text, " %p+%zu", list[i].gex_addr, list[i].gex_len);
    return stats;
}

AQG_DEFINE(aqg_list_stats_t, gasnett_format_memveclist,
           (char *buf, size_t count, gex_Memvec_t const *list),
           format_add_memvecs(&(struct text){buf, 0}, count, list))

static aqg_list_stats_t format_add_addrs(struct text *text, size_t count, void *const *list,
                                         size_t len)
{
    add(text, "%zu pieces of %zu bytes:", count, len);
    for (size_t i = 0; i < count; i++)
        add(text, " %p", list[i]);
    return (aqg_list_stats_t){count, count * len};
}

AQG_DEFINE(aqg_list_stats_t, gasnett_format_addrlist,
           (char *buf, size_t count, void *const *list, size_t len),
           format_add_addrs(&(struct text){buf, 0}, count, list, len))

static void format_add_strides(struct text *text, size_t count, const ptrdiff_t *list)
{
    add(text, "[");
    for (size_t i = 0; i < count; i++)
        add(text, i == 0 ? "%td" : ",%td", list[i]);
    add(text, "]");
}

void gasnett_format_strides(char *buf, size_t count, const ptrdiff_t *list)
{
    struct text text = {buf, 0};
    format_add_strides(&text, count, list);
}

/* --- transfers -------------------------------------------------------------------------------- */

static void format_add_peer(struct text *text, gex_TM_t tm, gex_Rank_t rank)
{
    add(text, "rank %u of %u: ", (unsigned)rank, (unsigned)gex_TM_QuerySize(tm));
}

AQG_DEFINE(size_t, gasnett_format_putsgets_bufsz, (size_t stridelevels),
           2 * HEAD + 3 * stridelevels * NUMBER)

size_t gasnett_format_putsgets(char *buf, void *stats_or_NULL, gex_TM_t tm, gex_Rank_t rank,
                               void *dstaddr, const ptrdiff_t dststrides[], void *srcaddr,
                               const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[],
                               size_t stridelevels)
{
    struct text text = {buf, 0};
    size_t bytes = elemsz;
    (void)stats_or_NULL;
    format_add_peer(&text, tm, rank);
    add(&text, "to %p ", dstaddr);
    format_add_strides(&text, stridelevels, dststrides);
    add(&text, " from %p ", srcaddr);
    format_add_strides(&text, stridelevels, srcstrides);
    add(&text, ", elements of %zu, counts [", elemsz);
    for (size_t i = 0; i < stridelevels; i++) {
        add(&text, i == 0 ? "%zu" : ",%zu", count[i]);
        bytes *= count[i];
    }
    add(&text, "]");
    return bytes;
}

AQG_DEFINE(size_t, gasnett_format_putvgetv_bufsz, (size_t dstcount, size_t srccount),
           HEAD + gasnett_format_memveclist_bufsz(dstcount) +
               gasnett_format_memveclist_bufsz(srccount))

size_t gasnett_format_putvgetv(char *buf, gex_TM_t tm, gex_Rank_t rank, size_t dstcount,
                               gex_Memvec_t const dstlist[], size_t srccount,
                               gex_Memvec_t const srclist[])
{
    struct text text = {buf, 0};
    format_add_peer(&text, tm, rank);
    add(&text, "to ");
    format_add_memvecs(&text, dstcount, dstlist);
    add(&text, "; from ");
    return format_add_memvecs(&text, srccount, srclist).aqg_bytes;
}

AQG_DEFINE(size_t, gasnett_format_putigeti_bufsz, (size_t dstcount, size_t srccount),
           HEAD + gasnett_format_addrlist_bufsz(dstcount) + gasnett_format_addrlist_bufsz(srccount))

size_t gasnett_format_putigeti(char *buf, gex_TM_t tm, gex_Rank_t rank, size_t dstcount,
                               void *const dstlist[], size_t dstlen, size_t srccount,
                               void *const srclist[], size_t srclen)
{
    struct text text = {buf, 0};
    format_add_peer(&text, tm, rank);
    add(&text, "to ");
    format_add_addrs(&text, dstcount, dstlist, dstlen);
    add(&text, "; from ");
    return format_add_addrs(&text, srccount, srclist, srclen).aqg_bytes;
}

/* --- memory and values ------------------------------------------------------------------------ */

void *gasnett_mmap(uintptr_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) aqgi_die("gasnett_mmap: no memory for %zu bytes", (size_t)size);
    return memory;
}

/* Copy the low bytes of a value, in the byte order of an integer of that size. */
void aqg_value_assign(void *dst, gex_RMA_Value_t value, size_t nbytes)
{
    memcpy(dst, aqg_value_bytes(&value, nbytes), nbytes);
}

gex_RMA_Value_t aqg_value_of(const void *src, size_t nbytes)
{
    gex_RMA_Value_t value = 0;
    memcpy((void *)(uintptr_t)aqg_value_bytes(&value, nbytes), src, nbytes);
    return value;
}
