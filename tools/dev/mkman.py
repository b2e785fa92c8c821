#!/usr/bin/env python3
"""Generate the manual pages of the calls (man3) and topics (man7) from the public headers.

usage: mkman.py --include DIR --out DIR --version X.Y.Z --date YYYY-MM-DD
"""

import argparse
import pathlib
import re
import sys
import textwrap

import aqheaders

WIDTH = 72  # of source lines before markup, and of prototypes


class Page:
    """Lines of man(7) source for one page."""

    def __init__(self, name, section, options):
        self.lines = [
            f'.TH "{name.upper()}" "{section}" "{options.date}" "Aqueduct {options.version}" '
            f'"Aqueduct Manual"'
        ]

    def section(self, title):
        self.lines.append(f".SH {title}")

    def name(self, name, brief):
        self.section("NAME")
        self.lines.append(f"{escape(name)} \\-")
        self.lines += [prose(line) for line in textwrap.wrap(brief.replace("`", ""), WIDTH - 4)]

    def subsection(self, title):
        self.lines.append(f'.SS "{escape(title)}"')

    def text(self, text):
        """A paragraph of filled text, with `code`, calls and constants marked up."""
        words = markup(" ".join(text.split()))
        for line in textwrap.wrap(words, WIDTH, break_long_words=False, break_on_hyphens=False):
            self.lines.append(guard(line))

    def paragraph(self, text):
        if not self.lines[-1].startswith((".SH", ".SS")):
            self.lines.append(".PP")
        self.text(text)

    def tagged(self, tag, text):
        self.lines += [".TP", f"\\fB{escape(tag)}\\fR"]
        self.text(text)
        if not text:
            self.lines.append("\\&")

    def code(self, lines):
        """Lines that are not filled."""
        if not self.lines[-1].startswith((".SH", ".SS")):
            self.lines.append(".PP")
        self.lines.append(".nf")
        self.lines += [guard(escape(line)) if line else ".sp" for line in lines]
        self.lines.append(".fi")

    def see_also(self, references):
        self.section("SEE ALSO")
        last = len(references) - 1
        for at, (name, section) in enumerate(references):
            comma = "," if at < last else ""
            self.lines.append(f".BR {escape(name)} ({section}){comma}")

    def source(self):
        return "\n".join(self.lines) + "\n"


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti").replace("…", "...")
    return "".join(char if ord(char) < 128 else f"\\[u{ord(char):04X}]" for char in text)


def guard(line):
    """A line that begins with a control character must be escaped."""
    return "\\&" + line if line.startswith((".", "'")) else line


def markup(line):
    """`word` in italics (an argument), calls and constants in bold, the rest escaped."""
    parts = []
    pattern = r"`([^`]*)`|\b(aq_\w+)\(\)|\b(AQ_\w+|aq_\w+)|\"([^\"]*)\""
    at = 0
    for found in re.finditer(pattern, line):
        parts.append(prose(line[at : found.start()]))
        code, call, name, quoted = found.groups()
        if code is not None:
            parts.append(f"\\fI{escape(code)}\\fR")
        elif call:
            parts.append(f"\\fB{escape(call)}\\fR()")
        elif name:
            parts.append(f"\\fB{escape(name)}\\fR")
        else:
            parts.append("\\(dq" + escape(quoted) + "\\(dq")
        at = found.end()
    parts.append(prose(line[at:]))
    return "".join(parts)


def prose(text):
    return escape(text).replace("\\-", "-").replace("\\(aq", "\\(cq").replace('"', "\\(dq")


