#!/usr/bin/env python3
"""Manual pages: every public function has one, which says whether it blocks and which threads may
call it; there are no others, and mandoc accepts them all.

usage: manual.py ROOT MAN_DIR
"""

import pathlib
import re
import shutil
import subprocess
import sys

import tree


def main():
    root, man = map(pathlib.Path, sys.argv[1:])
    sys.path.insert(0, str(root / "tools/dev"))
    import aqheaders

    headers = aqheaders.read_all(root / "include/aqueduct")
    wanted = {f"{item.name}.3" for header in headers for item in header.functions()}
    present = {path.name for path in (man / "man3").glob("*")}
    tools = {"aqrun.1", "aqinfo.1", "aqperf.1", "aqtop.1",
             "amudprun.1", "gasnetrun_smp.1", "gasnetrun_udp.1", "gasnetrun_ibv.1",
             "gasnetrun_vapi.1", "gasnetrun_ofi.1"}
    findings = [f"{man}/man1/{name} is missing"
                for name in sorted(tools - {path.name for path in (man / "man1").glob("*")})]
    findings += [f"{man}/man3/{name} is missing" for name in sorted(wanted - present)]
    findings += [f"{man}/man3/{name} belongs to no public function"
                 for name in sorted(present - wanted)]
    for name in sorted(wanted & present):
        text = (man / "man3" / name).read_text(encoding="ascii")
        findings += [f"{man}/man3/{name} does not say: {title}"
                     for title in ("Blocking", "Threads") if f'.SS "{title}"' not in text]
    inside = re.compile(rf"[^,\s] +({'|'.join(aqheaders.INHERITED)})  ")
    findings += [f"{item.where()}: a section begins inside a line; indent what is before it"
                 for header in headers for item in header.functions()
                 if item.doc and any(map(inside.search, item.doc))]
    pages = sorted(man.glob("man?/*"))
    if shutil.which("mandoc"):
        result = subprocess.run(["mandoc", "-T", "lint", *pages], capture_output=True, text=True,
                                check=False)
        findings += result.stdout.splitlines()
    else:
        print("mandoc is not installed: only missing pages are reported")
    tree.report("manual", findings, len(pages))


if __name__ == "__main__":
    main()
