#!/usr/bin/env python3
"""Jobs whose ranks are on two hosts (spaces.py), while the wire between them has faults.

usage: net.py BUILD_DIR [CLASS]
"""

import contextlib
import itertools
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from programs import AQINFO, AQPERF, AQRUN, ARGUMENTS, BUILD, Case, environment, job, run
from spaces import (HOSTS, TIMEOUT, await_up, await_wire, call, enter, link, rules, slow_lane,
                    within)

TALK = BUILD / "tests/net/net_talk"
# Run each rank on its host, with its address there.
PLACE = ["sh", "-c", 'host=$((AQ_RANK % 2 + 1)); AQ_UDP_INTERFACE=${AQ_UDP_INTERFACE-$NET$host}; '
         'export AQ_UDP_INTERFACE; exec nsenter --net=/run/netns/$host "$@"', "sh"]
# Packets that overtake the answer to a handshake, the first ones of a connection, are dropped and
# retransmitted. Packets of another job would be dropped by the hundred.
FEW = 100
SETTINGS = {"AQ_TRANSPORTS": "udp", "NET": "10.9.0."}


class Talk:
    """A job that communicates until its input ends, and reports the end of a round on request."""

    def __init__(self, ranks=2, **settings):
        self.stderr = tempfile.TemporaryFile(mode="w+")
        self.job = subprocess.Popen(
            [os.fspath(part) for part in (AQRUN, "-n", str(ranks), *PLACE, TALK)], bufsize=0,
            env=environment({**SETTINGS, "AQ_STATS": "yes", **settings}), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.stderr)

    def __enter__(self):
        self.ask()
        self.hear()
        return self

    def __exit__(self, *error):
        self.job.kill()  # no rank outlives aqrun
        self.job.wait()
        for file in (self.job.stdin, self.job.stdout, self.stderr):
            file.close()

    def ask(self):
        self.job.stdin.write(b"\n")

    def heard(self, seconds):
        """Whether a line has arrived within this many seconds."""
        limit = time.monotonic() + seconds
        while select.select([self.job.stdout], [], [], max(0, limit - time.monotonic()))[0]:
            line = self.job.stdout.readline()
            if line.startswith(b"round ") or not line:
                return bool(line)
        return False

    def said(self):
        file = self.stderr.fileno()  # pread does not move the offset at which the job writes
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def hear(self):
        if not self.heard(TIMEOUT):
            raise AssertionError(f"the job does not continue; it printed: {self.said()}")

    def round(self):
        self.ask()
        self.hear()

    def ranks(self):
        """The processes of the ranks, in the order of the ranks."""
        found = {}
        children = pathlib.Path(f"/proc/{self.job.pid}/task/{self.job.pid}/children").read_text()
        for child in children.split():
            settings = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            found |= {int(rank[8:]): int(child) for rank in settings
                      if rank.startswith(b"AQ_RANK=")}
        return [found[rank] for rank in sorted(found)]

    def end(self):
        """Ask the job to end. Returns its messages."""
        self.job.stdin.close()
        if self.job.wait(TIMEOUT) != 0:
            raise AssertionError(f"exit code {self.job.returncode}; it printed: {self.said()}")
        return self.said()


def count(said, name):
    return sum(map(int, re.findall(rf"rank \d+: {name} (\d+)", said)))


def warnings(said):
    return [line for line in said.split("\n") if line.startswith("aq[")]


@contextlib.contextmanager
def down(host):
    link(host, "down")
    try:
        yield
    finally:
        link(host, "up")
        await_wire()


@contextlib.contextmanager
def route(host, kind):
    """The host has no route to the other host, but one of this kind."""
    words = ("ip", "-n", str(host), "route", "{}", kind, f"10.9.0.{3 - host}")
    call(*(word.format("add") for word in words))
    try:
        yield
    finally:
        call(*(word.format("del") for word in words))


