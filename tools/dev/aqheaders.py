"""Read the public headers: declarations, and the doc comments before them.

Understands the headers of this project, not C: one declaration after one comment, or the forms of a
call without blank lines between them, functions marked AQ_API, types as "typedef struct/enum/…",
values documented before or after ("/**< … */").
"""

import pathlib
import re

INHERITED = ("Completion", "Ordering", "Blocking", "Threads")
SECTIONS = INHERITED + ("Otherwise",)


class Item:
    """A function, type or macro with its documentation."""

    def __init__(self, kind, name, code, doc, header, line, inline=False):
        self.kind = kind  # "function", "type", "macro"
        self.name = name
        self.code = code
        self.doc = doc  # lines of the comment without its stars, or None
        self.group = None  # the comment before a group of macros with comments of their own
        self.header = header
        self.line = line
        self.inline = inline  # a function that is not in any library
        self.form_of = None  # the blocking call whose comment it shares

    def where(self):
        return f"{self.header}:{self.line}"


class Header:
    """One header: its name in #include directives, its first comment, its items."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.name = f"aqueduct/{self.path.name}"
        self.topic = self.path.stem
        self.text = self.path.read_text(encoding="utf-8")
        first = re.match(r"/\*\s*(.*?)\s*\*/", self.text, re.S)
        self.purpose = " ".join(first.group(1).split()) if first else ""
        self.items = list(self._parse())

    def functions(self):
        return [item for item in self.items if item.kind == "function"]

    def _parse(self):
        text = self.text
        doc = blocking = None
        pos = 0
        while pos < len(text):
            if text.startswith("/**", pos) and not text.startswith("/**<", pos):
                end = text.index("*/", pos)
                doc = comment_lines(text[pos + 3 : end])
                blocking = None
                pos = end + 2
                continue
            if text.startswith("/*", pos):
                pos = text.index("*/", pos) + 2
                continue
            if text[pos].isspace():
                if text.startswith("\n\n", pos):
                    # A blank line separates a comment from items that it does not describe.
                    doc = blocking = None
                pos += 1
                continue
            line = text.count("\n", 0, pos) + 1
            if text[pos] == "#":
                end = directive_end(text, pos)
                directive = text[pos:end]
                pos = end
                item = self._macro(directive, doc, line)
                if item:
                    yield item
                    # The lines of a group share the comment before the first one.
                    if text[pos : pos + 2] != "\n#":
                        doc = None
                continue
            if text.startswith('extern "C"', pos):
                pos = text.index("{", pos) + 1
                continue
            if text[pos] == "}":
                pos += 1
                continue
            end = body_end(text, pos) or declaration_end(text, pos)
            code = text[pos:end].strip()
            pos = end
            item = self._declaration(code, doc or (blocking and blocking.doc), line)
            if item:
                item.form_of = blocking
                blocking = blocking or (item if item.kind == "function" else None)
                doc = None
                yield item

    def _macro(self, directive, doc, line):
        found = re.match(r"#define\s+(AQ_\w+)(\([^)]*\))?", directive)
        if not found or directive.strip().endswith("_H"):
            return None
        trailing = re.search(r"/\*\*<\s*(.*?)\s*\*/", directive, re.S)
        own = comment_lines(trailing.group(1)) if trailing else doc
        code = re.sub(r"\s*/\*.*?\*/", "", directive, flags=re.S).strip()
        item = Item("macro", found.group(1), code, own, self.name, line)
        item.group = doc if trailing else None
        return item

    def _declaration(self, code, doc, line):
        code = re.sub(r"^#.*$", "", code, flags=re.M)
        if code.startswith("[[") and "AQ_API" not in code:
            return None
        inline = code.startswith("static inline")
        if inline or "AQ_API" in code:
            plain = re.sub(r"/\*.*?\*/", "", code.partition("{")[0], flags=re.S)
            plain = re.sub(r"\b(AQ_API|AQ_MUST_USE|static inline)\b|\[\[\w+\]\]", " ", plain)
            plain = " ".join(plain.split())
            name = re.search(r"\b(\w+)\s*\(", plain).group(1)
            return Item("function", name, plain, doc, self.name, line, inline)
        if code.startswith("typedef"):
            plain = re.sub(r"/\*.*?\*/", "", code, flags=re.S).rstrip("; \n")
            function = re.search(r"\b(\w+)\s*\([^)]*\)$", plain)
            name = function.group(1) if function else re.search(r"(\w+)$", plain).group(1)
            return Item("type", name, code, doc, self.name, line)
        return None


def comment_lines(body):
    """The lines of a comment without stars and without blank lines at its ends."""
    lines = []
    for line in body.split("\n"):
        line = re.sub(r"^\s*\*? ?", "", line, count=1) if lines or "*" in line else line.strip()
        lines.append(line.rstrip())
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def directive_end(text, pos):
    """The position after a preprocessor directive, including continuation lines and comments."""
    while True:
        end = text.find("\n", pos)
        if end < 0:
            return len(text)
        chunk = text[pos:end]
        opened = chunk.rfind("/*")
        if opened >= 0 and "*/" not in chunk[opened:]:
            return text.find("\n", text.index("*/", pos + opened))
        if not chunk.endswith("\\"):
            return end
        pos = end + 1


def body_end(text, pos):
    """The position after the body of a function, which ends with a line of its own; None if it
    has no body."""
    body = re.compile(r"[^;{}]*\)\s*\{.*?^\}", re.S | re.M).match(text, pos)
    return body and body.end()


def declaration_end(text, pos):
    """The position after the semicolon that ends a declaration, or the end of the line if there
    is none."""
    depth = 0
    while pos < len(text):
        if text.startswith("/*", pos):
            pos = text.index("*/", pos) + 2
            continue
        char = text[pos]
        if char in "{(":
            depth += 1
        elif char in "})":
            depth -= 1
        elif char == ";" and depth == 0:
            return pos + 1
        pos += 1
    return len(text)


def members(item):
    """The documented members of a struct or values of an enum: (name or declaration, text)."""
    body = re.search(r"\{(.*)\}", item.code, re.S)
    if not body:
        return []
    result = []
    pattern = r"([^,;{}]*?)\s*[,;]?\s*/\*\*<\s*(.*?)\s*\*/|([^,;]+)[,;]?"
    for found in re.finditer(pattern, body.group(1), re.S):
        declared = found.group(1) if found.group(2) else found.group(3)
        declared = " ".join(re.sub(r"/\*.*?\*/", "", declared or "", flags=re.S).split())
        if not declared:
            continue
        text = " ".join(comment_lines(found.group(2) or ""))
        result.append((declared, " ".join(text.split())))
    return result


def read_all(folder):
    """All public headers, sorted by name."""
    return [Header(path) for path in sorted(pathlib.Path(folder).glob("*.h"))]
