/* Compiler support for gasnet_tools.h: annotations, branch hints, small macros. */
#ifndef AQG_TOOLS_COMPILER_H
#define AQG_TOOLS_COMPILER_H

#include <aqg/base.h>

#ifdef __cplusplus
#define GASNETT_BEGIN_EXTERNC extern "C" {
#define GASNETT_END_EXTERNC   }
#define GASNETT_EXTERNC       extern "C"
#else
#define GASNETT_BEGIN_EXTERNC
#define GASNETT_END_EXTERNC
#define GASNETT_EXTERNC extern
#endif

/* Headers of other packages also define these names; existing definitions are kept. */
#ifndef _STRINGIFY
#define _STRINGIFY_HELPER(x) #x
#define _STRINGIFY(x)        _STRINGIFY_HELPER(x)
#endif
#ifndef _CONCAT
#define _CONCAT_HELPER(a, b) a##b
#define _CONCAT(a, b)        _CONCAT_HELPER(a, b)
#endif
#ifndef MIN
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#endif
#ifndef MAX
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#endif
#ifndef PRIuSZ
#define PRIuSZ "zu"
#endif

/* System features for which programs test. */
#ifndef HAVE_MMAP
#define HAVE_MMAP 1
#endif
#ifndef HAVE_PTHREAD_H
#define HAVE_PTHREAD_H 1
#endif
#ifndef HAVE_PTHREAD_SETCONCURRENCY
#define HAVE_PTHREAD_SETCONCURRENCY 1
#endif
#ifndef SIZEOF_INT
#define SIZEOF_INT __SIZEOF_INT__
#endif

/* Clients may define these before the include; all are available with both supported compilers. */
#ifndef GASNETT_USE_PRAGMA_GCC_DIAGNOSTIC
#define GASNETT_USE_PRAGMA_GCC_DIAGNOSTIC 1
#endif
#ifndef GASNETT_USE_TRUE_MUTEXES
#define GASNETT_USE_TRUE_MUTEXES 0
#endif
#ifndef GASNETT_USE_RESTRICT
#define GASNETT_USE_RESTRICT 1
#endif

#if GASNETT_USE_RESTRICT
#define GASNETT_RESTRICT __restrict__
#else
#define GASNETT_RESTRICT
#endif

/* static inline, since unused static inline functions cause no warnings. */
#define GASNETT_INLINE(fn)                   AQG_INLINE
#define GASNETT_NEVER_INLINE(fn, definition) __attribute__((__noinline__)) definition
#define GASNETT_NORETURN                     __attribute__((__noreturn__))
#define GASNETT_NORETURNP(fn)
#define GASNETT_MALLOC __attribute__((__malloc__))
#define GASNETT_MALLOCP(fn)
#define GASNETT_PURE __attribute__((__pure__))
#define GASNETT_PUREP(fn)
#define GASNETT_CONST __attribute__((__const__))
#define GASNETT_CONSTP(fn)
#define GASNETT_HOT                __attribute__((__hot__))
#define GASNETT_COLD               __attribute__((__cold__))
#define GASNETT_DEPRECATED         __attribute__((__deprecated__))
#define GASNETT_WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))
#define GASNETT_USED               __attribute__((__used__))

#define GASNETT_FORMAT_PRINTF(fn, fmtarg, firstvararg, declarator)                                 \
    __attribute__((__format__(__printf__, fmtarg, firstvararg))) declarator
#define GASNETT_FORMAT_PRINTF_FUNCPTR(fn, fmtarg, firstvararg, declarator)                         \
    __attribute__((__format__(__printf__, fmtarg, firstvararg))) declarator

/* Includes the semicolon, which programs do not write. */
#if defined(__cplusplus) && __cplusplus >= 201703L
#define GASNETT_FALLTHROUGH [[fallthrough]];
#else
#define GASNETT_FALLTHROUGH __attribute__((__fallthrough__));
#endif

#define GASNETT_PREDICT_TRUE(e)  __builtin_expect(!!(e), 1)
#define GASNETT_PREDICT_FALSE(e) __builtin_expect(!!(e), 0)
#ifndef if_pt
#define if_pt(cond) if (GASNETT_PREDICT_TRUE(cond))
#endif
#ifndef if_pf
#define if_pf(cond) if (GASNETT_PREDICT_FALSE(cond))
#endif
#define gasnett_constant_p(e) __builtin_constant_p(e)
#define gasnett_unreachable() __builtin_unreachable()
#define gasnett_assume(cond)  ((cond) ? (void)0 : __builtin_unreachable())

#define GASNETT_IDENT(name, text) static const char name[] __attribute__((__used__)) = text

#define GASNETT_UNUSED_ARGS1(a)          ((void)(a))
#define GASNETT_UNUSED_ARGS2(a, b)       ((void)(a), (void)(b))
#define GASNETT_UNUSED_ARGS3(a, b, c)    ((void)(a), (void)(b), (void)(c))
#define GASNETT_UNUSED_ARGS4(a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#define GASNETT_UNUSED_ARGS5(a, b, c, d, e)                                                        \
    (GASNETT_UNUSED_ARGS4(a, b, c, d), GASNETT_UNUSED_ARGS1(e))
#define GASNETT_UNUSED_ARGS6(a, b, c, d, e, f)                                                     \
    (GASNETT_UNUSED_ARGS4(a, b, c, d), GASNETT_UNUSED_ARGS2(e, f))
#define GASNETT_UNUSED_ARGS7(a, b, c, d, e, f, g)                                                  \
    (GASNETT_UNUSED_ARGS4(a, b, c, d), GASNETT_UNUSED_ARGS3(e, f, g))
#define GASNETT_UNUSED_ARGS8(a, b, c, d, e, f, g, h)                                               \
    (GASNETT_UNUSED_ARGS4(a, b, c, d), GASNETT_UNUSED_ARGS4(e, f, g, h))

#define GASNETT_CURRENT_FUNCTION __func__

#endif
