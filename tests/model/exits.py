#!/usr/bin/env python3
"""The model of how jobs end (exits.pml): spin checks all of its states, and must find the errors
in variants with deliberate mistakes.

usage: exits.py C_COMPILER quick|all|thorough

"quick" checks only one correct model and one mistake; "thorough" adds models that take a minute
each. Skipped without spin.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MODEL = pathlib.Path(__file__).resolve().parent / "exits.pml"
SAFETY = ("-DSAFETY", "-DCOLLAPSE")
# Agents, ranks, deaths, and how the agents are joined.
RIGHT = (("-DA=1", "-DN=1", "-DDEATHS=0"),
         ("-DA=1", "-DN=3", "-DDEATHS=0"),
         ("-DA=2", "-DN=3", "-DDEATHS=2"),
         ("-DA=3", "-DN=1", "-DDEATHS=3"),
         ("-DA=3", "-DN=2", "-DDEATHS=1"),
         ("-DA=3", "-DN=2", "-DDEATHS=1", "-DTREE=STAR"))
THOROUGH = (("-DA=3", "-DN=3", "-DDEATHS=1"),
            ("-DA=3", "-DN=2", "-DDEATHS=3"),
            ("-DA=3", "-DN=2", "-DDEATHS=3", "-DTREE=STAR"),
            ("-DA=4", "-DN=1", "-DDEATHS=1"),
            ("-DA=4", "-DN=1", "-DDEATHS=1", "-DTREE=FORK"))
QUICK = RIGHT[2:3]
# Also checked for cycles: if there are none, every run ends, even an unfair one.
ENDLESS = ("-DA=2", "-DN=2", "-DDEATHS=1")
HANG = "invalid end state"
# Mistakes: the number, a model in which the mistake shows, and the finding.
WRONG = ((1, ("-DA=2", "-DN=3", "-DDEATHS=0"), "assertion violated (notified[r]==decided)"),
         (2, ("-DA=3", "-DN=2", "-DDEATHS=1"), HANG),
         (3, ("-DA=3", "-DN=2", "-DDEATHS=1"), HANG),
         (4, ("-DA=3", "-DN=2", "-DDEATHS=1"), HANG),
         (5, ("-DA=4", "-DN=1", "-DDEATHS=1"), HANG))
DEEPEST = 100000


def run(folder, *command):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=900)
    return done.returncode, done.stdout


def check(compiler, defines, kind=SAFETY, arguments=(), optimize="-O0"):
    """Returns the number of errors and the output of spin's verifier for these definitions."""
    with tempfile.TemporaryDirectory(prefix="aq-spin-") as folder:
        model = pathlib.Path(folder) / MODEL.name
        model.write_text(MODEL.read_text())
        for command in (("spin", "-a", *defines, model.name),
                        (compiler, optimize, "-w", *kind, "-o", "pan", "pan.c")):
            code, said = run(folder, *command)
            if code != 0 or "rror" in said:
                sys.exit(f"{' '.join(command)} fails:\n{said}")
        _, said = run(folder, "./pan", f"-m{DEEPEST}", *arguments)
    found = re.search(r"errors: (\d+)\n\s*(\d+) states, stored", said)
    if found is None or "max search depth too small" in said or "Search not completed" in said \
            and found[1] == "0":
        sys.exit(f"the check of {' '.join(defines)} is incomplete:\n{said}")
    print(f"{' '.join((*defines, *arguments))}: {found[2]} states, {found[1]} errors", flush=True)
    return int(found[1]), said


def main():
    compiler = sys.argv[1]
    if shutil.which("spin") is None:
        print("skipped: spin is not installed [.ci/install-deps.sh all]")
        sys.exit(77)
    quick, thorough = (word in sys.argv[2:] for word in ("quick", "thorough"))
    for defines in QUICK if quick else RIGHT + (THOROUGH if thorough else ()):
        # Compiling takes most of the time for a small model.
        errors, said = check(compiler, defines, optimize="-O1" if thorough else "-O0")
        if errors:
            sys.exit(said)
    if not quick:
        errors, said = check(compiler, ENDLESS, ("-DNP",), ("-l",))
        if errors:
            sys.exit(said)
    for number, defines, finding in WRONG[:1] if quick else WRONG:
        errors, said = check(compiler, (*defines, f"-DWRONG={number}"))
        if not errors or finding not in said:
            sys.exit(f"mistake {number} is not reported as \"{finding}\":\n{said}")


if __name__ == "__main__":
    main()
