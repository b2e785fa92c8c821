#!/usr/bin/env python3
"""aqperf: measurements through a foreign interface of the build, beside Aqueduct's own interface.

usage: aqperf_foreign.py BUILD_DIR shm|udp fi|cci
"""

import json
import os
import tempfile

from programs import AQPERF, ARGUMENTS, Case, job, main, run

NET, API = ARGUMENTS[:2]
QUICK = ("--min-time", "50us", "--repeats", "5", "--transport", f"loop,{NET}", "--api", API)
UNITS = {"am-short-rtt": "ns", "am-medium-rtt": "ns", "am-long-rtt": "ns", "am-short-rate": "M/s",
         "am-medium-rate": "M/s", "am-long-bw": "GB/s", "put-lat": "ns", "get-lat": "ns",
         "put-bw": "GB/s", "get-bw": "GB/s", "put-rate": "M/s", "get-rate": "M/s",
         "put-events": "M/s", "get-events": "M/s"}
if API == "cci":  # CCI has messages of one kind
    del UNITS["am-long-rtt"], UNITS["am-long-bw"]
DEVICES = {"shm": "transport = sm", "udp": "transport = sock\nip = 127.0.0.1"}
WITHOUT_SIZES = ("am-short-rtt", "am-short-rate")
os.environ.pop("FI_PROVIDER_PATH", None)  # aqperf finds the provider of its own build
os.environ.pop("FI_PROVIDER", None)
devices = tempfile.NamedTemporaryFile("w")
devices.write(f"[device]\n{DEVICES[NET]}\n")
devices.flush()
os.environ["CCI_CONFIG"] = devices.name


class Foreign(Case):
    def test_every_pattern_beside_the_native_figure(self):
        result = self.expect(job(2, AQPERF, *QUICK, "--sizes", "8,4K,64K", "--json", "-"), 0)
        found = {}
        for row in json.loads(result.stdout):
            found.setdefault(row["pattern"], []).append(row["size"])
            self.assertEqual((row["api"], row["transport"], row["limit_name"], row["unit"]),
                             (API, NET, "aq", UNITS[row["pattern"]]))
            self.assertGreater(row["min"], 0, row)
            self.assertGreater(row["limit_min"], 0, row)
            self.assertAlmostEqual(row["ratio"], row["median"] / row["limit"],
                                   delta=row["ratio"] / 1000)
        self.assertEqual(list(found), list(UNITS))
        for name, sizes in found.items():
            self.assertEqual(sizes[:2], [0] if name in WITHOUT_SIZES else [8, 4096], name)

    def test_other_patterns_are_left_out(self):
        result = self.expect(job(2, AQPERF, *QUICK, "--pattern", "barrier,am-short-rtt"), 0)
        self.assertRegex(result.stdout, rf"barrier +- +skipped: not possible through {API}")
        self.assertIn("through Aqueduct's own interface", result.stdout)

    def test_it_says_what_is_missing(self):
        self.assertIn("needs another rank: aqrun -n 2",
                      self.expect(run(AQPERF, "--api", API), 1).stderr)
        if API == "fi":
            with tempfile.TemporaryDirectory() as empty:
                result = job(2, AQPERF, *QUICK, FI_PROVIDER_PATH=empty)
            text = "libfabric does not find libaqueduct-fi.so: " + empty
        else:
            other = {"shm": "udp", "udp": "shm"}[NET]
            result = job(2, AQPERF, *QUICK, "--transport", f"loop,{other}")
            text = "there is no such device: describe one in the file of CCI_CONFIG"
        self.assertIn(text, self.expect(result, 1).stderr)

    def test_its_library_is_not_linked(self):
        self.assertNotRegex(self.expect(run("ldd", AQPERF), 0).stdout, "libfabric|aqueduct-cci")


main()
