#!/usr/bin/env python3
"""aqtop: its output for running jobs, on one host and on several, and permissions.

usage: aqtop.py BUILD_DIR CLASS…
"""

import contextlib
import json
import os
import pathlib
import pty
import select
import signal
import socket
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

from programs import AQRUN, AQTOP, ARGUMENTS, BUILD, Case, run, start

STRESS = BUILD / "tests/core/core_stress"
ENDLESS = "100000000"
# Replaces ssh: skips options and the host, and runs the command locally.
SHELL = """#!/bin/sh
while :; do case $1 in -o|-F|-p|-i) shift 2;; -*) shift;; *) break;; esac; done
shift
exec sh -c "$*"
"""
TIMEOUT = 30  # seconds
NOBODY = 65534


def ranks_of(pid):
    """Returns the processes of a job's ranks on this host, by rank."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            names = (folder / "environ").read_bytes().split(b"\0")
            rank = [name[8:] for name in names if name.startswith(b"AQ_RANK=")]
            job = [name for name in names if name.startswith(b"AQ_JOB_ID=%d-" % pid)]
            if rank and job:
                found[int(rank[0])] = int(folder.name)
    return found


def drawn():
    """Returns the lines of the picture in the documents, split into words."""
    picture = pathlib.Path(__file__).resolve().parents[2] / "docs/pictures/aqtop.svg"
    texts = xml.etree.ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")
    return [text.text.split() for text in texts]


class Shows(Case):
    hosts = ()
    settings = {}

    @contextlib.contextmanager
    def running(self, ranks):
        with start(AQRUN, "-n", ranks, *self.hosts, STRESS, ENDLESS, **self.settings) as job:
            try:
                yield job
            finally:
                job.terminate()
                job.wait()

    def looks(self, job, *options, count=1):
        said = self.expect(run(AQTOP, "--json", "-d", "0.2", "-n", str(count), *options,
                               str(job.pid)), 0)
        return [json.loads(line) for line in said.stdout.splitlines()]

    def until(self, job, condition, *options):
        """Repeats aqtop until its output passes the check."""
        limit = time.monotonic() + TIMEOUT
        while True:
            with contextlib.suppress(AssertionError):  # the job has not begun
                look = self.looks(job, *options)[0]
                if condition(look):
                    return look
            self.assertLess(time.monotonic(), limit, "in vain")

    def all_busy(self, ranks):
        return lambda look: len([row for row in look["rows"] if row["messages"] > 0]) == ranks


class Here(Shows):
    def test_rates_of_all_ranks(self):
        with self.running("3") as job:
            self.until(job, self.all_busy(3))
            looks = self.looks(job, count=3)
            self.assertEqual(len(looks), 3)
            for look in looks:
                self.assertEqual([row["rank"] for row in look["rows"]], [0, 1, 2])
                self.assertEqual((look["ranks"], look["hosts"], look["job"]), (3, 1, job.pid))
                self.assertIn("core_stress", look["program"])
                for key in ("messages", "out", "in", "again"):
                    total = sum(row[key] for row in look["rows"])
                    self.assertAlmostEqual(look["total"][key], total, delta=1)
                for row in look["rows"]:
                    self.assertTrue(0 <= row["waits"] <= 1, row)
            self.assertRegex(run(AQTOP, "--list").stdout,
                             rf"(?m)^ +{job.pid}  aqrun -n 3 .*core_stress")

    def test_text_in_order(self):
        with self.running("3") as job:
            self.until(job, self.all_busy(3))
            said = self.expect(run(AQTOP, "-b", "-n", "1", "-d", "0.2", "-s", "out",
                                   str(job.pid)), 0)
            head, titles, *rows, _ = said.stdout.splitlines()
            self.assertRegex(head, rf"^job {job.pid}, .*core_stress: 3 of 3 ranks on 1 host; "
                             ".* msg/s")
            self.assertRegex(titles, r"^ +rank +host +msg/s")
            self.assertIn(titles.split(), drawn(), "tools/dev/site/screen.py draws it again")
            self.assertEqual(sorted(int(row.split()[0]) for row in rows), [0, 1, 2])
            for options, falls in ((("-s", "out"), True), (("-s", "out", "-r"), False)):
                out = [row["out"] for row in self.looks(job, *options)[0]["rows"]]
                self.assertEqual(out, sorted(out, reverse=falls))

    def test_waiting_ranks(self):
        """One rank is stopped: the others send nothing and wait."""
        with self.running("3") as job:
            self.until(job, self.all_busy(3))
            stopped = ranks_of(job.pid)[2]
            os.kill(stopped, signal.SIGSTOP)
            try:
                look = self.until(job, lambda look: look["total"]["messages"] == 0 and
                                  all(row["waits"] == 1 for row in look["rows"][:2]))
                for row in look["rows"][:2]:
                    self.assertRegex(row["state"], "^(room|operation|event|condition|collective|"
                                     "barrier)(, asleep)?$")
            finally:
                os.kill(stopped, signal.SIGCONT)

    def test_the_end_of_the_job(self):
        with self.running("2") as job:
            self.until(job, self.all_busy(2))
            with start(AQTOP, "-b", "-d", "0.1", str(job.pid)) as top:
                top.stdout.readline()
                job.terminate()
                top.communicate(timeout=TIMEOUT)
                self.assertEqual(top.returncode, 0)

    def test_no_such_job(self):
        self.assertIn("99999999", self.expect(run(AQTOP, "-b", "99999999"), 1).stderr)

    def test_wrong_usage(self):
        for words in (("--delay", "0"), ("--count", "x"), ("--sort", "size!"), ("--nonsense",),
                      ("1", "2")):
            self.assertIn("aqtop", self.expect(run(AQTOP, *words), 2).stderr)
        self.assertTrue(self.expect(run(AQTOP, "--help"), 0).stdout.startswith("usage: aqtop"))

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_other_users_see_nothing(self):
        with self.running("2") as job:
            self.until(job, self.all_busy(2))
            child = os.fork()
            if child == 0:
                os.setresuid(NOBODY, NOBODY, NOBODY)
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
                    stranger.connect(f"\0aq-top-0.{job.pid}")
                    closed = True
                    with contextlib.suppress(OSError):  # closed before this was sent
                        stranger.send(bytes((1, 0, 0, 0, 100, 0, 0, 0)))
                        closed = stranger.recv(100000) == b""
                os._exit(0 if closed else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)


class Screen(Shows):
    """aqtop on a terminal, as users see it."""

    def test_keys(self):
        with self.running("2") as job:
            self.until(job, self.all_busy(2))
            child, terminal = pty.fork()
            if child == 0:
                os.environ["TERM"] = "xterm"
                os.execv(AQTOP, [os.fspath(AQTOP), "-d", "0.1", str(job.pid)])
            try:
                self.shown(terminal, b"msg/s")  # afterwards, only changes are written
                os.write(terminal, b"srq")
                self.shown(terminal, None)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
            except AssertionError:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise
            finally:
                os.close(terminal)

    def shown(self, terminal, text):
        """Reads until the text is there, or to the end."""
        seen, limit = b"", time.monotonic() + TIMEOUT
        while text is None or text not in seen:
            ready, _, _ = select.select([terminal], [], [], TIMEOUT)
            self.assertTrue(ready and time.monotonic() < limit, seen[-2000:])
            try:
                seen += os.read(terminal, 65536)
            except OSError:  # the end of a terminal
                self.assertIsNone(text, seen)
                return


class Hosts(Shows):
    """Two hosts, through a replacement for ssh."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="aq-top-")
        cls.addClassCleanup(folder.cleanup)
        shell = pathlib.Path(folder.name) / "shell"
        shell.write_text(SHELL, encoding="utf-8")
        shell.chmod(0o700)
        cls.hosts = ("--hosts", "left,right")
        cls.settings = {"AQ_SSH_CMD": str(shell)}

    def test_both_are_shown(self):
        with self.running("4") as job:
            look = self.until(job, self.all_busy(4))
            self.assertEqual(look["hosts"], 2)
            self.assertEqual([row["host"] for row in look["rows"]],
                             ["left", "left", "right", "right"])
            # The first output may appear before the other host has answered twice.
            rows = self.until(job, self.all_busy(4), "-s", "host", "-r")["rows"]
            self.assertEqual([row["rank"] for row in rows], [3, 2, 1, 0])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *ARGUMENTS])
