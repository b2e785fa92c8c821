/* The environment, errors, debugging, trace hooks and memory helpers of gasnet_tools.h. */
#ifndef AQG_TOOLS_PROCESS_H
#define AQG_TOOLS_PROCESS_H

#ifndef AQG_THREADS
#error "include gasnet_tools.h"
#endif

AQG_BEGIN

/* Environment and numbers. */
extern char *gasnett_getenv(const char *name);
extern char *gasnett_getenv_withdefault(const char *name, const char *dflt);
extern int gasnett_getenv_yesno_withdefault(const char *name, int dflt);
extern int64_t gasnett_getenv_int_withdefault(const char *name, int64_t dflt,
                                              uint64_t mem_size_multiplier);
extern double gasnett_getenv_dbl_withdefault(const char *name, double dflt);
extern void gasnett_setenv(const char *name, const char *value);
extern void gasnett_unsetenv(const char *name);
extern int gasnett_verboseenv(void);
extern void gasnett_envint_display(const char *name, int64_t val, int is_dflt, int is_mem_size);
extern void gasnett_envstr_display(const char *name, const char *val, int is_dflt);
extern void gasnett_envdbl_display(const char *name, double val, int is_dflt);
extern char *gasnett_format_number(int64_t val, char *buf, size_t bufsz, int is_mem_size);
extern int64_t gasnett_parse_int(const char *str, uint64_t mem_size_multiplier);

/* Process and host. */
typedef void (*gasnett_sighandlerfn_t)(int);
extern const char *gasnett_gethostname(void);
extern const char *gasnett_exe_name(void);
extern int gasnett_cpu_count(void);
extern uint64_t gasnett_getPhysMemSz(int failureIsFatal);
extern int gasnett_isLittleEndian(void);
extern void gasnett_sched_yield(void);
extern int gasnett_set_affinity(int rank);
extern void gasnett_flush_streams(void);
extern void gasnett_close_streams(void);
extern GASNETT_NORETURN void gasnett_killmyprocess(int exitcode);
extern gasnett_sighandlerfn_t gasnett_reghandler(int sig, gasnett_sighandlerfn_t fn);
extern const char *gasnett_signame_fromval(int sig);
extern const char *gasnett_performance_warning_str(void);
extern const char *gasnett_release_version_str(void);
extern uint64_t gasnett_release_version(void);
extern int gasnett_maximize_rlimits(void);
extern int gasnett_maximize_rlimit(int res, const char *desc);

/*
 * Fatal errors: a message, then the debugger or a backtrace if requested, then abort(). The
 * location is passed first, since C++98 has no variadic macros.
 */
typedef GASNETT_FORMAT_PRINTF_FUNCPTR(aqg_fatal_fn, 1, 2,
                                      void (*aqg_fatal_fn)(const char *fmt, ...)) GASNETT_NORETURN;
extern aqg_fatal_fn aqg_fatalerror_at(const char *function, const char *file, int line);
extern GASNETT_NORETURN GASNETT_COLD GASNETT_FORMAT_PRINTF(
    aqg_fatalerror_nopos, 1, 2, void aqg_fatalerror_nopos(const char *fmt, ...));
#define gasnett_fatalerror       (*aqg_fatalerror_at(GASNETT_CURRENT_FUNCTION, __FILE__, __LINE__))
#define gasnett_fatalerror_nopos aqg_fatalerror_nopos

extern char *aqg_location(const char *function, const char *file, int line);
#define gasnett_current_loc aqg_location(GASNETT_CURRENT_FUNCTION, __FILE__, __LINE__)

/* Backtrace and debugger. */
typedef struct {
    const char *name;
    int (*fnp)(int fd);
    int threadsupport;
} gasnett_backtrace_type_t;
extern gasnett_backtrace_type_t gasnett_backtrace_user;
extern int (*gasnett_print_backtrace_ifenabled)(int fd);
extern void gasnett_backtrace_init(const char *exename);
extern int gasnett_print_backtrace(int fd);
extern void gasnett_freezeForDebuggerNow(volatile int *flag, const char *flagname);
extern void gasnett_freezeForDebuggerErr(void);

/* Blocks of memory. */
extern uint64_t gasnett_checksum(const void *p, int numbytes);
extern int gasnett_count0s_uint32_t(uint32_t x);
extern int gasnett_count0s_uint64_t(uint64_t x);
extern int gasnett_count0s_uintptr_t(uintptr_t x);
extern size_t gasnett_count0s(const void *p, size_t n);
extern size_t gasnett_count0s_copy(void *dst, const void *src, size_t n);

/* Names that programs use although they are in no specification; some programs take their
 * addresses. */
extern void _gasneti_threadkey_init(void);
extern GASNETT_FORMAT_PRINTF(aqg_trace_noop, 1, 2, void aqg_trace_noop(const char *fmt, ...));
#define _gasnett_trace_printf_noop aqg_trace_noop
#define gasneti_gethostname()      gasnett_gethostname()