@contextlib.contextmanager
def between(mtu):
    """Both hosts have another interface, whose other end is at a bridge between them and takes
    packets of `mtu` bytes. Yields a function that changes this size."""
    middle = ("ip", "-n", "middle")

    def resize(mtu):
        for host in HOSTS:
            call(*middle, "link", "set", f"to{host}", "mtu", mtu)

    call("ip", "netns", "add", "middle")
    try:
        call(*middle, "link", "add", "bridge", "mtu", "9000", "type", "bridge")
        call(*middle, "link", "set", "bridge", "up")
        for host in HOSTS:
            own = ("ip", "-n", str(host))
            call(*own, "link", "add", "big", "type", "veth", "peer", f"to{host}", "netns", "middle")
            call(*own, "address", "add", f"10.8.0.{host}/24", "dev", "big")
            call(*own, "link", "set", "big", "mtu", "9000", "up")
            call(*middle, "link", "set", f"to{host}", "master", "bridge", "up")
        resize(mtu)
        for host in HOSTS:
            await_up(host, "big")
        yield resize
    finally:
        for host in HOSTS:  # they would be removed with the namespace, but later
            call("ip", "-n", str(host), "link", "delete", "big")
        call("ip", "netns", "delete", "middle")


class Wire(Case):
    """Wires that have a fault throughout the job."""

    def test_sound(self):
        for settings in ({}, {"NET": "fd09::"},
                         {"AQ_TRANSPORTS": "auto", "AQ_NEIGHBORHOOD": "1"}):
            with self.subTest(settings=settings), Talk(**settings) as talk:
                talk.round()
                said = talk.end()
                self.assertGreater(count(said, "packets"), 0)
                self.assertEqual(warnings(said), [])
                self.assertLess(count(said, "packets_dropped"), FEW)

    def test_benchmark(self):
        """Between hosts, aqperf does not measure loopback as the limit."""
        result = job(2, *PLACE, AQPERF, "--pattern", "am-short-rtt", "--min-time", "1ms",
                     **SETTINGS)
        self.expect(result, 0)
        self.assertEqual(result.stderr, "")
        self.assertRegex(result.stdout, r"am-short-rtt .* none\n")

    def advice(self, said, net, interface):
        """One warning names both ends and the remedy, an AQ_UDP_MTU."""
        self.assertEqual(len(said), 1, said)
        match = re.match(rf"aq\[\d\] udp: peer \d \({net}([12]):\d+\) answers small packets "
                         rf"from {net}(?!\1)[12]:\d+ \({interface}\), but not those of 8972 "
                         r"bytes: the path carries only (\d+), .*Set AQ_UDP_MTU=(\d+), or", said[0])
        self.assertIsNotNone(match, said[0])
        self.assertEqual(match[2], match[3])
        return match[2]

    def test_small_path(self):
        """The MTU of the path is found, to 16 bytes, with one warning."""
        for mtu, carries in (("1500", "1500"), ("1400", "1388"), ("4000", "3996")):
            with self.subTest(mtu=mtu), contextlib.ExitStack() as stack:
                drop = f"iifname wire meta length > {mtu} drop"
                for host in HOSTS:
                    stack.enter_context(rules(host, ("prerouting", drop)))
                with Talk(ranks=4) as talk:
                    talk.round()
                    advice = self.advice(warnings(talk.end()), r"10\.9\.0\.", "wire")
                self.assertEqual(advice, carries)
                with Talk(AQ_UDP_MTU=advice) as talk:
                    talk.round()
                    self.assertEqual(warnings(talk.end()), [])

    def test_path_that_shrinks(self):
        """At some point larger packets no longer arrive, at one host or at both: the job
        continues, with one warning."""
        for hosts, limit, carries in ((HOSTS, "1400", "1388"), ((1,), "4000", "3996")):
            with (self.subTest(hosts=hosts), contextlib.ExitStack() as stack,
                  Talk(ranks=4) as talk):
                for host in hosts:
                    drop = f"iifname wire meta length > {limit} drop"
                    stack.enter_context(rules(host, ("prerouting", drop)))
                for _ in range(3):
                    talk.round()
                advice = self.advice(warnings(talk.end()), r"10\.9\.0\.", "wire")
                self.assertEqual(advice, carries)

    def test_refused(self):
        """The interface drops packets larger than the other end of the pair takes, and reports
        that it has no room."""
        with between("1500"):
            with Talk(NET="10.8.0.") as talk:
                talk.round()
                self.assertEqual(self.advice(warnings(talk.end()), r"10\.8\.0\.", "big"), "1500")

    def test_refused_later(self):
        """The interface begins to refuse large packets: the job sends smaller ones."""
        with between("9000") as resize, Talk(NET="10.8.0.") as talk:
            talk.round()
            resize("1500")
            for _ in range(3):
                talk.round()
            said = [line for line in warnings(talk.end()) if "interface big has" not in line]
        self.assertEqual(self.advice(said, r"10\.8\.0\.", "big"), "1500")

    def test_all_refused_later(self):
        """At some point not even the smallest full packets leave: the job hangs until this is
        repaired, and reports it."""
        with (between("9000") as resize,
              Talk(NET="10.8.0.", AQ_UDP_RTO_MAX="20ms") as talk):
            talk.round()
            resize("400")
            talk.ask()
            limit = time.monotonic() + TIMEOUT
            while not warnings(talk.said()) and time.monotonic() < limit:
                self.assertFalse(talk.heard(0.1), "the job continues")
            resize("9000")
            talk.hear()
            said = warnings(talk.end())
        self.assertIn(len(said), HOSTS, said)
        for line in said:
            self.assertRegex(line, r"udp: interface big has dropped all packets of \d+ bytes or "
                             r"more for \d+\.\d s, the last one to 10\.8\.0\.[12]:\d+ "
                             r"\(No buffer space available\): .* "
                             r"the other end now has a smaller MTU")

    def test_smaller_interface(self):
        link(2, "mtu", "1500")
        try:
            with Talk() as talk:
                talk.round()
                self.assertEqual(warnings(talk.end()), [])
        finally:
            link(2, "mtu", "9000")

    def test_losses(self):
        chance = "numgen random mod 100 <"
        for percent, settings in ((1, {}), (5, {"AQ_UDP_AUTH": "mac"})):
            with self.subTest(percent=percent), contextlib.ExitStack() as stack:
                for host in HOSTS:
                    stack.enter_context(rules(
                        host, ("prerouting", f"{chance} {percent} drop"),
                        ("postrouting", f"{chance} {percent} dup to 10.9.0.{3 - host}"),
                        family="ip"))
                    stack.enter_context(slow_lane(host, percent))
                with Talk(**settings) as talk:
                    for _ in range(10):
                        talk.round()
                    said = talk.end()
                for name in ("again", "repeated"):
                    self.assertGreater(count(said, "packets_" + name), 0, said)


