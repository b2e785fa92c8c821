"""Two bare Debian systems on one machine, such as new users have: n1 and n2, joined by a virtual
wire.

Each is a chroot made by debootstrap, in a network namespace of its own (tests/net/spaces.py), with
sshd and a user "new" that may use sudo. Everything is in memory and in namespaces that vanish with
the test, so nothing can be left behind. Packages come through a relay from the mirror that this
machine uses: the namespaces have no network except the wire.
"""

import ctypes
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "net"))
import spaces  # pylint: disable=wrong-import-position

CLONE_NEWNET = 0x40000000
OUTSIDE = "AQUEDUCT_TEST_OUTSIDE"  # the network namespace of the machine, and its mirror
TOP = pathlib.Path("/mnt")  # of the mount namespace
PASSWORD = "correct-horse"
TOOLS = ("debootstrap", "chroot", "tc", "nft", "ip")
# Types the user's answers: yes for a new host key, and the password. Further questions fail: after
# ssh-copy-id there must be none.
ASKPASS = f"""#!/bin/sh
echo >>/tmp/asked
[ "$(wc -l </tmp/asked)" -le 2 ] || exit 1
case $1 in *yes/no*) echo yes;; *) echo {PASSWORD};; esac
"""
SSHD = "UsePAM no\nPasswordAuthentication yes\nMaxStartups 200\n"
PACKAGES = ("sudo", "openssh-server", "openssh-client", "ca-certificates")


def mirror():
    """Returns URL and host of the first Debian mirror that this machine installs from, except those
    of security updates."""
    folder = pathlib.Path("/etc/apt")
    text = "\n".join(path.read_text(encoding="utf-8") for path in
                     [*folder.glob("sources.list"), *sorted(folder.glob("sources.list.d/*"))])
    found = re.findall(r"^(?:URIs:|deb)\s+(?:\[[^]]*\]\s+)?(http://([^/\s]+)\S*)", text, re.M)
    found = [(url, host) for url, host in found if "security" not in url]
    return found[0] if found else (None, None)


def why_not():
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"not installed: {' '.join(missing)} [.ci/install-deps.sh ci]"
    host = mirror()[1]
    if host is None:
        return "there is no http mirror in /etc/apt/sources.list to make a system from"
    try:
        socket.create_connection((host, 80), 10).close()
    except OSError as error:
        return f"the mirror {host} cannot be reached: {error}"
    return None


def enter():
    """Enter the namespaces, and set up the relay and the wire; or exit as a skipped test."""
    if spaces.INSIDE not in os.environ:
        reason = why_not()
        if reason is not None:
            print("skipped:", reason)
            sys.exit(77)
        outside = os.open("/proc/self/ns/net", os.O_RDONLY)
        os.set_inheritable(outside, True)
        os.environ[OUTSIDE] = f"{outside} {socket.gethostbyname(mirror()[1])}"
    spaces.enter()
    spaces.call("mount", "-t", "tmpfs", "-o", "size=80%", "none", str(TOP))
    spaces.call("ip", "link", "set", "lo", "up")
    relays = [threading.Event() for _ in range(3)]
    for ready, place in zip(relays, ("/proc/self/ns/net", "/run/netns/1", "/run/netns/2")):
        threading.Thread(target=relay, args=(place, ready), daemon=True).start()
        if not ready.wait(spaces.TIMEOUT):
            sys.exit("bare: the relay to the mirror has not started")
    hosts = f"127.0.0.1 localhost {mirror()[1]}\n10.9.0.1 n1\n10.9.0.2 n2\n"
    (TOP / "hosts").write_text(hosts, encoding="utf-8")
    spaces.call("mount", "--bind", str(TOP / "hosts"), "/etc/hosts")