/* Tracing and statistics: no-ops, as Aqueduct has its own. */
#define GASNETT_TRACE_ENABLED                     0
#define GASNETT_TRACE_PRINTF                      _gasnett_trace_printf_noop
#define GASNETT_TRACE_PRINTF_FORCE                _gasnett_trace_printf_noop
#define GASNETT_TRACE_GETMASK()                   ""
#define GASNETT_TRACE_SETMASK(mask)               ((void)(mask))
#define GASNETT_TRACE_GET_TRACELOCAL()            0
#define GASNETT_TRACE_SET_TRACELOCAL(on)          ((void)(on))
#define GASNETT_TRACE_SETSOURCELINE(file, line)   ((void)(file), (void)(line))
#define GASNETT_TRACE_GETSOURCELINE(pfile, pline) ((void)(pfile), (void)(pline))
#define GASNETT_TRACE_FREEZESOURCELINE()          ((void)0)
#define GASNETT_TRACE_UNFREEZESOURCELINE()        ((void)0)
#define GASNETT_STATS_GETMASK()                   ""
#define GASNETT_STATS_SETMASK(mask)               ((void)(mask))
#define GASNETT_STATS_PRINTF                      _gasnett_trace_printf_noop
#define GASNETT_STATS_PRINTF_FORCE                _gasnett_trace_printf_noop
#define GASNETT_STATS_DUMP(reset)                 ((void)(reset))
#define GASNETT_STATS_INIT(callback)              ((void)(callback), 0)

/* Only in programs that communicate. */
#ifdef _INCLUDED_GASNETEX_H

#if defined(GASNET_SEQ)
#define GASNETT_MAX_THREADS 1
#else
#define GASNETT_MAX_THREADS 256
#endif

extern void *gasnett_mmap(uintptr_t size);
#define GASNETT_FAST_ALIGNED_MEMCPY(d, s, n)   memcpy(d, s, n)
#define GASNETT_FAST_UNALIGNED_MEMCPY(d, s, n) memcpy(d, s, n)
#define GASNETT_VALUE_ASSIGN(dst, value, n)    aqg_value_assign(dst, value, n)
#define GASNETT_VALUE_RETURN(src, n)           return aqg_value_of(src, n)

extern void aqg_value_assign(void *dst, gex_RMA_Value_t value, size_t nbytes);
extern gex_RMA_Value_t aqg_value_of(const void *src, size_t nbytes);

/* Format arguments of calls as text. Each returns the size needed, or the text written to `buf`. */
typedef struct {
    size_t aqg_count;
    size_t aqg_bytes;
} aqg_list_stats_t;
extern size_t gasnett_format_dt(char *buf, gex_DT_t set);
extern size_t gasnett_format_op(char *buf, gex_OP_t set);
extern size_t gasnett_format_ti(char *buf, gex_TI_t set);
extern size_t gasnett_format_memveclist_bufsz(size_t count);
extern aqg_list_stats_t gasnett_format_memveclist(char *buf, size_t count,
                                                  gex_Memvec_t const *list);
extern size_t gasnett_format_addrlist_bufsz(size_t count);
extern aqg_list_stats_t gasnett_format_addrlist(char *buf, size_t count, void *const *list,
                                                size_t len);
extern size_t gasnett_format_strides_bufsz(size_t count);
extern void gasnett_format_strides(char *buf, size_t count, const ptrdiff_t *list);
extern size_t gasnett_format_putsgets_bufsz(size_t stridelevels);
extern size_t gasnett_format_putsgets(char *buf, void *stats_or_NULL, gex_TM_t tm, gex_Rank_t rank,
                                      void *dstaddr, const ptrdiff_t dststrides[], void *srcaddr,
                                      const ptrdiff_t srcstrides[], size_t elemsz,
                                      const size_t count[], size_t stridelevels);
extern size_t gasnett_format_putvgetv_bufsz(size_t dstcount, size_t srccount);
extern size_t gasnett_format_putvgetv(char *buf, gex_TM_t tm, gex_Rank_t rank, size_t dstcount,
                                      gex_Memvec_t const dstlist[], size_t srccount,
                                      gex_Memvec_t const srclist[]);
extern size_t gasnett_format_putigeti_bufsz(size_t dstcount, size_t srccount);
extern size_t gasnett_format_putigeti(char *buf, gex_TM_t tm, gex_Rank_t rank, size_t dstcount,
                                      void *const dstlist[], size_t dstlen, size_t srccount,
                                      void *const srclist[], size_t srclen);

/* For programs that offer the library's self-test; see docs/gasnet.md. */
extern int gasnett_run_diagnostics(int iters, int threads, const char *sections, gex_TM_t tm,
                                   void *myseg, gex_Rank_t peer, void *peerseg, unsigned int seed);
extern void gasnett_diagnostic_gethandlers(gex_AM_Entry_t **table, int *count);

#endif /* _INCLUDED_GASNETEX_H */

AQG_END

#endif
