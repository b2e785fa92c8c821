#!/usr/bin/env python3
"""Each header compiles alone, and when included twice; public ones in C and in every version of C++
that a program may use.

usage: headers.py ROOT C_COMPILER CXX_COMPILER CONDUIT_INCLUDE
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

import tree

STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
PUBLIC = (("c", ["-std=c11"]), ("c++", ["-std=c++11"]), ("c++", ["-std=c++17"]),
          ("c++", ["-std=c++20"]))
INTERNAL = (("c", ["-std=c11", "-D_GNU_SOURCE"]),)
# How clients of the GASNet interface are compiled: every threading mode in old C and C++, and one
# in the newest C++, which may refuse more, but the same things in every mode.
GASNET = "src/front/gasnet"
CCI = "src/front/cci/include"
GASNET_STANDARDS = (("c", "c99"), ("c++", "c++98"), ("c++", "c++20"))
GASNET_NEWEST = "c++20"
GASNET_MODELESS = ("gasnet_fwd", "gasnet_config", "gasnet_portable_platform", "gasnet_tools")
GASNET_MODES = ("SEQ", "PAR", "PARSYNC")


def attempt(job):
    compiler, language, flags, root, include = job
    source = f"#include <{include}>\n#include <{include}>\nextern int aq_lint_not_empty;\n"
    folders = ([] if include.startswith("gasnet") else
               [f"-I{root}/include", f"-I{root}/src", f"-I{root}/{CCI}"])
    command = [compiler, "-x", language, *flags, *STRICT, *folders, "-"]
    result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return None
    return f"{include} does not compile alone with {compiler} {flags[0]}:\n{result.stderr}"


def gasnet_jobs(root, compilers, conduit):
    """Every header of the GASNet interface. Some need no threading mode, or must not have one."""
    include = pathlib.Path(root) / GASNET / "include"
    for path in sorted(include.glob("*.h")):
        modeless = path.stem in GASNET_MODELESS
        for language, standard in GASNET_STANDARDS:
            once = modeless or standard == GASNET_NEWEST
            for mode in GASNET_MODES[1:2] if once else GASNET_MODES:
                define = [] if modeless else [f"-DGASNET_{mode}"]
                # The interface has variadic macros, also in old versions of the languages.
                flags = [f"-std={standard}", "-Wno-variadic-macros", "-D_GNU_SOURCE", *define,
                         f"-I{include}", f"-I{conduit}"]
                yield compilers[language], language, flags, root, path.name


def main():
    root, c_compiler, cxx_compiler, conduit = sys.argv[1:]
    compilers = {"c": c_compiler, "c++": cxx_compiler}
    jobs = list(gasnet_jobs(root, compilers, conduit))
    for base, variants in (("include", PUBLIC), ("src", INTERNAL)):
        for path in sorted((pathlib.Path(root) / base).rglob("*.h")):
            include = path.relative_to(pathlib.Path(root) / base).as_posix()
            if path.is_relative_to(pathlib.Path(root) / GASNET):
                continue
            jobs += [(compilers[language], language, flags, root, include)
                     for language, flags in variants]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = [finding for finding in pool.map(attempt, jobs) if finding]
    tree.report("headers", findings, len(jobs))


if __name__ == "__main__":
    main()
