#!/usr/bin/env python3
"""The last lines of `make test`: the tests that were skipped, the reasons, and the command that
makes them run. Prints nothing if no test was skipped.

A skipped test prints "skipped: REASON", as does Python's unittest. The command that removes the
reason may follow in brackets: "[.ci/install-deps.sh all]".

usage: skipped.py FILE    (written by ctest --output-junit)
"""

import os
import re
import sys
import textwrap
import xml.etree.ElementTree as tree

SAID = re.compile(r"^(?:.*\.\.\. )?skipped:? (?:'(.*)'|\"(.*)\"|(.*))$", re.MULTILINE)
REMEDY = re.compile(r" \[([^][]+)\]")


def reasons(said):
    """The reasons that a test printed, and the commands that remove them."""
    found = ["".join(groups).strip() for groups in SAID.findall(said)]
    lines = [line for line in said.splitlines() if line.strip()]
    found = dict.fromkeys(found or lines[-1:] or ["no reason given"])
    remedies = [command for line in found for match in REMEDY.findall(line)
                for command in match.split(" && ")]
    return "; ".join(REMEDY.sub("", line) for line in found), remedies


def report(cases):
    """Yields lines about these tests, which are given by name and output."""
    by_reason, commands = {}, {}
    for name, said in cases:
        reason, remedies = reasons(said)
        by_reason.setdefault(reason, []).append(name)
        commands.update(dict.fromkeys(remedies))
    count = len(cases)
    yield f"{count} test{' was' if count == 1 else 's were'} skipped:"
    for reason, names in by_reason.items():
        yield textwrap.fill(f"{reason}: {', '.join(names)}", 98, initial_indent="  ",
                            subsequent_indent="      ", break_long_words=False,
                            break_on_hyphens=False)
    if commands:
        yield f"To run {'it' if count == 1 else 'them'}, too: " + " && ".join(commands)


def main():
    if not os.path.exists(sys.argv[1]):
        return  # ctest itself has printed why the file is missing
    cases = [(case.get("name"), case.findtext("system-out") or "")
             for case in tree.parse(sys.argv[1]).getroot().iter("testcase")
             if case.find("skipped") is not None]
    for line in report(cases) if cases else ():
        print(line)


if __name__ == "__main__":
    main()
