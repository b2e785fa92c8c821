"""Shared by the lint scripts: the files of the tree, and how findings are reported."""

import pathlib
import sys

FOLDERS = ("include", "src", "tools", "tests", "examples", "cmake", "bench", ".ci", "packaging")
ROOT_FILES = ("CMakeLists.txt", "Makefile")


def files(root, *suffixes):
    """All files of the project below `root` with one of the suffixes."""
    root = pathlib.Path(root)
    found = [root / name for name in ROOT_FILES if (root / name).exists()]
    for folder in FOLDERS:
        found += sorted(path for path in (root / folder).rglob("*") if path.is_file())
    return [path for path in found
            if path.suffix in suffixes and "__pycache__" not in path.parts]


def report(name, findings, checked):
    """Print the findings and exit as ctest expects."""
    for finding in findings:
        print(finding)
    if not checked:
        sys.exit(f"{name}: nothing to check: wrong folder?")
    if findings:
        sys.exit(f"{name}: {len(findings)} findings in {checked} files")
    print(f"{name}: {checked} files are clean")
