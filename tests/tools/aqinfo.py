#!/usr/bin/env python3
"""aqinfo: all forms of its output are consistent, and wrong names and values are reported.

usage: aqinfo.py BUILD_DIR
"""

import json
import re

from programs import AQINFO, AQPERF, AQRUN, AQTOP, Case, main, on_terminal, run


class Aqinfo(Case):
    def everything(self):
        return json.loads(self.expect(run(AQINFO, "--json"), 0).stdout)

    def test_json_lists_the_transports(self):
        transports = {entry["name"]: entry for entry in self.everything()["transports"]}
        for name in ("shm", "loop"):
            self.assertTrue(transports[name]["usable"], transports[name])
            self.assertGreaterEqual(transports[name]["max_medium"], 512)
            self.assertIn("am", transports[name]["caps"])

    def test_json_has_limits_and_settings(self):
        info = self.everything()
        self.assertGreater(len(info["limits"]), 0)
        settings = info["settings"]
        names = [setting["name"] for setting in settings]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("AQ_WAIT", names)
        for setting in settings:
            self.assertRegex(setting["name"], "^AQ_[A-Z0-9_]+$")
            self.assertEqual(setting["origin"], "default", setting)
            self.assertTrue(setting["doc"], setting)
        self.assertEqual(info["problems"], [])

    def test_json_of_one_section_only(self):
        info = json.loads(self.expect(run(AQINFO, "--json", "--limits"), 0).stdout)
        self.assertEqual(sorted(info), ["limits", "version"])

    def test_text_shows_each_setting_and_transport(self):
        info = self.everything()
        text = self.expect(run(AQINFO, "--all"), 0).stdout
        for entry in info["settings"] + info["transports"] + info["limits"]:
            self.assertRegex(text, rf"(?m)^  {re.escape(entry['name'])} ")

    def test_markdown_documents_each_setting(self):
        text = self.expect(run(AQINFO, "--markdown"), 0).stdout
        for setting in self.everything()["settings"]:
            self.assertIn(f"| `{setting['name']}`", text)
        for line in text.splitlines():
            if line.startswith("|"):
                self.assertEqual(line.replace("\\|", "").count("|"), 7, line)

    def test_a_name_is_shown_in_full(self):
        text = self.expect(run(AQINFO, "aq_wait"), 0).stdout
        self.assertTrue(text.startswith("AQ_WAIT = "), text)
        for word in ("from", "default", "values"):
            self.assertIn(f"  {word} ", text)
        text = self.expect(run(AQINFO, "shm"), 0).stdout
        self.assertTrue(text.startswith("shm: works here"), text)

    def test_a_transport_that_does_not_work_is_a_failure(self):
        for entry in self.everything()["transports"]:
            fails = not entry["usable"] and not entry["on_request"]
            self.expect(run(AQINFO, entry["name"]), 1 if fails else 0)
        for arguments in (("udp",), ("--json", "udp"), ("shm", "udp")):
            said = self.expect(run(AQINFO, *arguments, AQ_UDP_INTERFACE="10.99.99.99"), 1)
            self.assertIn("no interface has the name or the address", said.stdout)

    def test_what_is_used_on_request_says_so(self):
        for entry in self.everything()["transports"]:
            if not entry["on_request"]:
                continue
            self.assertFalse(entry["usable"], entry)
            text = self.expect(run(AQINFO, entry["name"]), 0).stdout
            self.assertTrue(text.startswith(f"{entry['name']}: used here only on request"), text)
            said = re.search(r"(AQ_\w+)=(\w+)", entry["reason"])
            if said is None:  # the output says how to select one
                continue
            setting, value = said.groups()
            result = run(AQINFO, entry["name"], **{setting: value})
            works = result.stdout.startswith(f"{entry['name']}: works here")
            text = self.expect(result, 0 if works else 1).stdout
            self.assertTrue(works or f"no provider {value}" in text or "install" in text, text)

    def test_a_value_that_was_set_says_where_from(self):
        for names in ((), ("AQ_WAIT",)):
            text = self.expect(run(AQINFO, *names, AQ_WAIT="yield"), 0).stdout
            self.assertIn("AQ_WAIT = yield", text)
            self.assertRegex(text, "from +AQ_WAIT")

    def test_an_invalid_value_is_named_and_the_json_stays_valid(self):
        result = run(AQINFO, "--json", AQ_WAIT='no"such\\\x01\udcff')
        self.expect(result, 1)
        problems = json.loads(result.stdout)["problems"]
        self.assertTrue(any("AQ_WAIT" in problem for problem in problems), problems)
        self.assertIn("AQ_WAIT", result.stderr)

    def test_a_setting_that_a_transport_refuses_is_a_problem(self):
        for settings, said in (
                ({"AQ_UDP_MTU": "100"}, "AQ_UDP_MTU=100: give 0 or at least 604"),
                ({"AQ_UDP_DEAD_AFTER": "1ms"}, "AQ_UDP_DEAD_AFTER=1000 us: give 0 or at least 100"),
                ({"AQ_UDP_LOSSY": "much"}, 'AQ_UDP_LOSSY="much": give loss=')):
            for arguments in ((), ("udp",), ("--json",)):
                with self.subTest(settings=settings, arguments=arguments):
                    result = self.expect(run(AQINFO, *arguments, **settings), 1)
                    self.assertEqual(result.stderr.count(said), 1, result.stderr)
                    if arguments:
                        self.assertIn(said, result.stdout.replace('\\"', '"'))

    def test_an_unknown_name_is_answered_with_the_nearest(self):
        result = self.expect(run(AQINFO, "AQ_WIAT"), 2)
        self.assertIn("did you mean AQ_WAIT?", result.stderr)

    def test_way_to_a_host(self):
        """The way to this host, and to an unknown one; an argument that looks like a setting is not
        a host."""
        said = self.expect(run(AQINFO, "udp", "127.0.0.1"), 0).stdout
        self.assertRegex(said, r"^udp to 127\.0\.0\.1 \(127\.0\.0\.1\) from 127\.0\.0\.1 "
                         r"\(interface lo, MTU \d+\): packets arrive \([\d.]+ ms\), also those "
                         r"of \d+ bytes\n$")
        said = self.expect(run(AQINFO, "udp", "host.invalid"), 1).stderr
        self.assertIn("aqinfo: unknown host host.invalid: ", said)
        said = self.expect(run(AQINFO, "udp", "127.0.0.1", AQ_UDP_INTERFACE="10.99.99.99"), 1)
        self.assertIn("the interface of AQ_UDP_INTERFACE has no address of this", said.stdout)
        self.assertIn("did you mean AQ_WAIT?", self.expect(run(AQINFO, "udp", "AQ_WIAT"), 2).stderr)

    def test_the_provider_for_libfabric(self):
        run_fi = run(AQINFO, "fi")
        if run_fi.returncode == 1:
            self.assertIn("is not installed", run_fi.stdout)
            self.skipTest("the provider for libfabric was not built")
        said = self.expect(run_fi, 0).stdout
        folder = re.search(r"is (/.*)/libaqueduct-fi\.so\n", said).group(1)
        self.assertIn(f"export FI_PROVIDER_PATH={folder} FI_PROVIDER=aqueduct\n", said)
        self.assertIn("--mca mtl_ofi_provider_include aqueduct", said)
        self.assertIn("does not find it", said)
        said = self.expect(run(AQINFO, "fi", FI_PROVIDER_PATH=folder), 0).stdout
        self.assertRegex(said, r"libfabric \d+\.\d+ finds it")

    def test_wrong_usage(self):
        self.assertIn("--help", self.expect(run(AQINFO, "--nonsense"), 2).stderr)
        self.expect(run(AQINFO, "--markdown", "AQ_WAIT"), 2)
        said = self.expect(run(AQINFO, "--peers", "--json", "1"), 2).stderr
        self.assertIn("--json, --markdown, --merge-traces and --peers cannot be combined", said)
        self.assertIn("fi: accepts no other names", self.expect(run(AQINFO, "fi", "x"), 2).stderr)

    def test_help_and_version(self):
        self.assertTrue(self.expect(run(AQINFO, "--help"), 0).stdout.startswith("usage: aqinfo"))
        version = self.expect(run(AQINFO, "--version"), 0).stdout
        self.assertRegex(version, r"^aqinfo \d+\.\d+\.\d+\n$")

    def test_help_of_all_tools_fits_the_terminal(self):
        """It is plain ASCII, and has the same words for every width."""
        for tool in (AQINFO, AQPERF, AQRUN, AQTOP):
            piped = self.expect(run(tool, "--help"), 0).stdout
            for columns in (80, 200):
                text = on_terminal(columns, tool, "--help")
                self.assertTrue(text.isascii(), text)
                self.assertEqual(text.split(), piped.split())
                self.assertLessEqual(max(map(len, text.splitlines())), min(columns, 98), text)
            self.assertGreater(len(on_terminal(80, tool, "--help").splitlines()),
                               len(piped.splitlines()))


main()
