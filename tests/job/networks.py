#!/usr/bin/env python3
"""Interruptions of networks between hosts, in the network namespaces of far.py.

usage: networks.py BUILD_DIR [CLASS[.TEST]]…
"""

import contextlib
import itertools
import json
import re
import signal
import subprocess
import time

import far


TALK = far.BUILD / "tests/net/net_talk"
HOSTS = range(1, 5)


class WideNetworks(far.Bridged):
    """A network failure is harmless if there is another network, or if it is short."""

    @contextlib.contextmanager
    def second(self):
        """Give all hosts a second network, whose interfaces the system lists first."""
        for host in HOSTS:
            address = f"10.7.0.{host}/24"
            far.spaces.call("ip", "-n", str(host), "address", "add", address, "dev", "first")
            far.spaces.call("ip", "-n", str(host), "link", "set", "first", "up")
        try:
            yield
        finally:
            for host in HOSTS:
                far.spaces.call("ip", "-n", str(host), "link", "set", "first", "down")
                far.spaces.call("ip", "-n", str(host), "address", "flush", "dev", "first")

    @contextlib.contextmanager
    def second_cut(self):
        for host in HOSTS:
            far.spaces.call("ip", "link", "set", f"second{host}", "nomaster")
        try:
            yield
        finally:
            for host in HOSTS:
                far.spaces.call("ip", "link", "set", f"second{host}", "master", "second")

    @staticmethod
    def carried():
        """Returns the number of bytes that host 1 has received over the second network."""
        text = far.spaces.call("ip", "-n", "1", "-s", "-j", "link", "show", "first")
        return json.loads(text)[0]["stats64"]["rx"]["bytes"]

    def test_dead_network(self):
        """The interface listed first leads nowhere."""
        with self.second(), self.second_cut():
            for ranks in (2, 4):  # jobs of two processes send on a separate code path
                said = self.ends(far.BUILD / "examples/hello", hosts=self.hosts(ranks),
                                 ranks=ranks)
                self.assertEqual((said[0].count("over udp\n"), said[1]), (ranks, ""))

    @contextlib.contextmanager
    def first_carries(self, limit):
        """Drop UDP packets longer than `limit` on the first network."""
        with contextlib.ExitStack() as stack:
            drop = f"iifname wire meta l4proto udp meta length > {limit} drop"
            for host in HOSTS:
                stack.enter_context(far.spaces.rules(host, ("prerouting", drop)))
            yield

    def test_network_dies(self):
        """The job continues over the other network, even if that carries only smaller packets."""
        for ranks, auth, limit in ((2, "mac", 1500), (4, "cookie", 1500), (4, "mac", 1000)):
            with (self.subTest(ranks=ranks, limit=limit), self.second(),
                  self.first_carries(limit), self.job(
                    TALK, ranks=ranks, hosts=self.hosts(ranks), stdin=subprocess.PIPE,
                    AQ_UDP_AUTH=auth) as job):
                before = self.carried()
                for cut in (False, True):
                    with self.second_cut() if cut else contextlib.nullcontext():
                        for _ in range(2):
                            seen = job.said(0).count("round ")
                            job.run.stdin.write(b"\n")
                            job.run.stdin.flush()
                            far.until(lambda seen=seen: job.said(0).count("round ") > seen, 20)
                            self.assertGreater(job.said(0).count("round "), seen, job.said(1))
                    self.assertGreater(self.carried() - before, 100000)
                job.run.stdin.close()
                self.assertEqual(job.wait(), 0, job.said(1))
                said = re.sub(r"aq\[\d\] udp: .* the path carries only 988, .*\n", "", job.said(1))
                self.assertEqual(said, "")

    def test_cut(self):
        """A cut of up to one and a half times the silence that hosts are allowed: the job
        continues."""
        for silence, cuts in ((10, (5, 10, 15)),) if far.SOAK else ((3, (3.5,)),):
            for cut, fanout in itertools.product(cuts, ("1", "2") if far.SOAK else ("2",)):
                with self.subTest(cut=cut, fanout=fanout), self.job(
                        "sh", "-c", far.Ends.STAY, ranks=4, AQ_HOST_TIMEOUT=f"{silence}s",
                        AQ_SSH_FANOUT=fanout) as job:
                    job.ready(4, 4)
                    with self.apart(2, 4):
                        time.sleep(cut)  # the duration of the fault
                    time.sleep(silence)
                    self.assertIsNone(job.run.poll(), job.said(1))
                    job.kill(job.run.pid, number=signal.SIGTERM)
                    self.assertEqual(job.wait(), 143, job.said(1))

    def test_cut_at_the_end(self):
        """Likewise while the processes finalize. A permanent cut ends the job, with a message that
        names the host."""
        silence, cuts = (10, (5, 10, 15, None)) if far.SOAK else (3, (3.5, None))
        for cut in cuts:
            with self.subTest(cut=cut), self.job(
                    TALK, ranks=4, AQ_HOST_TIMEOUT=f"{silence}s", AQ_SSH_FANOUT="2",
                    stdin=subprocess.PIPE) as job:
                job.run.stdin.write(b"\n")
                job.run.stdin.flush()
                far.until(lambda job=job: "round " in job.said(0))
                with self.apart(3, 4):
                    job.run.stdin.close()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        job.run.wait(far.TIMEOUT if cut is None else cut)
                self.assertEqual(job.wait(), 0 if cut else 1, job.said(1))
                if cut is None:
                    self.assertRegex(job.said(1), r"was lost with its host 10\.8\.0\.[34]")


if __name__ == "__main__":
    far.main()
