#!/usr/bin/env python3
"""Dependencies between folders: checks every #include, and every call between files of src, against
the table in docs/architecture.md. Calls are the symbols that the objects of a build use and define,
so that a declaration in a lower layer does not hide a call upwards.

usage: includes.py ROOT [BUILD]
"""

import pathlib
import re
import subprocess
import sys

import tree

# Folder of the file -> prefixes of permitted includes; the first matching row applies. "*" stands
# for one path component, and "{t}" for the component that it matched. A prefix that ends with "/"
# permits files directly in that folder.
RULES = (
    ("include/aqueduct", ("aqueduct/",)),
    ("src/base", ("base/", "aqueduct/status.h")),
    ("src/dgram/ports", ("dgram/ports/", "dgram/dgram.h", "base/", "aqueduct/status.h")),
    ("src/dgram", ("dgram/", "base/", "aqueduct/status.h")),
    ("src/reg", ("reg/", "base/", "aqueduct/status.h")),
    ("src/transport/udp", ("transport/", "transport/udp/", "dgram/dgram.h", "dgram/ports/", "base/",
                           "aqueduct/status.h")),
    ("src/transport/ibv", ("transport/", "transport/rdma/", "transport/ibv/",
                           "transport/layers/credit_gate.h", "reg/limits.h",
                           "base/", "aqueduct/status.h")),
    ("src/transport/ofi", ("transport/", "transport/rdma/", "transport/ofi/",
                           "transport/layers/credit_gate.h", "base/", "aqueduct/status.h")),
    ("src/transport/*", ("transport/", "transport/{t}/", "base/", "aqueduct/status.h")),
    ("src/transport", ("transport/", "base/", "aqueduct/status.h")),
    ("src/core", ("core/", "transport/", "base/", "aqueduct/")),
    ("src/job/manager", ("job/manager/", "job/boot.h", "job/settings.h", "base/",
                         "aqueduct/status.h")),
    ("src/job/hub", ("job/hub/", "job/", "base/", "aqueduct/status.h")),
    ("src/job", ("job/", "job/hub/hub.h", "job/manager/manager.h", "base/", "aqueduct/status.h")),
    ("src/front/fi", ("aqueduct/", "front/fi/", "lib/alone.h", "base/")),
    ("src/front/cci", ("aqueduct/", "cci.h", "cci/", "front/cci/", "lib/alone.h", "base/")),
    ("src/front/gasnet", ("aqueduct/", "gasnet.h", "gasnetex.h", "aqg/")),
    ("src/lib", ("lib/", "job/", "core/", "transport/", "transport/layers/fault.h",
                 "reg/limits.h", "base/", "aqueduct/")),
    ("tools/aqrun", ("aqueduct/", "job/", "job/hub/hub.h", "base/", "tools/util/")),
    ("tools/aqtop", ("aqueduct/", "job/top.h", "base/", "tools/util/")),
    ("tools/aqinfo", ("aqueduct/", "tools/util/", "base/nearest.h", "base/board.h", "base/clock.h",
                      "base/inet.h", "base/wire.h", "job/top.h")),
    ("tools/aqperf", ("aqueduct/", "tools/util/", "base/here.h", "base/library.h",
                      "base/nearest.h", "cci.h", "transport/ofi/ofi_library.h",
                      "transport/ibv/hca_verbs.h")),
    ("tools/util", ("base/nearest.h",)),
    ("tools/*", ("aqueduct/", "tools/util/", "base/nearest.h")),
    ("examples", ("aqueduct/",)),
    ("tests/install", ("aqueduct/",)),
    ("tests/*", ("{any}",)),
)
# The folders of the core, lowest first: each may include itself and those before it.
CORE = ("state", "wait", "event", "mem", "am", "rma", "vis", "coll", "team", "conn", "setup")
RULES = tuple((f"src/core/{name}",
               tuple(f"core/{lower}/" for lower in CORE[:CORE.index(name) + 1]) +
               ("core/core.h", "transport/", "base/", "aqueduct/")) for name in CORE) + RULES
