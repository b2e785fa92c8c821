#!/usr/bin/env python3
"""Dependencies between folders: checks every #include against the table in docs/architecture.md.

usage: includes.py ROOT
"""

import pathlib
import re
import sys

import tree

# Folder of the file -> prefixes of permitted includes; the first matching row counts. "*" stands
# for one path component, and "{t}" for the same one as in the row. A prefix that ends with "/"
# means files directly in that folder.
RULES = (
    ("include/aqueduct", ("aqueduct/",)),
    ("src/base", ("base/", "aqueduct/status.h")),
    ("src/dgram/ports", ("dgram/ports/", "dgram/dgram.h", "base/", "aqueduct/status.h")),
    ("src/dgram", ("dgram/", "base/", "aqueduct/status.h")),
    ("src/reg", ("reg/", "base/", "aqueduct/status.h")),
    ("src/transport/udp", ("transport/", "transport/udp/", "dgram/dgram.h", "dgram/ports/", "base/",
                           "aqueduct/status.h")),
    ("src/transport/ibv", ("transport/", "transport/ibv/", "reg/limits.h", "base/",
                           "aqueduct/status.h")),
    ("src/transport/*", ("transport/", "transport/{t}/", "base/", "aqueduct/status.h")),
    ("src/transport", ("transport/", "base/", "aqueduct/status.h")),
    ("src/core", ("core/", "transport/", "base/", "aqueduct/")),
    ("src/job/manager", ("job/manager/", "job/boot.h", "job/settings.h", "base/",
                         "aqueduct/status.h")),
    ("src/job/hub", ("job/hub/", "job/", "base/", "aqueduct/status.h")),
    ("src/job", ("job/", "job/hub/hub.h", "job/manager/manager.h", "base/", "aqueduct/status.h")),
    ("src/front/gasnet", ("aqueduct/", "gasnet.h", "gasnetex.h", "aqg/")),
    ("src/lib", ("lib/", "job/", "core/", "transport/", "reg/limits.h", "base/", "aqueduct/")),
    ("tools/aqrun", ("aqueduct/", "job/", "job/hub/hub.h", "base/", "tools/util/")),
    ("tools/aqtop", ("aqueduct/", "job/top.h", "base/", "tools/util/")),
    ("tools/aqinfo", ("aqueduct/", "tools/util/", "base/nearest.h", "base/board.h", "job/top.h")),
    ("tools/aqperf", ("aqueduct/", "tools/util/", "base/nearest.h", "transport/ofi/ofi_library.h",
                      "transport/ibv/hca_verbs.h")),
    ("tools/util", ("base/nearest.h",)),
    ("tools/*", ("aqueduct/", "tools/util/", "base/nearest.h")),
    ("examples", ("aqueduct/",)),
    ("tests/install", ("aqueduct/",)),
    ("tests/*", ("{any}",)),
)
# The folders of the core, lowest first: each may include itself and those before it.
ROOMS = ("state", "wait", "event", "mem", "am", "rma", "vis", "coll", "team", "conn", "setup")
RULES = tuple((f"src/core/{room}",
               tuple(f"core/{lower}/" for lower in ROOMS[:ROOMS.index(room) + 1]) +
               ("core/core.h", "transport/", "base/", "aqueduct/")) for room in ROOMS) + RULES
# The only list of transports names them all; the public numbers of atomics are those used in
# messages; pins is the transports' interface to registrations on demand.
EXTRA = {
    "src/transport/registry.c": re.compile(r"transport/\w+/\w+\.h"),
    "src/transport/pins.h": re.compile(r"reg/\w+\.h"),
    "src/transport/pins.c": re.compile(r"reg/\w+\.h"),
    "src/transport/am.c": re.compile(r"aqueduct/type\.h"),
    "src/transport/am_test.c": re.compile(r"aqueduct/type\.h"),
}


def rule_for(folder):
    parts = folder.split("/")
    for pattern, prefixes in RULES:
        wanted = pattern.split("/")
        if len(parts) < len(wanted):
            continue
        wild = ""
        for part, want in zip(parts, wanted):
            if want == "*":
                wild = part
            elif part != want:
                break
        else:
            return [prefix.replace("{t}", wild) for prefix in prefixes]
    return None


def allowed(include, prefixes):
    for prefix in prefixes:
        if prefix == "{any}" or include == prefix:
            return True
        if prefix.endswith("/") and include.startswith(prefix) and \
                "/" not in include[len(prefix):]:
            return True
    return False


def check(root, path):
    relative = path.relative_to(root)
    folder = relative.parent.as_posix()
    prefixes = rule_for(folder)
    if prefixes is None:
        yield f"{relative}: folder {folder} is not in the table of tests/lint/includes.py"
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not found:
            continue
        kind, include = found.groups()
        if kind == "<" and not include.startswith("aqueduct/"):
            if (root / "src" / include).exists():
                yield f'{relative}:{number}: write "{include}": <> is for the system and aqueduct/'
            continue
        if kind == '"' and "/" not in include:
            if (path.parent / include).exists():
                continue  # a neighbor
            if (root / "tools/util" / include).exists():
                include = f"tools/util/{include}"
        if kind == '"' and include.startswith("aqueduct/"):
            yield f"{relative}:{number}: write <{include}>, as programs do"
        extra = EXTRA.get(re.sub(r"_test\.c$", ".c", relative.as_posix()))
        if allowed(include, prefixes) or (extra and extra.fullmatch(include)):
            continue
        yield (f"{relative}:{number}: {folder} must not include {include} "
               f"(it may include: {', '.join(prefixes)}; see docs/architecture.md)")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    paths = tree.files(root, ".c", ".h", ".cc", ".cpp")
    findings = [finding for path in paths for finding in check(root, path)]
    tree.report("includes", findings, len(paths))


if __name__ == "__main__":
    main()