class Doc:
    """
    A parsed doc comment: paragraphs, named sections, return values. References to other calls
    ("Otherwise as aq_put.") are resolved by `resolve`, so that each page is complete.
    """

    def __init__(self, lines):
        self.paragraphs = []
        self.sections = []  # (title, text)
        self.returns = []  # (tag or None, text)
        names = "|".join(aqheaders.SECTIONS)
        current = None
        for line in lines or []:
            section = re.match(rf"((?:{names})(?:, (?:{names}))*)\s\s+(.*)", line)
            if line.startswith("@return"):
                self.returns.append(line[len("@return") :])
                current = self.returns
            elif section:
                self.sections.append([section.group(1), section.group(2)])
                current = self.sections
            elif not line.strip():
                current = None
            elif current is self.returns:
                self.returns[-1] += "  " + line.strip()
            elif current is self.sections and line.startswith(" "):
                self.sections[-1][1] += " " + line.strip()
            elif current is self.paragraphs:
                self.paragraphs[-1] += " " + line.strip()
            else:
                self.paragraphs.append(line.strip())
                current = self.paragraphs
        self.returns = [self._outcome(text) for text in self.returns]

    @staticmethod
    def _outcome(text):
        tagged = re.match(r"\s*(AQ_[A-Z]+(?:, AQ_[A-Z]+)*)(?:\s+(.*))?$", text)
        if tagged:
            return tagged.group(1), " ".join((tagged.group(2) or "").split())
        return None, " ".join(text.split())

    def models(self):
        """The calls whose documentation completes that of this one."""
        found = []
        others = [text for title, text in self.sections if title == "Otherwise"]
        for text in self.paragraphs + others:
            for names in re.findall(r"\b[Aa]s ((?:aq_\w+(?: and |, )?)+)", text):
                found += re.findall(r"aq_\w+", names)
        return found

    def resolve(self, docs, seen=()):
        """
        {title: text} of the sections of a call, and {code: text} of its return values, completed
        from the calls to which it refers.
        """
        models = [name for name in self.models() if name in docs and name not in seen]
        likes = {name: docs[name].resolve(docs, (*seen, *models)) for name in models}
        sections = {}
        for titles, text in self.sections:
            for title in titles.split(", "):
                sections[title] = self._completed(title, text, docs, seen)
        for title in aqheaders.INHERITED:
            for theirs, _ in likes.values():
                if title in theirs:
                    sections.setdefault(title, theirs[title])
        # Calls that handlers may make do not block.
        if "may be called from a handler" in sections.get("Threads", ""):
            sections.setdefault("Blocking", "Never.")
        if likes:
            sections.pop("Otherwise", None)
        order = aqheaders.SECTIONS
        return ({title: sections[title] for title in order if title in sections},
                self._all_returns(docs, likes, seen))

    @staticmethod
    def _completed(title, text, docs, seen):
        """"As aq_put." with the text of that section."""
        found = re.match(r"As (aq_\w+)\b(.*)", text)
        if not found or found.group(1) not in docs or found.group(1) in seen:
            return text
        theirs = docs[found.group(1)].resolve(docs, (*seen, found.group(1)))[0].get(title)
        rest = found.group(2).lstrip(" .;,")
        rest = rest and f" {rest[0].upper()}{rest[1:]}"
        return theirs + rest if theirs else text

    def _all_returns(self, docs, likes, seen):
        codes = {}
        for tag, text in self.returns:
            like = re.match(r"As ((?:aq_\w+(?: and )?)+)", text)
            theirs = {}
            for name in re.findall(r"aq_\w+", like.group(1)) if like else []:
                if name not in likes and name in docs and name not in seen:
                    likes[name] = docs[name].resolve(docs, (*seen, name))
                theirs.update(likes[name][1] if name in likes else {})
            if tag is not None:
                codes |= {code: theirs.get(code, "" if like else text) for code in tag.split(", ")}
                continue
            excluded = re.findall(r"AQ_\w+", text.partition("except")[2].partition(";")[0])
            codes |= {code: said for code, said in theirs.items()
                      if code not in codes and code not in excluded}
            more = re.search(r", and (AQ_\w+(?:, AQ_\w+)*)", text)
            for code in more.group(1).split(", ") if more else []:
                codes.setdefault(code, "")
            also = re.search(r"; (AQ_\w+)( also)? (if .*)", text)
            if also:
                before = codes.get(also.group(1)) if also.group(2) else None
                first = "Also " if also.group(2) else ""
                own = first + also.group(3)
                codes[also.group(1)] = (f"{before} " if before else "") + own[0].upper() + own[1:]
        return codes

    def brief(self):
        """The first sentence, in the form for the NAME section: no capital, no full stop."""
        first = re.split(r"(?<=[\w)`\"])[.:;](?:\s|$)", self.paragraphs[0], maxsplit=1)[0]
        if not re.match(r"[A-Z][A-Z_]", first):
            first = first[0].lower() + first[1:]
        return first


