#!/usr/bin/env python3
"""Change the code that parses input from peers, one place at a time, and see whether a test fails.

usage: mutate.py [OPTION]... BUILD_DIR [FILE]...
       mutate.py --check ROOT

Each comparison, && and ||, number, increment, minimum and maximum of the FILEs (all of the table
below) becomes its neighbor: `<` becomes `<=`, 8 becomes 9. A change that no test of the file
detects has survived: either a test is missing, or the change has no effect. equivalent*.txt list
the latter with the reason. Nothing is written to the tree, and only the build's own output to
BUILD_DIR: the changed object is linked, before the library, into copies of the test programs. Do
not change or build anything there meanwhile.

  --sample N    only N changes, drawn from the seed
  --seed S      (1)
  --list        list the changes, and make none
  --check       only check that each entry of equivalent*.txt still matches the code

Exit code 1: a change survived that is not in equivalent*.txt.
"""

import argparse
import json
import os
import pathlib
import random
import re
import resource
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

DGRAM = [f"unit.dgram.{part}" for part in ("receive", "connect", "park", "engine")] + [
    "fuzz.dgram", "sim.stored", "sim.new"]
HCA = [f"unit.transport.ibv.hca_{part}" for part in
       ("greet", "greet_rails", "link", "advice", "events", "transfer", "repair", "ring",
        "lending")]
HUB = [f"unit.job.hub.{part}" for part in ("note", "flow", "flow_frames")] + [
    "fuzz.hub", "hubsim.stored", "hubsim.new", "hubsim.every"]
LINK = [f"unit.job.{part}" for part in ("link_stream", "link_listen", "link_call", "link",
                                       "link_hostile")]
OFI = [f"unit.transport.ofi.ofi_{part}" for part in
       ("lending", "peer", "receive", "flush")]
CREDITS = [f"unit.transport.layers.{part}" for part in
           ("credit_gate", "credit_gate_alone", "credits")]
MESSAGES = ["contract.loop.plain", "contract.shm.2.plain", "contract.shm.2.bare"]
FALLBACK = [f"unit.transport.layers.fallback_{part}" for part in
            ("serve", "take", "rows")] + MESSAGES
CALLS = [f"unit.transport.udp.udp_{part}" for part in
         ("channel", "rendezvous", "rendezvous_caller", "rendezvous_uri", "answer")]

# Code whose input a peer may forge -> its tests, the fastest first.
TESTS = {
    "src/dgram/packet.c": ["unit.dgram.packet", *DGRAM],
    "src/dgram/seen.h": ["unit.dgram.seen", *DGRAM],
    "src/dgram/keep.c": DGRAM,
    "src/dgram/receive.c": DGRAM,
    "src/dgram/connect.c": DGRAM,
    "src/dgram/ack.c": DGRAM,
    "src/dgram/park.c": DGRAM,
    "src/dgram/shrink.c": DGRAM,
    "src/dgram/search.c": ["unit.dgram.search", *DGRAM],
    "src/transport/am.c": ["unit.transport.am", "fuzz.am_codec"],
    "src/transport/hello.c": ["unit.transport.hello", "fuzz.hello"],
    "src/transport/layers/credits.c": CREDITS,
    "src/transport/layers/credits.h": CREDITS,
    "src/transport/layers/credit_gate.c": CREDITS,
    "src/transport/layers/fallback_rows.c": FALLBACK,
    "src/transport/layers/fallback_serve.c": FALLBACK,
    "src/transport/shm/shm_receive.c": ["unit.transport.shm.shm_receive", *MESSAGES],
    "src/transport/udp/udp_answer.c": ["unit.transport.udp.udp_answer"],
    "src/transport/udp/udp_call.c": ["unit.transport.udp.udp_call", "fuzz.udp_call"],
    "src/transport/udp/udp_channel.c": CALLS,
    "src/transport/udp/udp_group_wire.c": ["unit.transport.udp.udp_group_wire", "fuzz.udp_group"],
    "src/transport/udp/udp_rendezvous.c": CALLS,
    "src/transport/ibv/hca_greet.c": HCA,
    "src/transport/rdma/lending.c": [*HCA, *OFI],
    "src/reg/message.c": ["unit.reg.message", "fuzz.reg", "unit.reg.reg", "regsim.stored"],
    "src/job/seal.c": ["fuzz.seal", "unit.job.seal", "unit.job.link"],
    "src/job/link.c": LINK,
    "src/job/link_call.c": LINK,
    "src/job/link_listen.c": LINK,
    "src/job/desk.c": ["unit.job.desk", "unit.job.desk_claim"],
    "src/job/control.c": ["fuzz.control", "unit.job.control"],
    "src/job/hub/note.c": HUB,
    "src/job/hub/flow.c": HUB,
    "src/job/manager/fields.c": ["unit.job_manager.fields", "fuzz.manager"],
    "src/job/manager/values.c": ["unit.job_manager.values", "fuzz.manager"],
    "tools/aqrun/ticket.c": ["fuzz.ticket", "unit.aqrun.ticket"],
}

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
         "++": "--", "--": "++", "+=": "-=", "-=": "+=", "aqi_min": "aqi_max", "aqi_max": "aqi_min"}
