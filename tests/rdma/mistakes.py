#!/usr/bin/env python3
"""Error messages for mistakes of users, inside the virtual machine: each mistake is reported with
its cause and remedy. unit.transport.ibv.hca_advice tests the messages that cannot be provoked
there.

usage: mistakes.py BUILD [NAME]...
    only these, and not what ofi does by itself
"""
import ctypes.util
import os
import re
import subprocess
import sys

# Root may lock any amount of memory, and open all devices. The other user can read the build
# wherever it is, even in root's home.
USER = ("setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps +dac_read_search "
        "--ambient-caps +dac_read_search")
NOBODY = f"ulimit -l 64; exec {USER}"
CLOSED = f"chmod 600 /dev/infiniband/*; trap 'chmod 666 /dev/infiniband/*' EXIT; {USER}"
# The network between the ports drops packets that both ports could carry.
NARROW = ("tc qdisc add dev w0b ingress; trap 'tc qdisc del dev w0b ingress' EXIT; "
          "tc filter add dev w0b ingress matchall action police rate 10gbit burst 10mb mtu 3000 "
          "conform-exceed drop; timeout -s INT 20")
# Name; variables; the shell commands that start the job, and each rank of it; the message.
ROWS = [
    ("rights", {}, CLOSED, "exec",
     r"cannot open /dev/infiniband/uverbs\d \(Permission denied\): check its permissions"),
    ("limit", {}, NOBODY, "exec",
     r"only 65536 bytes may be locked \(ulimit -l, or LimitMEMLOCK=.* raise it"),
    ("limit of buffers", {}, NOBODY.replace("64", "576", 1), "exec",
     r"no more message buffers can be registered: .* only 589824 bytes may be locked \(ulimit"),
    ("port", {"AQ_IBV_PORTS": "mlx5_0"}, "exec", "exec",
     r'AQ_IBV_PORTS="mlx5_0" matches no port of this host .* whose adapters are rxe0, rxe1'),
    ("another name", {}, "unset AQ_IBV_PORTS; GASNET_VAPI_PORTS=mlx5_0 exec", "exec",
     r'GASNET_VAPI_PORTS="mlx5_0" matches no port of this host'),
    ("filter", {"AQ_IBV_PORTS": "rxe0,rxe1"}, "exec", "exec",
     r'AQ_IBV_PORTS="rxe0,rxe1" is not valid: give devices separated by \+'),
    ("index", {"AQ_IBV_GID": "77"}, "exec", "exec",
     r"rxe.:1 has no address \(GID\) with index 77: .* set AQ_IBV_GID"),
    ("partition", {"AQ_IBV_PKEY": "5"}, "exec", "exec",
     r"AQ_IBV_PKEY=5: give an index below \d+, the number of partition keys of rxe.:1"),
    ("mtu", {"AQ_IBV_MTU": "3000"}, "exec", "exec",
     r"AQ_IBV_MTU=3000: give 256, 512, 1024, 2048 or 4096, but no more than 4096"),
    ("network", {}, "exec", "export AQ_IBV_PORTS=rxe$((3 * AQ_RANK)); exec",
     r"from rxe.:1 \(10\.77\.[\d.]+\) to 10\.77\.[\d.]+: .* choose ports of one with AQ_IBV_PORTS"),
    ("networks", {"AQ_IBV_RAILS": "2", "AQ_IBV_SPREAD": "no"}, "exec",
     "export AQ_IBV_PORTS=rxe$((2 * AQ_RANK))+rxe$((2 * AQ_RANK + 1)); exec",
     r"no route to it: .* from rxe.:1 \(10\.77\.[\d.]+\) to 10\.77\.[\d.]+: .* choose ports of"),
    ("kinds", {}, "exec", "test $AQ_RANK = 0 || export AQ_IBV_GID=0; exec",
     r"one has an IPv4 address and the other does not: choose one kind with AQ_IBV_GID"),
    ("packets", {"AQ_IBV_TIMEOUT": "14", "AQ_IBV_RETRIES": "1"}, NARROW, "exec",
     r"rank \d answers, but messages of \d+ bytes do not arrive: the network from rxe.:1 .* may "
     r"not carry packets of 4096 bytes, .* set AQ_IBV_MTU=1024"),
]
# The same adapter through libfabric: it has no room for 256 peers, for which queues are sized if
# the environment asks for it. aqinfo reports the same as a job.
VERBS = {"AQ_TRANSPORTS": "ofi", "AQ_OFI_PROVIDER": "verbs"}
UNIVERSE = (r"verbs;ofi_rxm on rxe.: .* as FI_UNIVERSE_SIZE says \(256\): set it to the number of "
            r"processes")
OFI_ROWS = [
    ("universe", {**VERBS, "FI_UNIVERSE_SIZE": "256"}, "exec", "exec", UNIVERSE),
]


def shell(words):
    return ["/bin/sh", "-c", words + ' "$@"', "-"]


def reported(build, name, variables, job, rank, wanted):
    command = [*shell(job), f"{build}/tools/aqrun/aqrun", "-n", "2", *shell(rank),
               f"{build}/tests/core/core_am"]
    try:
        done = subprocess.run(command, env={**os.environ, **variables}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, text=True)
        code, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, text = "no end", (late.stdout or b"").decode()
    good = code not in (0, "no end") and re.search(wanted, text) is not None
    print(f"{name}: {'reported' if good else f'ended with {code}, not reported'}")
    if not good:
        print(text)
    return good


def small(build):
    """By itself, ofi asks for room for the number of processes."""
    good = True
    for size, works in ((None, True), ("256", False)):
        variables = {**VERBS, **({"FI_UNIVERSE_SIZE": size} if size else {})}
        done = subprocess.run([f"{build}/tools/aqinfo/aqinfo", "ofi"], text=True, timeout=60,
                              env={**os.environ, **variables}, capture_output=True, check=False)
        first = done.stdout.split("\nofi: ")[0]
        wanted = r"ofi: works here\n" if works else rf"ofi: does not work here\n[^$]*{UNIVERSE}"
        if re.match(wanted, first) is None:
            good = False
            print(done.stdout, done.stderr)
    job = subprocess.run([f"{build}/tools/aqrun/aqrun", "-n", "2", f"{build}/tests/core/core_rma"],
                         env={**os.environ, **VERBS}, capture_output=True, text=True, timeout=100,
                         check=False)
    if job.returncode != 0:
        print(job.stdout, job.stderr)
    good = good and job.returncode == 0
    print(f"a small universe: {'works' if good else 'does not work'}")
    return good


def main():
    build, *names = sys.argv[1:]
    for node in os.listdir("/dev/infiniband"):
        os.chmod(f"/dev/infiniband/{node}", 0o666)
    fabric = ctypes.util.find_library("fabric") is not None
    rows = ROWS + (OFI_ROWS if fabric else [])
    assert set(names) <= {row[0] for row in ROWS + OFI_ROWS}, names
    results = [reported(build, *row) for row in rows if not names or row[0] in names]
    if fabric and not names:
        results.append(small(build))
    return 0 if all(results) else 1


sys.exit(main())
