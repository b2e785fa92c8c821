#!/usr/bin/env python3
"""Prose: reports frequent mistakes of English in comments, documents and strings, with a suggestion
for each. CLEAN lists the parts of the tree that have none, as patterns; it grows until it is the
whole tree. WITH_EXAMPLES are the files that contain such mistakes on purpose.

usage: prose.py ROOT
"""

import bisect
import pathlib
import re
import sys

import tree

CLEAN = ("src", "tools", "include", "examples", "docs", "tests", ".ci", "cmake", "CMakeLists.txt",
         "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md",
         "ROADMAP.md", "packaging", "meson.build")
WITH_EXAMPLES = ("tests/lint/prose.py", "tests/lint/selftest.py")
SUFFIXES = (".c", ".h", ".cc", ".cpp", ".md", ".sh", ".py", ".cmake", ".txt")

PATTERNS = tuple((re.compile(pattern, re.M), advice) for pattern, advice in (
    (r"\b[Ww]ho(?:ever|m)?\b", "a process is a thing: \"a process that …\", \"which rank\""),
    (r"\b(?:he|him|his|she|her)\b", "it, its"),
    (r"\b(?:[Nn]o|[Ss]ome|[Ee]very|[Aa]ny)body\b", "no process, a peer, every rank, any user"),
    (r"\b(?:is|are|was|were|be|been|has|have|had) told\b|\btold (?:by|of|that)\b",
     "is notified, is reported"),
    (r"\b[Bb]e told\b", "register a callback, be notified"),
    (r"\bhear(?:s|d)? of\b", "learns of, is notified of"),
    (r"\bof (?:which|whom)\b", "whose …, or begin a new sentence"),
    (r"\b(?:is|are|was|were|be) over\b", "has ended, has expired"),
    (r"\b(?:make|makes|made|making) no sense\b", "is malformed, is invalid"),
    (r"\b[Ii]f need be\b", "if necessary"),
    (r"\b[Ii]n any case\b", "always, regardless"),
    (r"\b(?:give|gives|gave|given|giving) (?:\w+ ){0,3}up\b", "cancel, abandon, stop"),
    (r"(?<!are )(?<!is )\ball the same\b(?=[.,;:)])", "anyway, nevertheless"),
    (r"\b(?:is|are) no more\b(?! than)", "no longer exists, has been freed"),
    (r"\bcomes? to (?:its|their) end\b", "ends"),
    (r"\b[Ii]t is (?:looked|asked|tried|said|seen)\b", "use the active voice"),
    (r"\bas of (?=aq_|AQ_)", "as with"),
    (r"\bsa(?:y|ys|id) (?:no|yes|of what)\b", "reject, accept, print the cause"),
    (r"\b(?:resources are|memory is) short\b", "not enough resources, out of memory"),
    (r"\blegal\b", "valid, allowed"),
    (r"\b\w*(?:[Bb]ehaviou|[Nn]eighbou|[Cc]olou|[Ff]avou|[Hh]onou)r\w*",
     "American spelling: -or"),
    (r"\b(?:un)?(?:cancel|label|model|signal|travel)l(?:ed|ing)\b", "American spelling: one l"),
    (r"\b(?:[Rr]e)?(?:[Ii]nitial|[Nn]ormal|[Oo]ptim|[Rr]andom|[Rr]ecogn|[Ss]erial|[Ss]ynchron"
     r"|[Uu]til)is(?:ed?|es|ing|ations?)\b", "American spelling: -ize"),
    (r"\b[Ff]or ever\b|\b[Tt]ime-outs?\b", "forever, timeout"),
    (r"\b(?:is|are|was|were|been) \w+ already\b", "already before the participle"),
    (r"\bany more(?=\s*(?:[.,;:)\"]|$))", "no longer"),
    (r"(?<!\bno )(?<!\bany )\b(?:[Aa]nother|other) \w+(?: \w+)? than\b", "different from"),
    (r"\bsome (?:milli|micro)?(?:seconds|minutes|hours|days)\b", "a few"),
    (r"\b[Ff]rom some (?:time|moment|point) on\b", "at some point, after a while"),
    (r"^#+ What\b", "name the thing in a heading"),
    (r"\| \| \|-{3}", "a header for the last column of the table"),
))

# These are looked for at the beginning of a comment only.
OPENINGS = tuple((re.compile(pattern), advice) for pattern, advice in (
    (r"(?:Does|Do|Did|Is|Are|Has|Have|Should|May) [^.?]*\?", "return whether …; whether …"),
    (r"What\b[^.?]*[.:]", "name the thing, or say what the function does"),
    (r"(?:[Mm]ost|[Ll]east) (?:\w+ ){0,2}?(?:ns|bytes|packets|datagrams|messages|frames|peers"
     r"|pieces|characters|delay)\b(?! (?:have|are))", "the maximum …, the minimum …"),
))

# Comments and strings of C; comments and strings of the languages of scripts; what is not prose.
PARTS_C = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
PARTS_SCRIPT = re.compile(r"\"\"\".*?\"\"\"|\"(?:\\.|[^\"\\\n])*\"|(?m:(?:^|(?<=\s))#[^\n]*)", re.S)
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
LEAD = re.compile(r"^\s*(?:/\*+<?|\*/|\*|//+|#+!?|\"+)? ?")


def parts(path, text):
    """The pieces of prose of a file, with the offset of each."""
    if path.suffix == ".md":
        text = FENCED.sub(lambda code: re.sub(r"[^\n]", " ", code.group(0)), text)
        for found in re.finditer(r"(?:[^\n]+\n?)+", text):
            yield found.start(), found.group(0)
        return
    pattern = PARTS_C if path.suffix in (".c", ".h", ".cc", ".cpp") else PARTS_SCRIPT
    for found in pattern.finditer(text):
        if not found.group(0).startswith("'"):
            yield found.start(), found.group(0)


def flat(part, markdown):
    """
    Its paragraphs, each as one line without the marks of comments: (text, offset of each line in
    it, number of the line).
    """
    text, starts, numbers = "", [], []
    for number, line in enumerate(part.split("\n")):
        line = line if markdown else LEAD.sub("", line)
        line = line.replace("*/", "").strip()
        if not line and text:
            yield text, starts, numbers
            text, starts, numbers = "", [], []
        if line:
            starts.append(len(text))
            numbers.append(number)
            text += line + " "
    if text:
        yield text, starts, numbers


def check(relative, text):
    for offset, part in parts(relative, text):
        first = text.count("\n", 0, offset) + 1
        markdown = relative.suffix == ".md"
        for at, (prose, starts, numbers) in enumerate(flat(part, markdown)):
            matches = [(found, advice) for pattern, advice in PATTERNS
                       for found in pattern.finditer(prose)]
            if at == 0 and not markdown:
                matches += [(found, advice) for pattern, advice in OPENINGS
                            if (found := pattern.match(prose))]
            for found, advice in matches:
                number = first + numbers[bisect.bisect_right(starts, found.start()) - 1]
                yield f"{relative}:{number}: \"{found.group(0)[:60].strip()}\": {advice}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    paths = []
    for top in (top for name in CLEAN for top in sorted(root.glob(name))):
        inside = top.rglob("*") if top.is_dir() else [top]
        paths += sorted(path for path in inside if path.suffix in SUFFIXES
                        and str(path.relative_to(root)) not in WITH_EXAMPLES)
    findings = []
    for path in paths:
        findings += check(path.relative_to(root), path.read_text(encoding="utf-8"))
    tree.report("prose", findings, len(paths))


if __name__ == "__main__":
    main()