# The longest tokens first. Those that are not changed are listed so that their parts do not match.
TOKEN = re.compile(r"<<=|>>=|->|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|\+=|-=|<|>|\baqi_m(?:in|ax)\b"
                   r"|(?<![\w.])(?:0[xX][0-9a-fA-F]+|\d+)[uUlL]*(?![\w.])")
# Not code, or without an observable effect: comments, texts, preprocessor lines, assertions, and
# the sizes of arrays.
SILENT = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*'
                    r"|(?:static_assert|_Static_assert|assert)\((?:[^()]|\([^()]*\))*\)"
                    r"|(?<=[\w*] )\w+\[[^\[\]\n]*\](?=[,)])"
                    r"|^[ \t]*(?:static |const )*(?:struct |enum |unsigned )?\w+ "
                    r"[^;=()\n]*\[[^;=\n]*;"
                    r"|\{0\}",
                    re.S | re.M)
FAILED = b"[  FAILED  ]"  # as printed by cmocka
MEMORY = 4 << 30  # bytes of memory for a changed program
BLANK = re.compile(r"[^\n]")


def neighbor(token):
    """The replacement of a token, or None."""
    if not token[0].isdigit():
        return SWAPS.get(token)
    digits = token.rstrip("uUlL")
    number = int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10)
    return str(number + 1) + token[len(digits):]


class Change:
    """One place of a file, and its replacement."""

    def __init__(self, name, text, match, new):
        self.name, self.start, self.end, self.new = name, match.start(), match.end(), new
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.start)
        self.line = text.count("\n", 0, self.start) + 1
        self.before = text[first:last].strip()
        self.after = (text[first:self.start] + new + text[self.end:last]).strip()

    def key(self):
        return self.name, self.before, self.after

    def made_in(self, text):
        return text[:self.start] + self.new + text[self.end:]

    def __str__(self):
        return f"{self.name}:{self.line}:\n- {self.before}\n+ {self.after}"


def changes_of(name, text):
    code = SILENT.sub(lambda match: BLANK.sub(" ", match.group()), text)
    for match in TOKEN.finditer(code):
        new = neighbor(match.group())
        if new is not None:
            yield Change(name, text, match, new)


def read_equivalent(path):
    """The changes without an effect: {(file, line before, line after): reason}."""
    entries = {}
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        name, *lines = [line for line in block.splitlines() if not line.startswith("#")] or [""]
        keys, before = [], None
        while lines and lines[0][:2] in ("- ", "+ "):
            sign, line = lines[0][0], lines.pop(0)[2:]
            if sign == "-":
                before = line
            elif before is not None:
                keys.append((name, before, line))
        if name and not (keys and lines):
            sys.exit(f"{path.name}: no file, lines before and after, and reason: {block}")
        entries.update((key, " ".join(lines)) for key in keys)
    return entries


def check(root, entries):
    """Report entries that no longer match a line: they are useless, and could hide another
    change."""
    known = {change.key() for name in TESTS if (root / name).exists()
             for change in changes_of(name, (root / name).read_text(encoding="utf-8"))}
    missing = set(TESTS) - {key[0] for key in known}
    stale = [key for key in entries if key not in known]
    for name in sorted(missing):
        print(f"mutate.py: {name} is in the table but has nothing to change")
    for key in stale:
        print("equivalent*.txt: no such change:", *key, sep="\n  ")
    return not stale and not missing


