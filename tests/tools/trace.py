#!/usr/bin/env python3
"""Traces and counters of jobs, in one file or in a file per rank, however the job ends.

usage: trace.py BUILD_DIR [SANITIZERS]
"""

import json
import pathlib
import tempfile

from programs import AQINFO, ARGUMENTS, BUILD, Case, job, main, run

STRESS = BUILD / "tests/core/core_stress"
VICTIM = BUILD / "tests/core/core_victim"
# The thread sanitizer delays signals until the next blocking call; a spinning rank makes none.
PLACES = ("barrier", "sleep") if "thread" in ARGUMENTS else ("barrier", "sleep", "spin")


class Trace(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="aq-trace-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.pattern = str(self.folder / "trace.%.json")

    def trace(self, rank):
        return json.loads((self.folder / f"trace.{rank}.json").read_text())

    def counters(self, rank):
        lines = (self.folder / f"stats.{rank}").read_text().splitlines()
        for line in lines:
            self.assertTrue(line.startswith(f"rank {rank}: "), line)
        return {line.split()[2]: int(line.split()[3]) for line in lines}

    def test_what_is_traced_is_what_was_counted(self):
        stats = str(self.folder / "stats.%")
        self.expect(job(2, STRESS, "400", AQ_TRACE_FILE=self.pattern, AQ_STATS_FILE=stats), 0)
        for rank in (0, 1):
            events, counters = self.trace(rank), self.counters(rank)
            self.assertEqual({event["pid"] for event in events}, {rank})
            categories = {event["cat"] for event in events if event["ph"] != "M"}
            self.assertEqual(categories, {"am", "rma", "atomic", "coll", "wait", "job"})
            calls = [event["name"] for event in events if event.get("cat") == "am"]
            sent = [name for name in calls if name.startswith("aq_am_")]
            # A handler, of the program or of the library, runs for each received message.
            self.assertEqual(len(calls) - len(sent), counters["am_received"])
            atomics = [event for event in events if event.get("cat") == "atomic"]
            self.assertEqual(len(atomics), counters["atomic"])
            puts = [event for event in events if event["name"].startswith("aq_put")]
            self.assertEqual(sum(event["args"]["bytes"] for event in puts), counters["put_bytes"])
            self.assertEqual({event["args"]["peer"] for event in puts}, {0, 1})
            # Within a thread, the ends of events are ordered by time.
            ends = [event["ts"] + event.get("dur", 0) for event in events
                    if event.get("tid") == 0 and event["ph"] in "Xi"]
            self.assertTrue(all(a <= b + 0.002 for a, b in zip(ends, ends[1:])))

    def test_merged_it_is_one_time_line(self):
        self.expect(job(3, STRESS, "100", AQ_TRACE="am,job", AQ_TRACE_FILE=self.pattern), 0)
        files = sorted(self.folder.iterdir())
        self.assertEqual(len(files), 3)
        # Make one look as if its process was killed while writing.
        files[1].write_text(files[1].read_text()[:-70])
        merged = json.loads(self.expect(run(AQINFO, "--merge-traces", *files), 0).stdout)
        self.assertEqual({event["pid"] for event in merged}, {0, 1, 2})
        self.assertEqual({event["cat"] for event in merged if event["ph"] != "M"}, {"am", "job"})
        self.assertGreater(len(merged), len(self.trace(0)) + len(self.trace(2)))
        begins = [event["ts"] for event in merged if event["name"] == "aq_init"]
        self.assertEqual(len(begins), 3)
        self.assertLess(max(begins) - min(begins), 60e6, "the ranks have the same clock")

    def test_what_is_no_trace_is_named(self):
        self.assertIn("/nowhere", self.expect(run(AQINFO, "--merge-traces", "/nowhere"), 1).stderr)
        self.expect(run(AQINFO, "--merge-traces"), 2)

    def expect_whole(self, code, how, where):
        """The last rank ends the job; its trace and those of the others are complete."""
        with self.subTest(how=how, where=where):
            stats = str(self.folder / "stats.%")
            self.expect(job(3, VICTIM, how, where, AQ_TRACE_FILE=self.pattern,
                            AQ_STATS_FILE=stats), code)
            for rank in range(3):
                names = [event["name"] for event in self.trace(rank)]
                self.assertIn("aq_init", names)
                self.assertIn("end", names)
                self.assertTrue((self.folder / f"stats.{rank}").exists())

    def test_ends_of_all_kinds_leave_traces(self):
        for how, code in (("assert", 134), ("terminate", 143), ("aq_exit7", 7), ("exit3", 3)):
            for where in PLACES:
                self.expect_whole(code, how, where)
        self.expect_whole(9, "handler", "barrier")

    def test_threads_that_end_it_at_once_leave_traces(self):
        for _ in range(10):
            self.expect_whole(8, "threads", "nowhere")

    def test_one_file_of_all_whatever_the_end(self):
        """This includes a rank that gets SIGKILL, whose counters the other processes have."""
        trace, stats = self.folder / "trace", self.folder / "stats"
        for how, code in (("exit3", 3), ("assert", 134), ("aq_exit7", 7), ("kill", 137)):
            with self.subTest(how=how):
                self.expect(job(3, VICTIM, how, "barrier", AQ_TRACE_FILE=trace,
                                AQ_STATS_FILE=stats), code)
                events = json.loads(trace.read_text())
                ends = {event["pid"] for event in events if event["name"] == "end"}
                self.assertEqual(ends, set(range(2 if how == "kill" else 3)))
                ranks = {line.split(":")[0] for line in stats.read_text().splitlines()}
                self.assertEqual(ranks, {"rank 0", "rank 1", "rank 2"})

    def test_one_file_as_text(self):
        trace = self.folder / "trace"
        self.expect(job(2, STRESS, "20", AQ_TRACE="coll", AQ_TRACE_FILE=trace,
                        AQ_TRACE_FORMAT="text"), 0)
        lines = trace.read_text().splitlines()
        for line in lines:
            self.assertRegex(line, r"^aq\[[01]\.\d+\] \d+\.\d{3} us coll .* bytes \d+")
        self.assertEqual({line[3] for line in lines}, {"0", "1"})

    def test_a_rank_that_is_killed_takes_only_its_own(self):
        self.expect(job(3, VICTIM, "kill", "barrier", AQ_TRACE_FILE=self.pattern), 137)
        for rank in range(2):
            self.assertIn("end", [event["name"] for event in self.trace(rank)])
        self.expect(job(3, VICTIM, "kill", "barrier", AQ_TRACE_FILE=self.pattern,
                        AQ_TRACE_FLUSH="yes"), 137)
        killed = self.folder / "trace.2.json"
        merged = json.loads(self.expect(run(AQINFO, "--merge-traces", killed), 0).stdout)
        self.assertIn("aq_init", [event["name"] for event in merged])

    def test_on_standard_error_it_is_text(self):
        said = self.expect(job(1, STRESS, "20", AQ_TRACE="coll"), 0).stderr
        self.assertRegex(said, r"aq\[0\.0\] \d+\.\d{3} us coll aq_barrier bytes 0 took ")
        self.assertNotIn(" rma ", said)

    def test_the_names_of_gasnet(self):
        self.expect(job(2, STRESS, "50", GASNET_TRACEFILE=self.pattern, GASNET_TRACEMASK="GPB",
                        GASNET_STATSFILE=str(self.folder / "stats.%")), 0)
        for rank in (0, 1):
            categories = {event["cat"] for event in self.trace(rank) if event["ph"] != "M"}
            self.assertEqual(categories, {"rma", "coll", "job"})  # job: the end
            self.assertGreater(self.counters(rank)["put"], 0)

    def test_a_full_disk_ends_tracing(self):
        """But not the job, neither with one file nor with one per rank."""
        for rank in (0, 1):
            (self.folder / f"full.{rank}").symlink_to("/dev/full")
        for name, says, ranks in (("/dev/full", "the job goes on: No space left", 1),
                                  (str(self.folder / "full.%"), "its disk is full", 2)):
            with self.subTest(name=name):
                said = self.expect(job(2, STRESS, "300", AQ_TRACE_FILE=name, AQ_STATS_FILE=name),
                                   0).stderr
                for setting in ("AQ_TRACE_FILE", "AQ_STATS_FILE"):
                    found = [line for line in said.splitlines() if f"{setting}: the file" in line]
                    first, *others = found
                    self.assertIn(says, first)
                    self.assertEqual(len(others), ranks - 1, said)
                    self.assertTrue(all("the same as rank" in line for line in others), said)

    def test_wrong_values_are_answered(self):
        said = job(2, STRESS, "5", AQ_TRACE="everything")
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("AQ_TRACE", said.stderr)
        said = job(2, STRESS, "5", AQ_TRACE_FILE="/nowhere/trace")
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("/nowhere/trace", said.stderr)


main()
