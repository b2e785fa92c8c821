#!/usr/bin/env python3
"""Jobs over several hosts, started by aqrun over ssh: however they end, nothing is left behind.

usage: far.py BUILD_DIR [CLASS[.TEST]]…

Near uses a replacement for ssh that runs commands locally, so that all hosts are this machine.
Wide… uses network namespaces joined by a bridge (tests/net/spaces.py), with an sshd in each and its
own keys; it needs root. AQUEDUCT_TEST_SOAK=yes: more of everything.
"""

import collections
import contextlib
import hashlib
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "net"))
import spaces  # pylint: disable=wrong-import-position

BUILD = pathlib.Path(sys.argv[1]).resolve()
AQRUN = BUILD / "tools/aqrun/aqrun"
SOAK = os.environ.get("AQUEDUCT_TEST_SOAK") == "yes"
TIMEOUT = 100 if SOAK else 40  # seconds: more than a busy machine needs
SOON = 5  # seconds in which remaining processes must exit after aqrun
EXIT = 2  # seconds, the default of AQ_EXIT_TIMEOUT
VICTIM = BUILD / "tests/core/core_victim"
FOREIGN = ("AQ_", "GASNET_", "SSH_", "SLURM", "PMI", "OMPI_")
# Replaces ssh: skips options, and runs the command locally. Some hosts are special.
SHELL = """#!/bin/sh
while :; do case $1 in -o|-F|-p|-i) shift 2;; -*) shift;; *) break;; esac; done
export FAR_HOST="$1"
shift
case $FAR_HOST in
down) echo "ssh: connect to host down port 22: No route to host" >&2; exit 255;;
hangs) exec sleep 1000;;
empty) rmdir "$FAR_FOLDER";;
old) echo "aqrun: unknown option: --agent" >&2; exit 2;;
akin|other) exec 3<&0; mkfifo "$TMPDIR/ticket"
    { IFS= read -r line
    case $FAR_HOST in akin) echo "${line%.*}.99";; other) echo "aqrun ticket 2 0.0.1";; esac
    exec cat; } <&3 >"$TMPDIR/ticket" &
    sh -c "$1" <"$TMPDIR/ticket"; code=$?; kill $! 2>/dev/null; rm "$TMPDIR/ticket"; exit $code;;
lacks*) echo "sh: 1: exec: /opt/aqrun: not found" >&2; exit 127;;
ahead*) # with a clock of its own, where that may be made
    if unshare -U -r -T -f --monotonic "${FAR_HOST#ahead}" true 2>/dev/null; then
        exec unshare -U -r -T -f --monotonic "${FAR_HOST#ahead}" sh -c "$*"
    fi;;
piped) export SSH_CONNECTION="UNKNOWN 65535 UNKNOWN 65535";;
talks) echo "Welcome to this host"; echo "please behave" >&2;;
esac
exec sh -c "$*"
"""


