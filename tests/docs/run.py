#!/usr/bin/env python3
"""Runs the commands in the documents, as described in blocks.py, against the installed tree of a
build.

Each document gets its own home and working folder, with README's program as ./program, the sources
of the examples, and a replacement for ssh that makes every host this machine. The pages of first
steps are run by first_steps.py.

usage: run.py BUILD_DIR SOURCE_DIR [DOCUMENT…]     (DOCS_VERBOSE=yes: with all output)
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import blocks
import check

TIMEOUT = 240  # seconds per document
FOREIGN = ("AQ_", "GASNET_", "SLURM", "PMI", "OMPI_", "FI_")
SHELL = """#!/bin/sh
while :; do case $1 in -o|-F|-p|-i) shift 2;; -*) shift;; *) break;; esac; done
shift
exec sh -c "$*"
"""


class World:
    """The installed tree, and the files that each document finds in its folder."""

    def __init__(self, build, source, top):
        self.build, self.source, self.top = build, source, top
        self.prefix = top / "aqueduct"
        subprocess.run(["cmake", "--install", build, "--prefix", self.prefix], check=True,
                       stdout=subprocess.DEVNULL)
        self.model = top / "model"
        shutil.copytree(source / "examples", self.model, ignore=shutil.ignore_patterns("*.md"))
        self.write("ssh", SHELL, 0o700)
        program = next(block for block in blocks.read(source / "README.md", "README.md")
                       if block.mark("file") == "program.c")
        self.write("program.c", program.text)
        self.compile("program.c", "program")
        for name in ("server", "client", "eventloop"):
            self.compile(f"{name}.c", name)

    def write(self, name, text, mode=0o600):
        path = self.model / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)

    def compile(self, source, program):
        subprocess.run(["cc", source, "-o", program, f"-I{self.prefix}/include",
                        f"-L{self.prefix}/lib", "-laqueduct"], check=True, cwd=self.model)

    def environment(self, home):
        # Links without blanks: the commands do not quote these paths.
        for name, path in (("source", self.source), ("build", self.build)):
            (home / name).symlink_to(path)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        lib = self.prefix / "lib"
        return {**kept, "HOME": str(home), "LC_ALL": "C.UTF-8", "SOURCE": str(home / "source"),
                "BUILD": str(home / "build"), "PATH": f"{self.prefix}/bin:{kept['PATH']}",
                "PKG_CONFIG_PATH": f"{lib}/pkgconfig", "LD_LIBRARY_PATH": str(lib),
                "AQ_SSH_CMD": str(home / "work/ssh"), "TMPDIR": str(home / "tmp"),
                # Otherwise, Open MPI refuses to run as root, or with more ranks than cores.
                "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "OMPI_MCA_rmaps_base_oversubscribe": "1"}

    def run(self, name, found):
        """Run the commands in a document. Returns findings."""
        home = pathlib.Path(tempfile.mkdtemp(dir=self.top))
        (home / "tmp").mkdir()
        (home / "aqueduct").symlink_to(self.prefix)
        work = home / "work"
        shutil.copytree(self.model, work)
        with tempfile.TemporaryFile("w+") as said, subprocess.Popen(
                ["bash", "-c", blocks.script(found)], cwd=work, env=self.environment(home),
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                start_new_session=True) as shell:
            try:
                shell.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(shell.pid, signal.SIGKILL)
            said.seek(0)
            text = said.read()
            if "DOCS_VERBOSE" in os.environ:
                print(text)
            return blocks.judge(found, text)


def missing(found):
    return [program for block in found for words in block.marked("needs")
            for program in words.split() if shutil.which(program) is None]


def main():
    build, source = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    chosen = sys.argv[3:]
    findings, ran = [], 0
    with tempfile.TemporaryDirectory(prefix="aqueduct-docs-", ignore_cleanup_errors=True) as top:
        world = World(build, source, pathlib.Path(top))
        names = [str(path.relative_to(source)) for path in check.documents(source)
                 if not path.name.startswith("first-steps")]
        documents = {name: blocks.read(source / name, name) for name in names}
        documents["manual pages"] = blocks.manual(build / "man")
        if not documents["manual pages"]:
            findings.append(f"no commands in the manual pages of {build}: has their form changed?")
        for name, found in documents.items():
            if (chosen and name not in chosen) or not any(block.runs() for block in found):
                continue
            if missing(found):
                # The other documents are still run; `make test` lists only tests that were skipped
                # entirely.
                print(f"{name}: not run: not installed: {' '.join(missing(found))}")
                continue
            began = time.monotonic()
            findings += world.run(name, found)
            count = sum(len(block.lines()) for block in found if block.runs())
            print(f"{name}: {count} commands, {time.monotonic() - began:.1f} s", flush=True)
            ran += count
    for finding in findings:
        print(re.sub(r"^", "  ", finding, flags=re.M).strip())
    if findings or ran == 0:
        sys.exit(f"commands: {len(findings)} findings")


if __name__ == "__main__":
    main()
