#!/usr/bin/env python3
"""Jobs that continue without some of their hosts, in the network namespaces of far.py.

usage: lost.py BUILD_DIR [CLASS[.TEST]]…
"""

import contextlib
import pathlib
import re
import signal
import subprocess

import far


class WideLost(far.Bridged):
    """Hosts are killed or cut off; all others learn of the same losses, and finish."""

    def survives(self, victims, harm, fanout="2", says="."):
        """Two ranks on each of four hosts: those of some hosts are lost, and the others
        continue."""
        dead = [str(rank) for rank in (range(-victims) if victims < 0 else range(8 - victims, 8))]
        living = [str(rank) for rank in range(8) if str(rank) not in dead]

        def lost():
            return sorted(re.findall(r"rank (\d) .*the job goes on without", job.said(1)))
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as gate:
            with self.job(far.BUILD / "tests/core/core_survivor", str(victims), "outside", ranks=8,
                          stdin=gate.stdout, AQ_LOG="off", AQ_SURVIVE="yes", AQ_HOST_TIMEOUT="1s",
                          AQ_SSH_FANOUT=fanout) as job:
                with harm(job, *job.ready(8, 4)):
                    far.until(lambda: lost() == dead and re.search(says, job.said(1)))
                    self.assertEqual(lost(), dead, job.said(1))
                    self.assertRegex(job.said(1), says)
                    gate.stdin.close()
                    self.assertIn(job.wait(), (1, 137), job.said(1))
                    leave = sorted(re.findall(r"rank (\d) leaves", job.said(0)))
                    self.assertEqual(leave, living, job.said(1))
                    self.assertEqual(job.left(20), [])

    def test_survivors_of_hosts(self):
        """A host or its agent is killed, or it is cut off: the others continue, and finish."""
        @contextlib.contextmanager
        def kill_host(job, agents, ranks, everything):
            job.kill(*[pid for pid in everything if self.host_of(pid) == host])
            yield

        @contextlib.contextmanager
        def kill_agent(job, agents, ranks, everything):
            job.kill(agents[host])
            yield

        def cut(job, agents, ranks, everything):
            return self.apart(host[-1])
        rows = [(kill_host, -2, "2")]
        if far.SOAK:
            rows = [(harm, victims, fanout) for harm in (kill_host, kill_agent, cut)
                    for victims in (2, -2) for fanout in ("1", "2", "32")]
            rows.append((lambda *_: self.apart(3, 4), 4, "2"))
        for harm, victims, fanout in rows:
            host = "10.8.0.4" if victims > 0 else "10.8.0.1"
            with self.subTest(harm=harm.__name__, host=host, fanout=fanout):
                self.survives(victims, harm, fanout)

    @staticmethod
    def lines_of(pid):
        """Yields both ends of each connection in a process's network namespace, in the kernel's
        notation."""
        for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text("ascii").splitlines()[1:]:
            _, local, remote, state = line.split()[:4]
            if state == "01":
                yield local, remote

    def line_above(self, agent):
        """Returns the agent's end of the connection to its parent, which is not one of ssh."""
        return {local for local, remote in self.lines_of(agent)
                if f"{2222:04X}" not in (local.rpartition(":")[2], remote.rpartition(":")[2])}

    def test_lines(self):
        """A broken connection ends no rank, whether one end is notified or neither, as long as
        there is another path: one that bypasses the host above, or a new connection to aqrun."""
        rows = [(host, fate) for host in (4, 2) for fate in ("reject with tcp reset", "drop")]
        for host, fate in rows if far.SOAK else (rows[0], rows[-1]):
            says = f"host 10.8.0.{host} has joined"
            with self.subTest(host=host, fate=fate), self.job(
                    "-v", "sh", "-c", far.Ends.STAY, ranks=4, AQ_SSH_FANOUT="2",
                    AQ_HOST_TIMEOUT="1s") as job:
                agents, _, everything = job.ready(4, 4)
                line, = self.line_above(agents[f"10.8.0.{host}"])
                port = int(line.rpartition(":")[2], 16)
                with far.spaces.rules(host, ("output", f"tcp sport {port} {fate}"),
                                      ("input", f"tcp dport {port} drop")):
                    far.until(lambda job=job, says=says: job.said(1).count(says) == 2)
                    self.assertEqual(job.said(1).count(says), 2, job.said(1))
                # The other end is notified, too, and does not report the host missing again. That a
                # reconnected host is kept is tested in virtual time (hubsim).
                above = [pid for pid in (*agents.values(), job.run.pid)
                         if pid != agents[f"10.8.0.{host}"]]
                self.assertTrue(far.until(lambda above=above, line=line: not any(
                    line == remote for pid in above for _, remote in self.lines_of(pid))))
                self.assertIsNone(job.run.poll(), job.said(1))
                self.assertEqual(sorted(job.mine()[2]), sorted(everything), job.said(1))
                self.assertNotIn("was lost with its host", job.said(1))
                job.kill(job.run.pid, number=signal.SIGTERM)
                self.assertEqual(job.wait(), 143, job.said(1))
                self.assertNotRegex(job.said(1).rpartition(says)[2], "to reconnect|is lost with")

    def test_partition(self):
        """The half without aqrun ends, with a message where ssh gets through; the other half
        continues."""
        @contextlib.contextmanager
        def only_ssh(*_):
            def rule(end):
                return ("tcp sport 2222 accept; tcp dport 2222 accept; "
                        f"ip {end} {{ 10.8.0.1, 10.8.0.2, 10.8.0.100 }} drop")
            with contextlib.ExitStack() as stack:
                for host in (3, 4):
                    stack.enter_context(far.spaces.rules(
                        host, ("input", rule("saddr")), ("output", rule("daddr"))))
                yield
        self.survives(4, only_ssh,
                      says="host 10.8.0.[34] has lost its connection to aqrun, and ends")


if __name__ == "__main__":
    far.main()
