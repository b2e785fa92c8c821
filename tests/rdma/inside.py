#!/usr/bin/env python3
"""What runs inside the machine: many tests in one boot, since starting processes is slow there.

usage: inside.py BUILD [NAME]
"""
import os
import subprocess
import sys
import time

# Each row: name, variables, command (from BUILD), seconds. Ranks begin with different ends of the
# wire, since what an adapter sends to itself does not cross it.
BASE = {"AQ_IBV_PORTS": "rxe0+rxe1", "AQ_IBV_SPREAD": "yes", "AQ_IBV_RAILS": "1",
        "AQ_IBV_RNR_RETRIES": "0", "AQ_TRANSPORTS": "ibv"}
RAILS = {"AQ_IBV_RAILS": "2"}


def contract(name, *options, **variables):
    return ("contract." + name, variables, ["tests/contract/contract", "ibv", *options], 300)


def job(program, ranks, **variables):
    folder = program.split("_")[0]
    return (f"{program}.{ranks}", variables,
            ["tools/aqrun/aqrun", "-n", str(ranks), f"BUILD/tests/{folder}/{program}"], 120)


ROWS = [
    contract("2", "--ranks", "2"),
    contract("2.threads", "--ranks", "2", "--threads", "--case", "thread|slow|death"),
    contract("2.rails", "--ranks", "2", "--case", "put|get|slow", **RAILS),
    contract("4", "--ranks", "4", "--case", "slow|everyone|put"),
    contract("2.deadly", "--ranks", "2", "--fault", "die=1@50"),
    job("core_rma", 2),
    job("core_coll", 2, **RAILS),
    job("core_coll", 4),
    job("core_leave", 2),
    job("gasnet_am_udp", 2),
]


def run(build, name, variables, command, seconds):
    """Whether the command ends with 0 in time; its output is shown if not."""
    begun, before = time.monotonic(), refusals()
    env = {**os.environ, **BASE, **variables}
    try:
        words = [os.path.join(build, command[0])]
        words += [word.replace("BUILD", build) for word in command[1:]]
        done = subprocess.run(words, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
        code, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, text = "no end", late.stdout or b""
    took = time.monotonic() - begun
    refused = refusals() - before
    fine = code == 0 and refused == 0
    print(f"{'ok    ' if fine else 'FAILED'} {name} in {took:.0f} s", flush=True)
    if refused != 0:
        print(f"{name}: {refused} messages found no receive buffer", flush=True)
    if not fine:
        sys.stdout.buffer.write(text[-20000:])
        print(f"\n{name}: ended with {code}", flush=True)
    return fine


def refusals():
    """Messages that found no receive buffer, as the adapters count them."""
    total = 0
    for device in os.listdir("/sys/class/infiniband"):
        folder = f"/sys/class/infiniband/{device}/ports/1/hw_counters"
        for counter in ("rcvd_rnr_err", "send_rnr_err", "sent_rnr_err"):
            if os.path.exists(os.path.join(folder, counter)):
                total += int(open(os.path.join(folder, counter), encoding="ascii").read())
    return total


def main():
    build = sys.argv[1]
    rows = [row for row in ROWS if len(sys.argv) < 3 or row[0] == sys.argv[2]]
    failed = [row[0] for row in rows if not run(build, *row)]
    print(f"{len(rows)} tests, {len(failed)} failed")
    return 1 if failed else 0


sys.exit(main())
