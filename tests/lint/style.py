#!/usr/bin/env python3
"""Style: the length of files and lines, a first line with the purpose, names of statics and of
structs, documented calls.

usage: style.py ROOT
"""

import pathlib
import re
import sys

import tree

MAX_LINES = 800
MAX_COLUMNS = 100
CODE = (".c", ".h", ".cc", ".cpp")


def check_text(relative, text, code):
    lines = text.split("\n")
    count = text.count("\n")
    if count > MAX_LINES:
        yield f"{relative}: {count} lines; above {MAX_LINES}, a file has more than one purpose"
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            yield f"{relative}:{number}: {len(line)} columns; the limit is {MAX_COLUMNS}"
        if line != line.rstrip():
            yield f"{relative}:{number}: blanks at the end of the line"
        if code and "\t" in line:
            yield f"{relative}:{number}: a tab; indent with 4 spaces"
    if code and not lines[0].startswith("/*"):
        yield f"{relative}:1: the first line must say in a comment what the file is for"
    if text and not text.endswith("\n"):
        yield f"{relative}: no newline at the end"


# A static function of the library, at the start of a line.
STATIC = re.compile(r"^(?:AQI_COLD )?static (?!const struct|struct|enum|_Thread_local)"
                    r"(?:inline |AQI_COLD |_Noreturn |noreturn )*[\w *]*?[ *]([a-z]\w*)\(", re.M)
STANDS_IN = ("on_exit",)  # for a function that some C libraries lack


def check_statics(relative, text):
    """The name of a static function begins with that of its file or folder, so that a profile or
    a debugger's list shows where it is."""
    if relative.parts[0] != "src" or relative.suffix != ".c" or relative.stem.endswith("_test"):
        return
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    wanted = (relative.stem + "_", relative.parent.name + "_")
    for name in STATIC.findall(code):
        if not name.startswith(wanted) and name not in STANDS_IN and \
                name not in (relative.stem, relative.parent.name):
            yield f"{relative}: static {name}: begin its name with {wanted[0]} or {wanted[1]}"


TAG = re.compile(r"^(?:typedef |static |const )*((?:struct|enum|union) \w+)\s*\{", re.M)
# Structs of src/transport/rendezvous.h that each transport defines.
LEFT_OPEN = {"struct aqi_control_channel", "struct aqi_listener", "struct aqi_rendezvous"}


class Tags:
    """Each name of a struct, union or enum is unique in the library, so that searches and
    debuggers find the right one."""

    def __init__(self):
        self.where = {}

    def check(self, relative, text):
        if relative.parts[0] != "src" or relative.stem.endswith("_test"):
            return
        for tag in set(TAG.findall(text)) - LEFT_OPEN:
            first = self.where.setdefault(tag, relative)
            if first != relative:
                yield f"{relative}: {tag} is also defined in {first}: rename one of them"


def check_docs(root):
    sys.path.insert(0, str(root / "tools/dev"))
    import aqheaders

    for header in aqheaders.read_all(root / "include/aqueduct"):
        for item in header.items:
            if item.kind != "macro" and not item.doc:
                yield f"include/{item.where()}: {item.name} has no doc comment"
            if item.kind == "function" and not item.name.startswith("aq_"):
                yield f"include/{item.where()}: {item.name} is public and does not begin with aq_"
            if item.kind == "function" and item.doc and "aq_status " in item.code.split("(")[0] \
                    and not any(line.startswith("@return") for line in item.doc):
                yield f"include/{item.where()}: {item.name} does not say what it returns (@return)"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    paths = tree.files(root, *CODE, ".py", ".sh", ".cmake", ".txt")
    findings, tags = [], Tags()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        findings += check_text(path.relative_to(root), text, path.suffix in CODE)
        findings += check_statics(path.relative_to(root), text)
        findings += tags.check(path.relative_to(root), text)
    findings += check_docs(root)
    tree.report("style", findings, len(paths))


if __name__ == "__main__":
    main()