class FormDoc(Doc):
    """
    The doc of aq_x_nb or aq_x_nbi without a comment of its own: it relates to aq_x as aq_y_nb
    relates to aq_y, where aq_y is a call to which the comment of aq_x refers.
    """

    def __init__(self, item, docs):
        super().__init__(item.doc)
        self.blocking = item.form_of.name
        self.suffix = item.name.removeprefix(self.blocking)
        texts = " ".join(self.paragraphs + [text for _, text in self.sections + self.returns])
        likes = re.findall(r"\b[Aa]s (aq_\w+)(?: and (aq_\w+))?", texts)
        names = [name for like in likes for name in like if name + self.suffix in docs]
        if not names:
            sys.exit(f"mkman: {item.where()}: {self.blocking} refers to no call with a form "
                     f"{self.suffix}: write \"as aq_…\" there, or document {item.name}")
        self.like = names[0]
        self.paragraphs.insert(0, f"Start what {self.blocking} does, as described below, without "
                                  f"waiting for it; otherwise as {self.like}{self.suffix}.")

    def resolve(self, docs, seen=()):
        _, own = docs[self.blocking].resolve(docs, seen)
        _, theirs = docs[self.like].resolve(docs, seen)
        sections, codes = docs[self.like + self.suffix].resolve(docs, seen)
        codes = {code: text for code, text in codes.items() if code in own or code not in theirs}
        return sections, codes | {code: text for code, text in own.items()
                                  if theirs.get(code) != text}

    def brief(self):
        blocking = re.split(r"(?<=[\w)`\"])[.:;](?:\s|$)", self.paragraphs[1], maxsplit=1)[0]
        return f"start to {blocking[0].lower()}{blocking[1:]}".removesuffix(", and wait")


def prototype(code):
    """A prototype in lines that fit, with continuation lines aligned to the opening parenthesis."""
    head, _, rest = code.partition("(")
    indent = " " * (len(head) + 1)
    pieces = re.split(r"(?<=,) ", rest)
    lines = [head + "("]
    for at, piece in enumerate(pieces):
        if at and len(lines[-1]) + 1 + len(piece) > WIDTH:
            lines.append(indent + piece)
        else:
            lines[-1] += (" " if at else "") + piece
    return lines


def call_page(item, header, docs, meanings, options):
    doc = docs[item.name]
    sections, codes = doc.resolve(docs, (item.name,))
    page = Page(item.name, 3, options)
    page.name(item.name, doc.brief())
    page.section("SYNOPSIS")
    page.code([f"#include <{header.name}>", ""] + prototype(item.code))
    page.section("DESCRIPTION")
    for paragraph in doc.paragraphs:
        page.paragraph(paragraph)
    for title, text in sections.items():
        page.subsection(title)
        page.text(text)
    if not item.code.startswith(("void ", "_Noreturn")):
        page.section("RETURN VALUE")
        return_value(page, doc, codes, meanings)
    others = [(other.name, 3) for other in header.functions() if other is not item]
    page.see_also([(f"aqueduct-{header.topic}", 7), ("aqueduct", 7)] + sorted(others))
    return page.source()


def return_value(page, doc, codes, meanings):
    if not doc.returns:
        said = doc.paragraphs[0].removeprefix("Return ")
        page.text(said[0].upper() + said[1:])
        return
    for tag, text in doc.returns:
        if tag is None and not re.match(r"As aq_\w+", text):
            page.paragraph(text if text.endswith((".", ":")) else text + ".")
    said = list(codes.values())
    for code, text in codes.items():
        # For text about several codes: the part that applies to each.
        common = text.partition(" Also ")[0]
        shared = text and said.count(common) > (common == text)
        page.tagged(code, f"{meanings[code]} {text}" if shared else text or meanings[code])


def topic_page(header, docs, options):
    page = Page(f"aqueduct-{header.topic}", 7, options)
    purpose = header.purpose.rstrip(".")
    page.name(f"aqueduct-{header.topic}", purpose[0].lower() + purpose[1:])
    page.section("SYNOPSIS")
    page.code([f"#include <{header.name}>"])
    if header.functions():
        page.section("CALLS")
        for item in header.functions():
            page.tagged(f"{item.name}(3)", docs[item.name].brief())
    types = [item for item in header.items if item.kind == "type"]
    if types:
        page.section("TYPES")
        for item in types:
            type_entry(page, item)
    macros = {item.name: item for item in header.items if item.kind == "macro" and item.doc}
    if macros:
        page.section("MACROS")
        macro_entries(page, macros.values())
    page.see_also([("aqueduct", 7)])
    return page.source()