# Exceptions: the only list of transports names them all; messages use the public numbers of
# atomics; pins is the transports' interface to registrations on demand.
EXTRA = {
    "src/transport/registry.c": re.compile(r"transport/\w+/\w+\.h"),
    "src/transport/rdma/pins.h": re.compile(r"reg/\w+\.h"),
    "src/transport/rdma/pins.c": re.compile(r"reg/\w+\.h"),
    "src/lib/alone.c": re.compile(r"transport/shm/shm\.h"),
    "src/transport/am.c": re.compile(r"aqueduct/type\.h"),
    "src/transport/am_test.c": re.compile(r"aqueduct/type\.h"),
}

# Folders that others may call without including their headers: those of the core through core.h,
# and the registrations on demand through pins.h.
CALLS = {"src/lib": "core/", "src/transport/rdma": "reg/", "src/transport/ibv": "reg/",
         "src/transport/ofi": "reg/"}


# Files of a folder that may use only each other and the headers named here: in dgram, the protocol
# of a connection, which is below the engine.
BELOW = {
    "src/dgram": ({"ack", "wheel", "ops", "pace", "packet", "park", "queue", "search", "seen",
                   "silence", "transmit"}, {"conn", "dgram"}),
}


def is_above(folder, caller, other):
    """Whether `other`, a path without suffix, is a file of `folder` that `caller` must not know."""
    files, headers = BELOW.get(folder, ((), ()))
    inside, _, name = other.rpartition("/")
    return caller in files and f"src/{inside}" == folder and name not in files | headers


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
        full = include if "/" in include else f"{folder.removeprefix('src/')}/{include}"
        if kind == '"' and is_above(folder, path.stem, full.removesuffix(".h")):
            yield f"{relative}:{number}: must not include {full}; see docs/architecture.md"
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


def symbols(build):
    """The symbols that each file of src defines and uses, {source: (defined, used)}, from the
    objects of the library (the targets aq_…)."""
    found = {}
    for target in (build / "src").rglob("CMakeFiles/aq_*.dir"):
        folder = target.parent.parent.relative_to(build)
        for path in target.rglob("*.c.o"):
            lines = subprocess.run(["nm", path], capture_output=True, text=True,
                                   check=True).stdout.splitlines()
            names = [(line.split()[-2], line.split()[-1]) for line in lines]
            source = (folder / path.relative_to(target)).as_posix()[:-2]
            found[source] = ({name for kind, name in names if kind in "TDBRVWC"},
                             {name for kind, name in names if kind == "U"})
    return found


def check_calls(found):
    """Public functions are declared for all files, but each may use only those of lower layers."""
    where = {name: source for source, (defined, _) in found.items() for name in defined}
    for source, (_, used) in sorted(found.items()):
        caller = source.rpartition("/")[0]
        if caller.startswith("src/front/"):
            continue  # these use the public interface
        prefixes, besides = rule_for(caller), CALLS.get(caller)
        extra = EXTRA.get(source)
        for name in sorted(used & where.keys()):
            include = where[name].removeprefix("src/")[:-2] + ".h"
            folder = include.rpartition("/")[0] + "/"
            lower = not is_above(caller, pathlib.Path(source).stem, include.removesuffix(".h"))
            if lower and (any(prefix.startswith(folder) for prefix in prefixes) or
                          (besides and folder.startswith(besides)) or
                          (extra and extra.fullmatch(include))):
                continue
            yield f"{source} must not use {name} of {where[name]}; see docs/architecture.md"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    paths = tree.files(root, ".c", ".h", ".cc", ".cpp")
    findings = [finding for path in paths for finding in check(root, path)]
    if len(sys.argv) > 2:
        objects = symbols(pathlib.Path(sys.argv[2]).resolve())
        # A build folder keeps the objects of files that were removed or moved.
        found = {source: names for source, names in objects.items() if (root / source).exists()}
        if not found:
            sys.exit("includes: no objects of the library in the build")
        findings += check_calls(found)
    tree.report("includes", findings, len(paths))


if __name__ == "__main__":
    main()
