#!/usr/bin/env python3
"""Each tool reports that its output cannot be written, and exits with code 1.

usage: full.py BUILD_DIR
"""

import subprocess

from programs import AQINFO, AQPERF, AQRUN, Case, environment, main

PRINTS = (
    (AQRUN, "--help"),
    (AQRUN, "--version"),
    (AQRUN, "-n", "300", "--test", "true"),
    (AQINFO,),
    (AQINFO, "--help"),
    (AQINFO, "--version"),
    (AQINFO, "--settings"),
    (AQINFO, "--json"),
    (AQINFO, "--markdown"),
    (AQINFO, "--merge-traces", "/dev/null"),
    (AQINFO, "AQ_WAIT"),
    (AQINFO, "fi"),
    (AQPERF, "--help"),
    (AQPERF, "--version"),
    (AQPERF, "--list"),
    (AQPERF, "--pattern", "am-short-rtt", "--min-time", "1us", "--repeats", "5"),
    (AQPERF, "--pattern", "am-short-rtt", "--min-time", "1us", "--repeats", "5", "--csv", "-"),
)


class Full(Case):
    def test_a_full_disk_is_an_error(self):
        for command in PRINTS:
            with self.subTest(command=command), open("/dev/full", "w", encoding="ascii") as full:
                result = subprocess.run(command, env=environment({}), stdout=full, timeout=100,
                                        stderr=subprocess.PIPE, text=True, check=False)
                self.expect(result, 1)
                said = f"{command[0].name}: cannot write standard output: "
                self.assertEqual(result.stderr.count(said), 1, result.stderr)


main()
