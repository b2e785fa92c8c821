#!/usr/bin/env python3
"""Output of jobs over several hosts, seen where they were started: warnings, output of ranks,
peers.

usage: shown.py BUILD_DIR [CLASS[.TEST]]…

The hosts are those of far.py.
"""

import os
import pathlib
import re
import signal
import subprocess
import tempfile

import far


class Alike(far.Near):
    """Messages that are equal on several ranks are printed once; the other ranks are only named."""

    def test_warnings(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            for rank in range(8):
                pathlib.Path(place, str(rank)).symlink_to("/dev/full")
            out, said = self.ends(far.BUILD / "tests/core/core_stress", "20", ranks=8,
                                  AQ_TRACE_FILE=f"{place}/%")
        first = re.match(r"aq\[(\d)\] base: AQ_TRACE_FILE: .*: its disk is full\n", said)
        self.assertIsNotNone(first, said)
        named = re.findall(r"(?m)^aq\[([-,\d]+)\] base: the same as rank (\d) \((\d) other",
                           said)
        self.assertEqual(len(named), len(said.splitlines()) - 1, said)
        ranks = {int(first[1])}
        for names, of, _ in named:
            self.assertEqual(of, first[1])
            for part in names.split(","):
                begin, _, end = part.partition("-")
                ranks.update(range(int(begin), int(end or begin) + 1))
        self.assertEqual(ranks, set(range(8)), said)
        self.assertEqual(sum(int(count) for _, _, count in named), 7, said)
        self.assertEqual(out.count("messages, order"), 8)  # but the program's output is not merged

    def test_hosts(self):
        said = self.fails("true", hosts=["lacks1", "lacks2", "lacks3"],
                          says=r"hosts lacks\d,lacks\d: the same as host lacks\d \(2 other hosts\)")
        self.assertEqual(said.count("set AQ_REMOTE_AQRUN to its path"), 1, said)

    def test_bad_settings(self):
        said = self.fails(far.BUILD / "examples/hello", ranks=8, AQ_AM_CREDITS="zz",
                          says=r"rank \d .*AQ_AM_CREDITS=\"zz\" is not valid.*; ending the job")
        ours = [line for line in said.splitlines() if not line.startswith("rank ")]
        self.assertEqual(len(ours), 1, said)


class Reader(far.Near):
    """Readers of the ranks' output."""

    def test_is_waited_for(self):
        """Ranks of other hosts wait for the reader as local ones do, and nothing is lost."""
        reads, writes = os.pipe()
        with self.job("sh", "-c", "yes | head -c 20000000; echo done >&2", ranks=4,
                      hosts=self.hosts(2), stdout=writes) as job, open(reads, "rb") as reader:
            os.close(writes)
            far.until(lambda: "done" in job.said(1), 1)
            self.assertNotIn("done", job.said(1))
            self.assertEqual(sum(map(len, iter(lambda: reader.read(1 << 20), b""))), 80000000)
            self.assertEqual(job.wait(), 0, job.said(1))


class Files(far.Near):
    """Files for the output of each rank."""

    def test_are_exact(self):
        """They hold each byte of output, in the order of both streams, for any amount of it, and
        replace old contents."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            for rank in range(4):
                pathlib.Path(place, f"all.{rank}").write_text("before", encoding="utf-8")
            script = ('printf "a\\000b"; printf c >&2; printf "d\\n"; '
                      'head -c 3000000 /dev/zero; printf end')
            self.ends("--output", f"{place}/all.%r", "sh", "-c", script, ranks=4)
            for rank in range(4):
                data = pathlib.Path(place, f"all.{rank}").read_bytes()
                self.assertEqual(data, b"a\0bcd\n" + bytes(3000000) + b"end")

    def test_cannot_be_written(self):
        """The failure is reported once, and the other files are complete."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            for rank in (1, 2):
                pathlib.Path(place, f"{rank}.out").symlink_to("/dev/full")
            said = self.fails("--output", place, "sh", "-c", "seq 3; seq 3", ranks=4,
                              says="cannot write .*: No space left on device; "
                                   "the rest of the output of rank")
            self.assertEqual(said.count("No space left"), 1, said)
            self.assertIn("1 more files of --output", said)
            for rank in (0, 3):
                text = pathlib.Path(place, f"{rank}.out").read_text(encoding="utf-8")
                self.assertEqual(text, "1\n2\n3\n" * 2)
    def test_full(self):
        """Programs that do not check their writes lose nothing silently, on the host of aqrun and
        on others."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            words = ("mount", "-t", "tmpfs", "-o", "size=256k", "full", place)
            if subprocess.run(words, check=False, capture_output=True).returncode != 0:
                self.skipTest("a full file system needs root and mount()")
            try:
                for hosts in (["localhost"], ["localhost", "far"], self.hosts(2)):
                    said = self.fails("--output", place, "sh", "-c", "yes | head -c 200000; true",
                                      ranks=4, hosts=hosts, says="cannot write .*: No space left")
                    more = re.search(r"(\d) more files of --output are incomplete", said)
                    whole = sum(os.stat(f"{place}/{rank}.out").st_size == 200000
                                for rank in range(4))
                    self.assertEqual(more and int(more[1]), 3 - whole, said)
            finally:
                subprocess.run(("umount", "-l", place), check=True)

    def test_cannot_be_created(self):
        self.fails("--output", "/dev/null/%r", "true", ranks=4,
                   says="cannot open /dev/null/0 for the output of rank 0: Not a directory")


class WideShown(far.Bridged):
    """Output from hosts that share nothing but a network."""

    def test_files_come_home(self):
        """The files are on the host of aqrun, although the last host has a different folder at this
        path."""
        hosts = [*self.hosts(1), f"10.8.0.{far.BRIDGED[-1]}"]
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            self.ends("--output", place, "sh", "-c", "echo $AQ_RANK", hosts=hosts, ranks=4)
            found = {file.name: file.read_text() for file in pathlib.Path(place).iterdir()}
        self.assertEqual(found, {f"{rank}.{stream}": f"{rank}\n" if stream == "out" else ""
                                 for rank in range(4) for stream in ("out", "err")})

    def test_peers(self):
        """Given the pid of aqrun, which has no peers itself, aqinfo shows those of all ranks,
        including ranks on other hosts."""
        with self.job(far.BUILD / "tests/core/core_stress", "1000000000", ranks=4,
                      AQ_SSH_FANOUT="1") as job:
            def rows():
                shown = subprocess.run([far.BUILD / "tools/aqinfo/aqinfo", "--peers",
                                        str(job.run.pid)], env=self.environment,
                                       capture_output=True, text=True, check=False)
                found = re.findall(r"(?m)^ +(\d) +(\d) up ", shown.stdout)
                return shown if len(found) == 12 and shown.returncode == 0 else None
            self.assertIsNotNone(far.until(rows), job.said(1))
            job.kill(job.run.pid, number=signal.SIGTERM)
            self.assertEqual(job.wait(), 143, job.said(1))


if __name__ == "__main__":
    far.main()
