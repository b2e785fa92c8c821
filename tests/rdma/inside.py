#!/usr/bin/env python3
"""The tests inside the virtual machine: many in one boot, because booting is slow.

usage: inside.py BUILD [every | NAME…]
    every: the tests that .ci/run omits, and the suites in all worlds (half an hour);
    a NAME given again runs again
"""
import contextlib
import itertools
import os
import subprocess
import sys
import threading
import time

# Each row: name, variables, command (from BUILD), seconds. The ranks prefer different ends of the
# wire, because packets of an adapter to itself do not cross it.
BASE = {"AQ_IBV_PORTS": "rxe0+rxe1", "AQ_IBV_SPREAD": "yes", "AQ_IBV_RAILS": "1",
        "AQ_IBV_RNR_RETRIES": "0", "AQ_TRANSPORTS": "ibv"}
RAILS = {"AQ_IBV_RAILS": "2"}


# With these settings the adapter reports a failure after 0.13 s, and the connection is repaired.
HASTY = {"AQ_IBV_TIMEOUT": "14", "AQ_IBV_RETRIES": "1"}
# With these it reports a failure only after hours.
MUTE = {"AQ_IBV_TIMEOUT": "31", "AQ_IBV_SILENCE": "300ms"}
CASES = "hundreds|local|slow|all to one|both ways|released"
MANY = 1000  # packets, more than connecting takes
IS_USED = "/tmp/is-used"  # exists once the port that was gone is in use again
NOT_KEPT = {"AQ_REG_MONITOR": "none"}
EVERYTHING = {"AQ_SEGMENT_MODE": "everything"}


def contract(name, *options, wire="", **variables):
    return (f"contract.{name}", variables, ["tests/contract/contract", "ibv", *options], 300, wire)


def job(program, ranks, *words, wire="", **variables):
    folder = program.split("_")[0]
    return (f"{program}.{ranks}{'.' + wire if wire else ''}", variables,
            ["tools/aqrun/aqrun", "-n", str(ranks), f"BUILD/tests/{folder}/{program}", *words], 120,
            wire)


def gasnet(name, ranks=2, wire="", **variables):
    """A GASNet program for the network ibv, started by its launcher."""
    return (f"gasnet_{name}.{ranks}", variables,
            ["/bin/sh", "BUILD/src/front/gasnet/install/gasnetrun_ibv", "-n", str(ranks),
             f"BUILD/tests/gasnet/gasnet_{name}_ibv"], 120, wire)


