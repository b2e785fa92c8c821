#!/usr/bin/env python3
"""Programs with each setting at each of its values, or at its extremes: they work, or end with an
error that names the setting. None crashes or hangs.

usage: every_setting.py BUILD_DIR [all]
    all: every program with every value over every network, instead of a small selection, which is
    the same each time (TEST_SEED chooses another)
"""

import os
import random
import re
import subprocess

from programs import AQINFO, AQPERF, AQRUN, ARGUMENTS, BUILD, EXAMPLES, Case, environment, main, run

ALL = "all" in ARGUMENTS
SEED = int(os.environ.get("TEST_SEED", "1"))
PART = 200  # one combination out of this many
TIMEOUT = 600 if ALL else 100  # seconds
# Settings that need something that is not here, such as other hosts, or that are tested elsewhere.
OTHERS = {"AQ_HOSTFILE", "AQ_HOSTS", "AQ_MPIRUN_CMD", "AQ_PMIRUN_CMD", "AQ_REMOTE_AQRUN",
          "AQ_SPAWNER", "AQ_SSH_CMD", "AQ_SSH_OPTIONS", "AQ_SSH_TIMEOUT", "AQ_SSH_FANOUT"}
TEXTS = {
    "AQ_CONNECT_SECRET": ("file:/nonexistent", "fd:99", "x"),
    "AQ_CONTROL_PORTS": ("x", "40000-40010"),
    "AQ_FAULT": ("again=40,late=5,seed=7", "credits=1", "x"),
    "AQ_IBV_GID": ("x", "99"),
    "AQ_IBV_PORTS": ("nosuch:1", "::"),
    "AQ_LOG": ("off", "error", "info", "debug", "x"),
    "AQ_MAX_SEGMENT": ("1", "64K", "0.001", "1%", "5/8", "x", "1T", "64M/H"),
    "AQ_NEIGHBORHOOD": ("1", "2", "1,1", "x", "-1"),
    "AQ_OFI_DOMAIN": ("nosuch", "lo"),
    "AQ_OFI_PROVIDER": ("tcp", "shm", "nosuch"),
    "AQ_PMIX_LIBRARY": ("nosuch.so",),
    "AQ_REG_MAIN": ("0", "1", "1K", "0.0001", "1T", "x"),
    "AQ_REG_MAX": ("0", "1", "1K", "0.0001", "1T", "x"),
    "AQ_REG_VICTIM": ("0", "1", "1K", "0.0001", "1T", "x"),
    "AQ_STATS_FILE": ("/nonexistent/x", "/dev/full"),
    "AQ_TRACE": ("off", "all", "am", "x"),
    "AQ_TRACE_FILE": ("/nonexistent/x", "/dev/full"),
    "AQ_TRANSPORTS": ("loop", "shm", "udp", "ofi", "udp,shm", "nosuch", "", ","),
    "AQ_UDP_INTERFACE": ("lo", "127.0.0.1", "nosuch", "::1"),
    "AQ_UDP_LOSSY": ("loss=20,dup=50,reorder=50,seed=1", "x"),
}
QUICK = (AQPERF, "--min-time", "1us", "--repeats", "5", "--sizes", "8,70000", "--interval", "10us",
         "--pattern", "*-rtt,*-bw,put-*,get-*,barrier")
JOBS = {
    "hello": (EXAMPLES / "hello",),
    "hashtable": (EXAMPLES / "hashtable", "300"),
    "allreduce": (EXAMPLES / "allreduce", "1000"),
    "heat": (EXAMPLES / "heat", "--size", "64x33", "--steps", "20", "--output", "/dev/null"),
    "gasnet": (EXAMPLES / "gasnet/hashtable_ex",),
    "aqperf": QUICK,
    "aqperf of gasnet": (*QUICK, "--api", "gasnet"),
    "rma": (BUILD / "tests/core/core_rma",),
    "private": (BUILD / "tests/core/core_private",),
    "everything": (BUILD / "tests/gasnet/gasnet_everything_par",),
}
ALONE = {
    "aqinfo": (AQINFO,),
    "fi": (BUILD / "tests/fi/fi_programs", "fi_messages"),
    "cci": (BUILD / "tests/cci/cci_programs", "cci_messages", "tcp"),
}
NETWORKS = {
    "shm": {},
    "udp": {"AQ_NEIGHBORHOOD": "1"},
    "ofi": {"AQ_NEIGHBORHOOD": "1", "AQ_TRANSPORTS": "loop,ofi", "AQ_OFI_PROVIDER": "tcp"},
}
# Settings of a folder only matter over networks that use it.
FOLDERS = {"AQ_OFI": "ofi", "AQ_REG": "ofi", "AQ_UDP": "udp", "AQ_CONNECT": "udp", "AQ_SHM": "shm",
           "AQ_IBV": "shm"}


def settings():
    """Yields for each setting its names, the preferred one first, and values to try."""
    for line in run(AQINFO, "--markdown").stdout.splitlines():
        if not line.startswith("| `"):
            continue
        names, kind, _, values = [part.strip() for part in line.split("|")[1:5]]
        names = re.findall(r"`(\w+)`", names)
        limits = re.match(r"(\S+) to ([^\s,]+)", values)
        found = list(TEXTS.get(names[0], ()))
        if kind == "choice":
            found += values.split()
        elif kind == "bool":
            found += ["no", "yes"]
        elif limits:
            found += limits.groups()
            if limits[1] == "0":
                found += ["1us" if kind == "time" else "1"]
        if names[0] not in OTHERS:
            yield names, found


def combinations():
    usable = run(AQINFO, "--transports").stdout
    networks = [net for net in NETWORKS if re.search(rf"^ *{net} +(yes|ask)", usable, re.MULTILINE)]
    for names, values in settings():
        folder = FOLDERS.get("_".join(names[0].split("_")[:2]))
        for value in values:
            for net in networks:
                if folder is None or net == folder:
                    yield from ((names, value, net, name) for name in JOBS)
            yield from ((names, value, None, name) for name in ALONE)


class EverySetting(Case):
    def run_one(self, names, value, net, name):
        words = JOBS[name] if net else ALONE[name]
        if not os.access(words[0], os.X_OK):
            return  # not built
        command = (AQRUN, "-n", "2", *words) if net else words
        settings_of = {**NETWORKS.get(net, {}), names[0]: value}
        try:
            result = subprocess.run(
                [os.fspath(word) for word in command], env=environment(settings_of), text=True,
                timeout=TIMEOUT, capture_output=True, errors="replace", check=False)
        except subprocess.TimeoutExpired as late:
            self.fail(f"{settings_of} {command}: hangs: {late.stdout} {late.stderr}")
        said = result.stdout + result.stderr
        report = f"{settings_of} {command}: code {result.returncode}: {said[-3000:]}"
        self.assertNotRegex(said, "WRONG|killed by signal|Sanitizer|[1-9] wrong", report)
        self.assertIn(result.returncode, (0, 1, 2, 77), report)
        if result.returncode in (1, 2):
            self.assertTrue(any(named in said for named in names), report)

    def test_all(self):
        every = list(combinations())
        self.assertGreater(len(every), 1000)
        chosen = every if ALL else random.Random(SEED).sample(every, len(every) // PART)
        print(f"seed {SEED}: {len(chosen)} of {len(every)} combinations", flush=True)
        for one in chosen:
            with self.subTest(one=one):
                self.run_one(*one)


if __name__ == "__main__":
    main()