def processes():
    """Yields pid, command line and environment of each process that can be inspected."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (folder / "cmdline").read_bytes().split(b"\0")[:-1]
            names = dict(item.partition(b"=")[::2] for item in
                         (folder / "environ").read_bytes().split(b"\0"))
            if line:
                yield int(folder.name), line, names


def until(condition, seconds=TIMEOUT):
    """Call it until the result is true, or time is up. Returns the last result."""
    limit = time.monotonic() + seconds
    while True:
        result = condition()
        if result or time.monotonic() > limit:
            return result
        time.sleep(0.02)


class Job:
    """A running job, its processes, and what it leaves behind."""

    def __init__(self, world, words, settings, stdin, stdout):
        self.world = world
        self.mark = f"{os.getpid()}.{time.monotonic_ns()}"
        self.files = [tempfile.TemporaryFile(dir=world.place) for _ in range(2)]
        self.began = time.monotonic()
        self.run = subprocess.Popen(
            [os.fspath(word) for word in words], cwd=world.folder,
            env={**world.environment, **settings, "FAR_MARK": self.mark}, stdin=stdin,
            stdout=stdout if stdout is not None else self.files[0], stderr=self.files[1],
            start_new_session=True)

    def said(self, which):
        """Returns its output so far, without moving the offset at which it writes."""
        file = self.files[which].fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def mine(self):
        """Returns agents by host, ranks by number, and all processes of the job."""
        agents, ranks, all_of_it = {}, {}, []
        for pid, line, names in processes():
            if not self.world.owns(pid, names, self.mark):
                continue
            all_of_it.append(pid)
            if line[1:2] == [b"--agent"]:
                host = self.world.host_of(pid, names)
                # The guard, a child of the agent, briefly looks like one.
                if parent_of(pid) != agents.get(host):
                    agents[host] = pid
            elif b"AQ_RANK" in names and line[0] != os.fsencode(AQRUN):
                ranks[int(names[b"AQ_RANK"])] = pid
        return agents, ranks, all_of_it

    def doing(self):
        """Returns the system calls in which its processes wait, for a report."""
        lines, mine = [], self.mine()[2]
        for pid, line, _ in processes():
            if pid == self.run.pid or pid in mine:
                try:
                    waits = " ".join(open(f"/proc/{pid}/{name}", encoding="ascii").read().strip()
                                     for name in ("wchan", "syscall"))
                except OSError as gone:
                    waits = gone.strerror
                lines.append(f"{pid} {b' '.join(line[:6]).decode(errors='replace')}: {waits}")
        return "\n".join(lines)

    def ready(self, ranks, agents):
        """Wait until all ranks have joined, according to the program. Returns mine()."""
        found = until(lambda: self.said(0).count("ready\n") >= ranks or self.run.poll() is not None)
        if not found or self.run.poll() is not None:
            raise AssertionError(f"did not begin: {self.said(0)}\n{self.said(1)}\n{self.doing()}")
        found = self.mine()
        if len(found[0]) != agents:
            raise AssertionError(f"agents: {found[0]}")
        return found

    def kill(self, *pids, number=signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def wait(self, seconds=TIMEOUT):
        try:
            self.run.wait(seconds)
        except subprocess.TimeoutExpired:
            text = "\n".join(map(self.said, range(2)))
            self.end()
            raise AssertionError(f"does not end; its output: {text}") from None
        return self.run.returncode

    def left(self, seconds):
        until(lambda: not self.mine()[2], seconds)
        mine = set(self.mine()[2])
        return [b" ".join(line) for pid, line, _ in processes() if pid in mine]

    def end(self):
        """Kill all of it: whatever happens, nothing outlives the test."""
        self.kill(self.run.pid)
        for _ in range(50):
            pids = self.mine()[2]
            if not pids:
                break
            self.kill(*pids)
            time.sleep(0.02)
        self.run.wait()


def names_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    return ""


def parent_of(pid):
    with contextlib.suppress(OSError):
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        return int(text.rpartition(")")[2].split()[1])
    return 0


def state_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2][1]
    return "gone"


class World(unittest.TestCase):
    """A set of hosts, and jobs that run on them."""

    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="aqueduct-far-", dir=cls.where()))
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.folder = cls.place / "folder"
        cls.temporary = cls.place / "temporary"
        cls.folder.mkdir()
        cls.temporary.mkdir()
        cls.environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(FOREIGN)}
        cls.environment.update(TMPDIR=str(cls.temporary))
        cls.shared = set(os.listdir("/dev/shm"))
        cls.prepare()

    @classmethod
    def where(cls):
        return None

    @classmethod
    def write(cls, name, text, mode=0o600):
        path = cls.place / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    def launcher(self, hosts):
        return (AQRUN, "--hosts", ",".join(hosts))

    @contextlib.contextmanager
    def job(self, *words, hosts=None, ranks=None, stdin=subprocess.DEVNULL, stdout=None, start=None,
            **settings):
        hosts = hosts if hosts is not None else self.hosts(4)
        count = () if ranks is None else ("-n", str(ranks))
        place = spaces.within(start) if start else ()
        command = (*place, *self.launcher(hosts), *count, *words)
        job = Job(self, command, settings, stdin, stdout)
        try:
            yield job
            self.assertEqual(job.left(SOON), [], "left behind")
            self.assertEqual(os.listdir(self.temporary), [])
            self.assertEqual(set(os.listdir("/dev/shm")) - self.shared, set())
        finally:
            job.end()
            for file in job.files:
                file.close()

    def ends(self, *words, code=0, **options):
        """Run a job until it exits. Returns its standard output and error."""
        with self.job(*words, **options) as job:
            job.wait()
            said = (job.said(0), job.said(1))
            self.assertEqual(job.run.returncode, code, said)
        return said

    def fails(self, *words, says, code=1, **options):
        said = self.ends(*words, code=code, **options)[1]
        self.assertRegex(said, says)
        return said


class Work:
    """Properties of jobs, on any kind of hosts."""

    def test_programs(self):
        """Each rank communicates with all others, on whichever hosts."""
        for name in ("am", *(("rma", "coll", "stress") if SOAK else ())):
            with self.subTest(program=name):
                self.ends(BUILD / f"tests/core/core_{name}", ranks=8)
        out, _ = self.ends(BUILD / "examples/hello", ranks=8)
        self.assertEqual(sorted(re.findall(r"rank (\d) of 8;", out)), list("01234567"), out)
        self.assertEqual([out.count(f"over {way}\n") for way in ("shm", "udp")], [4, 4], out)

    def test_shapes(self):
        """On one to eight hosts, in deep and flat trees."""
        for count in range(1, 9) if SOAK else (1, 5):
            for fanout in ("1", "2", "0"):
                with self.subTest(hosts=count, fanout=fanout):
                    out, _ = self.ends("sh", "-c", "echo $AQ_RANK $AQ_LOCAL_RANK", ranks=2 * count,
                                       hosts=self.hosts(count), AQ_SSH_FANOUT=fanout)
                    self.assertEqual(sorted(map(int, re.findall(r"(\d+) ", out))),
                                     list(range(2 * count)))

    def test_whole_lines(self):
        """All output of ranks arrives, in whole lines."""
        lines = 100000 if SOAK else 10000
        out, _ = self.ends("sh", "-c", f'seq -f "rank $AQ_RANK has line %.0f" {lines}', ranks=8,
                           AQ_SSH_FANOUT="2")
        seen = collections.Counter(out.splitlines())
        self.assertEqual(len(seen), 8 * lines)
        self.assertEqual(set(seen.values()), {1})
        self.assertTrue(all(re.fullmatch(r"rank [0-7] has line \d+", line) for line in seen))

    def test_prefix(self):
        out, said = self.ends("--prefix", "sh", "-c", "echo out; echo err >&2", ranks=8)
        for text, word in ((out, "out"), (said, "err")):
            self.assertEqual(sorted(text.splitlines()), [f"[{rank}] {word}" for rank in range(8)])

    def test_files_of_output(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            out, said = self.ends("--output", place, "sh", "-c", "echo $AQ_RANK", ranks=8)
            self.assertEqual((out, said), ("", ""))
            for rank in range(8):
                text = pathlib.Path(place, f"{rank}.out").read_text(encoding="utf-8")
                self.assertEqual(text, f"{rank}\n")

    def test_input(self):
        """Standard input goes to rank 0, which is on another host."""
        count = ["sh", "-c", "[ $AQ_RANK != 0 ] || sha256sum"]
        much = os.urandom(1 << 20) * (50 if SOAK else 8)
        whole = hashlib.sha256(much).hexdigest()
        nothing = hashlib.sha256().hexdigest()
        file = self.place / "input"
        file.write_bytes(much)
        with open(file, "rb") as stdin:
            self.assertIn(whole, self.ends(*count, stdin=stdin)[0])
        with subprocess.Popen(["cat", file], stdout=subprocess.PIPE) as cat:
            self.assertIn(whole, self.ends(*count, stdin=cat.stdout)[0])
            cat.stdout.close()
        self.assertIn(nothing, self.ends(*count)[0])
        with open(file, "rb") as stdin:  # which is never read
            self.ends("true", stdin=stdin)
        words = shlex.join((str(AQRUN), "--hosts", ",".join(self.hosts(4))))
        job = Job(self, ["sh", "-c", f"exec {words} sh -c '{count[2]}' <&-"], {}, None, None)
        try:
            self.assertEqual(job.wait(), 0, job.said(1))
            self.assertIn(nothing, job.said(0))
        finally:
            job.end()

    def test_environment(self):
        odd = {"ODD_EMPTY": "", "ODD_LINES": "a\nb\n", "ODD_WORDS": " a 'b' \"c\" $d `e` \\f=g ",
               "ODD_UTF": "żółć", "ODD_LONG": "x" * 100000}
        show = "import os; print(sorted(i for i in os.environ.items() if i[0][:4] == 'ODD_'))"
        out, _ = self.ends(sys.executable, "-c", show, **odd)
        self.assertEqual(out.splitlines(), [str(sorted(odd.items()))] * 4)
        out, _ = self.ends("--env-only", "-E", "ODD_A=1", sys.executable, "-c", show, **odd)
        self.assertEqual(out.splitlines(), ["[('ODD_A', '1')]"] * 4)


class Mistakes:
    """Failures before a job runs are reported once, with the host's name and what to do."""

    def test_no_program(self):
        self.fails("/no/such/program", code=127, says=r"/no/such/program.*: No such file")

    def test_no_answer(self):
        """Hosts that answer do not hide one that does not."""
        for host, says in self.silent.items():
            with self.subTest(host=host):
                began = time.monotonic()
                said = self.fails("sleep", "1000", hosts=[*self.hosts(3), host], says=says,
                                  AQ_SSH_TIMEOUT="2s")
                self.assertLess(time.monotonic() - began, 20)
                # The fate of the others is not reported, and each line names aqrun only once.
                self.assertNotRegex(said, "lost its connection|aqrun:.* aqrun: host")