class Build:
    """The commands of a build folder for compiling and linking outside of it."""

    def __init__(self, folder):
        self.folder = folder
        compilations = json.loads(self.ninja("-t", "compdb"))
        self.compile = {entry["output"]: entry for entry in compilations
                        if entry["output"].endswith(".o")}
        listing = subprocess.check_output(["ctest", "--show-only=json-v1"], cwd=folder, text=True)
        self.tests = {test["name"]: test for test in json.loads(listing)["tests"]}
        self.links, self.depend = {}, None

    def ninja(self, *arguments):
        return subprocess.check_output(["ninja", *arguments], cwd=self.folder, text=True)

    def link_of(self, program):
        """The command that links the program."""
        if program not in self.links:
            parts = self.ninja("-t", "commands", program).splitlines()
            for part in (piece for line in parts for piece in line.split(" && ")):
                words = shlex.split(part)
                if "-o" in words and words[words.index("-o") + 1] == program:
                    self.links[program] = words
        return self.links[program]

    def objects_of(self, path):
        """The objects of a source; for a header, those of all sources in its folder that include
        it."""
        if path.suffix == ".c":
            return [output for output, entry in self.compile.items() if entry["file"] == str(path)]
        if self.depend is None:
            self.depend = {}
            for block in self.ninja("-t", "deps").split("\n\n"):
                output, *files = block.splitlines() or [""]
                self.depend[output.split(":")[0]] = {
                    os.path.normpath(self.folder / file.strip()) for file in files}
        return [output for output, files in self.depend.items() if str(path) in files and
                pathlib.Path(self.compile[output]["file"]).parent == path.parent]


def confine():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.setsid()


def await_end(process, until):
    """Wait until the process has ended, one of its tests has failed, or the time has expired."""
    said, output = b"", process.stdout.fileno()
    ended = os.pidfd_open(process.pid)
    watched = [ended, output]
    while (left := until - time.monotonic()) > 0 and FAILED not in said:
        ready = select.select(watched, [], [], left)[0]
        if ended in ready:
            break
        if output in ready:
            more = os.read(output, 1 << 16)
            said = said[-len(FAILED):] + more
            if not more:
                watched.remove(output)
    os.close(ended)


