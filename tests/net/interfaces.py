#!/usr/bin/env python3
"""A sleeping server gets events when the interface on which it listens goes down, loses its carrier
or address, is removed, or comes back.

usage: interfaces.py BUILD_DIR
"""

import contextlib
import pathlib
import re
import subprocess
import sys
import unittest

from programs import ARGUMENTS, BUILD, Case, environment
from spaces import TIMEOUT, await_up, await_wire, call, enter, link, within

LISTEN = BUILD / "tests/net/net_listen"
WAYS = {"poll": {}, "block": {"AQ_WAIT": "block"}, "listener": {"AQ_PROGRESS_THREAD": "yes"}}
UP = ("up",)


class Server:
    """A server on host 1."""

    def __init__(self, way, uri):
        self.process = subprocess.Popen(
            ["timeout", str(TIMEOUT), *within(1, LISTEN, way, uri)],
            env=environment(WAYS[way]), stdout=subprocess.PIPE, text=True)
        line = ""
        while not line.startswith("listening"):
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError("the server does not listen")
        self.uri = re.search(r"udp://\S+", line)[0]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()  # timeout passes it on
        self.process.wait()
        self.process.stdout.close()

    def hear(self, *lines):
        """The events up to and including one of these lines."""
        heard = []
        while not heard or heard[-1] not in lines:
            line = self.process.stdout.readline().strip()
            if not line:
                raise AssertionError(f"{lines} does not follow {heard}")
            heard.append(line)
        return heard

    def ticks(self):
        """The processor time that the server, a child of timeout, has used."""
        of = f"/proc/{self.process.pid}"
        child = pathlib.Path(of, f"task/{self.process.pid}/children").read_text().split()[0]
        return sum(map(int, pathlib.Path("/proc", child, "stat").read_text().split()[13:15]))


@contextlib.contextmanager
def client(uri):
    """A client on host 2 that stays connected until the end of the block."""
    with subprocess.Popen(within(2, LISTEN, "call", uri), env=environment({}), text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        while process.stdout.readline().strip() not in ("connected", ""):
            pass
        yield
        process.stdin.close()
        if process.wait(TIMEOUT) != 0:
            raise AssertionError(f"the client exited with {process.returncode}")


def address(word, ip, interface="wire"):
    call("ip", "-n", "1", "address", word, ip, "dev", interface)


def make_pair():
    call("ip", "-n", "1", "link", "add", "more", "type", "veth", "peer", "end")
    address("add", "10.8.0.1/24", "more")
    for end in ("more", "end"):
        call("ip", "-n", "1", "link", "set", end, "up")
    await_up(1, "more")


class Interfaces(Case):
    def test_down(self):
        """In every way of sleeping, and without spinning."""
        for way in WAYS:
            with self.subTest(way=way), Server(way, "udp://10.9.0.1:0") as server:
                for _ in range(3):
                    link(1, "down")
                    self.assertEqual(server.hear("down AQ_ESTATE"), ["down AQ_ESTATE"])
                    link(1, "up")
                    self.assertIn(server.hear(*UP), (["up"], ["down AQ_EPEER", "up"]))
                    await_wire()
                if way == "poll":
                    self.assertLess(server.ticks(), 100)
                with client(server.uri):
                    self.assertEqual(server.hear("opened"), ["opened"])
                server.hear("ended AQ_EPEER")

    def test_carrier(self):
        with Server("poll", "udp://10.9.0.1:0") as server:
            link(2, "down")
            self.assertEqual(server.hear("down AQ_EPEER"), ["down AQ_EPEER"])
            link(2, "up")
            self.assertEqual(server.hear(*UP), ["up"])
            await_wire()

    def test_address(self):
        """An address of either family. Another address of the interface does not matter."""
        for ip, uri in (("10.9.0.1/24", "udp://10.9.0.1:0"), ("fd09::1/64", "udp://[fd09::1]:0")):
            with self.subTest(ip=ip), Server("poll", uri) as server:
                address("add", "10.9.0.77/24")
                address("del", "10.9.0.77/24")
                address("del", ip)
                self.assertEqual(server.hear("down AQ_EINVAL"), ["down AQ_EINVAL"])
                call("ip", "-n", "1", "address", "add", ip, "dev", "wire", "nodad")
                self.assertEqual(server.hear(*UP), ["up"])
                with client(server.uri):
                    server.hear("opened")
                server.hear("ended AQ_EPEER")

    def test_removed(self):
        make_pair()
        with Server("poll", "udp://10.8.0.1:0") as server:
            call("ip", "-n", "1", "link", "del", "more")
            self.assertIn(server.hear("down AQ_EINVAL"),
                          (["down AQ_EINVAL"], ["down AQ_ESTATE", "down AQ_EINVAL"]))
            make_pair()
            server.hear(*UP)
        call("ip", "-n", "1", "link", "del", "more")

    def test_all_addresses(self):
        """The listener is down when nothing but loopback is left."""
        make_pair()
        with Server("poll", "udp://0.0.0.0:0") as server:
            link(1, "down")
            call("ip", "-n", "1", "link", "set", "end", "down")
            self.assertEqual(server.hear("down AQ_EPEER"), ["down AQ_EPEER"])
            call("ip", "-n", "1", "link", "del", "more")
            self.assertIn(server.hear("down AQ_ESTATE"), (["down AQ_ESTATE"],))
            link(1, "up")
            server.hear(*UP)
            await_wire()

    def test_connections_stay(self):
        with Server("poll", "udp://10.9.0.1:0") as server:
            with client(server.uri):
                server.hear("opened")
                link(1, "down")
                self.assertEqual(server.hear("down AQ_ESTATE"), ["down AQ_ESTATE"])
                link(1, "up")
                server.hear(*UP)
                await_wire()
            self.assertEqual(server.hear("ended AQ_EPEER"), ["ended AQ_EPEER"])


def main():
    enter()
    result = unittest.main(argv=[sys.argv[0], *ARGUMENTS], verbosity=2, exit=False).result
    sys.exit(not result.wasSuccessful() or 77 * (not result.testsRun))


main()