class Ends:
    """How jobs end when part of them fails."""

    STAY = "echo ready; exec sleep 1000"

    def stays(self, *options, ranks=8, hosts=5, fanout=2, code=1, act=None, gone=SOON,
              settings=None):
        """Run a job until `act` does something to it. Returns its standard error."""
        with self.job(*options, "sh", "-c", self.STAY, ranks=ranks, hosts=self.hosts(hosts),
                      AQ_SSH_FANOUT=str(fanout), **(settings or {})) as job:
            agents, ranks, _ = job.ready(ranks, hosts - self.rootful)
            began = time.monotonic()
            act(job, agents, ranks)
            job.wait()
            self.assertIn(job.run.returncode, code if isinstance(code, tuple) else (code,),
                          job.said(1))
            self.assertEqual(job.left(max(0.1, began + gone - time.monotonic())), [], job.said(1))
            return job.said(1)

    def test_exit_codes(self):
        self.ends("sh", "-c", "[ $AQ_RANK != 5 ] || exit 7; sleep 1000", ranks=8, code=7)
        self.ends("sh", "-c", "[ $AQ_RANK != 5 ] || kill -ABRT $$; sleep 1000", ranks=8, code=134)

    def test_victims(self):
        """The last rank, alone on its host, ends in various ways."""
        for how, where in self.victims:
            with self.subTest(how=how, where=where):
                with self.job(VICTIM, how, where, ranks=4) as job:
                    began = time.monotonic()
                    self.assertNotEqual(job.wait(), 0, job.said(1))
                    self.assertLess(time.monotonic() - began, 20)

    victims = (("exit", "computing"), ("abort", "barrier"))

    def test_killed_rank(self):
        said = self.stays(code=137, act=lambda job, agents, ranks: job.kill(ranks[7]))
        self.assertRegex(said, r"rank 7 .* on .*killed by signal 9")

    def test_killed_agent(self):
        """The agent is a leaf of the tree, or has others below it."""
        for which in (-1, 0):
            for fanout in (2, 32):
                with self.subTest(which=which, fanout=fanout):
                    def act(job, agents, _, which=which):
                        job.kill(agents[sorted(agents)[which]])
                    said = self.stays("-v", fanout=fanout, act=act)
                    self.assertRegex(said, "was lost with its host")
                    # The user did not request it, and hosts below do not report it.
                    self.assertNotIn("got signal", said)

    def test_killed_root(self):
        for fanout in (1, 2, 32):
            with self.subTest(fanout=fanout):
                self.stays(fanout=fanout, code=-9, gone=EXIT + 1,
                           act=lambda job, agents, ranks: job.kill(job.run.pid))

    def test_killed_root_of_deaf(self):
        """Ranks that do not notice the end get signals, although all else on their host is idle."""
        with self.job(VICTIM, "wait", "sleep", ranks=4, AQT_MARKS="1", AQ_EXIT_TIMEOUT="600ms",
                      AQ_HOST_TIMEOUT="100s", AQ_SSH_FANOUT="2") as job:
            until(lambda: job.said(1).count("#ready\n") == 4)
            job.kill(job.run.pid)
            self.assertEqual(job.left(10), [], job.said(1))

    def test_killed_all_of_a_host(self):
        def act(job, agents, ranks):
            host = sorted(agents)[0]
            job.kill(*[pid for pid in job.mine()[2] if self.host_of(pid) == host])
        self.stays(act=act, code=(1, 137))

    def test_interrupted(self):
        def act(job, agents, ranks):
            job.kill(job.run.pid, number=signal.SIGINT)
        self.assertRegex(self.stays(act=act, code=130), "got signal 2")

    def test_interrupted_twice(self):
        """The second signal ends it at once, even if a rank ignores SIGTERM or a host is frozen."""
        for freeze in (False, True):
            with self.subTest(freeze=freeze), self.job(
                    "sh", "-c", "trap '' TERM; " + self.STAY, ranks=4, AQ_EXIT_TIMEOUT="100s",
                    AQ_HOST_TIMEOUT="100s") as job:
                agents, _, everything = job.ready(4, 4 - self.rootful)
                host = sorted(agents)[-1]
                frozen = [pid for pid in everything if freeze and self.host_of(pid) == host]
                job.kill(*frozen, number=signal.SIGSTOP)
                for _ in range(2):
                    job.kill(job.run.pid, number=signal.SIGINT)
                    until(lambda: "got signal 2" in job.said(1))
                self.assertEqual(job.wait(10), 130)
                self.assertEqual("leaving it behind" in job.said(1), freeze, job.said(1))
                job.kill(*frozen, number=signal.SIGCONT)

    def test_frozen_host(self):
        """A silent host is lost, and its remaining processes are not waited for."""
        def act(job, agents, ranks):
            host = sorted(agents)[-1]
            frozen.extend(pid for pid in job.mine()[2] if self.host_of(pid) == host)
            job.kill(*frozen, number=signal.SIGSTOP)
        frozen = []
        with self.job("sh", "-c", self.STAY, ranks=4, AQ_SSH_FANOUT="2",
                      AQ_HOST_TIMEOUT="1s") as job:
            act(job, *job.ready(4, 4 - self.rootful)[:2])
            self.assertEqual(job.wait(20), 1, job.said(1))
            self.assertRegex(job.said(1), "was lost with its host .*nothing was received for")
            job.kill(*frozen, number=signal.SIGCONT)

    def test_stopped_and_continued(self):
        """Ctrl-Z stops all ranks for longer than hosts may be silent. Afterwards, output arrives
        over every connection, so the silence has broken none."""
        stay = "trap 'echo continued' CONT; echo ready; sleep 1000 & while :; do wait; done"
        with self.job("-v", "sh", "-c", stay, ranks=4, AQ_SSH_FANOUT="2",
                      AQ_HOST_TIMEOUT="500ms") as job:
            ranks, root = job.ready(4, 4 - self.rootful)[1], job.run.pid

            def states():
                return {state_of(pid) for pid in ranks.values()}
            job.kill(root, number=signal.SIGTSTP)
            self.assertTrue(until(lambda: states() == {"T"}, 10), states())
            time.sleep(1.5)  # the silence that would break connections takes real time
            job.kill(root, number=signal.SIGCONT)
            self.assertTrue(until(lambda: job.said(0).count("continued") >= 4), job.said(1))
            self.assertNotIn("to reconnect", job.said(1))
            job.kill(root, number=signal.SIGTERM)
            self.assertEqual(job.wait(), 143, job.said(1))

    def test_readers_of_output(self):
        pipe = subprocess.PIPE
        with subprocess.Popen(["head", "-n1"], stdin=pipe, stdout=pipe) as head:
            with self.job("yes", ranks=4, stdout=head.stdin) as job:
                head.stdin.close()
                self.assertIn(job.wait(), (1, 141), job.said(1))
            self.assertEqual(head.stdout.read(), b"y\n")
        with open("/dev/full", "wb") as full:
            with self.job("sh", "-c", "seq 100000", ranks=4, stdout=full) as job:
                self.assertEqual(job.wait(), 1)
                self.assertRegex(job.said(1), "cannot write standard output: No space left")

    def test_time_limit(self):
        self.fails("--timeout", "1s", "sleep", "1000", code=124, says=r"within 1 s \(--timeout\)")

    def test_survivors(self):
        """With AQ_SURVIVE, the death of a rank or a host affects no other ranks."""
        program = BUILD / "tests/core/core_survivor"
        self.ends(program, "2", "kill", ranks=8, code=137, AQ_SURVIVE="yes", AQ_SSH_FANOUT="2")


