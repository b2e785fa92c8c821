#!/usr/bin/env python3
"""Different releases together: processes of two builds in one job, on one connection, and with each
other's files. Either it works, with every byte correct, or both sides report both versions.

usage: compat.py BUILD_DIR                            this build, and itself with newer versions
       compat.py BUILD_DIR --release BUILD_DIR TALK   this build, and another, of the last release;
                                                      TALK: talk.c, compiled with that

--works: the two have the same versions and differ only in build options.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SOON = 20  # seconds until a refusal has ended both sides, on a busy machine
LONG = 60  # seconds for a run that works
FOREIGN = ("AQ_", "GASNET_", "SSH_", "SLURM", "PMI", "OMPI_", "COMPAT_")
# Replaces ssh: skips options and the host, and runs the command locally.
SHELL = """#!/bin/sh
while :; do case $1 in -o|-F|-p|-i) shift 2;; -*) shift;; *) break;; esac; done
shift
exec sh -c "$*"
"""
# The text of a refusal; and words in those of other releases.
BOTH = r' uses version \d+ of the format "{}", (?:this process|the server) uses version \d+'
WORDS = re.compile(r"version|incompatible|another build", re.I)


def bind_to_one_of(free, ports):
    """Bind to a random free port, and return it."""
    for port in random.sample(ports, len(ports)):
        with contextlib.suppress(OSError):
            free.bind(("", port))
            return port
    raise OSError("no port is free")


class Side:
    """The programs of one build."""

    def __init__(self, aqrun, talk, aqtop, aqinfo, newer=""):
        self.aqrun, self.talk, self.aqtop, self.aqinfo = aqrun, talk, aqtop, aqinfo
        self.settings = {"COMPAT_NEWER": newer} if newer else {}

    def words(self, program, *arguments):
        """A command that also works when run by a command of the other side."""
        return ["env", "-u", "COMPAT_NEWER", *(f"{name}={value}" for name, value in
                                               self.settings.items()),
                str(getattr(self, program)), *arguments]


def of_build(build, talk):
    tools = build / "tools"
    return Side(tools / "aqrun/aqrun", talk, tools / "aqtop/aqtop", tools / "aqinfo/aqinfo")


BUILD = pathlib.Path(sys.argv[1]).resolve()
OURS = of_build(BUILD, BUILD / "tests/compat/compat_talk")
RELEASE = None
FITS = "--works" in sys.argv
if "--release" in sys.argv:
    at = sys.argv.index("--release")
    RELEASE = of_build(pathlib.Path(sys.argv[at + 1]).resolve(),
                       pathlib.Path(sys.argv[at + 2]).resolve())


def newer(*formats):
    """This build with newer versions of these formats."""
    here = BUILD / "tests/compat"
    return Side(*(here / f"compat_{name}" for name in ("aqrun", "talk_newer", "aqtop", "aqinfo")),
                newer=",".join(formats))


def board_length(pid):
    """The length of the text that process `pid` shows."""
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if "aqueduct-peers" in os.readlink(fd):
                return int.from_bytes(fd.read_bytes()[8:12], "little")
    return 0


class Meeting(unittest.TestCase):
    """Two builds, and the ways in which they meet."""

    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="aqueduct-compat-"))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        shell = cls.write("shell", SHELL, 0o700)
        secret = cls.write("secret", os.urandom(16).hex(), 0o600)
        cls.environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(FOREIGN)}
        cls.environment.update(AQ_SSH_CMD=str(shell), AQ_CONNECT_SECRET=f"file:{secret}")

    @classmethod
    def write(cls, name, text, mode):
        path = cls.place / name
        path.write_text(text)
        path.chmod(mode)
        return path

    @contextlib.contextmanager
    def started(self, words, **settings):
        """A process in a process group of its own, which is killed at the end of the block."""
        process = subprocess.Popen(
            words, cwd=self.place, env={**self.environment, **settings}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True)
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
            process.stderr.close()

    def run_to_end(self, words, **settings):
        """Run it. Returns its exit code and output."""
        with self.started(words, **settings) as process:
            try:
                out, err = process.communicate(timeout=LONG)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)
                self.fail(f"hangs: {words}")
        self.assertNotRegex(out + err, "WRONG|Segmentation|AddressSanitizer|signal (6|11)")
        return process.returncode, out, err

    def works(self, result, lines):
        code, out, err = result
        self.assertEqual((code, out.count("right\n")), (0, lines), f"{out}\n{err}")

    def refused(self, result, *says):
        code, out, err = result
        self.assertNotEqual(code, 0, out)
        for text in says:
            found = re.search(text, out + err)
            self.assertTrue(found, f"{text} not in {out}{err}")
            versions = re.findall(r"(?:version|ticket) (\d+)", found[0])
            self.assertNotEqual(len(set(versions)), 1, f"both versions: {found[0]}")

    def either(self, result, lines):
        """It works, or is refused with a message."""
        print(f"  {self.id().rpartition('.')[2]}: " +
              ("works" if result[0] == 0 else "refused: " +
               " | ".join(line for line in result[2].split("\n") if WORDS.search(line))[:300]))
        if result[0] == 0 or FITS:
            self.works(result, lines)
        else:
            self.refused(result, WORDS)

    # Ways to meet. Each returns the exit code and the output of both sides.

    def ranks(self, launcher, first, second, **settings):
        """Rank 0 from one build and rank 1 from the other, started by an aqrun of either."""
        began = time.monotonic()
        choice = shlex.join(first.words("talk", "job"))
        other = shlex.join(second.words("talk", "job"))
        result = self.run_to_end(
            launcher.words("aqrun", "-n", "2", "sh", "-c",
                           f'[ "$AQ_RANK" = 0 ] && exec {choice}; exec {other}'), **settings)
        if result[0] != 0:
            self.assertLess(time.monotonic() - began, SOON)
        return result

    def agents(self, root, agent, ranks, **settings):
        """aqrun, and the agents that it starts on two other hosts."""
        command = shlex.join(agent.words("aqrun"))
        remote = self.write("agent", f'#!/bin/sh\nexec {command} "$@"\n', 0o700)
        began = time.monotonic()
        result = self.run_to_end(
            root.words("aqrun", "--hosts", "h1,h2", "-n", "2", *ranks.words("talk", "job")),
            AQ_REMOTE_AQRUN=str(remote), **settings)
        if result[0] != 0:
            self.assertLess(time.monotonic() - began, SOON)
        return result

    def connection(self, server, client, uri):
        """Returns the client's exit code and the output of both."""
        began = time.monotonic()
        with self.started(server.words("talk", "serve", uri)) as process:
            line = process.stdout.readline()
            self.assertIn("listening at ", line)
            code, out, err = self.run_to_end(client.words("talk", "call", line.split()[-1]))
            if code != 0:
                self.assertLess(time.monotonic() - began, SOON)
                self.assertIsNone(process.poll(), "a server survives a refused client")
                process.terminate()
            try:
                said, complained = process.communicate(timeout=LONG)
            except subprocess.TimeoutExpired:
                self.fail("the server has not noticed that the client has left")
        if code == 0:
            self.assertEqual(process.returncode, 0, complained)
        return code, out + said, err + complained

    def group(self, member, sender):
        """Returns whether the member of a group has received from the sender, and its output."""
        # Below the ports that the system assigns.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            port = bind_to_one_of(free, range(10000, 30000))
        uri = f"udp://239.255.{port >> 8}.{port & 255}:{port}"
        lo = {"AQ_UDP_INTERFACE": "lo"}
        with self.started(member.words("talk", "hear", uri), **lo) as process:
            self.assertIn("listening at ", process.stdout.readline())
            code, out, err = self.run_to_end(sender.words("talk", "tell", uri), **lo)
            self.assertEqual(code, 0, f"a sender does not notice refusals: {out}{err}")
            heard = process.poll() is not None
            process.terminate()
            out, err = process.communicate(timeout=LONG)
        return heard, out + err

    @contextlib.contextmanager
    def resting(self, launcher, ranks, **settings):
        """A job of two ranks that have communicated and now wait: its aqrun, and their process
        IDs."""
        words = launcher.words("aqrun", "-n", "2", *ranks.words("talk", "rest"))
        with self.started(words, **settings) as process:
            pids = [re.match(r"process (\d+) rests", process.stderr.readline()) for _ in range(2)]
            self.assertTrue(all(pids))
            yield process, [match[1] for match in pids]
            process.terminate()
            process.communicate(timeout=LONG)

    def records(self, writer):
        """The files of a job: its trace, and its statistics."""
        trace, statistics = self.place / "trace", self.place / "statistics"
        self.works(self.ranks(writer, writer, writer, AQ_TRANSPORTS="udp", AQ_TRACE="all",
                              AQ_TRACE_FILE=str(trace), AQ_STATS_FILE=str(statistics)), 2)
        return str(trace), str(statistics)

    def reads(self, reader, trace, statistics):
        """Check that the tools of `reader` understand these files."""
        code, out, err = self.run_to_end(reader.words("aqinfo", "--merge-traces", trace))
        self.assertEqual(code, 0, err)
        self.assertEqual({event["pid"] for event in json.loads(out)}, {0, 1})
        code, out, err = self.run_to_end(reader.words("aqinfo", "--peers", statistics))
        rows = re.findall(r"^ +[01] +[01] +\w+", out, re.M)
        self.assertEqual((code, len(rows)), (0, 2), out + err)


