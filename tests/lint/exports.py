#!/usr/bin/env python3
"""Exported symbols: the shared library has exactly the functions declared AQ_API, and the static
one no global name that could clash with a program's (all begin aq_ or aqi_).

usage: exports.py ROOT SHARED_LIBRARY STATIC_LIBRARY
"""

import pathlib
import subprocess
import sys

import tree


def symbols(*options):
    """(type, name) of each symbol that nm lists."""
    output = subprocess.run(["nm", *options], check=True, capture_output=True, text=True).stdout
    for line in output.split("\n"):
        fields = line.split()
        if len(fields) == 3 and len(fields[1]) == 1:
            yield fields[1], fields[2]


def main():
    root, shared, static = sys.argv[1:]
    sys.path.insert(0, str(pathlib.Path(root) / "tools/dev"))
    import aqheaders

    declared = {item.name for header in aqheaders.read_all(pathlib.Path(root) / "include/aqueduct")
                for item in header.functions()}
    exported = {name.split("@")[0] for kind, name in symbols("-D", "--defined-only", shared)
                if kind != "A"}
    findings = []
    for name in sorted(declared - exported):
        findings.append(f"{shared}: {name} is declared AQ_API but not exported (not written yet?)")
    for name in sorted(exported - declared):
        findings.append(f"{shared}: exports {name}, which no public header declares AQ_API")
    for kind, name in sorted(set(symbols("-g", "--defined-only", static))):
        if not name.startswith(("aq_", "aqi_")):
            findings.append(f"{static}: global symbol {name} ({kind}) must begin aq_ or aqi_, "
                            "or be static")
    tree.report("exports", findings, 2)


if __name__ == "__main__":
    main()
