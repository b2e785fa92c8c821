#!/usr/bin/env python3
"""Generate the manual page (man1) of a tool from its --help.

The text has the form that all tools use: lines "usage: …", a blank line, paragraphs of prose,
lists of "  --option  description", headings "Word:" on a line of their own, and examples
indented by four or more. A paragraph "Exit code: …" becomes a section of its own.

usage: mkman1.py --tool PROGRAM --brief TEXT --out FILE --version X.Y.Z --date YYYY-MM-DD
"""

import argparse
import os
import pathlib
import re
import subprocess

import mkman


def help_text(command):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AQ_")}
    result = subprocess.run([*command, "--help"], check=True, capture_output=True, text=True,
                            env=clean)
    return result.stdout.expandtabs().rstrip("\n").split("\n")


def blocks(lines):
    """Lines between blank ones."""
    block = []
    for line in lines + [""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []


ENTRY = re.compile(r"( {1,3})(\S(?:\S| (?! ))*)(?:  +(\S.*))?$")


def entries(block):
    """A list of (tag, text) if the block is one, otherwise None."""
    found = []
    for line in block:
        entry = ENTRY.match(line)
        if entry:
            found.append([entry.group(2), entry.group(3) or ""])
        elif found and line.startswith("    "):
            found[-1][1] += " " + line.strip()
        else:
            return None
    return found


def write_block(page, block):
    heading = re.fullmatch(r"(\w[\w ,/-]*):", block[0])
    if heading:
        page.subsection(heading.group(1)[0].upper() + heading.group(1)[1:])
        block = block[1:]
        if not block:
            return
    listed = entries(block)
    if listed:
        for tag, text in listed:
            page.tagged(tag, " ".join(text.split()))
    elif all(line.startswith(" ") for line in block):
        page.code([line.strip() for line in block])
    else:
        page.paragraph(" ".join(block))


def tool_page(name, lines, options):
    page = mkman.Page(name, 1, options)
    page.name(name, options.brief)
    parts = list(blocks(lines))
    page.section("SYNOPSIS")
    page.code([re.sub(r"^(usage:|  *or:?) *", "", line).strip() for line in parts[0]])
    page.section("DESCRIPTION")
    for block in parts[1:]:
        ending = re.match(r"(Exit (?:code|status)):? *(.*)", block[0])
        if ending:
            page.section("EXIT STATUS")
            page.text(" ".join([ending.group(2)] + block[1:]))
        else:
            write_block(page, block)
    others = [tool for tool in ("aqrun", "aqinfo", "aqperf", "aqtop") if tool != name]
    page.see_also([(other, 1) for other in others] + [("aqueduct", 7)])
    return page.source()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for option in ("tool", "brief", "out", "version", "date"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--emulator", default="", help="its emulator, words separated by ;")
    options = parser.parse_args()
    command = [word for word in options.emulator.split(";") if word] + [options.tool]
    name = pathlib.Path(options.tool).name
    out = pathlib.Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(tool_page(name, help_text(command), options), encoding="ascii")


if __name__ == "__main__":
    main()
