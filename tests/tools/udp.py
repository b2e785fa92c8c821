#!/usr/bin/env python3
"""Jobs over UDP: which processes use it, the errors for invalid settings, strangers.

usage: udp.py BUILD_DIR
"""

import os
import pathlib
import random
import re
import socket
import tempfile
import time

from programs import AQINFO, AQRUN, BUILD, EXAMPLES, Case, job, main, run, start


def no_libcrypto():
    """Returns a folder in which libcrypto.so.3 is no library."""
    folder = tempfile.TemporaryDirectory()
    pathlib.Path(folder.name, "libcrypto.so.3").write_text("nothing", encoding="ascii")
    return folder


class Udp(Case):
    def routes(self, ranks, **settings):
        said = self.expect(job(ranks, EXAMPLES / "hello", **settings), 0).stdout
        return {int(rank): route for rank, route in
                re.findall(r"from rank (\d+) of \d+; I reach rank \d+ over (\w+)", said)}

    def test_users(self):
        for expected, settings in (("shm", {}), ("udp", {"AQ_NEIGHBORHOOD": "1"}),
                                   ("udp", {"AQ_TRANSPORTS": "udp"}),
                                   ("shm", {"AQ_NEIGHBORHOOD": "1", "AQ_TRANSPORTS": "shm"}),
                                   ("udp", {"AQ_TRANSPORTS": "udp", "AQ_UDP_AUTH": "mac"})):
            with self.subTest(settings=settings):
                self.assertEqual(self.routes(2, **settings), {0: expected, 1: expected})

    def test_without_libcrypto(self):
        with no_libcrypto() as folder:
            said = self.expect(run(AQINFO, "--transports", LD_LIBRARY_PATH=folder), 0).stdout
            self.assertRegex(said, r"udp +no ")
            self.assertIn("install libssl3", said)
            self.assertEqual(self.routes(2, AQ_NEIGHBORHOOD="1", LD_LIBRARY_PATH=folder),
                             {0: "shm", 1: "shm"})
            result = job(2, EXAMPLES / "hello", AQ_TRANSPORTS="udp", LD_LIBRARY_PATH=folder)
            self.assertIn("install libssl3", self.expect(result, 1).stderr)

    def test_settings_that_cannot_be(self):
        for name, value, said in (("INTERFACE", "nosuch0", '"nosuch0" (interfaces: '),
                                  ("INTERFACE", "203.0.113.77", '"203.0.113.77" (interfaces: '),
                                  ("MTU", "100", "give 0 or at least 604"),
                                  ("LOSSY", "loss=2000", "together at most 1000"),
                                  ("LOSSY", "luck=1", "give loss="),
                                  ("LOSSY", "loss=1,", "give loss="),
                                  ("RTO_MAX", "1h", "AQ_UDP_RTO_MAX"),
                                  ("AUTH", "maybe", "cookie")):
            with self.subTest(name=name, value=value):
                for way in ("AQ_TRANSPORTS", "udp"), ("AQ_NEIGHBORHOOD", "1"):
                    result = job(2, EXAMPLES / "hello", **dict([way]), **{"AQ_UDP_" + name: value})
                    self.assertIn(said, self.expect(result, 1).stderr)

    def test_ranks_whose_ports_do_not_fit(self):
        odd = ("sh", "-c", 'if [ "$AQ_RANK" = 1 ]; then export "$ODD"; fi; exec "$@"', "sh")
        result = job(2, *odd, EXAMPLES / "hello", AQ_TRANSPORTS="udp",
                     ODD="AQ_UDP_INTERFACE=::1")
        said = self.expect(result, 1).stderr
        self.assertRegex(said, r"peer \d is at .*, which packets from .* cannot reach: give all ")
        self.assertIn("no transport reaches rank", said)

    def test_failed_starts(self):
        odd = 'if [ "$AQ_RANK" = 1 ]; then export AQ_UDP_MTU=100; fi; exec "$0"'
        result = job(2, "sh", "-c", odd, EXAMPLES / "hello", AQ_TRANSPORTS="udp")
        self.assertIn("rank 1: aq_init: AQ_ESETTING: ", self.expect(result, 1).stderr)

    def test_settings_that_can_be(self):
        for settings in ({"MTU": "1500"}, {"INTERFACE": "lo"}, {"INTERFACE": "127.0.0.1"},
                         {"IDLE_CLOSE": "1ms"}, {"WINDOW": "64K"}, {"BUFFER": "64K"},
                         {"LOSSY": "loss=10,dup=5,reorder=5,corrupt=1,seed=3", "AUTH": "mac"}):
            with self.subTest(settings=settings):
                result = job(2, EXAMPLES / "allreduce", "1000", AQ_TRANSPORTS="udp",
                             **{"AQ_UDP_" + name: value for name, value in settings.items()})
                self.expect(result, 0)

    def test_counters(self):
        result = job(2, BUILD / "tests/core/core_am", AQ_TRANSPORTS="udp", AQ_STATS="yes",
                     AQ_UDP_LOSSY="loss=100,dup=50,seed=7")
        said = self.expect(result, 0).stderr
        for name in ("packets", "packets_again", "packets_received", "packets_repeated"):
            self.assertRegex(said, rf"rank 0: {name} \d+ packets")


def udp_ports(process):
    """Returns the ports on which the children of `process` receive."""
    table = pathlib.Path("/proc/net/udp").read_text(encoding="ascii").split("\n")[1:]
    ports = {row.split()[9]: int(row.split()[1].split(":")[1], 16) for row in table if row}
    found = set()
    for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split():
        try:
            links = [os.readlink(fd) for fd in pathlib.Path(f"/proc/{child}/fd").iterdir()]
        except OSError:
            continue
        found |= {ports[link[8:-1]] for link in links if link[8:-1] in ports}
    return found


class Strangers(Case):
    def test_foreign_packets(self):
        """Packets of strangers disturb nothing, and are counted."""
        noise = random.Random(1)
        sent = 0
        with start("sh", "-c", 'exec "$@" 2>&1', "sh", AQRUN, "-n", "2",
                   BUILD / "tests/core/core_stress", AQ_TRANSPORTS="udp", AQ_LOG="off",
                   AQ_STATS="yes") as program, \
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            while program.poll() is None:
                time.sleep(0.005)  # leave processor time to the job
                for port in udp_ports(program.pid):
                    stranger.sendto(noise.randbytes(noise.randrange(2000)), ("127.0.0.1", port))
                    sent += 1
            said = program.stdout.read()
        self.assertEqual(program.returncode, 0, said)
        self.assertGreater(sent, 10)
        self.assertRegex(said, r"rank [01]: packets_dropped \d+ packets")


main()
