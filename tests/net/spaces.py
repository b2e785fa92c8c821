"""Two hosts that are network namespaces, the wire between them, and its faults.

A script that calls enter() is run again as the first process of mount and pid namespaces, which end
with it, so that nothing is left behind, however it ends.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time

TIMEOUT = 60  # seconds, for an expected event
HOSTS = (1, 2)
INSIDE = "AQUEDUCT_TEST_SPACES"
OWN = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"]
TOOLS = ("unshare", "nsenter", "mount", "ip", "tc", "nft")


def call(*words, **options):
    result = subprocess.run(words, timeout=TIMEOUT, capture_output=True, text=True, check=False,
                            **options)
    if result.returncode != 0:
        raise OSError(f"{' '.join(words)}: {result.stderr.strip()}")
    return result.stdout


def within(host, *words):
    """The command that runs these words on a host, in the same process."""
    return ["nsenter", f"--net=/run/netns/{host}", *map(os.fspath, words)]


def link(host, *words):
    call("ip", "-n", str(host), "link", "set", "wire", *words)


def await_up(host, interface):
    """Wait for the interface to come up, which takes the kernel some time."""
    limit = time.monotonic() + TIMEOUT
    while "state UP" not in call("ip", "-n", str(host), "link", "show", interface):
        if time.monotonic() > limit:
            raise OSError(f"interface {interface} of host {host} does not come up")
        time.sleep(0.01)


def await_wire():
    for host in HOSTS:
        await_up(host, "wire")


def make():
    """Both hosts use the same name for their end of the wire. The wire carries packets, not bursts,
    so that faults apply to each packet separately."""
    call("mount", "-t", "tmpfs", "none", "/run")
    for host in HOSTS:
        call("ip", "netns", "add", str(host))
    call("ip", "link", "add", "wire", "netns", "1", "type", "veth", "peer", "wire", "netns", "2")
    for host in HOSTS:
        call("ip", "-n", str(host), "link", "set", "lo", "up")
        for address in (f"10.9.0.{host}/24", f"fd09::{host}/64"):
            call("ip", "-n", str(host), "address", "add", address, "dev", "wire", "nodad")
        link(host, "mtu", "9000", "gso_max_segs", "1", "up")
    await_wire()


def why_not():
    """Why hosts cannot be made, or None."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"not installed: {' '.join(missing)} [.ci/install-deps.sh all]"
    try:
        call(*OWN, "sh", "-c", "mount -t tmpfs none /run && ip netns add 1 && nft list ruleset")
    except OSError as error:
        return f"{error}: hosts are made by root, in a container only if it is privileged"
    return None


def enter(make_hosts=make):
    """Make the hosts, or exit as a skipped test."""
    if INSIDE in os.environ:
        make_hosts()
        return
    reason = why_not()
    if reason is not None:
        print("skipped:", reason)
        sys.exit(77)
    os.environ[INSIDE] = "yes"
    os.execvp(OWN[0], [*OWN, sys.executable, *sys.argv])


@contextlib.contextmanager
def rules(host, *chains, family="inet"):
    """Rules of nft, each a pair of a hook and its rule, for both IPv4 and IPv6 unless `family` is
    given."""
    text = "".join(f"chain {hook} {{ type filter hook {hook} priority 0; {rule}; }}\n"
                   for hook, rule in chains)
    call(*within(host, "nft", "-f", "-"), input=f"table {family} fate {{\n{text}}}\n")
    try:
        yield
    finally:
        call(*within(host, "nft", "delete", "table", family, "fate"))


@contextlib.contextmanager
def slow_lane(host, percent):
    """This percentage of the host's packets takes a slow lane, where others overtake them."""
    random = (f"5,32 0 0 4294963256,148 0 0 100,53 1 0 {percent},6 0 0 4294967295,6 0 0 0")

    def tc(*words):
        call(*within(host, "tc", *words[:2], "dev", "wire", *words[2:]))

    tc("qdisc", "add", "root", "handle", "1:", "htb", "default", "1")
    for lane, rate, burst in (("1:1", "100gbit", "1m"), ("1:2", "8mbit", "300")):
        tc("class", "add", "parent", "1:", "classid", lane, "htb", "rate", rate, "burst", burst,
           "quantum", "60000")
    tc("filter", "add", "parent", "1:", "protocol", "all", "bpf", "bytecode", random,
       "classid", "1:2")
    try:
        yield
    finally:
        tc("qdisc", "del", "root")
