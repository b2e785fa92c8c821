#!/usr/bin/env python3
"""Exported symbols: both libraries export exactly the functions declared AQ_API, so that no
internal name can clash with a program's. Shared libraries, OTHER ones as well, are never unloaded:
their threads may still run.

usage: exports.py ROOT SHARED_LIBRARY STATIC_LIBRARY [OTHER...]
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
    root, shared, static, *others = sys.argv[1:]
    sys.path.insert(0, str(pathlib.Path(root) / "tools/dev"))
    import aqheaders

    declared = {item.name for header in aqheaders.read_all(pathlib.Path(root) / "include/aqueduct")
                for item in header.functions() if not item.inline}
    findings = []
    for library, option in ((shared, "-D"), (static, "-g")):
        exported = {name.split("@")[0] for kind, name in symbols(option, "--defined-only", library)
                    if kind != "A"}
        for name in sorted(declared - exported):
            findings.append(f"{library}: {name} is declared AQ_API but not exported")
        for name in sorted(exported - declared):
            findings.append(f"{library}: exports {name}, which no public header declares AQ_API")
    for library in [shared, *others]:
        dynamic = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                                 text=True).stdout
        if "NODELETE" not in dynamic:
            findings.append(f"{library}: not linked with -z nodelete")
    tree.report("exports", findings, 2 + len(others))


if __name__ == "__main__":
    main()
