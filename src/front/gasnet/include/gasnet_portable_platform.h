/* Compiler, processor and system: the PLATFORM_ macros that GASNet programs test.
 *
 * Headers of other packages (such as Open MPI's mpi.h) also define some of them and may be
 * included first, so existing definitions are kept. */
#ifndef AQG_PORTABLE_PLATFORM_H
#define AQG_PORTABLE_PLATFORM_H

#include <aqg/base.h>

/* The compiler. Clang also claims to be GNU C, so it is tested first. */
#ifdef __cplusplus
#define AQG_IS_CXX            1
#define AQG_COMPILER_LANGUAGE "C++"
#else
#define AQG_IS_CXX            0
#define AQG_COMPILER_LANGUAGE "C"
#endif

#if defined(__clang__)
#define AQG_COMPILER       CLANG
#define AQG_COMPILER_ID    19
#define AQG_COMPILER_MAJOR __clang_major__
#define AQG_COMPILER_MINOR __clang_minor__
#define AQG_COMPILER_PATCH __clang_patchlevel__
#ifndef PLATFORM_COMPILER_CLANG
#define PLATFORM_COMPILER_CLANG 1
#endif
#if AQG_IS_CXX && !defined(PLATFORM_COMPILER_CLANG_CXX)
#define PLATFORM_COMPILER_CLANG_CXX 1
#elif !AQG_IS_CXX && !defined(PLATFORM_COMPILER_CLANG_C)
#define PLATFORM_COMPILER_CLANG_C 1
#endif
#else
#define AQG_COMPILER       GNU
#define AQG_COMPILER_ID    1
#define AQG_COMPILER_MAJOR __GNUC__
#define AQG_COMPILER_MINOR __GNUC_MINOR__
#define AQG_COMPILER_PATCH __GNUC_PATCHLEVEL__
#ifndef PLATFORM_COMPILER_GNU
#define PLATFORM_COMPILER_GNU 1
#endif
#if AQG_IS_CXX && !defined(PLATFORM_COMPILER_GNU_CXX)
#define PLATFORM_COMPILER_GNU_CXX 1
#elif !AQG_IS_CXX && !defined(PLATFORM_COMPILER_GNU_C)
#define PLATFORM_COMPILER_GNU_C 1
#endif
#endif

#ifndef PLATFORM_COMPILER_FAMILYNAME
#define PLATFORM_COMPILER_FAMILYNAME AQG_COMPILER
#endif
#ifndef PLATFORM_COMPILER_FAMILYID
#define PLATFORM_COMPILER_FAMILYID AQG_COMPILER_ID
#endif
#ifndef PLATFORM_COMPILER_VERSION_STR
#define PLATFORM_COMPILER_VERSION_STR                                                              \
    AQG_STRING(AQG_COMPILER_MAJOR)                                                                 \
    "." AQG_STRING(AQG_COMPILER_MINOR) "." AQG_STRING(AQG_COMPILER_PATCH)
#endif
#ifndef PLATFORM_COMPILER_IDSTR
#define PLATFORM_COMPILER_IDSTR                                                                    \
    "|COMPILER_FAMILY:" AQG_STRING(                                                                \
        AQG_COMPILER) "|COMPILER_VERSION:" PLATFORM_COMPILER_VERSION_STR                           \
                      "|LANGUAGE:" AQG_COMPILER_LANGUAGE "|"
#endif
#ifndef PLATFORM_COMPILER_ID
#define PLATFORM_COMPILER_ID (PLATFORM_COMPILER_FAMILYID + 10000 * AQG_IS_CXX)
#endif
#ifndef PLATFORM_COMPILER_VERSION_INT
#define PLATFORM_COMPILER_VERSION_INT(maj, min, pat) (((maj) << 24) | ((min) << 16) | (pat))
#endif
#ifndef PLATFORM_COMPILER_VERSION
#define PLATFORM_COMPILER_VERSION                                                                  \
    PLATFORM_COMPILER_VERSION_INT(AQG_COMPILER_MAJOR, AQG_COMPILER_MINOR, AQG_COMPILER_PATCH)
