#!/usr/bin/env python3
"""Endpoints of libfabric at a service are found by the name of their host, between two hosts.

usage: hosts.py BUILD_DIR
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from programs import ARGUMENTS, BUILD, Case, environment
from spaces import TIMEOUT, enter, within

PROGRAMS = BUILD / "tests/fi/fi_programs"
PORT = "7471"  # these hosts have no other programs


def start(host, *words, **settings):
    return subprocess.Popen(
        ["timeout", str(TIMEOUT), *within(host, PROGRAMS, "fi_service", *words)],
        env=environment(settings), stdout=subprocess.PIPE, text=True)


class Services(Case):
    def test_ask(self):
        with start(1, "serve", PORT) as server:
            self.assertEqual(server.stdout.readline(), "ready\n")
            with start(2, "ask", "10.9.0.1", PORT) as client:
                self.assertEqual((client.wait(), server.wait()), (0, 0))

    def test_secret(self):
        """A service with a secret does not answer clients without it."""
        with tempfile.TemporaryDirectory() as folder:
            secret = pathlib.Path(folder, "secret")
            secret.write_bytes(bytes(range(32)))
            secret.chmod(0o600)
            setting = {"AQ_CONNECT_SECRET": f"file:{secret}"}
            with start(1, "serve", PORT, **setting) as server:
                self.assertEqual(server.stdout.readline(), "ready\n")
                with start(2, "ask", "10.9.0.1", PORT) as client:
                    self.assertNotEqual(client.wait(), 0)
                with start(2, "ask", "10.9.0.1", PORT, **setting) as client:
                    self.assertEqual((client.wait(), server.wait()), (0, 0))

    def test_meet(self):
        """Two endpoints with the same service, on different hosts."""
        with start(1, "meet", "10.9.0.2", PORT) as one, start(2, "meet", "10.9.0.1", PORT) as two:
            self.assertEqual((one.wait(), two.wait()), (0, 0))


def main():
    enter()
    result = unittest.main(argv=[sys.argv[0], *ARGUMENTS], verbosity=2, exit=False).result
    sys.exit(not result.wasSuccessful() or 77 * (not result.testsRun))


main()