class Newer(Meeting):
    """This build, and one in which some format has a higher version."""

    def test_same(self):
        """Everything tested below works if there is no difference."""
        same = newer()
        for transports in "shm", "udp":
            self.works(self.ranks(OURS, OURS, same, AQ_TRANSPORTS=transports), 2)
            self.works(self.ranks(same, same, OURS, AQ_TRANSPORTS=transports), 2)
        for uri in "shm:///compat/", "udp://127.0.0.1:0":
            self.works(self.connection(OURS, same, uri), 2)
            self.works(self.connection(same, OURS, uri), 2)
        self.works(self.agents(OURS, same, same), 2)
        self.works(self.agents(same, OURS, OURS), 2)

    def test_control(self):
        other = newer("control")
        self.refused(self.ranks(OURS, OURS, other),
                     r"this program's library uses version (\d+) of the control protocol, but "
                     r"this aqrun uses version \d+: start it with the aqrun of the same "
                     "installation",
                     "rank 1")
        self.refused(self.ranks(other, OURS, other), "of the control protocol", "rank 0")

    def test_formats_of_ranks(self):
        for name in "ranks", "messages", "shm", "udp", "ibv", "ofi", "lending":
            with self.subTest(name):
                other = newer(name)
                says = (rf'in format "{name}", rank 0 \(libaqueduct [0-9.]+\) uses version \d+ and '
                        rf'rank 1 \([0-9.]+\) uses version \d+')
                for transports in "shm", "udp":
                    self.refused(self.ranks(OURS, OURS, other, AQ_TRANSPORTS=transports), says)
                self.refused(self.ranks(OURS, other, OURS), says)

    def test_agents(self):
        for root, agent in (OURS, newer("agents")), (newer("agents"), OURS):
            self.refused(self.agents(root, agent, agent),
                         r"the job was started by aqrun \S+ \(ticket \d+\), but .* on this host is "
                         r"aqrun \S+ \(ticket \d+\): install the same version")

    def test_links(self):
        for root, agent in (OURS, newer("link")), (newer("link"), OURS):
            self.refused(self.agents(root, agent, agent),
                         r"uses version \d+ of the protocol of links, but this host uses "
                         r"version \d+")

    def test_connections(self):
        for name in "connection", "messages", "shm":
            with self.subTest(name):
                for server, client in (OURS, newer(name)), (newer(name), OURS):
                    result = self.connection(server, client, "shm:///compat/")
                    self.refused(result, r"AQ_EMISMATCH: .*: the server.*" + BOTH.format(name),
                                 "refused a connection request: the caller" + BOTH.format(name))

    def test_connections_of_hosts(self):
        for name in "call", "udp", "connection", "messages":
            with self.subTest(name):
                for server, client in (OURS, newer(name)), (newer(name), OURS):
                    result = self.connection(server, client, "udp://127.0.0.1:0")
                    self.refused(result, r"AQ_EMISMATCH: .*: the server.*" + BOTH.format(name),
                                 "refused a connection request: the caller" + BOTH.format(name))

    def test_groups(self):
        if not self.group(OURS, newer())[0]:
            self.skipTest("interface lo carries no multicast")
        for name in "group", "messages":
            with self.subTest(name):
                for member, sender in (OURS, newer(name)), (newer(name), OURS):
                    heard, says = self.group(member, sender)
                    self.assertFalse(heard)
                    self.refused((1, says, ""), "messages are dropped: a sender uses version " +
                                 rf'\d+ of the format "{name}", this process uses version \d+')

    @unittest.skipUnless(shutil.which("mpiexec.hydra"), "mpiexec.hydra is not installed [hydra]")
    def test_managers(self):
        """Ranks started by a manager, and the agent that the first of them forks."""
        for name in "agents", "control", "ranks":
            with self.subTest(name):
                ours, other = (shlex.join(side.words("talk", "job"))
                               for side in (OURS, newer(name)))
                self.refused(self.run_to_end(
                    ["mpiexec.hydra", "-n", "2", "sh", "-c",
                     f'[ "$PMI_RANK" = 0 ] && exec {ours}; exec {other}']),
                    rf'version \d+ (?:of the format "{name}", |and rank 1 ).*version \d+')

    def test_monitors(self):
        for job, tools in (OURS, newer("top")), (newer("top"), OURS):
            with self.resting(job, job, AQ_TRANSPORTS="udp") as (process, _):
                for words in ("aqtop", "-b", "-n", "1"), ("aqinfo", "--peers"):
                    self.refused(self.run_to_end(tools.words(*words, str(process.pid))),
                                 rf'job {process.pid} uses version \d+ of the format "top", this '
                                 rf"{words[0]} uses version \d+: install the same")

    def test_boards(self):
        says = r'version \d+ of the format "board", {} uses version \d+: install the same'
        with self.resting(OURS, newer("board"), AQ_TRANSPORTS="udp") as (process, ranks):
            for rank in ranks:
                self.refused(self.run_to_end(OURS.words("aqinfo", "--peers", rank)),
                             rf"process {rank} uses " + says.format("this aqinfo"))
            self.refused(self.run_to_end(OURS.words("aqinfo", "--peers", str(process.pid))))
            self.assertRegex(process.stderr.readline(), "rank [01]")

    def test_boards_at_once(self):
        """A rank that has communicated has written its board, though only milliseconds ago."""
        for _ in range(5):
            with self.resting(OURS, OURS, AQ_TRANSPORTS="udp") as (_, ranks):
                self.assertEqual([board_length(rank) > 0 for rank in ranks], [True, True])

    def test_records(self):
        self.reads(newer(), *self.records(OURS))


