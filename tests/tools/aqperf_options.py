#!/usr/bin/env python3
"""aqperf: invalid options cause exit code 2 and one message that names the valid values.

usage: aqperf_options.py BUILD_DIR
"""

from programs import AQPERF, Case, job, main, run

WRONG = (
    (("--pattern", "am-shrot-rtt"), "did you mean am-short-rtt?"),
    (("--pattern", "zzzzzzzzzzzzz"), "aqperf --list shows them"),
    (("--pattern", ","), "an item is empty"),
    (("--sizes", "4Q"), "give sizes from 0 to 1G"),
    (("--sizes", "-1"), "give sizes from 0 to 1G"),
    (("--sizes", "2G"), "give sizes from 0 to 1G"),
    (("--sizes", "0x10"), "give sizes from 0 to 1G"),
    (("--sizes", ""), "an item is empty"),
    (("--sizes", ",".join(["8"] * 65)), "more than 64 sizes"),
    (("--repeats", "4"), "give a number from 5 to 1000"),
    (("--repeats", "nan"), "give a number from 5 to 1000"),
    (("--threads", "0"), "give a number from 1 to 64"),
    (("--threads", "65"), "give a number from 1 to 64"),
    (("--min-time", "1h"), "give a time from 1us to 60s"),
    (("--min-time", "0"), "give a time from 1us to 60s"),
    (("--interval", "11s"), "give times from 1us to 10s"),
    (("--interval", ",".join(["1ms"] * 17)), "more than 16 times"),
    (("--progress-thread", "maybe"), "give yes or no"),
    (("--transport", "pigeon"), "there is no such transport; the transports are "),
    (("--api", "mpi"), "the interfaces are aq, gasnet"),
    (("--json", "-", "--csv", "-"), "only one of them"),
    (("--listen", "shm:///a", "--connect", "shm:///b"), "only one of them"),
    (("--connections", "2"), "only with --connect"),
    (("--connect", "shm:///a", "--connections", "0"), "give a number from 1"),
    (("--listen", "shm:///a", "--csv", "-"), "to the aqperf that connects"),
    (("--connect", "shm:///a", "--api", "gasnet"), "only with --api aq"),
    (("--json", "/nonexistent/x"), "cannot write /nonexistent/x"),
    (("--json",), "--json needs an argument"),
    (("--nonsense",), "unknown option --nonsense"),
    (("nonsense",), "only options are accepted"),
)


class Options(Case):
    def test_wrong_usage_of_a_single_process(self):
        for options, message in WRONG:
            with self.subTest(options=options):
                result = self.expect(run(AQPERF, *options), 2)
                self.assertIn(message, result.stderr)

    def test_a_job_complains_once(self):
        in_a_job = (("--connect", "shm:///a"), "--connect cannot be used in a job of 2")
        for options, message in (WRONG[0], WRONG[21], in_a_job):
            with self.subTest(options=options):
                result = self.expect(job(2, AQPERF, *options), 2)
                self.assertEqual(result.stderr.count(message), 1, result.stderr)

    def test_help_list_and_version(self):
        for option, word in (("--help", "--min-time"), ("--list", "Interfaces (--api)"),
                             ("--version", "aqperf ")):
            with self.subTest(option=option):
                result = self.expect(job(2, AQPERF, option), 0)
                self.assertEqual(result.stdout.count(word), 1, result.stdout)


main()