def setns(descriptor):
    """Move this thread to another network namespace."""
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def relay(place, ready):
    """Forward connections to port 80 of a namespace to the mirror outside."""
    outside, address = os.environ[OUTSIDE].split()
    here = os.open(place, os.O_RDONLY)
    setns(here)
    listener = socket.create_server(("127.0.0.1", 80))
    setns(int(outside))
    ready.set()
    while True:
        near, _ = listener.accept()
        far = socket.create_connection((address, 80))
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=pump, args=(one, other), daemon=True).start()


def pump(one, other):
    try:
        while data := one.recv(1 << 16):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:  # one side has closed the connection
        pass


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def make(root):
    """Make a bare system with an account, and an ssh server like those of a cluster's nodes."""
    release = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
    suite = re.search(r"VERSION_CODENAME=(\w+)", release).group(1)
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite,
                    root, mirror()[0]], check=True, stdout=subprocess.DEVNULL)
    for path in ("sources.list", "sources.list.d"):
        source, target = pathlib.Path("/etc/apt", path), root / "etc/apt" / path
        if source.is_dir():
            shutil.rmtree(target)
            shutil.copytree(source, target)
        elif source.exists():
            shutil.copy(source, target)
        else:
            target.unlink(missing_ok=True)
    write(root / "etc/apt/apt.conf.d/90yes", 'APT::Get::Assume-Yes "true";\n')  # users press Y
    write(root / "etc/sudoers.d/new", "new ALL=(ALL) NOPASSWD: ALL\n", 0o440)
    write(root / "etc/ssh/sshd_config.d/new.conf", SSHD)
    write(root / "etc/hosts", (TOP / "hosts").read_text(encoding="utf-8"))
    write(root / "usr/local/bin/askpass", ASKPASS, 0o755)
    write(root / "usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755)  # no services
    (root / "run/sshd").mkdir(exist_ok=True)
    subprocess.run(["chroot", root, "sh", "-c", "useradd -m -s /bin/bash new && "
                    f"echo new:{PASSWORD} | chpasswd"], check=True)


class System:
    """A running system (a context manager): a layer over others, with a network, a host name and
    sshd."""

    def __init__(self, number, name, *below):
        self.number, self.top = number, TOP / name
        self.below = below
        self.root, self.layer = self.top / "root", self.top / "layer"

    def __enter__(self):
        for path in (self.root, self.layer, self.top / "work"):
            path.mkdir(parents=True)
        spaces.call("mount", "-t", "overlay", "overlay", "-o",
                    f"lowerdir={':'.join(map(str, self.below))},upperdir={self.layer},"
                    f"workdir={self.top}/work", str(self.root))
        for words in (("-t", "proc", "proc", "proc"), ("--bind", "/dev", "dev"),
                      ("-t", "devpts", "-o", "newinstance,ptmxmode=0666", "devpts", "dev/pts"),
                      ("-t", "tmpfs", "none", "dev/shm"), ("--bind", "/sys", "sys")):
            spaces.call("mount", *words[:-1], str(self.root / words[-1]))
        self.sshd = subprocess.Popen(
            [*spaces.within(self.number), "unshare", "--uts", "sh", "-c",
             f"hostname n{self.number} && exec chroot {self.root} /usr/sbin/sshd -D"])
        return self

    def __exit__(self, *error):
        self.sshd.kill()
        self.sshd.wait()
        # Lazily, as processes of the user may not have ended yet.
        spaces.call("umount", "--recursive", "--lazy", str(self.root))

    def run(self, script, said, seconds):
        """Run a bash script as the user, in a login shell. Returns its exit code."""
        write(self.root / "tmp/script", script, 0o755)
        words = [*spaces.within(self.number), "unshare", "--uts", "sh", "-c",
                 f"hostname n{self.number} && exec chroot {self.root} su - new -c "
                 "'SSH_ASKPASS=/usr/local/bin/askpass SSH_ASKPASS_REQUIRE=force bash /tmp/script'"]
        return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=said,
                              stderr=subprocess.STDOUT, timeout=seconds, check=False).returncode
