#!/usr/bin/env python3
"""The pages of first steps: runs their commands as a new user would, on two bare systems.

All pages begin with the same commands. They are run once, and each page continues in a copy of the
result, so that no page can depend on another. Needs root and a Debian mirror.

usage: first_steps.py SOURCE_DIR [PAGE…]     (DOCS_VERBOSE=yes: with all output)
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import bare
import blocks

TIMEOUT = 900  # seconds: a build on a slow machine
SHARED = 1  # number of blocks at the beginning that are equal on all pages


class Failure(Exception):
    """The commands that failed, with their output."""


def check(system, found, began):
    """Run the blocks on a system."""
    with tempfile.TemporaryFile("w+") as said:
        try:
            system.run(blocks.script(found), said, TIMEOUT)
        except subprocess.TimeoutExpired:
            pass  # the output shows where it hung
        said.seek(0)
        text = said.read()
    if "DOCS_VERBOSE" in os.environ:
        print(text)
    findings = blocks.judge(found, text)
    if findings:
        raise Failure("\n".join(findings))
    count = sum(len(block.lines()) for block in found if block.runs())
    print(f"{found[0].where}: {count} commands, {time.monotonic() - began:.0f} s", flush=True)


def checkout(source, root):
    """Make a checkout as a user would, in ~/src/aqueduct."""
    place = root / "home/new/src/aqueduct"
    shutil.copytree(source, place, symlinks=True,
                    ignore=lambda folder, names: {"build", ".git"} & set(names)
                    if pathlib.Path(folder) == source else ())
    subprocess.run(["chroot", root, "chown", "-R", "new:new", "/home/new"], check=True)


def main():
    bare.enter()
    source = pathlib.Path(sys.argv[1]).resolve()
    pages = [source / page for page in sys.argv[2:]] or sorted(source.glob("docs/first-steps-*.md"))
    found = {page: blocks.read(page, str(page.relative_to(source))) for page in pages}
    shared = found[pages[0]][:SHARED]
    began, failures = time.monotonic(), []
    base, built = bare.TOP / "base", bare.TOP / "installed"
    bare.make(base)
    print(f"a bare system: {time.monotonic() - began:.0f} s", flush=True)
    try:
        with bare.System(1, "installed", base) as system:
            checkout(source, system.root)
            check(system, shared, time.monotonic())
    except Failure as failure:
        sys.exit(str(failure))
    for page in pages:
        if [block.text for block in found[page][:SHARED]] != [block.text for block in shared]:
            failures.append(f"{page}: the first commands differ from those of the other pages")
            continue
        began = time.monotonic()
        with bare.System(1, f"{page.stem}-1", built / "layer", base) as first, \
                bare.System(2, f"{page.stem}-2", base):
            try:
                check(first, found[page][SHARED:], began)
            except Failure as failure:
                failures.append(str(failure))
    for failure in failures:
        print(failure)
    if failures:
        sys.exit(f"first steps: {len(failures)} of {len(pages)} pages failed")


if __name__ == "__main__":
    main()
