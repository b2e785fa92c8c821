#!/usr/bin/env python3
"""aqperf: the patterns in which a rank computes, through both interfaces, with and without a
progress thread.

usage: aqperf_computing.py BUILD_DIR
"""

import json

from programs import AQPERF, Case, job, main

QUICK = ("--min-time", "50us", "--repeats", "5", "--sizes", "8,4K", "--interval", "50us,200us")
UNITS = {"attentive-am-short": "ns", "attentive-am-medium": "GB/s", "attentive-am-long": "GB/s",
         "attentive-put": "GB/s", "attentive-get": "GB/s", "first-after-am": "ns",
         "first-after-put": "ns", "first-after-get": "ns", "halo": "ns", "steal": "ns"}
WITHOUT_SIZES = ("attentive-am-short", "first-after-am")
EXPECTED = [(name, interval, size) for name in UNITS for interval in (50000, 200000)
            for size in ([0] if name in WITHOUT_SIZES else [8, 4096])]
# Puts in loops go to the same place, which is never read: the thread sanitizer would report a race.
TSAN = {"TSAN_OPTIONS": "atexit_sleep_ms=0 report_bugs=0"}


class Computing(Case):
    def measure(self, *options, ranks=2):
        result = job(ranks, AQPERF, *QUICK, "--pattern", ",".join(UNITS), *options, "--json", "-",
                     **TSAN)
        rows = json.loads(self.expect(result, 0).stdout)
        self.assertEqual([(row["pattern"], row["interval_ns"], row["size"]) for row in rows],
                         EXPECTED)
        for row in rows:
            self.assertEqual(row["unit"], UNITS[row["pattern"]])
            self.assertGreater(row["min"], 0, row)
            self.assertIsNotNone(row["limit"], row)
        return rows

    def test_without_a_progress_thread(self):
        for row in self.measure("--progress-thread", "no"):
            self.assertIs(row["progress_thread"], False)
            if row["pattern"] in ("attentive-am-short", "halo", "steal"):  # each poll or step
                self.assertGreater(row["median"], row["interval_ns"] / 2, row)
                self.assertGreater(row["limit"], row["interval_ns"] / 2, row)

    def test_with_a_progress_thread(self):
        for row in self.measure("--progress-thread", "yes"):
            self.assertIs(row["progress_thread"], True)

    def test_through_gasnet(self):
        self.measure("--api", "gasnet")

    def test_beside_further_ranks(self):
        self.measure(ranks=3)

    def test_a_job_of_one_has_no_target(self):
        result = self.expect(job(1, AQPERF, "--pattern", "attentive-put"), 1)
        self.assertRegex(result.stdout, r"attentive-put +4K +1ms +skipped: needs another rank")

    def test_the_table_has_a_column_for_the_interval(self):
        result = job(2, AQPERF, *QUICK, "--pattern", "put-value,attentive-put", **TSAN)
        self.expect(result, 0)
        self.assertRegex(result.stdout, r"(?m)^pattern +size interval ")
        self.assertRegex(result.stdout, r"(?m)^put-value +8 +- ")
        self.assertRegex(result.stdout, r"(?m)^attentive-put +4K +200us ")


main()