def aqperf():
    """Each pattern, compared with the same one by verbs alone."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools/aqperf_plain.py")
    return ("aqperf.2", {}, ["/usr/bin/env", "python3", script, "BUILD", "ibv"], 200, "")


# Messages are written to the rings of all peers from the first message on; or to the ring of one
# peer, which keeps changing.
RINGS = {"AQ_IBV_RING_CYCLE": "1"}
MOVED = {**RINGS, "AQ_IBV_RING_PEERS": "1", "AQ_IBV_RING_DEPTH": "4"}


def rings(row, variables):
    return (f"{row[0]}.{'moved' if 'AQ_IBV_RING_PEERS' in variables else 'rings'}",
            {**row[1], **variables}, *row[2:])


# One row of each kind of the table of ends of jobs (tests/job/exits_table.c).
EXITS = ("finalize/finalize,differ/nowhere,segv/barrier,aq_exit7/poll,threads/poll,handler/send,"
         "kill/send/bare,segv/get,return5/finalize,kill/spin,aq_exit7/spin/helped,"
         "aq_exit7/late_attach,fork/finalize,signaled/poll/stopped,wait/poll/term,"
         "wait/hang/int_twice,wait/spin/kill_9,kill/survival")


def failover(program, *words, wire, **variables):
    """Two ranks with two wires; one wire fails permanently."""
    ports = "AQ_IBV_PORTS=rxe$AQ_RANK+rxe$((AQ_RANK + 2)) exec \"$@\""
    variables = {"AQ_IBV_SPREAD": "no", **RAILS, **variables}
    return (f"{program}.{wire}", variables,
            ["tools/aqrun/aqrun", "-n", "2", "sh", "-c", ports, "-", f"BUILD/tests/core/{program}",
             *words], 120, wire)


def mistakes(*names):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mistakes.py")
    return ("mistakes.some" if names else "mistakes", {},
            ["/usr/bin/env", "python3", script, "BUILD", *names], 200, "")


def steps():
    """Counts instructions. The stepper and the program that it steps through share a processor."""
    return ("rdma_steps.2", {},
            ["tools/aqrun/aqrun", "-n", "2", "sh", "-c", "exec taskset -c $AQ_RANK \"$@\"", "-",
             "BUILD/tests/rdma/rdma_steps"], 120, "")


def exits(ranks, rows=EXITS, wire="", **variables):
    return (f"exits.{ranks}", variables,
            ["tests/job/job_exits", "--ranks", str(ranks), "--over", "ibv", "--timeout-factor", "3",
             "--only", rows], 200, wire)


def suites(ranks, rails, mode, wire):
    """All programs in one world; those for transports, which are below segments, and for messages
    only in mode fast."""
    variables = {"AQ_IBV_RAILS": str(rails), "AQ_SEGMENT_MODE": mode}
    rows = [job("core_stress", ranks, "2000", wire=wire, **variables),
            exits(ranks, wire=wire, **variables),
            gasnet("rma_large" if mode == "large" else "rma", ranks, wire, AQ_IBV_RAILS=str(rails))]
    if mode == "fast":
        rows += [contract(str(ranks), "--ranks", str(ranks), wire=wire, AQ_IBV_RAILS=str(rails)),
                 gasnet("am", ranks, wire, AQ_IBV_RAILS=str(rails)),
                 gasnet("coll", ranks, wire, AQ_IBV_RAILS=str(rails))]
    world = f"{rails}_rails.{mode}.{wire or 'clean'}"
    return [(f"{row[0].split('.')[0]}.{ranks}.{world}", *row[1:3], 600, wire) for row in rows]


EVERY = [row for world in itertools.product((2, 4), (1, 2), ("fast", "large"), ("", "loss"))
         for row in suites(*world)]

# Run by .ci/run: the most useful rows of each kind. The last row must remain last, because routes
# disappear with the link.
ROWS = [
    mistakes("rights", "limit", "port", "network", "universe"),
    contract("2", "--ranks", "2"),
    contract("2.threads", "--ranks", "2", "--threads", "--case", "thread|slow|death"),
    contract("2.rails", "--ranks", "2", "--case", "put|get|slow", **RAILS),
    contract("4", "--ranks", "4", "--case", "slow|all to one", wire="loss", **RAILS),
    contract("2.deadly", "--ranks", "2", "--fault", "die=1@50"),
    exits(2, "finalize/finalize,segv/barrier,handler/send,kill/send/bare,fork/finalize,"
             "aq_exit7/spin/helped,wait/poll/term,kill/survival"),
    exits(4, "segv/barrier,aq_exit7/poll,kill/survival,wait/poll/term", wire="loss", **RAILS,
          AQ_SEGMENT_MODE="large"),
    job("core_am", 2),
    steps(),
    job("core_am", 4, **RAILS),
    job("core_posts", 2),
    job("core_rma", 2),
    job("core_rma", 2, AQ_SEGMENT_MODE="large"),
    job("core_rma", 2, AQ_IBV_REGISTRATION="128K"),  # 24 parts
    job("core_endpoints", 2),
    job("core_endpoints", 2, "everything", **EVERYTHING),
    job("core_coll", 4),
    job("core_leave", 2),
    job("core_outside", 2, "kept", **RAILS),
    job("core_outside", 2, "once", **NOT_KEPT),
    job("core_outside", 2, "some", wire="broken", AQ_REG_VICTIM="256K", **HASTY, **RAILS),
    job("core_mappings", 2),
    job("core_mappings", 2, **EVERYTHING),
    job("core_remap", 2),
    job("core_remap", 2, **EVERYTHING, **RAILS),
    job("core_lent", 3, "kept", **EVERYTHING, **RAILS),
    job("core_lent", 2, "once", **EVERYTHING, **NOT_KEPT),
    job("core_lent", 2, "kept", wire="broken", **EVERYTHING, **HASTY, **RAILS),
    job("core_rma", 2, AQ_SEGMENT_MODE="large", AQ_IBV_REGISTRATION="64K", AQ_REG_MAIN="1M",
        **RAILS),  # too many parts: lent, if there is room
    rings(contract("2", "--ranks", "2", "--case", f"{CASES}|arm|put"), RINGS),
    rings(job("core_am", 2), RINGS),
    rings(job("core_am", 4), MOVED),
    rings(job("core_stress", 4, "3000"), MOVED),
    rings(job("core_stress", 2, "30000", wire="broken", **HASTY, **RAILS), RINGS),
    gasnet("am", 4, "loss", **RAILS),
    gasnet("rma", **RAILS),
    gasnet("coll"),
    gasnet("everything"),
    gasnet("rma_large"),
    gasnet("vis"),
    aqperf(),
    contract("2.loss", "--ranks", "2", "--case", CASES, wire="loss"),
    contract("2.broken", "--ranks", "2", "--case", CASES, wire="broken", **HASTY),
    job("core_stress", 4, "3000", wire="loss", AQ_SEGMENT_MODE="large", **RAILS),
    job("core_stress", 2, "30000", wire="mute", **MUTE),
    rings(failover("core_stress", "10000", wire="parted", **HASTY), RINGS),
    failover("core_stress", "5000", IS_USED, wire="replugged"),
    job("core_stress", 2, "5000", IS_USED, wire="moved", **HASTY),
    failover("core_stress", "10000", wire="unplugged"),
]

# Run in the soak, before the suites: the same kinds in other worlds.
OTHERS = [
    mistakes(),
    contract("2.parts", "--ranks", "2", "--case", "put|get", AQ_IBV_REGISTRATION="64K", **RAILS),
    exits(2),
    job("core_posts", 2, "apart", AQ_AM_PACKED_LONG="2047"),
    job("core_rma", 2, AQ_IBV_REGISTRATION="128K", **RAILS),  # too many parts: they become larger
    job("core_coll", 2, **RAILS),
    job("core_outside", 2, "kept"),
    job("core_outside", 2, "some", AQ_REG_VICTIM="256K"),
    job("core_outside", 2, "kept", wire="broken", **HASTY),
    rings(contract("4", "--ranks", "4", "--case", "slow|all to one|put"), MOVED),
    rings(steps(), {"AQ_IBV_RING_CYCLE": "2"}),
    job("core_stress", 2, "30000", wire="broken", **HASTY),
    job("core_stress", 2, "30000", wire="broken", **HASTY, **RAILS),
    failover("core_stress", "10000", wire="parted", **HASTY),
]


def netem(*words):
    subprocess.run(["tc", "qdisc", *words[:1], "dev", "w0a", "root", *words[1:]], check=True)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def counter(device, name):
    path = f"/sys/class/infiniband/{device}/ports/1/hw_counters/{name}"
    with open(path, encoding="ascii") as file:
        return int(file.read())


def way_back():
    """Restore the state that disappears with the link or with its address."""
    ip("route", "replace", "10.77.0.1", "dev", "w0b", "src", "10.77.0.2", "table", "101")
    ip("neigh", "replace", "10.77.0.1", "lladdr", "02:77:00:00:00:0a", "dev", "w0b", "nud",
       "permanent")


def replug():
    ip("link", "set", "w0b", "down")
    time.sleep(2)
    ip("link", "set", "w0b", "up")
    way_back()


def move():
    """Let the address get another index, and the connection break."""
    ip("addr", "del", "10.77.0.2/24", "dev", "w0b")
    ip("addr", "add", "10.77.0.2/24", "dev", "w0b")
    way_back()
    netem("add", "netem", "loss", "100%")
    time.sleep(0.6)
    netem("del")


@contextlib.contextmanager
def wire_that(fault):
    """A fault of the wire. loss: 1 % of packets are lost. broken: all are lost for 0.6 s, again and
    again; mute: the same, but adapters do not report it. parted: at some point all are lost,
    which the adapter does not report; unplugged: it reports this as a port that is down. replugged:
    the port goes down and comes back, moved: its address does; it must then be used again. Yields a
    list of errors found at the end."""
    over, amiss = threading.Event(), []

    def is_used():
        """Wait until packets leave from the end of the wire that was unplugged or moved."""
        before = counter("rxe1", "sent_pkts")
        while counter("rxe1", "sent_pkts") < before + MANY:
            if over.wait(0.1):
                amiss.append("a port was not used")
                return False
        return True

    def breaks():
        while not over.wait(0.7):
            netem("add", "netem", "loss", "100%")
            time.sleep(0.6)
            netem("del")

    def ends():
        if not is_used():
            return
        if fault == "unplugged":
            subprocess.run(["ip", "link", "set", "w0b", "down"], check=True)
            return
        netem("add", "netem", "loss", "100%")
        over.wait()
        netem("del")

    def returns():
        if is_used():
            {"replugged": replug, "moved": move}[fault]()
            if is_used():
                with open(IS_USED, "xb"):
                    pass

    act = {"broken": breaks, "mute": breaks,
           "replugged": returns, "moved": returns}.get(fault, ends)
    thread = threading.Thread(target=act)
    if fault == "loss":
        netem("add", "netem", "loss", "1%")
    elif fault != "":
        thread.start()
    try:
        yield amiss
    finally:
        over.set()
        if thread.ident is not None:
            thread.join()
        with contextlib.suppress(FileNotFoundError):
            os.remove(IS_USED)
        if fault == "loss":
            netem("del")


def run(build, name, variables, command, seconds, wire):
    """Returns whether the command exits with 0 in time; otherwise prints its output."""
    begun, before = time.monotonic(), refusals()
    env = {**os.environ, **BASE, **variables, "GASNET_AQRUN": f"{build}/tools/aqrun/aqrun"}
    try:
        words = [os.path.join(build, command[0])]
        words += [word.replace("BUILD", build) for word in command[1:]]
        with wire_that(wire) as amiss:
            done = subprocess.run(words, env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=seconds)
        code, text = done.returncode or " and ".join(amiss) or 0, done.stdout
    except subprocess.TimeoutExpired as late:
        code, text = "no end", late.stdout or b""
    took = time.monotonic() - begun
    print(f"{'ok    ' if code == 0 else 'FAILED'} {name} in {took:.0f} s; 'not ready' was sent "
          f"{refusals() - before} times", flush=True)
    if code != 0:
        sys.stdout.buffer.write(text[-20000:])
        print(f"\n{name}: ended with {code}", flush=True)
    return code == 0


def refusals():
    """How many times adapters have reported that they were not ready, which rxe also does when it
    is out of memory. A message without a receive buffer makes its test fail, because
    AQ_IBV_RNR_RETRIES is 0."""
    return sum(counter(device, "send_rnr_err") for device in os.listdir("/sys/class/infiniband"))


def main():
    build = sys.argv[1]
    names = sys.argv[2:]
    if names == ["every"]:
        rows = OTHERS + EVERY
    elif names:
        rows = [row for name in names for row in ROWS + OTHERS + EVERY if row[0] == name]
    else:
        rows = ROWS
    failed = [row[0] for row in rows if not run(build, *row)]
    print(f"{len(rows)} tests, {len(failed)} failed")
    return 1 if failed else 0


sys.exit(main())