# Replaces ssh: options, a host, a command.
SHELL = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
host=${1##*.}; shift
exec nsenter --net=/run/netns/$host sh -c "$*"
"""


def write_shell(folder):
    shell = pathlib.Path(folder, "shell")
    shell.write_text(SHELL, encoding="ascii")
    shell.chmod(0o700)
    return str(shell)


class Control(Case):
    """The messages between the agents of the hosts."""

    def test_small_path(self):
        """The path carries less than the interfaces, and no ICMP reports it."""
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            shell = write_shell(folder)
            for host in HOSTS:
                stack.enter_context(rules(host, ("prerouting", "meta length > 580 drop")))
            result = run(*within(1, AQRUN, "--hosts", "10.9.0.1,10.9.0.2", "-n", "2", "sh", "-c",
                                 "head -c 300000 /dev/zero | tr '\\0' x"), AQ_SSH_CMD=shell)
        self.expect(result, 0)
        self.assertEqual(result.stdout.count("x"), 600000)


    def test_path_that_shrinks(self):
        """Agents always send small packets. If the path does not carry even these, the job
        fails."""
        for limit, seen, code in ((580, 2, 0), (400, 1, 1)):
            with self.subTest(limit=limit), tempfile.TemporaryDirectory() as folder, \
                    contextlib.ExitStack() as stack:
                go = pathlib.Path(folder, "go")
                much = "head -c 300000 /dev/zero | tr '\\0' x; echo;"
                command = within(1, AQRUN, "--hosts", "10.9.0.1,10.9.0.2", "-n", "2", "sh", "-c",
                                 f"{much} until [ -e {go} ]; do sleep 0.1; done; {much}")
                settings = environment({"AQ_SSH_CMD": write_shell(folder),
                                        "AQ_HOST_TIMEOUT": "3s"})
                with subprocess.Popen(command, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, env=settings) as job:
                    stack.callback(job.kill)
                    for _ in HOSTS:
                        self.assertEqual(len(job.stdout.readline()), 300001)
                    for host in HOSTS:
                        stack.enter_context(rules(host,
                                                  ("prerouting", f"meta length > {limit} drop")))
                    go.touch()
                    printed, said = job.communicate(timeout=TIMEOUT)
                self.assertEqual((len(printed) // 300001, job.returncode), (seen, code), said)
                if code != 0:
                    self.assertIn("packets of 576 bytes (MTU)", said)

    def test_output_that_does_not_come(self):
        """The job fails even if all ranks have succeeded and only output is missing. An agent
        passes on an unfinished line when no process has the pipe open, so here after the
        exit code, which fits in a small packet."""
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            go = pathlib.Path(folder, "go")
            script = (f"echo ready; until [ -e {go} ]; do sleep 0.1; done; "
                      "head -c 50000 /dev/zero | tr '\\0' x; sleep 1000 & exit 0")
            command = within(1, AQRUN, "--hosts", "10.9.0.1,10.9.0.2", "-n", "2", "sh", "-c",
                             script)
            settings = environment({"AQ_SSH_CMD": write_shell(folder), "AQ_HOST_TIMEOUT": "3s"})
            with subprocess.Popen(command, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=settings) as job:
                stack.callback(job.kill)
                for _ in HOSTS:
                    self.assertEqual(job.stdout.readline(), "ready\n")
                for host in HOSTS:
                    stack.enter_context(rules(host, ("prerouting", "meta length > 400 drop")))
                go.touch()
                printed, said = job.communicate(timeout=TIMEOUT)
        self.assertEqual((printed.count("x"), job.returncode), (50000, 1), said)
        self.assertIn("the last output of ranks may be missing", said)

    def test_control_is_blocked(self):
        """A firewall passes the remote shell, and not the connections to aqrun."""
        faults = {"drop": "no answer within 6.0 s: the host is down, or a firewall drops packets "
                          r"to it \(AQ_CONTROL_PORTS sets the ports to allow\)",
                  "reject with tcp reset": "refused: .*, or a firewall rejects it",
                  "reject with icmpx admin-prohibited": "no route: .*, or a firewall rejects it"}
        for action, why in faults.items():
            with self.subTest(action=action), tempfile.TemporaryDirectory() as folder, \
                    rules(1, ("input", f"meta l4proto tcp {action}")):
                began = time.monotonic()
                result = run(*within(1, AQRUN, "--hosts", "10.9.0.1,10.9.0.2", "-n", "2",
                                     BUILD / "examples/hello"),
                             AQ_SSH_CMD=write_shell(folder), AQ_START_TIMEOUT="8s")
                self.assertLess(time.monotonic() - began, 8 + TIMEOUT / 4)
                said = self.expect(result, 1).stderr
                self.assertRegex(said, r"aqrun: host 10\.9\.0\.2: .* cannot connect to aqrun, and "
                                 rf"ends .*: cannot be reached at 10\.9\.0\.1:\d+: {why}")

    def test_interface_that_comes(self):
        """A job that starts while a host's network comes up waits for it: only loopback is up
        yet."""
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            shell = write_shell(folder)
            stack.callback(await_wire)
            stack.callback(link, 1, "state", "up")
            link(1, "mode", "dormant")
            link(1, "down")
            link(1, "up")
            stack.callback(link, 1, "mode", "default")
            command = within(2, AQRUN, "--hosts", "10.9.0.2,10.9.0.1", "-n", "2",
                             BUILD / "examples/hello")
            settings = environment({"AQ_SSH_CMD": shell, "AQ_LOG": "core=info,udp=info"})
            with subprocess.Popen(command, text=True, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, env=settings) as job:
                stack.callback(job.kill)
                said = ""
                for line in job.stderr:
                    said += line
                    if "waiting for interface wire" in line:
                        link(1, "mode", "default")
                        link(1, "state", "up")
                code = job.wait(TIMEOUT)
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"aq\[1\] core: transport udp: wire, 10\.9\.0\.1:")


class Cut(Case):
    """A wire that carries nothing, usually for a while: afterwards nothing is lost, and the job
    continues."""

    def cut(self, fault, seconds=2, **settings):
        """The messages of the job about the fault."""
        with Talk(**settings) as talk:
            with fault:
                talk.ask()
                self.assertFalse(talk.heard(seconds), "the fault has no effect")
            talk.hear()
            talk.round()
            return warnings(talk.end())

    def test_firewall_of_the_receiver(self):
        self.assertEqual(self.cut(rules(1, ("input", "drop"))), [])

    def test_firewall_of_the_sender(self):
        said = self.cut(rules(1, ("output", "drop")))
        self.assertEqual(len(said), 1, said)
        self.assertRegex(said[0], r"aq\[0\] .*cannot send packets to 10\.9\.0\.2:\d+: "
                         "Operation not permitted; a firewall of this host forbids it")

    def test_interface_down(self):
        said = self.cut(down(1))
        self.assertEqual(len(said), 1, said)
        self.assertRegex(said[0], r"aq\[0\] .*cannot send packets to 10\.9\.0\.2:\d+: "
                         'Network is unreachable; see "ip route get" for the address')

    def test_libfabric(self):
        """The connections of libfabric survive, or are reestablished."""
        if run(AQINFO, "ofi").returncode != 0:
            self.skipTest("libfabric does not work here: see `aqinfo ofi`")
        for fault in (("input", "drop"), ("input", "meta l4proto tcp reject with tcp reset")):
            with self.subTest(fault=fault):
                self.cut(rules(1, fault), AQ_TRANSPORTS="ofi", AQ_OFI_PROVIDER="tcp;ofi_rxm",
                         AQ_OFI_DOMAIN="wire")

    def test_for_good(self):
        """A silence longer than peers are allowed ends the job."""
        with Talk(AQ_UDP_DEAD_AFTER="2s") as talk:  # less fails on a busy machine
            with rules(1, ("input", "drop")):
                self.assertEqual(talk.job.wait(TIMEOUT), 1)
            self.assertRegex(talk.said(), "rank [01] is no longer reachable: it no longer answers")

    def test_never_reached(self):
        """There is a warning after 5 s, and the job does not wait longer than AQ_START_TIMEOUT."""
        began = time.monotonic()
        with rules(1, ("input", "meta l4proto udp drop")):
            result = job(2, *PLACE, TALK, **SETTINGS, AQ_START_TIMEOUT="8s")
        self.assertLess(time.monotonic() - began, 8 + TIMEOUT / 4)
        said = self.expect(result, 1).stderr
        for rank, host, other in ((0, 1, 2), (1, 2, 1)):
            ends = rf"10\.9\.0\.{other}:\d+ to 10\.9\.0\.{host}:\d+ \(interface wire\)"
            self.assertRegex(said, rf"aq\[{rank}\] udp: nothing has arrived from peer {1 - rank} "
                             rf"at {ends} for [5-7] s: a firewall .*AQ_UDP_INTERFACE.* after 8 s")
        self.assertRegex(said, r"aqrun: rank (\d) .*: rank \d cannot be reached: no answer arrived "
                         r"from .* within 8 s \(AQ_START_TIMEOUT\): a firewall drops UDP")

    def test_aqinfo(self):
        """aqinfo reports whether packets reach the other host."""
        def tried(code):
            return self.expect(run(*within(1, AQINFO, "udp", "10.9.0.2")), code).stdout
        begin = (r"^udp to 10\.9\.0\.2 \(10\.9\.0\.2\) from 10\.9\.0\.1 "
                 r"\(interface wire, MTU 9000\): ")
        self.assertRegex(tried(0), begin + r"packets arrive \(.* ms\), also those of 8972 bytes$")
        with rules(2, ("input", "meta length > 1500 drop")):
            self.assertRegex(tried(0), begin + "packets arrive .* bytes do not: no answer: a ")
        with rules(2, ("input", "meta l4proto udp drop")):
            self.assertRegex(tried(1),
                             begin + "no answer: a firewall drops UDP, there or on the path")
        with rules(1, ("output", "meta l4proto udp drop")):
            self.assertRegex(tried(1), begin + "forbidden by a firewall of this host")

    def test_no_route(self):
        """Reported even if bursts could cause the same error."""
        for kind in ("unreachable", "prohibit", "blackhole"):
            with self.subTest(kind=kind):
                said = [line for line in self.cut(route(1, kind), 0.5, AQ_LOG="udp=info")
                        if "cannot send" in line or "bursts" in line]
                self.assertEqual(len(said), 1, said)
                self.assertIn("packets to 10.9.0.2:", said[0])


class Connections(Case):
    """Programs that connect to a URI while the wire between them has a fault, and their
    messages."""

    @contextlib.contextmanager
    def server(self, address):
        with tempfile.TemporaryDirectory() as folder:
            secret = pathlib.Path(folder, "secret")
            secret.write_text("a secret of this test", encoding="ascii")
            secret.chmod(0o600)
            self.settings = {"AQ_CONNECT_SECRET": f"file:{secret}", "AQ_CONN_TIMEOUT": "3s",
                             "AQ_UDP_KEEPALIVE": "3s"}
            with subprocess.Popen(within(1, BUILD / "examples/server", f"udp://{address}:0"),
                                  env=environment(self.settings), stdout=subprocess.PIPE,
                                  text=True) as server:
                try:
                    self.uri = re.search(r"listening at (udp://\S+)", server.stdout.readline())[1]
                    self.printed = server.stdout
                    yield self.uri.rpartition(":")[2]
                finally:
                    server.kill()

    def client(self, *words, uri=None, code=0):
        result = run(*within(2, BUILD / "examples/client", uri or self.uri, *words),
                     **self.settings)
        return self.expect(result, code)

    def test_start(self):
        """Whatever a firewall drops, the error names both ends and the possible causes."""
        with self.server("10.9.0.1") as port:
            self.client("set", "color", "blue")
            for host, rule, says in (
                    (1, "meta l4proto udp drop", "no answer arrives from {}: no program is "
                     "listening there, .* or a firewall drops UDP"),
                    (2, "meta l4proto udp drop",
                     "no answer arrives from {}: .* firewall drops UDP"),
                    (1, f"udp dport != {port} drop", "the server exists, but nothing arrives "
                     "from {}, the port of this connection: .* a firewall lets through only "
                     "packets of the listener's port"),
                    (2, f"udp sport != {port} drop", "the server exists, but nothing arrives "
                     "from {}, the port of this connection")):
                with self.subTest(host=host, rule=rule), rules(host, ("input", rule)):
                    ends = r"10\.9\.0\.1:\d+ to 10\.9\.0\.2:\d+ \(interface wire\)"
                    self.assertRegex(self.client("get", "color", code=1).stderr, says.format(ends))
            self.assertEqual(self.client("get", "color").stdout, "blue\n")

    def test_long_start(self):
        """A call that may take long prints a warning, and succeeds once the firewall is gone."""
        with self.server("10.9.0.1"):
            self.settings["AQ_CONN_TIMEOUT"] = "100s"
            with rules(1, ("input", "meta l4proto udp drop")):
                client = subprocess.Popen(
                    within(2, BUILD / "examples/client", self.uri, "set", "color", "red"),
                    env=environment(self.settings), stderr=subprocess.PIPE, text=True)
                said = client.stderr.readline()
            try:
                self.assertRegex(said, r"aq\[0\] udp: still connecting to another program after "
                                 r"6 s: no answer arrives from 10\.9\.0\.1:\d+ to 10\.9\.0\.2:\d+ ")
                self.assertEqual(client.wait(TIMEOUT), 0)
            finally:
                client.kill()
                client.stderr.close()

    def test_name(self):
        """A name with an address that does not answer, before one that does."""
        hosts = pathlib.Path("/run/hosts")
        hosts.write_text("10.9.0.77 twice\n10.9.0.1 twice\nfd09::77 both\n10.9.0.1 both\n",
                         encoding="ascii")
        call("mount", "--bind", str(hosts), "/etc/hosts")
        try:
            with self.server("0.0.0.0") as port:
                for name in ("twice", "both"):
                    self.settings["AQ_CONN_TIMEOUT"] = "30s"
                    self.client("set", "color", "red", uri=f"udp://{name}:{port}")
        finally:
            call("umount", "/etc/hosts")

    def test_cut(self):
        """A permanent cut ends both sides of the connection after AQ_UDP_KEEPALIVE; the server
        continues."""
        with self.server("10.9.0.1"):
            client = subprocess.Popen(
                within(2, BUILD / "examples/client", self.uri, "time", "1000000000"),
                env=environment(self.settings), stderr=subprocess.PIPE, text=True)
            try:
                self.assertIn("is connected", self.printed.readline())
                with rules(1, ("input", "meta l4proto udp drop")):
                    said = client.communicate(timeout=TIMEOUT)[1]
            finally:
                client.kill()
                client.wait()
            self.assertEqual(client.returncode, 1, said)
            self.assertIn("the server has ended", said)
            self.client("set", "color", "green")


class Xdp(Case):
    """Small packets that bypass the kernel's network stack."""

    cut = Cut.cut
    XDP = {"AQ_UDP_PORT": "xdp", "AQ_LOG": "core=info,udp=info"}
    TAKEN = r"aq\[\d\] udp: AF_XDP on interface wire is in use by another process"

    @classmethod
    def setUpClass(cls):
        result = run(*within(1, AQINFO, "udp"), AQ_UDP_INTERFACE="wire")
        if "AQ_UDP_PORT=xdp can be used" not in result.stdout:
            raise unittest.SkipTest(result.stdout)

    def who(self, said):
        """The ranks that use AF_XDP, and the number of those that cannot."""
        return (sorted(re.findall(r"aq\[(\d)\] core: transport udp: .*, AF_XDP generic", said)),
                len(re.findall(self.TAKEN, said)))

    def test_both(self):
        for settings in ({}, {"AQ_UDP_AUTH": "mac", "AQ_UDP_LOSSY": "loss=20,corrupt=5"}):
            with self.subTest(settings=settings), Talk(**self.XDP, **settings) as talk:
                talk.round()
                self.assertEqual(self.who(talk.end()), (["0", "1"], 0))

    def test_core(self):
        for name in ("am", "rma", "coll", "stress", "threads"):
            with self.subTest(program=name):
                said = self.expect(job(2, *PLACE, BUILD / f"tests/core/core_{name}",
                                       **SETTINGS, **self.XDP), 0).stderr
                self.assertEqual(self.who(said), (["0", "1"], 0))

    def test_several_of_a_host(self):
        """One rank of a host uses AF_XDP, and all ranks communicate with all."""
        with Talk(4, **self.XDP) as talk:
            talk.round()
            having, lacking = self.who(talk.end())
        self.assertEqual([int(rank) % 2 for rank in having].count(1), 1, having)
        self.assertEqual([len(having), lacking], [2, 2])

    def test_two_jobs(self):
        """The second job does without AF_XDP; after the first one has ended, the next job gets
        it."""
        with Talk(**self.XDP) as one, Talk(**self.XDP) as other:
            for _ in range(3):
                one.ask()
                other.round()
                one.hear()
            self.assertEqual(self.who(one.end()), (["0", "1"], 0))
            self.assertEqual(self.who(other.end()), ([], 2))
        with Talk(**self.XDP) as talk:
            self.assertEqual(self.who(talk.end()), (["0", "1"], 0))

    def refused(self, said, *words, **settings):
        result = job(2, *PLACE, *words, TALK, **{**SETTINGS, **self.XDP, **settings})
        self.assertRegex(self.expect(result, 1).stderr, said)

    def test_interface_down(self):
        self.cut(down(1), AQ_UDP_PORT="xdp")

    def test_privileges(self):
        for lost, what, needed in (
                ("bpf,-sys_admin", "creating a BPF map", "CAP_BPF and CAP_NET_ADMIN"),
                ("net_admin,-sys_admin", "creating a BPF map", "CAP_BPF and CAP_NET_ADMIN"),
                ("net_raw", "opening a socket", "CAP_NET_RAW")):
            self.refused(f"AF_XDP on interface wire: {what} is not permitted: it needs {needed} "
                         ".*; run as root, or set AQ_UDP_PORT=socket",
                         "setpriv", f"--bounding-set=-{lost}")
        self.refused("AF_XDP on interface wire: locking [0-9]+ bytes is not allowed: raise "
                     '"ulimit -l", run as root, or set AQ_UDP_PORT=socket',
                     "prlimit", "--memlock=65536", "setpriv", "--bounding-set=-ipc_lock")

    def test_what_it_lacks(self):
        self.refused("AF_XDP on interface lo: it is not an Ethernet interface: name another one "
                     "with AQ_UDP_INTERFACE, or set AQ_UDP_PORT=socket", AQ_UDP_INTERFACE="lo")
        self.refused("AF_XDP on interface wire is supported with IPv4 only", NET="fd09::")
        self.refused(r'"nosuch0" \(interfaces: .*wire 10\.9\.0\.', AQ_UDP_INTERFACE="nosuch0")


STRANGER = """
import random, socket, struct, sys
noise = random.Random(1)
wire = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
for _ in range(500):
    for path in sys.argv[2:]:
        source, port = map(int, path.split(":"))
        data = noise.randbytes(noise.randrange(1400))
        wire.sendto(struct.pack("!4H", source, port, 8 + len(data), 0) + data, (sys.argv[1], 0))
"""


class Others(Case):
    """Jobs and strangers on the same wire."""

    def test_two_jobs(self):
        with Talk(TEST_SEED="1") as one, Talk(TEST_SEED="2") as other:
            for _ in range(5):
                one.ask()
                other.round()
                one.hear()
            for talk in (one, other):
                self.assertLess(count(talk.end(), "packets_dropped"), FEW)

    def ports(self, rank):
        """The ports of a rank that is alone on its host."""
        table = pathlib.Path(f"/proc/{rank}/net/udp").read_text(encoding="ascii")
        return [str(int(port, 16)) for port in re.findall(r": 0[12]00090A:(\w+) ", table)]

    def test_foreign_packets(self):
        for auth in ("cookie", "mac"):
            with self.subTest(auth=auth), Talk(AQ_UDP_AUTH=auth) as talk:
                ports = dict(zip(HOSTS, map(self.ports, talk.ranks())))
                for host in HOSTS:
                    self.assertEqual(len(ports[host]), 2)
                    # Sent from the peer's address, as the kernel accepts packets from no other.
                    paths = itertools.product(ports[3 - host], ports[host])
                    call(*within(3 - host, sys.executable, "-c", STRANGER, f"10.9.0.{host}",
                                 *map(":".join, paths)))
                    talk.round()
                said = talk.end()
                self.assertEqual(warnings(said), [])
                self.assertGreater(count(said, "packets_dropped"), 100)
                self.assertEqual(count(said, "am_dropped"), 0)


class Ends(Case):
    """Ranks that die or are stopped, and jobs that cannot start."""

    def test_killed(self):
        with Talk() as talk:
            began = time.monotonic()
            os.kill(talk.ranks()[1], signal.SIGKILL)
            self.assertEqual(talk.job.wait(TIMEOUT), 128 + signal.SIGKILL)
            self.assertLess(time.monotonic() - began, 2)
            self.assertRegex(talk.said(), r"aqrun: rank 1 \(.*was killed by signal 9")

    def test_survived(self):
        result = job(4, "--survive", *PLACE, BUILD / "tests/core/core_survivor", "1", "kill",
                     **SETTINGS)
        said = self.expect(result, 128 + signal.SIGKILL)
        self.assertIn("aqrun: the job ended without rank 3", said.stderr)
        self.assertEqual(said.stdout.count(" leaves\n"), 3)

    def test_frozen(self):
        with Talk() as talk:
            rank = talk.ranks()[1]
            os.kill(rank, signal.SIGSTOP)
            talk.ask()
            self.assertFalse(talk.heard(3))
            os.kill(rank, signal.SIGCONT)
            talk.hear()
            said = talk.end()
        self.assertEqual(warnings(said), [])
        # With the initial timeout for such a short path there would be 10,000.
        self.assertLess(count(said, "packets_again"), 1000, said)

    def refused(self, said, **settings):
        result = job(2, *PLACE, TALK, **{**SETTINGS, **settings})
        self.assertRegex(self.expect(result, 1).stderr, said)

    def test_interfaces_that_cannot_be(self):
        self.refused(r'"nosuch0" \(interfaces: .*wire 10\.9\.0\.', AQ_UDP_INTERFACE="nosuch0")
        self.refused(r'"10\.9\.0\.7[12]" \(interfaces: .*wire 10\.9\.0\.', NET="10.9.0.7")
        with down(2):
            self.refused('interface wire is down: "ip link set wire up"')
        result = run("unshare", "--net", AQRUN, "-n", "2", TALK, AQ_TRANSPORTS="udp")
        self.assertRegex(self.expect(result, 1).stderr, "loopback interface, which does not work: "
                         '"ip link set lo up"')
        call("ip", "-n", "2", "link", "set", "lo", "down")
        try:
            for settings in ({}, {"AQ_TRANSPORTS": "auto", "AQ_NEIGHBORHOOD": "1"}):
                result = job(4, *PLACE, TALK, **{**SETTINGS, **settings})
                self.assertRegex(self.expect(result, 1).stderr, r"peer [13] is on this host, too: "
                                 r"packets to its address, 10\.9\.0\.2:\d+, go through the "
                                 'loopback interface, which is down: "ip link set lo up"')
        finally:
            call("ip", "-n", "2", "link", "set", "lo", "up")
        link(2, "mtu", "500")
        try:
            self.refused(r"packets of interface wire \(MTU 500\) carry only 472 bytes, and 576 are "
                         'needed: "ip link set wire mtu 1500"')
        finally:
            link(2, "mtu", "9000")


def main():
    enter()
    result = unittest.main(argv=[sys.argv[0], *ARGUMENTS], verbosity=2, exit=False).result
    sys.exit(not result.wasSuccessful() or 77 * (not result.testsRun))


main()