class Trial:
    """One file and its tests, in a folder of their own."""

    def __init__(self, build, root, name, scratch):
        self.build, self.path, self.scratch = build, root / name, scratch
        self.name, self.text = name, self.path.read_text(encoding="utf-8")
        self.tests = [test for test in TESTS[name] if test in build.tests]
        unbuilt = [test for test in self.tests if "command" not in build.tests[test]]
        if unbuilt:
            sys.exit(f"{name}: build all first: these tests have no program: {' '.join(unbuilt)}")
        self.limits = {}
        build.ninja(*sorted({self.program(test) for test in self.tests}))
        objects = build.objects_of(self.path)
        archive = {"src"}  # of the library; sources of a program are in its link command
        self.objects = {}
        for test in self.tests:
            link = build.link_of(self.program(test))
            wanted = {each for each in objects if each in link or
                      each.split("/")[0] in archive and "/aq_" in each}
            self.objects[test] = sorted(wanted)
        self.made = {}

    def program(self, test):
        command = self.build.tests[test]["command"][0]
        return os.path.relpath(os.path.realpath(command), self.build.folder)

    def compile(self, output):
        """Returns whether the change compiles."""
        made = self.scratch / output.replace("/", "_")
        words = shlex.split(self.build.compile[output]["command"])
        overlay = self.scratch / "overlay"
        for option, count in (("-MD", 1), ("-MT", 2), ("-MF", 2), ("-Werror", 1), ("-g", 1)):
            if option in words:
                at = words.index(option)
                del words[at:at + count]
        words[words.index("-o") + 1] = str(made)
        if self.path.suffix == ".c":
            words[words.index("-c") + 1] = str(overlay / self.name)
        words[words.index("-o"):words.index("-o")] = ["-w"]
        first = next(i for i, word in enumerate(words) if word.startswith("-I"))
        words[first:first] = [f"-I{overlay / 'src'}", "-iquote", str(self.path.parent)]
        done = subprocess.run(words, cwd=self.build.folder, capture_output=True, check=False)
        self.made[output] = made
        return done.returncode == 0

    def link(self, test):
        program = self.program(test)
        words = list(self.build.link_of(program))
        place = self.scratch / pathlib.Path(program).name
        words[words.index("-o") + 1] = str(place)
        loose = []
        for output in self.objects[test]:
            if output in words:
                words[words.index(output)] = str(self.made[output])
            else:
                loose.append(str(self.made[output]))
        at = words.index("-o") + 2
        words[at:at] = loose
        done = subprocess.run(words, cwd=self.build.folder, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            sys.exit(f"{program} does not link: {done.stderr}")
        return place

    def run(self, test, place):
        """The duration of a passing test, or None if it failed."""
        entry = self.build.tests[test]
        properties = {each["name"]: each["value"] for each in entry.get("properties", [])}
        # Files that a failed test leaves behind are removed with the folder.
        environment = dict(os.environ, TMPDIR=str(self.scratch))
        environment.update(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
        begun = time.monotonic()
        with subprocess.Popen([place, *entry["command"][1:]], cwd=self.scratch, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, preexec_fn=confine) as process:
            try:
                await_end(process, begun + self.limits.get(test, 300))
            finally:
                os.killpg(process.pid, signal.SIGKILL)  # and its children
                process.wait()
        return time.monotonic() - begun if process.returncode in (0, 77) else None

    def make(self, text):
        place = self.scratch / "overlay" / self.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        return all(self.compile(output) for output in
                   sorted({each for group in self.objects.values() for each in group}))

    def find(self):
        """The name of the test that fails; "" if all pass; None if it does not compile."""
        linked = {}
        for test in self.tests:
            program = self.program(test)
            if program not in linked:
                linked[program] = self.link(test)
            took = self.run(test, linked[program])
            if took is None:
                return test
            self.limits.setdefault(test, 5 + 5 * took)
        return ""


def try_all(build, root, chosen, entries):
    """Try the changes of a file one after the other. Returns how many survived."""
    counts = {"noticed": 0, "equivalent": 0, "refused by the compiler": 0, "survived": 0}
    for name, changes in chosen.items():
        with tempfile.TemporaryDirectory(prefix="mutate.") as scratch:
            trial = Trial(build, root, name, pathlib.Path(scratch))
            if not trial.make(trial.text):
                sys.exit(f"{name} does not compile")
            if trial.find() != "":
                sys.exit(f"{name}: its tests fail without any change")
            for change in changes:
                if change.key() in entries:
                    counts["equivalent"] += 1
                elif not trial.make(change.made_in(trial.text)):
                    counts["refused by the compiler"] += 1
                elif trial.find() != "":
                    counts["noticed"] += 1
                else:
                    counts["survived"] += 1
                    print(f"survived: {change}", flush=True)
        print(f"{name}: {len(changes)} changes; so far", counts, flush=True)
    return counts["survived"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    root = HERE.parents[1]
    entries = {}
    for path in sorted(HERE.glob("equivalent*.txt")):
        entries.update(read_equivalent(path))
    if options.check:
        sys.exit(not check(options.folder, entries))
    for name in options.files:
        if name not in TESTS:
            sys.exit(f"{name} is not in the table of files and tests in mutate.py")
    every = [change for name in options.files or TESTS
             for change in changes_of(name, (root / name).read_text(encoding="utf-8"))]
    random.seed(options.seed)
    if options.sample is not None and options.sample < len(every):
        every = [every[i] for i in sorted(random.sample(range(len(every)), options.sample))]
    chosen = {}
    for change in every:
        chosen.setdefault(change.name, []).append(change)
    print(f"{len(every)} changes, seed {options.seed}")
    if options.list:
        print(*every, sep="\n")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # also removes the scratch folder
    os.nice(10)
    sys.exit(try_all(Build(options.folder.resolve()), root, chosen, entries) != 0)


if __name__ == "__main__":
    main()
