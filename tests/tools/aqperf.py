#!/usr/bin/env python3
"""aqperf: with the given number of ranks, every pattern gives plausible results, in every format.

usage: aqperf.py BUILD_DIR RANKS
"""

import csv
import json
import pathlib
import tempfile
import xml.etree.ElementTree

from programs import AQPERF, ARGUMENTS, Case, job, main

RANKS = int(ARGUMENTS[0])
QUICK = ("--min-time", "50us", "--repeats", "5", "--sizes", "8,4K")
UNITS = {"am-short-rtt": "ns", "am-medium-rtt": "ns", "am-long-rtt": "ns", "am-ring": "ns",
         "am-short-rate": "M/s", "am-medium-rate": "M/s", "am-reserve-rate": "M/s",
         "am-long-rate": "M/s", "am-long-bw": "GB/s",
         "am-short-pairs": "M/s", "am-medium-pairs": "M/s",
         "am-long-pairs": "M/s", "am-short-in": "M/s", "poll-empty": "ns",
         "am-self": "ns", "am-self-reply": "ns", "put-self": "ns", "put-lat": "ns", "get-lat": "ns",
         "put-value": "ns",
         "get-value": "ns", "atomic-lat": "ns", "atomic-cas": "ns", "atomic-double": "ns",
         "atomic-shared": "ns",
         "atomic-rate": "M/s", "put-bw": "GB/s", "get-bw": "GB/s", "put-rate": "M/s",
         "get-rate": "M/s", "put-events": "M/s", "get-events": "M/s", "memset-bw": "GB/s",
         "put-private": "GB/s",
         "get-private": "GB/s",
         **{f"{form}-{way}{piece}": "GB/s" for form in ("strided", "vector", "indexed")
            for way in ("put", "get") for piece in ("", "-64", "-512")},
         "team-split": "ns", "barrier": "ns",
         "bcast": "ns", "reduce": "ns", "allreduce": "ns", "gather": "ns", "allgather": "ns",
         "scatter": "ns", "alltoall": "ns", "gups": "M/s"}
WITHOUT_SIZES = {"am-short-rtt": [0], "am-ring": [0], "am-short-rate": [0],
                 "am-short-pairs": [0], "am-short-in": [0], "poll-empty": [0], "am-self": [0],
                 "am-self-reply": [0],
                 "put-value": [8], "get-value": [8], "atomic-lat": [8], "atomic-cas": [8],
                 "atomic-double": [8], "atomic-shared": [8], "atomic-rate": [8],
                 "team-split": [0], "barrier": [0]}
PIECES = {"64": 64, "512": 512}
WITHOUT_LIMIT = ("am-short-in", "team-split")