class Release(Meeting):
    """This build and the last release: whatever is compatible works, and the rest is refused with a
    message."""

    def test_ranks(self):
        for transports in "shm", "udp":
            for first, second in (OURS, RELEASE), (RELEASE, OURS):
                self.either(self.ranks(OURS, first, second, AQ_TRANSPORTS=transports), 2)
                self.either(self.ranks(RELEASE, first, second, AQ_TRANSPORTS=transports), 2)

    def test_launcher(self):
        """All ranks from one build, aqrun from the other."""
        self.either(self.ranks(OURS, RELEASE, RELEASE), 2)
        self.either(self.ranks(RELEASE, OURS, OURS), 2)

    def test_agents(self):
        for root, agent in (OURS, RELEASE), (RELEASE, OURS):
            self.either(self.agents(root, agent, agent), 2)

    def test_connections(self):
        for uri in "shm:///compat/", "udp://127.0.0.1:0":
            self.either(self.connection(OURS, RELEASE, uri), 2)
            self.either(self.connection(RELEASE, OURS, uri), 2)

    def test_monitors(self):
        for job, tools in (OURS, RELEASE), (RELEASE, OURS):
            with self.resting(job, job, AQ_TRANSPORTS="udp") as (process, _):
                for words in ("aqtop", "-b", "-n", "1"), ("aqinfo", "--peers"):
                    code, out, err = self.run_to_end(tools.words(*words, str(process.pid)))
                    if code != 0:
                        self.assertRegex(out + err, WORDS)

    def test_records(self):
        """Records are text, which all releases can read."""
        self.reads(RELEASE, *self.records(OURS))
        self.reads(OURS, *self.records(RELEASE))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "Release" if RELEASE else "Newer"], verbosity=1)