class Near(World, Work, Mistakes, Ends):
    """With a replacement for ssh."""

    rootful = 0  # agents that are aqrun itself
    silent = {"down": "host down: it could not be reached .*No route to host.*try it by hand: ",
              "hangs": "host hangs: no answer within 2 s",
              "old": "host old: .*install the same version.*unknown option: --agent",
              "other": "host other: .*0.0.1",
              "lacks": "host lacks: aqrun was not found there: install it"}

    @classmethod
    def prepare(cls):
        shell = cls.write("far-shell", SHELL, 0o700)
        cls.environment.update(AQ_SSH_CMD=str(shell))

    @staticmethod
    def hosts(count):
        return [f"h{number}" for number in range(1, count + 1)]

    @staticmethod
    def owns(pid, names, mark):
        return names.get(b"FAR_MARK") == mark.encode()

    @staticmethod
    def host_of(pid, names=None):
        with contextlib.suppress(OSError):
            for item in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if item.startswith(b"FAR_HOST="):
                    return item[9:].decode()
        return ""

    def test_several_without_answer(self):
        """Each is reported with its reason, whichever fails first; other hosts print nothing."""
        said = self.fails("sleep", "1000", hosts=["h1", "down", "lacks"], says="ending the job")
        for host in ("down", "lacks"):
            self.assertRegex(said, self.silent[host])
        said = self.ends("-v", "true")[1]
        self.assertRegex(said, r"host h1: the session ended with code 0\n")

    def test_missing_folder(self):
        """The folder has been removed on the last host by the time its agent starts."""
        folder = self.folder / "gone"
        folder.mkdir()
        with contextlib.suppress(FileNotFoundError):
            saved, type(self).folder = self.folder, folder
            try:
                self.fails("sleep", "1000", hosts=["h1", "empty"], FAR_FOLDER=str(folder),
                           says="host (h1|empty): there is no directory .*/gone here .*: create it")
            finally:
                type(self).folder = saved

    def test_shared_core(self):
        """Hosts that are containers of one machine: waiting ranks leave the cores to others."""
        cores = os.sched_getaffinity(0)
        took = {}
        for wait in ("share", "auto"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            os.sched_setaffinity(0, {min(cores)})
            try:
                self.ends(BUILD / "tests/core/core_coll", ranks=4, AQ_WAIT=wait, AQ_LOG="off")
            finally:
                os.sched_setaffinity(0, cores)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took[wait] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        # With "spin", the job would take forever. The margin is for other programs on the cores.
        self.assertLess(took["auto"], 5 * took["share"] + 5, took)

    def test_what_logins_say(self):
        """It works even if sshd does not know the client's address, as with a ProxyCommand."""
        out, said = self.ends("echo", "x", hosts=["piped", "talks"])
        self.assertEqual((out, said), ("x\nx\n", "aqrun: host talks: please behave\n"))

    def test_another_patch(self):
        """A compatible version on another host works, with a warning."""
        out, said = self.ends("echo", "x", hosts=["h1", "akin"])
        self.assertEqual(out, "x\nx\n")
        self.assertRegex(said, r"^aqrun: host akin: the job was started by aqrun [\d.]+\.99, and .*"
                         "they are compatible.*\n$")


class Exits(Near):
    """The table of exits (exits.c), over hosts of the replacement for ssh."""

    def exits(self, ranks, *options):
        settings = {**self.environment, "AQ_HOSTS": ",".join(self.hosts(ranks)),
                    "AQ_SSH_FANOUT": "2"}
        result = subprocess.run([BUILD / "tests/job/job_exits", "--ranks", str(ranks),
                                 "--over", "udp", *options], timeout=1200, env=settings,
                                capture_output=True, text=True, check=False, errors="replace")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_exits(self):
        for ranks in (2, 4):
            with self.subTest(hosts=ranks):
                self.exits(ranks)

    def test_some(self):
        self.exits(4, "--only", "segv/barrier,aq_exit7/poll,return5/finalize,kill/survival,"
                   "signaled/poll/stopped,wait/hang/int_twice,wait/spin/kill_9")


BRIDGED = range(1, 17 if SOAK else 7)  # hosts
SSHD = """ListenAddress 10.8.0.{host}:2222
HostKey {place}/host
AuthorizedKeysFile {place}/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 200
LogLevel QUIET
"""
SSH = """Host *
Port 2222
IdentityFile {place}/{key}
IdentitiesOnly yes
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
GlobalKnownHostsFile /dev/null
LogLevel ERROR
ConnectTimeout 3
"""


def make_hosts():
    """Make namespaces joined by a bridge, and one more outside the job. Interfaces carry single
    packets rather than bursts, so that each can be treated separately."""
    spaces.call("mount", "-t", "tmpfs", "none", "/run")
    os.mkdir("/run/sshd")
    # The start-up files of the machine's shell may take seconds in each session.
    rc = pathlib.Path("~/.bashrc").expanduser()
    if rc.exists():
        spaces.call("mount", "--bind", "/dev/null", str(rc))
    for bridge in ("bridge", "second"):  # interfaces of "second" are down at first (networks.py)
        spaces.call("ip", "link", "add", bridge, "type", "bridge")
        spaces.call("ip", "link", "set", bridge, "up")
    spaces.call("ip", "link", "set", "lo", "up")
    spaces.call("ip", "address", "add", "10.8.0.100/24", "dev", "bridge")
    for host in BRIDGED:
        spaces.call("ip", "netns", "add", str(host))
        for port, wire, bridge in (("second", "first", "second"), ("port", "wire", "bridge")):
            spaces.call("ip", "link", "add", f"{port}{host}", "type", "veth", "peer", wire,
                        "netns", str(host))
            spaces.call("ip", "link", "set", f"{port}{host}", "master", bridge, "up")
        spaces.call("ip", "-n", str(host), "link", "set", "lo", "up")
        spaces.call("ip", "-n", str(host), "address", "add", f"10.8.0.{host}/24", "dev", "wire")
        spaces.call("ip", "-n", str(host), "link", "set", "wire",
                    "gso_max_segs", "1", "up")


class Bridged(World):
    """Hosts that are network namespaces, with sshd."""

    rootful = 0

    @classmethod
    def where(cls):
        return "/run"

    @classmethod
    def prepare(cls):
        for name in ("host", "user", "stranger"):
            spaces.call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(cls.place / name))
        cls.networks = {}
        for host in BRIDGED:
            config = cls.write(f"sshd{host}", SSHD.format(host=host, place=cls.place))
            # The last host lacks a folder that the others have.
            before = ("unshare", "--mount") if host == BRIDGED[-1] else ()
            script = f'mount -t tmpfs none "{cls.folder}" && ' if before else ""
            sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
            daemon = subprocess.Popen(
                spaces.within(host, *before, "sh", "-c", f'{script}exec "{sshd}" -D -f "{config}"'),
                stdin=subprocess.DEVNULL)
            cls.addClassCleanup(daemon.wait)
            cls.addClassCleanup(daemon.kill)
            cls.networks[os.stat(f"/run/netns/{host}").st_ino] = f"10.8.0.{host}"
        cls.config("user")
        cls.environment["AQ_SSH_OPTIONS"] = f"-F {cls.place}/user.conf"
        cls.own = {pid for pid, _, _ in processes()}
        until(lambda: all(cls.answers(host) for host in BRIDGED))
        cls.own = {pid for pid, _, _ in processes()}

    @classmethod
    def config(cls, key):
        return cls.write(f"{key}.conf", SSH.format(place=cls.place, key=key))

    @classmethod
    def answers(cls, host):
        return subprocess.run(["ssh", "-F", cls.place / "user.conf", f"10.8.0.{host}", "true"],
                              check=False, capture_output=True).returncode == 0

    @staticmethod
    def hosts(count):
        return [f"10.8.0.{number}" for number in range(1, count + 1)]

    @classmethod
    def owns(cls, pid, names, mark):
        """Every process in one of the namespaces belongs to the job, as there is only one."""
        return pid not in cls.own and pid != os.getpid() and names_of(pid) != "sshd"

    @classmethod
    def host_of(cls, pid, names=None):
        with contextlib.suppress(OSError):
            return cls.networks.get(os.stat(f"/proc/{pid}/ns/net").st_ino, "")
        return ""

    @contextlib.contextmanager
    def apart(self, *hosts):
        """Cut these hosts off from the others, but not from each other."""
        spaces.call("ip", "link", "add", "island", "type", "bridge")
        try:
            spaces.call("ip", "link", "set", "island", "up")
            for host in hosts:
                spaces.call("ip", "link", "set", f"port{host}", "master", "island")
            yield
        finally:
            for host in hosts:
                spaces.call("ip", "link", "set", f"port{host}", "master", "bridge")
            spaces.call("ip", "link", "delete", "island")
            until(lambda: all(self.answers(host) for host in hosts))