def type_entry(page, item):
    page.subsection(item.name)
    for paragraph in Doc(item.doc).paragraphs:
        page.paragraph(paragraph)
    parts = aqheaders.members(item)
    if not parts:
        page.code(item.code.split("\n"))
    for declared, text in parts:
        if "aqi_" in declared:
            continue  # private to the library
        page.tagged(declared, text)


def macro_entries(page, macros):
    group = None
    for item in macros:
        if item.group and item.group != group:
            page.paragraph(" ".join(item.group))
        group = item.group
        value = re.match(r"#define\s+(\w+(?:\([^)]*\))?)\s*(.*)", item.code, re.S)
        simple = re.fullmatch(r"[\w()*]+", value.group(2) or "")
        tag = value.group(1) + (f" = {value.group(2)}" if simple else "")
        page.tagged(tag, " ".join(item.doc))


def overview_page(headers, options):
    page = Page("aqueduct", 7, options)
    whole = next(header for header in headers if header.topic == "aqueduct")
    page.name("aqueduct", whole.purpose.partition(": ")[2].rstrip("."))
    page.section("SYNOPSIS")
    page.code(["#include <aqueduct/aqueduct.h>", "",
               "cc program.c $(pkg-config --cflags --libs aqueduct)", "aqrun -n 4 ./a.out"])
    page.section("DESCRIPTION")
    page.text("A program joins its job with aq_init, exchanges active messages with the other "
              "processes, reads and writes their memory, and leaves with aq_finalize. The "
              "launcher starts the processes; a program started without it is a job of one.")
    page.paragraph("Every call that can fail returns an aq_status: 0 is success, positive is not "
                   "now, and negative is a failure, which aq_error_message() describes. Each call "
                   "has its own page in section 3, which describes its completion and ordering, "
                   "whether it blocks, and which threads may make it.")
    page.section("TOPICS")
    for header in headers:
        if header is not whole:
            page.tagged(f"aqueduct-{header.topic}(7)", header.purpose)
    page.section("ENVIRONMENT")
    page.text("Settings are environment variables whose names begin AQ_. The command "
              "\"aqinfo --settings\" lists them with their value, origin and valid range.")
    page.see_also([("aqrun", 1), ("aqinfo", 1), ("aqperf", 1), ("aqtop", 1)] +
                  [(f"aqueduct-{header.topic}", 7) for header in headers if header is not whole])
    return page.source()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--include", required=True, help="the folder of the public headers")
    parser.add_argument("--out", required=True, help="where man3/ and man7/ go")
    parser.add_argument("--version", required=True)
    parser.add_argument("--date", required=True)
    options = parser.parse_args()

    headers = aqheaders.read_all(options.include)
    statuses = next(item for header in headers for item in header.items
                    if item.name == "aq_status")
    meanings = {}
    for declared, text in aqheaders.members(statuses):
        meanings[declared.split()[0]] = text[0].upper() + text[1:] + "."

    functions = [item for header in headers for item in header.functions()]
    for item in functions:
        if not item.doc:
            sys.exit(f"mkman: {item.where()}: {item.name} has no doc comment")
    docs = {item.name: Doc(item.doc) for item in functions if not item.form_of}
    for item in functions:
        if item.form_of:
            docs[item.name] = FormDoc(item, docs)
    pages = {"man7/aqueduct.7": overview_page(headers, options)}
    for header in headers:
        if header.topic != "aqueduct":
            pages[f"man7/aqueduct-{header.topic}.7"] = topic_page(header, docs, options)
        for item in header.functions():
            pages[f"man3/{item.name}.3"] = call_page(item, header, docs, meanings, options)

    out = pathlib.Path(options.out)
    for section in ("man3", "man7"):
        (out / section).mkdir(parents=True, exist_ok=True)
        for old in (out / section).iterdir():
            if f"{section}/{old.name}" not in pages:
                old.unlink()  # of a call that no longer exists
    for name, source in pages.items():
        (out / name).write_text(source, encoding="ascii")


if __name__ == "__main__":
    main()
