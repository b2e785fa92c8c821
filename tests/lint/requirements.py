#!/usr/bin/env python3
"""docs/requirements.md has each row exactly once, and names only files and tests that exist.

usage: requirements.py ROOT BUILD_DIR
"""

import fnmatch
import pathlib
import re
import subprocess
import sys

import tree

ROWS = {"A": 6, "B": 6, "C": 4, "D": 7, "E": 7, "F": 8, "G": 6}


def test_names(build):
    output = subprocess.run(["ctest", "-N", "-C", "long"], cwd=build, check=True,
                            capture_output=True, text=True).stdout
    return re.findall(r"Test +#\d+: (\S+)", output)


def rows(text):
    for line in text.split("\n"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 6 and re.fullmatch(r"[A-G]\d+", cells[0]):
            yield cells


def check_where(root, key, where):
    folder = None
    for name in re.findall(r"`([^`]+)`", where):
        if re.fullmatch(r"[\w./*{},-]+", name) and ("/" in name or "." in name):
            names = [name]
            inner = re.fullmatch(r"(.*)\{(.*)\}(.*)", name)
            if inner:
                names = [inner.group(1) + each + inner.group(3) for each in
                         inner.group(2).split(",")]
            for each in names:
                if "/" not in each and folder:
                    each = f"{folder}/{each}"
                if not list(root.glob(each)):
                    yield f"{key}: {each} does not exist"
                folder = str(pathlib.PurePath(each).parent)


def check_tests(known, key, tests):
    for pattern in re.findall(r"`([^`]+)`", tests):
        if not fnmatch.filter(known, pattern):
            yield f"{key}: no test is called {pattern}"


def main():
    root, build = map(pathlib.Path, sys.argv[1:])
    text = (root / "docs/requirements.md").read_text(encoding="utf-8")
    known = test_names(build)
    found = list(rows(text))
    expected = [f"{letter}{number + 1}" for letter, count in ROWS.items()
                for number in range(count)]
    findings = []
    if [cells[0] for cells in found] != expected:
        findings.append(f"the rows are not {expected[0]} to {expected[-1]}, each once")
    for key, _, now, where, tests, _ in found:
        findings += check_where(root, key, where)
        findings += check_tests(known, key, tests)
        if not now.startswith(("done", "part: ", "open")):
            findings.append(f"{key}: is neither done, part: nor open")
        if now.startswith("done") and "`" not in tests:
            findings.append(f"{key}: done without a test")
    tree.report("requirements", findings, len(found))


if __name__ == "__main__":
    main()
