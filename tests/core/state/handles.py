#!/usr/bin/env python3
"""Write the C program that calls every public function with NULL for each of its handles.

usage: handles.py INCLUDE_DIR OUTPUT
"""
import re
import sys
from pathlib import Path

HANDLES = ("aq_team", "aq_ep", "aq_segment", "aq_am", "aq_am_buffer", "aq_atomic_domain",
           "aq_listener", "aq_connection")
# Calls that release something return AQ_OK if there is nothing to release.
RELEASING = ("aq_am_cancel", "aq_listener_close", "aq_connection_close", "aq_segment_destroy",
             "aq_team_destroy", "aq_atomic_domain_destroy")
# A query without a status returns the value for "nothing".
NOTHING = {"aq_rank": "AQ_RANK_NONE", "aq_ep_index": "aq_ep_max()", "aq_team_size": "0",
           "aq_team_ep_index": "aq_ep_max()", "aq_listener_uri": "\"\"", "aq_peer_lost": "0"}
# Arguments that need more than any value of their type.
ARGUMENTS = {"fn": "fold", "type": "AQ_TYPE_I64", "op": "AQ_OP_ADD", "ops": "AQ_OPS_ALL",
             "category": "AQ_AM_MEDIUM", "handler": "200", "len": "8", "capabilities": "AQ_EP_ALL"}


def prototypes(include):
    for header in sorted(Path(include, "aqueduct").glob("*.h")):
        text = re.sub(r"/\*.*?\*/|^\s*#.*?[^\\]$", "", header.read_text(), flags=re.S | re.M)
        pattern = r"AQ_API\s+(?:AQ_MUST_USE\s+)?([^;]*?)\b(aq_\w+)\(([^;]*)\);"
        for match in re.finditer(pattern, text):
            result, name, arguments = (" ".join(part.split()) for part in match.groups())
            yield result, name, [a.strip() for a in arguments.split(",")]


def handle_of(argument):
    match = re.fullmatch(r"(?:const )?(\w+) \*\w+", argument)
    return match is not None and match[1] in HANDLES


def value_for(argument):
    kind, name = re.fullmatch(r"(.*?)(\w+)", argument, re.S).groups()
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    match = re.search(r"(aq_team|aq_ep|aq_segment) \*$", kind)
    if match:
        return "some_" + match[1]
    return "(void *)room" if "*" in kind else "0"


def case(result, name, arguments, which):
    values = ["NULL" if i == which else value_for(a) for i, a in enumerate(arguments)]
    call = f"{name}({', '.join(values)})"
    what = f'"{name}, {arguments[which].split("*")[-1]}"'
    if name in RELEASING:
        check = f"{call}; good = true" if result == "void" else f"good = {call} == AQ_OK"
    elif result == "aq_status":
        check = f"good = refused({call})"
    elif result == "void":
        check = f"{call}; good = true"
    else:
        nothing = NOTHING.get(name, NOTHING.get(result, "NULL" if "*" in result else "0"))
        same = f"strcmp({call}, {nothing}) == 0" if nothing[0] == '"' else f"{call} == {nothing}"
        check = f"good = {same}"
    return f"    TRY({what}, {check});\n"


def main():
    calls, count = "", 0
    for result, name, arguments in prototypes(sys.argv[1]):
        for i, argument in enumerate(arguments):
            if handle_of(argument):
                calls += case(result, name, arguments, i)
                count += 1
    Path(sys.argv[2]).write_text(f"enum {{ CASES = {count} }};\nstatic void try_all(void)\n"
                                 f"{{\n{calls}}}\n")


main()