class Wide(Bridged, Work, Mistakes, Ends):
    """Jobs over network namespaces with sshd."""

    silent = {"10.8.0.99": "host 10.8.0.99: (it|no answer within) .*try it by hand: ssh -F .*"}

    @unittest.skipUnless(SOAK, "in soak")
    def test_start(self):
        """16 hosts with 4 ranks each: the time until the last rank has joined."""
        took = []
        for _ in range(5):
            with self.job("-v", BUILD / "examples/hello", ranks=64, hosts=self.hosts(16)) as job:
                until(lambda job=job: job.said(1).count(" joined (pid") == 64)
                took.append(time.monotonic() - job.began)
                self.assertEqual(job.wait(), 0, job.said(1))
        print("16 hosts, 64 ranks joined after", " ".join(f"{one:.2f}" for one in took), "s",
              flush=True)
        self.assertLess(min(took), 5)

    def test_inside(self):
        """aqrun is started on one of the hosts, and runs that host's ranks itself."""
        out, _ = self.ends("sh", "-c", "echo $AQ_RANK", ranks=8, start=1)
        self.assertEqual(sorted(out.split()), list("01234567"))

    def test_stranger(self):
        self.config("stranger")
        self.fails("true", hosts=self.hosts(2), AQ_SSH_OPTIONS=f"-F {self.place}/stranger.conf",
                   says=r"host 10.8.0.[12]: it could not be reached \(.*Permission denied")

    def test_missing_folder(self):
        folder = self.folder / "mine"
        folder.mkdir()
        program = folder / "program"
        shutil.copy("/bin/true", program)
        hosts = [*self.hosts(3), f"10.8.0.{BRIDGED[-1]}"]
        self.fails(program, hosts=hosts, code=127, says=f"{program}.*: No such file")

    def test_small_path(self):
        """The path's MTU is detected, and reported to the user and to other ranks of the host."""
        drop = "meta l4proto udp meta length > 1000 drop"
        with contextlib.ExitStack() as stack:
            for host in (1, 2):
                stack.enter_context(spaces.rules(host, ("prerouting", drop)))
            _, said = self.ends(BUILD / "tests/core/core_am", ranks=4, hosts=self.hosts(2))
        found = re.findall(r"aq\[(\d)\] udp: peer \d .* bytes: the path carries only (\d+), ", said)
        self.assertEqual(found, [("0", "988")], said)

    def test_link_down(self):
        with self.job("sh", "-c", self.STAY, ranks=4, AQ_HOST_TIMEOUT="1s",
                      AQ_SSH_FANOUT="2") as job:
            job.ready(4, 4)
            with self.apart(4):
                self.assertEqual(job.wait(20), 1, job.said(1))
                self.assertRegex(job.said(1), "was lost with its host 10.8.0.4")
                self.assertEqual(job.left(20), [])


def main():
    names = sys.argv[2:]
    if any(name.startswith("Wide") for name in names):
        if shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin") is None:
            print("skipped: sshd is not installed [.ci/install-deps.sh all]")
            sys.exit(77)
        spaces.enter(make_hosts)
    program = unittest.main(argv=[sys.argv[0], *names], verbosity=2, exit=False)
    if not program.result.wasSuccessful():
        sys.exit(1)
    if program.result.skipped and program.result.testsRun == len(program.result.skipped):
        sys.exit(77)


if __name__ == "__main__":
    main()