#endif
#ifndef PLATFORM_COMPILER_VERSION_GT
#define PLATFORM_COMPILER_VERSION_GT(maj, min, pat)                                                \
    (PLATFORM_COMPILER_VERSION > PLATFORM_COMPILER_VERSION_INT(maj, min, pat))
#endif
#ifndef PLATFORM_COMPILER_VERSION_GE
#define PLATFORM_COMPILER_VERSION_GE(maj, min, pat)                                                \
    (PLATFORM_COMPILER_VERSION >= PLATFORM_COMPILER_VERSION_INT(maj, min, pat))
#endif
#ifndef PLATFORM_COMPILER_VERSION_EQ
#define PLATFORM_COMPILER_VERSION_EQ(maj, min, pat)                                                \
    (PLATFORM_COMPILER_VERSION == PLATFORM_COMPILER_VERSION_INT(maj, min, pat))
#endif
#ifndef PLATFORM_COMPILER_VERSION_LE
#define PLATFORM_COMPILER_VERSION_LE(maj, min, pat)                                                \
    (PLATFORM_COMPILER_VERSION <= PLATFORM_COMPILER_VERSION_INT(maj, min, pat))
#endif
#ifndef PLATFORM_COMPILER_VERSION_LT
#define PLATFORM_COMPILER_VERSION_LT(maj, min, pat)                                                \
    (PLATFORM_COMPILER_VERSION < PLATFORM_COMPILER_VERSION_INT(maj, min, pat))
#endif

/* The processor. */
#if defined(__x86_64__)
#define AQG_ARCH      X86_64
#define AQG_ARCH_WORD "x86_64"
#ifndef PLATFORM_ARCH_X86_64
#define PLATFORM_ARCH_X86_64 1
#endif
#elif defined(__aarch64__)
#define AQG_ARCH      AARCH64
#define AQG_ARCH_WORD "aarch64"
#ifndef PLATFORM_ARCH_AARCH64
#define PLATFORM_ARCH_AARCH64 1
#endif
#elif defined(__powerpc64__)
#define AQG_ARCH      POWERPC
#define AQG_ARCH_WORD "powerpc64"
#ifndef PLATFORM_ARCH_POWERPC
#define PLATFORM_ARCH_POWERPC 1
#endif
#elif defined(__riscv)
#define AQG_ARCH      RISCV
#define AQG_ARCH_WORD "riscv"
#ifndef PLATFORM_ARCH_RISCV
#define PLATFORM_ARCH_RISCV 1
#endif
#else
#define AQG_ARCH      UNKNOWN
#define AQG_ARCH_WORD "unknown"
#endif
#ifndef PLATFORM_ARCH_FAMILYNAME
#define PLATFORM_ARCH_FAMILYNAME AQG_ARCH
#endif

#if !defined(PLATFORM_ARCH_64) && !defined(PLATFORM_ARCH_32)
#if defined(__LP64__) || defined(_LP64)
#define PLATFORM_ARCH_64 1
#else
#define PLATFORM_ARCH_32 1
#endif
#endif

#if !defined(PLATFORM_ARCH_LITTLE_ENDIAN) && !defined(PLATFORM_ARCH_BIG_ENDIAN)
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define PLATFORM_ARCH_BIG_ENDIAN 1
#else
#define PLATFORM_ARCH_LITTLE_ENDIAN 1
#endif
#endif

/* The system. */
#if defined(__linux__)
#ifndef PLATFORM_OS_FAMILYNAME
#define PLATFORM_OS_FAMILYNAME LINUX
#endif
#ifndef PLATFORM_OS_LINUX
#define PLATFORM_OS_LINUX 1
#endif
#elif !defined(PLATFORM_OS_FAMILYNAME)
#define PLATFORM_OS_FAMILYNAME UNKNOWN
#endif

#endif
