#!/usr/bin/env python3
"""docs/wire.md agrees with the code: the versions of all formats, and every table of a struct, of
numbers, and of fields. A table may differ from that of the last release (the latest tag v…) only if
the version of its format does.

The compiler compares structs, so names, offsets and sizes are those of this machine. Only bytes
that it reports as padding (-Wpadded) may have no row. Formats that need the headers of a missing
library are skipped.

usage: wire.py ROOT COMPILER
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

import tree

PAGE = "docs/wire.md"
VERSIONS = "src/base/wire.c"
TICKET = "tools/aqrun/ticket.c"
LIBRARIES = r"((?:infiniband|rdma)/\S+)"
HEADERS = re.compile(rf"fatal error: {LIBRARIES}:|'{LIBRARIES}' file not found")

Table = collections.namedtuple("Table", "section about line columns rows")


def code(cell):
    return cell.strip("`")


def tables(text):
    """All tables, each with its section, the paragraph before it, and its cells."""
    section, paragraph, found, lines = "", "", [], text.split("\n")
    for number, line in enumerate(lines, 1):
        if line.startswith("## "):
            section = code(line[3:])
        if line.startswith("|"):
            cells = [cell.strip() for cell in line[1:-1].split("|")]
            if not lines[number - 2].startswith("|"):
                found.append(Table(section, paragraph, number, cells, []))
                paragraph = ""
            elif not set(line) <= set("|- "):
                found[-1].rows.append([code(cell) for cell in cells])
        elif line:
            paragraph = (paragraph + " " if lines[number - 2] else "") + line
    return found


def named(table, kind):
    """The struct or enum that a table describes, and its file; None if it describes none."""
    about = re.findall(rf"`{kind} (\w+)` \(([\w./]+)\)", table.about)
    return about[-1] if about else None


def struct_checks(name, rows):
    """C declarations that fail to compile if a row is wrong."""
    end = "0"
    yield f"#define AT(f) __builtin_offsetof(struct {name}, f)"
    yield f"#define OF(f) (((struct {name} *)0)->f)"
    yield "#define UP(n, a) (((n) + (a) - 1) / (a) * (a))"
    for offset, size, field, _ in rows:
        whole = f'"{name}.{field}"'
        yield f"_Static_assert(AT({field}) == {offset}, {whole} \" is at another offset\");"
        yield (f"_Static_assert(AT({field}) == UP({end}, __alignof__(OF({field}))), "
               f"\"before \" {whole} \" is something else\");")
        if size != "…":
            yield f"_Static_assert(sizeof(OF({field})) == {size}, {whole} \" has another size\");"
            end = f"(AT({field}) + {size})"
    if rows[-1][1] != "…":
        # If the parts of a struct have cache lines of their own, its size is a multiple of a cache
        # line, too.
        yield (f"_Static_assert(sizeof(struct {name}) == (_Alignof(struct {name}) < 64 ? {end} : "
               f"UP({end}, _Alignof(struct {name}))), \"after {name}.{rows[-1][2]} is something "
               "else\");")
    yield "#undef AT\n#undef OF\n#undef UP"


def gaps(rows):
    """The fields before which the table has bytes without a row."""
    ends = [int(offset) + int(size) for offset, size, *_ in rows if size != "…"]
    return [row[2] for row, end in zip(rows[1:], ends) if int(row[0]) > end]


def number_checks(rows):
    for number, name, *_ in rows:
        yield f'_Static_assert({name} == {number}, "{name} is another number");'


def field_checks(struct, rows):
    for row in rows:
        for field, size in re.findall(r"(\w+)` (\d+)|$", f"{row[2]}"):
            if field:
                yield (f"_Static_assert(sizeof(((struct {struct} *)0)->{field}) == {size}, "
                       f'"{field} has another size");')


def enumerators(text, enum):
    body = re.search(rf"enum {enum} \{{(.*?)\}}", re.sub(r"/\*.*?\*/", "", text, flags=re.S), re.S)
    return re.findall(r"^\s*([A-Z]\w*)", "\n".join(body[1].split(",")), re.M) if body else []


def compiled(root, compiler, checks, padded):
    """Findings of the compiler; `checks`: file -> declarations; `padded`: file -> fields."""
    for path, lines in checks.items():
        include = path.removeprefix("src/")
        with tempfile.NamedTemporaryFile("w", suffix=".c") as source:
            source.write(f'#include "{include}"\n' + "\n".join(lines) + "\n")
            source.flush()
            result = subprocess.run(
                [compiler, "-std=gnu11", "-D_GNU_SOURCE", "-Wpadded", "-fsyntax-only",
                 f"-I{root}/src", f"-I{root}/include", f"-I{root}/src/front/cci/include",
                 source.name],
                capture_output=True, text=True, check=False)
        missing = HEADERS.search(result.stderr)
        if missing:
            print(f"wire: not compared: {path}, since {missing[1] or missing[2]} is missing")
            continue
        errors = re.findall(r"error: (.*)", result.stderr)
        padding = re.findall(r"to align ['‘](\w+)", result.stderr)
        errors += [f"before {field} is something else" for field in padded[path]
                   if field.rpartition(".")[2] not in padding and "[" not in field]
        yield from (f"{PAGE}: {path}: {error}" for error in errors)
        if result.returncode and not errors:
            yield f"{PAGE}: {path}: {result.stderr}"


def check_versions(root, table):
    text = (root / VERSIONS).read_text(encoding="utf-8")
    ours = re.findall(r'\{"(\w+)", (\d+)\}', text)
    theirs = [tuple(row[:2]) for row in table.rows]
    if sorted(ours) != sorted(theirs):
        yield (f"{PAGE}:{table.line}: the versions differ from those of {VERSIONS}: "
               f"{sorted(set(ours) ^ set(theirs))}")


def check_fields(root, table):
    """Check rows of fields against the table in the code."""
    rows, path = re.search(r"`(\w+)`, `struct \w+` \(([\w./]+)\)", table.about).groups()
    text = (root / path).read_text(encoding="utf-8")
    body = text[text.index(f" {rows}["):]
    body = body[:body.index("\n};")]
    found = {name: re.findall(r"_FIELD\((\w+)\)", fields) for name, fields in
             re.findall(r"\[(\w+)\] = (\{.*?)(?=\n    \[|$(?![\s\S]))", body, re.S)}
    for row in table.rows:
        if re.findall(r"(\w+)`? \d+", row[2]) != found.get(row[1], []):
            yield f"{PAGE}: the fields of {row[1]} in {path} are {found.get(row[1], [])}"


def check_ticket(root, table):
    text = (root / TICKET).read_text(encoding="utf-8")
    fields = [[field, kind] for kind, field in re.findall(r"TICKET_FIELD\((\w+), (\w+)", text)
              if kind != "kind"]
    if fields != table.rows:
        yield f"{PAGE}:{table.line}: the fields in {TICKET} differ"


def check_tables(root, compiler, found):
    checks, padded = collections.defaultdict(list), collections.defaultdict(list)
    for table in found:
        if table.columns[0] == "format":
            yield from check_versions(root, table)
        elif table.columns == ["field", "type"]:
            yield from check_ticket(root, table)
        elif table.columns[:3] == ["offset", "size", "name"]:
            about = named(table, "struct")
            if about is None:
                yield f"{PAGE}:{table.line}: no `struct NAME` (FILE) before this table"
                continue
            checks[about[1]] += struct_checks(about[0], table.rows)
            padded[about[1]] += gaps(table.rows)
        elif table.columns[:2] == ["number", "name"]:
            about = named(table, "enum")
            path = about[1] if about else re.findall(r"\((src/[\w./]+)\)", table.about)[-1]
            checks[path] += number_checks(table.rows)
            if about:
                names = enumerators((root / path).read_text(encoding="utf-8"), about[0])
                listed = [row[1] for row in table.rows]
                if re.search("(S|_END)$", names[-1]) and names[-1] not in listed:
                    names.pop()  # the last one is their number
                if listed != names:
                    yield f"{PAGE}:{table.line}: enum {about[0]} has {names}"
            if "fields" in table.columns:
                yield from check_fields(root, table)
                struct, where = named(table, "struct")
                checks[where] += field_checks(struct, table.rows)
    yield from compiled(root, compiler, checks, padded)


def layout(found):
    """Per format: its version, and all that a reader depends on."""
    versions = {row[0]: row[1] for table in found if table.columns[0] == "format"
                for row in table.rows}
    form = collections.defaultdict(list)
    for table in found:
        form[table.section] += [row[:-1] if table.columns[-1] == "meaning" else row
                                for row in table.rows]
    return {name: (version, form[name]) for name, version in versions.items()}


def check_release(root, found):
    """Check that formats that have changed since the last release have a new version."""
    git = ["git", "-C", str(root)]
    tag = subprocess.run([*git, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"],
                         capture_output=True, text=True, check=False).stdout.strip()
    page = subprocess.run([*git, "show", f"{tag}:{PAGE}"], capture_output=True, text=True,
                          check=False) if tag else None
    if page is None or page.returncode:
        print("wire: not compared with a release: no tag of a release contains this page")
        return
    yield from differences(tag, layout(tables(page.stdout)), layout(found))


def differences(tag, before, now):
    for name, (version, form) in now.items():
        if name in before and before[name][0] == version and before[name][1] != form:
            yield (f"{PAGE}: the tables of `{name}` differ from those of {tag}, but its version is "
                   f"still {version}: increment it here and in {VERSIONS}")
        if name in before and int(before[name][0]) > int(version):
            yield f"{PAGE}: the version of `{name}` was {before[name][0]} in {tag}"


def main():
    root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
    found = tables((root / PAGE).read_text(encoding="utf-8"))
    findings = list(check_tables(root, compiler, found)) + list(check_release(root, found))
    tree.report("wire", findings, len(found))


if __name__ == "__main__":
    main()
