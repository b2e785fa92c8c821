#!/usr/bin/env python3
"""Files that jobs over several hosts write: statistics and traces, on a common time line.

usage: records.py BUILD_DIR [CLASS[.TEST]]…

The hosts are those of far.py, with its replacement for ssh; where possible, some have their own
clock, in a time namespace.
"""

import collections
import json
import os
import re
import subprocess

import far


class Records(far.Near):
    """One file for the statistics of all hosts, and one for their traces."""

    # The clocks of two hosts are this many seconds ahead.
    AHEAD = (1000, 5000)
    CLOCK = re.compile(r"clock of host ahead(\d+): offset (-?[\d.]+) us, error ([\d.]+) us")

    def setUp(self):
        self.trace = self.folder / "trace.json"
        self.stats = self.folder / "stats"
        for file in (self.trace, self.stats):
            file.unlink(missing_ok=True)

    def record(self, *words, code=0, **settings):
        """Run a job. Returns its events, and the ranks that have counters."""
        hosts = ["h1", *(f"ahead{seconds}" for seconds in self.AHEAD)]
        self.ends(*words, code=code, ranks=6, hosts=hosts, AQ_TRACE_FILE=str(self.trace),
                  AQ_STATS_FILE=str(self.stats), **settings)
        self.assertEqual(len(os.listdir(self.folder)), 2)
        return json.loads(self.trace.read_text()), self.counters()

    def counters(self):
        return {int(rank) for rank in re.findall(r"(?m)^rank (\d+): ", self.stats.read_text())}

    @staticmethod
    def by_thread(events):
        threads = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                threads[event["pid"], event["tid"]].append(event)
        return threads

    def check_clocks(self, events):
        """Check the clock offset that each host reports. Returns the error bound in us."""
        worst = 0
        for text in ("\n".join(event["name"] for event in events), self.stats.read_text()):
            found = self.CLOCK.findall(text)
            self.assertEqual({int(host) for host, _, _ in found}, set(self.AHEAD), text[:1000])
            own = subprocess.run(["unshare", "-U", "-r", "-T", "-f", "--monotonic", "1", "true"],
                                 check=False, capture_output=True).returncode == 0
            for host, offset, error in found:
                ahead = int(host) * 1e6 if own else 0
                self.assertLessEqual(abs(float(offset) + ahead), float(error) + 0.002)
                worst = max(worst, float(error))
        return worst

    def check_order(self, events):
        """Time increases in each thread, and no rank leaves aq_init before the last one has entered
        it."""
        error = self.check_clocks(events)
        meetings = collections.defaultdict(list)
        for (rank, _), of in self.by_thread(events).items():
            ends = [event["ts"] + event["dur"] for event in of]
            self.assertTrue(all(a <= b + 0.002 for a, b in zip(ends, ends[1:])), rank)
            for event in of:
                if event["cat"] == "job" and event["name"] in ("aq_init", "aq_finalize"):
                    meetings[event["name"]].append((event["ts"], event["ts"] + event["dur"]))
        for name in ("aq_init", "aq_finalize"):
            times = meetings[name]
            self.assertEqual(len(times), 6)
            self.assertLessEqual(max(time[0] for time in times),
                                 min(time[1] for time in times) + 2 * error)

    def test_all_of_it(self):
        events, counters = self.record(far.BUILD / "tests/core/core_stress", "100")
        self.assertEqual(counters, set(range(6)))
        self.assertEqual({event["pid"] for event in events}, set(range(6)))
        self.assertEqual([event["name"] for event in events].count("end"), 6)
        self.check_order(events)

    def test_all_of_it_in_a_chain(self):
        """The clock of the last host is measured through the host between."""
        events, _ = self.record(far.BUILD / "tests/core/core_stress", "200", AQ_SSH_FANOUT="1")
        self.check_order(events)

    def test_killed_rank(self):
        """Its counters are written nevertheless, and the part of the trace that it had written
        is kept."""
        events, counters = self.record(
            far.VICTIM, "kill", "barrier", code=137, AQ_TRACE_FLUSH="yes")
        self.assertEqual(counters, set(range(6)))
        ends = {event["pid"] for event in events if event["name"] == "end"}
        self.assertEqual(ends, set(range(5)))
        self.assertIn(5, {event["pid"] for event in events if event["name"] == "aq_init"})

    def test_killed_agent(self):
        """The part received from its host is kept, and those of the others are complete."""
        words = (far.BUILD / "tests/core/core_stress", "1000000")
        with self.job(*words, ranks=4, hosts=["h1", "ahead1000"], AQ_TRACE_FLUSH="yes",
                      AQ_TRACE_FILE=str(self.trace), AQ_STATS_FILE=str(self.stats)) as job:
            def seen():
                text = self.trace.read_text() if self.trace.exists() else ""
                done = set(re.findall(r'"name":"aq_barrier".*"pid":(\d),', text))
                return done == set("0123")  # each rank has something to count
            self.assertTrue(far.until(seen))
            job.kill(job.mine()[0]["ahead1000"])
            self.assertEqual(job.wait(), 1, job.said(1))
        events = json.loads(self.trace.read_text())
        self.assertEqual({event["pid"] for event in events}, set(range(4)))
        ends = {event["pid"] for event in events if event["name"] == "end"}
        self.assertEqual((ends, self.counters()), ({0, 1}, {0, 1}))

    def test_not_writable(self):
        self.fails(far.BUILD / "tests/core/core_am", ranks=4, AQ_TRACE_FILE="/nowhere/trace",
                   says='AQ_TRACE_FILE: cannot write the file "/nowhere/trace"')


if __name__ == "__main__":
    far.main()
