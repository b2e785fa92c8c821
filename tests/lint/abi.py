#!/usr/bin/env python3
"""The binary interface: everything that a program linked with the last release relies on still
exists, according to abidiff (Debian: abigail-tools) and the debug information.

tests/lint/aqueduct.abi describes the interface of the last release; before the first one, that of
the last change. docs/abi.md describes when it may be rewritten.

usage: abi.py ROOT SHARED_LIBRARY [--update]
"""

import pathlib
import re
import shutil
import subprocess
import sys

CHANGED, INCOMPATIBLE = 4, 8  # bits of abidiff's exit code


def main():
    root, library = map(pathlib.Path, sys.argv[1:3])
    baseline, headers = root / "tests/lint/aqueduct.abi", root / "include"
    if not shutil.which("abidw"):
        print("skipped: abidiff is not installed [.ci/install-deps.sh all]")
        sys.exit(77)
    if "--update" in sys.argv:
        subprocess.run(["abidw", "--exported-interfaces-only", "--headers-dir", headers,
                        "--drop-private-types", "--no-show-locs", "--no-corpus-path",
                        "--no-comp-dir-path", "--no-elf-needed", "--out-file", baseline, library],
                       check=True)
        here = f"path='{root.resolve()}/"
        baseline.write_text(baseline.read_text().replace(here, "path='"))
        return
    # Types that are opaque to programs are only declared in the baseline, and are not compared.
    result = subprocess.run(["abidiff", "--no-architecture", "--no-show-locs", baseline, library],
                            capture_output=True, text=True, check=False)
    if result.returncode & ~(CHANGED | INCOMPATIBLE):
        sys.exit(f"abi: abidiff failed:\n{result.stdout}{result.stderr}")
    print(result.stdout, end="")
    summary = re.search(r"Functions changes summary: (\d+) Removed, (\d+) Changed", result.stdout)
    if result.returncode & INCOMPATIBLE or (summary and summary.groups() != ("0", "0")):
        sys.exit("abi: the interface has changed for programs that are already linked; see "
                 "docs/abi.md, \"Changing the interface\"")
    print("abi: compatible with tests/lint/aqueduct.abi")


if __name__ == "__main__":
    main()
