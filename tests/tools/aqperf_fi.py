#!/usr/bin/env python3
"""aqperf: over libfabric and the provider of the build, next to Aqueduct's own interface.

usage: aqperf_fi.py BUILD_DIR shm|udp
"""

import json
import os
import tempfile

from programs import AQPERF, ARGUMENTS, Case, job, main, run

NET = ARGUMENTS[0]
QUICK = ("--min-time", "50us", "--repeats", "5", "--transport", f"loop,{NET}", "--api", "fi")
UNITS = {"am-short-rtt": "ns", "am-medium-rtt": "ns", "am-long-rtt": "ns", "am-short-rate": "M/s",
         "am-medium-rate": "M/s", "am-long-bw": "GB/s", "put-lat": "ns", "get-lat": "ns",
         "put-bw": "GB/s", "get-bw": "GB/s", "put-rate": "M/s", "get-rate": "M/s",
         "put-events": "M/s", "get-events": "M/s"}
WITHOUT_SIZES = ("am-short-rtt", "am-short-rate")
os.environ.pop("FI_PROVIDER_PATH", None)  # aqperf finds that of its own build
os.environ.pop("FI_PROVIDER", None)


class AqperfFi(Case):
    def test_every_pattern_beside_the_native_figure(self):
        result = self.expect(job(2, AQPERF, *QUICK, "--sizes", "8,4K,64K", "--json", "-"), 0)
        found = {}
        for row in json.loads(result.stdout):
            found.setdefault(row["pattern"], []).append(row["size"])
            self.assertEqual((row["api"], row["transport"], row["limit_name"], row["unit"]),
                             ("fi", NET, "aq", UNITS[row["pattern"]]))
            self.assertGreater(row["min"], 0, row)
            self.assertGreater(row["limit_min"], 0, row)
            self.assertAlmostEqual(row["ratio"], row["median"] / row["limit"],
                                   delta=row["ratio"] / 1000)
        self.assertEqual(list(found), list(UNITS))
        for name, sizes in found.items():
            self.assertEqual(sizes[:2], [0] if name in WITHOUT_SIZES else [8, 4096], name)

    def test_other_patterns_are_left_out(self):
        result = self.expect(job(2, AQPERF, *QUICK, "--pattern", "barrier,am-short-rtt"), 0)
        self.assertRegex(result.stdout, r"barrier +- +left out: not over libfabric")
        self.assertIn("by Aqueduct's own interface", result.stdout)

    def test_it_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as empty:
            result = job(2, AQPERF, *QUICK, FI_PROVIDER_PATH=empty)
        self.assertIn("libfabric does not find libaqueduct-fi.so: " + empty,
                      self.expect(result, 1).stderr)
        self.assertIn("needs another rank: aqrun -n 2",
                      self.expect(run(AQPERF, "--api", "fi"), 1).stderr)

    def test_libfabric_is_not_linked(self):
        self.assertNotIn("libfabric", self.expect(run("ldd", AQPERF), 0).stdout)


main()
