#!/usr/bin/env python3
"""Every name of the GASNet interface exists with the right kind: the table names.txt, for each
threading mode, in C and C++, old and new, compiled and linked.

usage: names.py C_COMPILER CXX_COMPILER INCLUDE CONDUIT_INCLUDE LIBRARIES…
LIBRARIES come in the order of linking; {mode} in one stands for seq, par or parsync.
"""

import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MODES = ("SEQ", "PAR", "PARSYNC")
# Which names a mode has, the linked programs, and which headers each header includes do not depend
# on the standard, so these are checked once per language; the includes also for one mode only.
LANGUAGES = (("c", "c99", MODES), ("c", "gnu2x", ("PAR",)), ("c++", "c++98", MODES),
             ("c++", "c++20", ("PAR",)))
LINKED = ("c99", "c++98")
EACH = "PAR"
MODELESS = ("gasnet_tools.h", "gasnet_portable_platform.h", "gasnet_fwd.h")
KINDS = ("func", "type", "object", "macro", "one", "pp", "const", "initializer", "string")
# The types of initializers: each name must begin with one of these patterns.
TYPES = (
    ("GASNETT_(MUTEX|COND|RWLOCK)_INIT", lambda n: f"gasnett_{n.split('_')[1].lower()}_t"),
    ("GEX_HSL", lambda n: "gex_HSL_t"), ("GASNET_HSL", lambda n: "gasnet_hsl_t"),
    ("GEX_EVENT_(NOW|DEFER|GROUP)", lambda n: "gex_Event_t *"),
    ("GEX_EVENT", lambda n: "gex_Event_t"), ("GEX_MK", lambda n: "gex_MK_t"),
    ("GEX_AM_SRCDESC", lambda n: "gex_AM_SrcDesc_t"),
    ("GEX_\\w+_INVALID", lambda n: {"CLIENT": "gex_Client_t", "SEGMENT": "gex_Segment_t"}.get(
        n.split("_")[1], f"gex_{n.split('_')[1]}_t")),
    ("GASNET_INVALID_HANDLE", lambda n: "gasnet_handle_t"),
    ("GASNET_COLL_INVALID", lambda n: "gasnet_coll_handle_t"),
)


def read_table(path):
    """The headers of each section, and the names by kind."""
    sections, kind = [], None
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line:
            continue
        if line.startswith("["):
            sections.append((line.strip("[]").split(), collections.defaultdict(list)))
        elif line.endswith(":"):
            kind = line[:-1]
            assert kind in KINDS, line
        else:
            sections[-1][1][kind] += line.split()
    return sections


def sections_for(sections, standard, mode):
    """Returns the sections to check: each separately, or all joined into one."""
    if mode == EACH and standard in LINKED:
        return sections
    modeless = [section for section in sections if section[0][0] in MODELESS]
    all_headers, all_names = [], collections.defaultdict(list)
    for headers, names in sections:
        if headers[0] in MODELESS:
            continue
        all_headers += [header for header in headers if header not in all_headers]
        for kind, more in names.items():
            all_names[kind] += [name for name in more if name not in all_names[kind]]
    return [(all_headers, all_names)] + (modeless if mode == EACH else [])


def type_of(name):
    for pattern, make in TYPES:
        if re.match(pattern, name):
            return make(name)
    raise ValueError(name)


def need(name):
    return f"#ifndef {name}\n#error {name} is not defined\n#endif\n"


def statements(kind, name, macros):
    """Returns declarations that compile if the name is of this kind, and statements for main()."""
    if kind == "func":
        if macros.get(name) == "function":
            return "", ""
        return "", f"    use((void *)({name}));\n"
    if kind == "type":
        return f"typedef {name} check_{name};\n", ""
    if kind == "object":
        return "", f"    use((void *)&{name});\n"
    if kind == "macro":
        return need(name), ""
    if kind == "one":
        return f"#ifdef {name}\n#if {name} != 1\n#error {name} is not 1\n#endif\n#endif\n", ""
    if kind == "pp":
        return need(name) + (f"#if ({name}) < 0 || ({name}) >= 0\n#else\n#error {name}\n#endif\n"
                             f"extern char check_{name}[({name}) == ({name}) ? 1 : -1];\n"), ""
    if kind == "const":
        return f"extern char check_{name}[({name}) == ({name}) ? 1 : -1];\n", \
            f"    switch (argc) {{ case (int)({name}): use(0); }}\n" if "GEX_MK" in name else ""
    if kind == "initializer":
        return need(name) + f"static {type_of(name)} check_{name} = {name};\n", \
            f"    use((void *)&check_{name});\n"
    return need(name) + f'static const char check_{name}[] = "a" {name} "b";\n', \
        f"    use((void *)check_{name});\n"


class Build:
    """One combination of language, standard and mode."""

    def __init__(self, arguments, language, standard, mode):
        self.arguments, self.language, self.standard, self.mode = (arguments, language, standard,
                                                                   mode)

    def command(self, modeless):
        c_compiler, cxx_compiler, include, conduit = self.arguments[:4]
        compiler = c_compiler if self.language == "c" else cxx_compiler
        define = [] if modeless else [f"-DGASNET_{self.mode}"]
        return [compiler, "-x", self.language, f"-std={self.standard}", "-D_GNU_SOURCE",
                *define, "-Wall", "-Wextra", "-Werror", f"-I{include}", f"-I{conduit}"]

    def macros(self, headers, command):
        source = "".join(f"#include <{header}>\n" for header in headers)
        output = subprocess.run([*command, "-E", "-dM", "-"], input=source, text=True,
                                capture_output=True, check=True).stdout
        found = re.findall(r"^#define (\w+)(\(?)", output, re.MULTILINE)
        return {name: "function" if paren else "object" for name, paren in found}

    def check(self, headers, names):
        modeless = headers[0] in MODELESS
        command = self.command(modeless)
        macros = self.macros(headers, command)
        top = "".join(f"#include <{header}>\n" for header in headers)
        top += "void *volatile used;\nstatic void use(void *p)\n{\n    used = p;\n}\n"
        body = ""
        for kind in KINDS:
            for name in names[kind]:
                before, inside = statements(kind, name, macros)
                top, body = top + before, body + inside
        source = f"{top}int main(int argc, char **argv)\n{{\n    use(argv);\n" \
                 f"    if (argc < 0) return 1;\n{body}    return 0;\n}}\n"
        libraries = [text.replace("{mode}", self.mode.lower()) for text in self.arguments[4:]]
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                [*command, "-o", f"{folder}/names", "-", "-x", "none", *libraries]
                if self.standard in LINKED else [*command, "-fsyntax-only", "-"],
                input=source, text=True, capture_output=True, check=False)
        if result.returncode == 0:
            return None
        return f"{' '.join(headers)}, {self.standard}, {self.mode}:\n{result.stderr[:6000]}"


def main():
    arguments = sys.argv[1:]
    sections = read_table(pathlib.Path(__file__).with_name("names.txt"))
    count = sum(len(names) for _, kinds in sections for names in kinds.values())
    jobs = [(Build(arguments, language, standard, mode), headers, names)
            for language, standard, modes in LANGUAGES for mode in modes
            for headers, names in sections_for(sections, standard, mode)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = [finding for finding in pool.map(lambda job: job[0].check(*job[1:]), jobs)
                    if finding]
    for finding in findings:
        print(finding)
    if findings:
        sys.exit(f"names: {len(findings)} of {len(jobs)} programs do not compile or link")
    print(f"names: {count} names, {len(jobs)} programs")


if __name__ == "__main__":
    main()
