#!/usr/bin/env python3
"""Performance of udp where the network really drops packets at random: prints a table, and fails if
goals are missed.

usage: loss.py BUILD_DIR [SECONDS, of each figure] [WIRE of those below]…

A firewall rule of the receiver drops packets as they arrive there. If a burst of the sender crosses
the wire in one piece (GSO), it is dropped as a whole, up to 62 KB, so wires that carry single
packets are measured, too.
"""

import contextlib
import os
import pathlib
import statistics
import sys

from programs import AQRUN, ARGUMENTS, BUILD, run
from spaces import HOSTS, call, enter, rules, within

# name: (host of each rank, interface, segments that pass in one piece)
WIRES = {
    "veth, packets": ((1, 2), "wire", 1),
    "veth, bursts": ((1, 2), "wire", 65535),
    "loopback, packets": ((1, 1), "lo", 1),
    "loopback, bursts": ((1, 1), "lo", 65535),
}
MTUS = (1500, 9000)
PERCENT = (0, 1, 5)
SHARE = {1: 0.7, 5: 0.4}  # goals: share of the bandwidth without loss
MEAN = {1: 1.4, 5: 2.5}   # mean round trip, relative to that without loss,
P99 = 60                  # and the 99th percentile in us with 1 %
TURNS = 5  # repetitions; the medians count
PLACE = ["sh", "-c", 'eval host=\\$HOST$AQ_RANK; exec nsenter --net=/run/netns/$host "$@"', "sh"]


def go_first():
    """Let other programs disturb the measurement as little as possible."""
    os.setsid()
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/autogroup").write_text("-20", encoding="ascii")
    os.nice(-20)


def once(wire, mtu, percent, seconds):
    hosts, interface, _ = WIRES[wire]
    chance = ("prerouting", f"meta l4proto udp numgen random mod 100 < {percent} drop")
    with contextlib.ExitStack() as stack:
        for host in set(hosts) if percent else ():
            stack.enter_context(rules(host, chance))
        result = run(AQRUN, "-n", "2", "--bind", "core", *PLACE, BUILD / "tests/net/net_loss",
                     seconds, AQ_TRANSPORTS="udp", AQ_UDP_INTERFACE=interface, AQ_WAIT="spin",
                     AQ_UDP_MTU=str(mtu), HOST0=str(hosts[0]), HOST1=str(hosts[1]))
    if result.returncode != 0:
        raise OSError(result.stderr)
    line = next(line for line in result.stdout.split("\n") if line.startswith("ask_mean"))
    words = line.split()
    return dict(zip(words[::2], map(float, words[1::2])))


def measure(wire, mtu, seconds):
    """The results by percentage of loss. Shares are relative to the same repetition, because the
    speed of a machine varies."""
    turns = []
    for _ in range(TURNS):
        turn = {percent: once(wire, mtu, percent, seconds) for percent in PERCENT}
        for seen in turn.values():
            seen["share"] = seen["large"] / turn[0]["large"]
            for name in ("ask", "put"):
                seen[name + "_times"] = seen[name + "_mean"] / turn[0][name + "_mean"]
        turns.append(turn)
    return {percent: {name: statistics.median(turn[percent][name] for turn in turns)
                      for name in turns[0][percent]} for percent in PERCENT}


def missed(percent, seen):
    """The goals that are not met."""
    if percent in SHARE and seen["share"] < SHARE[percent]:
        yield f"{seen['share']:.2f} of the bandwidth, not {SHARE[percent]}"
    for name in ("ask", "put") if percent in MEAN else ():
        if seen[name + "_times"] > MEAN[percent]:
            yield f"{name} takes {seen[name + '_times']:.2f} times as long, not {MEAN[percent]}"
        if percent == 1 and seen[name + "_p99"] > P99:
            yield f"{name} takes {seen[name + '_p99']:.0f} us at p99, not {P99}"


def row(percent, seen):
    times = (" / ".join(f"{seen[f'{what}_{part}']:.1f}" for part in ("mean", "median", "p99"))
             for what in ("ask", "put"))
    return f"| {percent} % | {seen['large']:.2f} ({seen['share']:.2f}) | {' | '.join(times)} |"


def main():
    enter()
    go_first()
    seconds = ARGUMENTS[0] if ARGUMENTS else "0.3"
    bad = []
    print("| wire, MTU | lost | puts of 1 MB, GB/s (share) | short message and its reply, mean / "
          "median / p99, us | put of 8 bytes |\n|---|---|---|---|---|", flush=True)
    for wire in ARGUMENTS[1:] or WIRES:
        hosts, interface, segments = WIRES[wire]
        for host in set(hosts):
            call("ip", "-n", str(host), "link", "set", interface, "gso_max_segs", str(segments))
        for mtu in MTUS:
            for percent, seen in measure(wire, mtu, seconds).items():
                print(f"| {wire}, {mtu} {row(percent, seen)}", flush=True)
                bad += [f"{wire}, {mtu}, {percent} %: {text}" for text in missed(percent, seen)]
    for text in bad:
        print("missed:", text)
    sys.exit(bool(bad))


main()
