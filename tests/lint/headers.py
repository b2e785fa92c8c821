#!/usr/bin/env python3
"""Each header compiles alone, and twice: public ones in C and in every C++ a program may use.

usage: headers.py ROOT C_COMPILER CXX_COMPILER
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


def attempt(job):
    compiler, language, flags, root, include = job
    source = f"#include <{include}>\n#include <{include}>\nextern int aq_lint_not_empty;\n"
    command = [compiler, "-x", language, *flags, *STRICT, f"-I{root}/include", f"-I{root}/src", "-"]
    result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return None
    return f"{include} does not compile alone with {compiler} {flags[0]}:\n{result.stderr}"


def main():
    root, c_compiler, cxx_compiler = sys.argv[1:]
    compilers = {"c": c_compiler, "c++": cxx_compiler}
    jobs = []
    for base, variants in (("include", PUBLIC), ("src", INTERNAL)):
        for path in sorted((pathlib.Path(root) / base).rglob("*.h")):
            include = path.relative_to(pathlib.Path(root) / base).as_posix()
            jobs += [(compilers[language], language, flags, root, include)
                     for language, flags in variants]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = [finding for finding in pool.map(attempt, jobs) if finding]
    tree.report("headers", findings, len(jobs))


if __name__ == "__main__":
    main()