class Aqperf(Case):
    def check_row(self, row):
        self.assertEqual(row["ranks"], RANKS)
        self.assertEqual(row["transport"], "loop" if RANKS == 1 else "shm")
        self.assertEqual(row["unit"], UNITS[row["pattern"]])
        self.assertGreater(row["min"], 0, row)
        self.assertLessEqual(row["min"], row["median"], row)
        self.assertLessEqual(row["median"], row["max"], row)
        self.assertEqual(row["limit"] is None, row["limit_name"] is None, row)
        self.assertEqual(row["limit"] is None, row["ratio"] is None, row)
        if row["limit"] is not None:
            self.assertAlmostEqual(row["ratio"], row["median"] / row["limit"],
                                   delta=row["ratio"] / 1000)
        if row["pattern"] in ("barrier", "bcast", "alltoall") and RANKS > 1:
            self.assertIsNotNone(row["limit"], row)
        if row["pattern"] in WITHOUT_LIMIT:
            self.assertIsNone(row["limit"], row)
        elif RANKS == 2 or row["pattern"] in ("put-lat", "get-lat", "put-bw", "get-bw"):
            self.assertIsNotNone(row["limit"], row)

    def test_every_pattern_through_gasnet(self):
        result = self.expect(job(RANKS, AQPERF, *QUICK, "--api", "gasnet", "--json", "-"), 0)
        rows = json.loads(result.stdout)
        self.assertEqual({row["pattern"] for row in rows}, set(UNITS))
        for row in rows:
            self.assertGreater(row["min"], 0, row)
            self.assertEqual(row["api"], "gasnet")

    def test_every_pattern_in_every_format(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {kind: pathlib.Path(folder) / f"out.{kind}" for kind in ("json", "csv", "svg")}
            result = self.expect(job(RANKS, AQPERF, *QUICK, "--json", files["json"],
                                     "--csv", files["csv"], "--plot", files["svg"]), 0)
            rows = json.loads(files["json"].read_text())
            table = list(csv.DictReader(files["csv"].read_text().splitlines()))
            picture = xml.etree.ElementTree.parse(files["svg"]).getroot()
        expected = [(name, size) for name in UNITS for size in WITHOUT_SIZES.get(name, [8, 4096])
                    if size % PIECES.get(name.rpartition("-")[2], 1) == 0]
        self.assertEqual([(row["pattern"], row["size"]) for row in rows], expected)
        for row in rows:
            self.check_row(row)
            self.assertIn(row["pattern"], result.stdout)
        self.assertEqual([(row["pattern"], int(row["size"])) for row in table], expected)
        self.assertEqual([float(row["median"]) for row in table], [row["median"] for row in rows])
        titles = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        for name in UNITS:
            self.assertIn(name, titles)

    def test_json_on_standard_output_is_all_there_is(self):
        result = job(RANKS, AQPERF, *QUICK, "--no-pin", "--pattern", "put-*,barrier", "--json", "-")
        names = [row["pattern"] for row in json.loads(self.expect(result, 0).stdout)]
        doubled = ("put-bw", "put-rate", "put-events", "put-private")
        self.assertEqual(names, ["put-self"] * 2 + ["put-lat"] * 2 + ["put-value"] +
                         [name for name in doubled for _ in range(2)] + ["barrier"])

    def test_mode_everything(self):
        pattern = "am-long-rtt,put-lat,atomic-lat,put-private,allreduce"
        result = job(RANKS, AQPERF, *QUICK, "--pattern", pattern, "--json", "-",
                     AQ_SEGMENT_MODE="everything")
        rows = json.loads(self.expect(result, 0).stdout)
        self.assertEqual(len(rows), 4 * 2 + 1)
        result = job(RANKS, AQPERF, "--api", "gasnet", "--pattern", "put-lat",
                     AQ_SEGMENT_MODE="everything")
        self.assertIn("works with fast only", self.expect(result, 1).stderr)

    def test_floods_by_several_threads(self):
        # Threads put to the same place, which is never read: the thread sanitizer would report a
        # race.
        result = job(RANKS, AQPERF, *QUICK, "--threads", "3", "--pattern",
                     "am-*-rate,am-short-in,put-rate,get-rate,put-events,atomic-rate",
                     "--json", "-", TSAN_OPTIONS="atexit_sleep_ms=0 report_bugs=0")
        rows = json.loads(self.expect(result, 0).stdout)
        self.assertEqual(len(rows), 1 + 3 * 2 + 1 + 3 * 2 + 1)
        for row in rows:
            self.assertGreater(row["min"], 0, row)

    def test_sizes_that_do_not_fit_are_skipped_with_the_reason(self):
        result = job(RANKS, AQPERF, "--min-time", "50us", "--pattern", "am-medium-rtt,put-bw",
                     "--sizes", "0,8,64M")
        self.expect(result, 0)
        self.assertRegex(result.stdout,
                         r"am-medium-rtt +64M +skipped: exceeds the maximum size of a Medium, \d+")
        self.assertRegex(result.stdout, r"put-bw +0 +skipped: needs at least 1 byte\n")
        result = job(RANKS, AQPERF, "--pattern", "put-bw", "--sizes", "0")
        self.assertRegex(self.expect(result, 1).stderr,
                         r"^aqperf: nothing was measured: [^\n]*\n([^\n]*aqrun[^\n]*\n)?$")


main()
