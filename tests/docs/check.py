#!/usr/bin/env python3
"""Commands in documents: each is run by a test, or its block says why not (blocks.py).

usage: check.py ROOT
"""

import pathlib
import re
import sys

import blocks

LANGUAGES = {"sh", "c", "make", "cmake", "meson", "yaml", "text"}
DOCUMENTS = ("*.md", "docs/*.md", "examples/*.md")
INDENTED = re.compile(r"(?:^|\n)([^\n]*)\n\n    (?! )[^\n]+")
# Comments that are not valid marks but resemble them.
NEARLY = re.compile(r"<!--(?! (?:not run: \w|run by [\w.]|file: \S|prints -->|before: \S|"
                    r"with: [^=]+=|needs: \S)).{,40}")


def documents(root):
    return sorted(path for pattern in DOCUMENTS for path in root.glob(pattern))


def unlike(block, root):
    """Returns a finding for each command that the file named in `run by` does not contain."""
    path = root / block.mark("run by")
    if not path.is_file():
        return [f"{block.mark('run by')} does not exist"]
    text = " ".join(path.read_text(encoding="utf-8").replace("\\\n", " ").split())
    return [f"{block.mark('run by')} does not contain: {line}" for line in block.lines()
            if line not in text]


def check(path, root):
    name = str(path.relative_to(root))
    text = path.read_text(encoding="utf-8")
    found = blocks.read(path, name)
    for block in found:
        if block.language not in LANGUAGES:
            yield f"{block.where}: language \"{block.language}\": one of {sorted(LANGUAGES)}"
        if block.mark("run by") is not None:
            yield from (f"{block.where}: {finding}" for finding in unlike(block, root))
        if block.mark("before") is not None and not block.runs():
            yield f"{block.where}: prepared, but not run"
    bare = re.sub(r"^( *)```.*?^ *```", "", text, flags=re.M | re.S)
    for match in INDENTED.finditer(bare):
        if not re.match(r" *([-*]|\d+\.) |  +\S", match[1]):
            yield f"{name}: indented code; use ``` and a language: {match[0].strip()[:60]}"
    for match in NEARLY.finditer(text):
        yield f"{name}: unknown comment: {match[0]}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    paths = documents(root)
    findings = [finding for path in paths for finding in check(path, root)]
    for finding in findings:
        print(finding)
    if findings or len(paths) < 10:
        sys.exit(f"commands: {len(findings)} findings in {len(paths)} documents")
    print(f"commands: {len(paths)} documents are clean")


if __name__ == "__main__":
    main()
