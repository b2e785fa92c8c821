#!/usr/bin/env python3
"""aqperf --listen and --connect: measurements between two programs that were not started
together.

usage: aqperf_connection.py BUILD_DIR
"""

import contextlib
import json

from programs import AQPERF, Case, main, run, start

QUICK = ("--min-time", "50us", "--repeats", "5", "--sizes", "8,4K")
ENDLESS = ("--min-time", "100ms", "--repeats", "1000", "--pattern")
UNIQUE = "shm:///aqperf-test/"


@contextlib.contextmanager
def listening():
    """A listening aqperf, and its URI."""
    with start(AQPERF, "--listen", UNIQUE) as listener:
        uri = listener.stdout.readline().split()[-1]
        yield listener, uri


class Connection(Case):
    def test_the_patterns_of_two(self):
        with listening() as (listener, uri):
            self.assertTrue(uri.startswith(UNIQUE) and uri != UNIQUE, uri)
            result = self.expect(run(AQPERF, "--connect", uri, *QUICK, "--json", "-"), 0)
            self.assertEqual(listener.wait(100), 0)
        rows = json.loads(result.stdout)
        names = {row["pattern"] for row in rows}
        self.assertLessEqual({"am-short-rtt", "am-medium-rtt", "am-long-rtt", "am-short-rate",
                              "am-medium-rate", "am-long-rate", "put-lat", "get-lat", "put-bw",
                              "get-bw", "atomic-lat", "strided-put"}, names)
        self.assertFalse({"barrier", "bcast", "am-ring", "put-private"} & names)
        for line in result.stderr.splitlines():
            self.assertRegex(line, r"-(64|512) +8  skipped: needs at least ")
        for row in rows:
            self.assertEqual((row["api"], row["transport"], row["ranks"]),
                             ("connection", "shm", 2))
            self.assertGreater(row["min"], 0, row)
            self.assertIsNotNone(row["limit"], row)

    def test_many_connections_at_once(self):
        with listening() as (listener, uri):
            result = self.expect(run(AQPERF, "--connect", uri, *QUICK, "--connections", "120",
                                     "--pattern", "am-short-rtt,am-turns-rtt,poll-empty",
                                     "--json", "-"), 0)
            self.assertEqual(listener.wait(100), 0)
        self.assertRegex(result.stderr,
                         r"119 connections in [0-9.]+ s \([0-9]+ per second\), [0-9.]+ KB each")
        self.assertEqual([row["pattern"] for row in json.loads(result.stdout)],
                         ["am-short-rtt", "am-turns-rtt", "poll-empty"])

    def test_floods_by_several_threads(self):
        # Threads put to the same place, which is never read: the thread sanitizer would report a
        # race.
        with listening() as (listener, uri):
            result = run(AQPERF, "--connect", uri, *QUICK, "--threads", "3", "--pattern",
                         "am-*-rate,put-rate,barrier",
                         TSAN_OPTIONS="atexit_sleep_ms=0 report_bugs=0")
            self.expect(result, 0)
            self.assertEqual(listener.wait(100), 0)
        self.assertRegex(result.stdout, r"am-short-rate .* M/s ")
        self.assertRegex(result.stdout, r"barrier .* skipped: not possible over a connection")

    def test_a_target_that_computes(self):
        with listening() as (listener, uri):
            result = self.expect(run(AQPERF, "--connect", uri, *QUICK, "--interval", "100us",
                                     "--pattern", "attentive-*,first-*", "--json", "-"), 0)
            self.assertEqual(listener.wait(100), 0)
        rows = json.loads(result.stdout)
        self.assertEqual(len(rows), 1 + 4 * 2 + 1 + 2 * 2)
        for row in rows:
            self.assertEqual(row["interval_ns"], 100000)
            self.assertGreater(row["min"], 0, row)
            self.assertIsNotNone(row["limit"], row)

    def test_the_death_of_either_ends_the_other(self):
        for pattern in ("am-short-rtt", "put-lat", "am-medium-rate"):
            for victim in (0, 1):
                with self.subTest(pattern=pattern, victim=victim), \
                        listening() as (listener, uri), \
                        start(AQPERF, "--connect", uri, *ENDLESS, pattern) as client:
                    self.assertIn("interface connection", client.stdout.readline())
                    (listener, client)[victim].kill()
                    self.assertEqual((client, listener)[victim].wait(100), 1)

    def test_without_a_listener(self):
        result = run(AQPERF, "--connect", "shm:///no/listener/here", AQ_CONN_TIMEOUT="10ms")
        self.assertIn("shm:///no/listener/here", self.expect(result, 1).stderr)


main()
