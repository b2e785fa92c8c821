#!/usr/bin/env python3
"""Errors raised by the GASNet headers, and the macros that they define.

usage: tools_refused.py C_COMPILER INCLUDE CONDUIT_INCLUDE
"""

import subprocess
import sys

TOOLS, EX = "#include <gasnet_tools.h>\n", "#include <gasnetex.h>\n"
# Macros defined, the source, and the expected error; "" means accepted.
CASES = (
    ("GASNETT_THREAD_SAFE GASNETT_THREAD_SINGLE", TOOLS, "at most"),
    ("GASNETT_THREAD_SAFE GASNETT_LITE_MODE", TOOLS, "at most"),
    ("GASNET_SEQ", TOOLS, "before gasnetex.h"),
    ("GASNET_PARSYNC", TOOLS, "before gasnetex.h"),
    ("GASNET_PAR", TOOLS + EX, "before gasnet"),
    ("GASNET_PAR GASNETT_THREAD_SINGLE", EX + TOOLS, "contradict"),
    ("GASNET_SEQ GASNETT_THREAD_SAFE", EX + TOOLS, "needs GASNET_PAR"),
    ("GASNET_PARSYNC GASNETT_THREAD_SAFE", EX + TOOLS, "needs GASNET_PAR"),
    ("GASNET_PAR GASNETT_LITE_MODE", EX + TOOLS, "leave it out"),
    ("GASNET_SEQ", EX + TOOLS + "#if !GASNETT_THREAD_SINGLE || defined GASNETT_THREAD_SAFE\n"
     "#error mode\n#endif\n", ""),
    ("GASNET_PAR", EX + TOOLS + "#if !GASNETT_THREAD_SAFE || defined GASNETT_THREAD_SINGLE\n"
     "#error mode\n#endif\n", ""),
    ("_REENTRANT", TOOLS + "#if !GASNETT_THREAD_SAFE\n#error mode\n#endif\n", ""),
    ("", "#include <pthread.h>\n" + TOOLS + "#if !GASNETT_THREAD_SAFE\n#error mode\n#endif\n", ""),
    ("", TOOLS + "#if !GASNETT_THREAD_SINGLE\n#error mode\n#endif\n", ""),
    ("GASNETT_LITE_MODE", TOOLS + "uint64_t f(void)\n{\n    gasnett_local_mb();\n"
     "    return gasnett_ticks_to_ns(gasnett_ticks_now());\n}\n"
     "#ifdef GASNETT_MUTEX_INITIALIZER\n#error more than time and fences\n#endif\n", ""),
    ("", TOOLS + TOOLS + "#ifndef _INCLUDED_GASNET_TOOLS_H\n#error mark\n#endif\n"
     "#if defined _INCLUDED_GASNETEX_H || defined _INCLUDED_GASNET_H || defined _GASNET_H\n"
     "#error too many marks\n#endif\n"
     "#if GASNETT_PAGESIZE != 1 << GASNETT_PAGESHIFT || GASNETT_CACHE_LINE_BYTES < 16\n"
     "#error sizes\n#endif\n", ""),
    # Open MPI's mpi.h has names of this family, with other values.
    ("PLATFORM_COMPILER_FAMILYID=77 PLATFORM_ARCH_X86_64=5 PLATFORM_COMPILER_VERSION_STR=9",
     "#define _STRINGIFY(x) #x\n#define PLATFORM_COMPILER_GNU 6\n" + TOOLS +
     "#if PLATFORM_COMPILER_FAMILYID != 77 || PLATFORM_COMPILER_GNU != 6\n"
     "#error replaced\n#endif\n"
     # Our own strings do not depend on theirs: they contain the numbers, not the names.
     "extern char config[sizeof(GASNETT_CONFIG_STRING) < 200 ? 1 : -1];\n", ""),
)


def attempt(compiler, includes, defines, source, said):
    command = [compiler, "-x", "c", "-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
               "-fsyntax-only", *(f"-D{name}" for name in defines.split()),
               *(f"-I{folder}" for folder in includes), "-"]
    result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if said == "":
        return result.returncode == 0, result.stderr
    return result.returncode != 0 and said in result.stderr, result.stderr


def main():
    compiler, *includes = sys.argv[1:]
    failed = 0
    for defines, source, said in CASES:
        right, output = attempt(compiler, includes, defines, source, said)
        if not right:
            failed += 1
            print(f"with {defines or 'nothing'} defined, expected \"{said}\":\n{source}{output}")
    if failed:
        sys.exit(f"{failed} of {len(CASES)} cases are wrong")
    print(f"{len(CASES)} cases")


if __name__ == "__main__":
    main()
