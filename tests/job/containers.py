#!/usr/bin/env python3
"""Jobs whose resources containers, administrators or callers have restricted.

usage: containers.py BUILD_DIR

Each job works, or ends at once with an error that says what to do. Restrictions that cannot be set
up on this machine are skipped, with the reason printed.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv[1]).resolve()
RANKS = 4
STEPS = "2000"  # of the program: a few hundred messages to each other rank
TIMEOUT = 40  # seconds: less than AQ_START_TIMEOUT, and more than a busy machine needs
NOBODY = 65534
LEFT = "rank {}: "  # what each rank of the program prints
CGROUPS = [pathlib.Path("/sys/fs/cgroup"), pathlib.Path("/sys/fs/cgroup/memory")]


def run(command, seconds=60, **options):
    """Run a command until it exits; if it takes longer than `seconds`, the test fails."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("AQ_", "GASNET_"))}
    environment.update(options.pop("environment", {}))
    return subprocess.run([os.fspath(part) for part in command], env=environment, timeout=seconds,
                          capture_output=True, text=True, errors="replace", check=False,
                          **options)


def shell(script, *command):
    """Returns a command that a shell executes, in its own process, after `script`."""
    return ["bash", "-c", script + ' && exec "$@"', "bash", *command]


def mounts(script, *command):
    """Returns a command that runs in a mount namespace of its own."""
    return ["unshare", "--mount", *shell(script, *command)]


def as_nobody(*command, user=NOBODY):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]


class Case(unittest.TestCase):
    """Jobs of RANKS ranks of a program whose ranks all communicate and check what they receive."""

    @classmethod
    def setUpClass(cls):
        # The build folder may be inaccessible to other users.
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="aqueduct-containers-"))
        cls.place.chmod(0o755)
        for source in ("tools/aqrun/aqrun", "tests/core/core_stress", "tests/core/core_victim",
                       "tests/job/job_client", "tests/job/job_forbid"):
            shutil.copy(BUILD / source, cls.place)
        cls.aqrun, cls.program = cls.place / "aqrun", cls.place / "core_stress"
        cls.job = [cls.aqrun, "-n", str(RANKS), cls.program, STEPS]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.place)

    def need(self, *command):
        """Skip the test unless this restriction can be set up here."""
        try:
            result = run(command)
        except FileNotFoundError as error:
            self.skipTest(f"not here: {error.filename}")
        if result.returncode != 0:
            self.skipTest(f"not allowed here: {' '.join(map(str, command))}: "
                          f"{result.stderr.strip()}")

    def expect(self, result, code):
        said = f"{result.args}\nstdout: {result.stdout}\nstderr: {result.stderr}"
        self.assertEqual(result.returncode, code, said)
        return result

    def works(self, *command):
        result = self.expect(run(command), 0)
        for rank in range(RANKS):
            self.assertIn(LEFT.format(rank), result.stdout)
        return result

    def fails(self, *command, says, code=1, **options):
        began = time.monotonic()
        result = self.expect(run(command, **options), code)
        self.assertLess(time.monotonic() - began, TIMEOUT)
        for part in says:
            self.assertRegex(result.stderr, part)

    def within(self, *prefix):
        """The job works under this prefix, if the prefix itself works."""
        self.need(*prefix, "true")
        return self.works(*prefix, *self.job)


class Memory(Case):
    def test_small_dev_shm(self):
        self.within(*mounts("mount -t tmpfs -o size=64m none /dev/shm"))

    def test_no_dev_shm(self):
        self.within(*mounts("mount -t tmpfs -o size=4k,mode=0 none /dev/shm"))

    def test_segments_larger_than_dev_shm(self):
        prefix = mounts("mount -t tmpfs -o size=64m none /dev/shm")
        self.need(*prefix, "true")
        job = [self.aqrun, "-n", "4", self.place / "job_client", "open", "share=300000000",
               "finalize"]
        self.expect(run([*prefix, *job]), 0)

    def test_low_memlock(self):
        self.within(*shell("ulimit -l 64"))

    def test_no_memlock(self):
        self.within(*shell("ulimit -l 0"))

    def test_little_address_space(self):
        self.within(*shell("ulimit -v 100000"))

    def test_too_little_address_space(self):
        self.fails(*shell("ulimit -v 26000"), *self.job,
                   says=["shared memory", "ulimit -v unlimited"])

    def group(self, limit):
        for root in CGROUPS:
            if not (root / "cgroup.procs").exists():
                continue
            folder = root / f"aqueduct-test-{os.getpid()}"
            for name in ("memory.max", "memory.limit_in_bytes"):
                try:
                    folder.mkdir(exist_ok=True)
                    (folder / name).write_text(str(limit), encoding="ascii")
                    return folder
                except OSError:
                    continue
            if folder.is_dir():
                folder.rmdir()
        self.skipTest("no control group with a limit on memory can be made here")

    def end_group(self, folder):
        for _ in range(50 * TIMEOUT):
            try:
                folder.rmdir()
                return
            except OSError:
                time.sleep(0.02)

    def test_memory_group(self):
        folder = self.group(128 << 20)
        try:
            self.works(*shell(f"echo $$ >{folder}/cgroup.procs"), *self.job)
        finally:
            self.end_group(folder)

    def test_memory_group_too_small(self):
        folder = self.group(24 << 20)
        try:
            eat = ["python3", "-c", "import os\nif os.environ['AQ_RANK'] == '1': "
                   "bytearray(os.urandom(1) * (200 << 20))"]
            self.fails(*shell(f"echo $$ >{folder}/cgroup.procs"), self.aqrun, "-n", "2", *eat,
                       code=137, says=["rank 1 .*was killed by signal 9.*memory limit"])
        finally:
            self.end_group(folder)


class Files(Case):
    def test_read_only_root(self):
        self.within(*mounts("mount -o remount,bind,ro /"))

    def test_no_proc(self):
        self.within(*mounts("mount -t tmpfs none /proc"))

    def test_no_sys(self):
        self.within(*mounts("mount -t tmpfs none /sys"))

    def test_no_environment(self):
        self.within("env", "-i")

    def test_few_files(self):
        self.within(*shell("ulimit -n 40"))

    def test_too_few_files(self):
        self.fails(*shell("ulimit -n 20"), *self.job, says=["open files", r"ulimit -n \d+"])

    def test_too_few_files_in_a_rank(self):
        # At each of these limits, something else can no longer be opened.
        for network, numbers in (("shm", (4, 5, 6, 8)), ("udp", (6, 9, 13, 14, 15)),
                                 ("ofi", (6, 12, 14, 18, 20))):
            if network == "ofi" and run([BUILD / "tools/aqinfo/aqinfo", "ofi"]).returncode != 0:
                continue
            for number in numbers:
                with self.subTest(network=network, number=number):
                    result = run([self.aqrun, "-n", "2", *shell(f"ulimit -n {number}"),
                                  self.program, STEPS], seconds=TIMEOUT,
                                 environment={"AQ_TRANSPORTS": network,
                                              "AQ_OFI_REFUSED_TIMEOUT": "3s"})
                    if result.returncode != 0:
                        self.assertIn("ulimit -n", result.stderr)

    def test_folder_is_gone(self):
        self.works(*shell(f"mkdir {self.place}/gone && cd {self.place}/gone && "
                          f"rmdir {self.place}/gone"), *self.job)


class Users(Case):
    def test_as_nobody(self):
        self.within(*as_nobody())

    def test_user_namespace(self):
        self.within("unshare", "--user")

    def test_root_of_a_user_namespace(self):
        self.within("unshare", "--map-root-user")

    def test_program_that_cannot_be_read(self):
        """The kernel hides the files in /proc of such a process from its user."""
        self.need(*as_nobody(), "true")
        hidden = self.place / "hidden"
        shutil.copy(self.program, hidden)
        hidden.chmod(0o111)
        self.works(*as_nobody(), self.aqrun, "-n", str(RANKS), hidden, "core_stress", STEPS)

    def test_too_few_processes(self):
        prefix = as_nobody(*shell("ulimit -u 4"), user=NOBODY - 7)
        self.need(*prefix, "true")
        self.fails(*prefix, *self.job, says=["processes of this user", r"ulimit -u \d+"])

    def test_other_processes_count(self):
        self.need(*as_nobody("true"))
        held, end = os.pipe()  # the other process reads until the end of this test
        with os.fdopen(held), os.fdopen(end, "w"):
            other = f"ulimit -u 6 && (cat <&{held} >/dev/null 2>&1 &)"
            self.fails(*as_nobody(*shell(other), user=NOBODY - 8), *self.job, pass_fds=[held],
                       says=["cannot start rank", "ulimit -u"])


class Namespaces(Case):
    def test_aqrun_is_process_1(self):
        self.within("unshare", "--pid", "--fork", "--mount-proc")

    def test_ranks_are_process_1(self):
        prefix = ["unshare", "--pid", "--fork", "--mount-proc"]
        self.need(*prefix, "true")
        self.works(self.aqrun, "-n", str(RANKS), *prefix, self.program, STEPS)

    def test_ranks_are_process_1_of_users(self):
        prefix = ["unshare", "--user", "--pid", "--fork", "--mount-proc"]
        self.need(*as_nobody(*prefix), "true")
        self.works(*as_nobody(), self.aqrun, "-n", str(RANKS), *prefix, self.program, STEPS)

    def test_process_1_ends_like_others(self):
        prefix = ["unshare", "--pid", "--fork", "--mount-proc"]
        self.need(*prefix, "true")
        for how, code in (("aq_exit7", 7), ("return5", 5), ("exit3", 3)):
            for where in ("barrier", "sleep"):
                self.expect(run([self.aqrun, "-n", "3", *prefix, self.place / "core_victim", how,
                                 where]), code)

    def until(self, condition):
        limit = time.monotonic() + TIMEOUT
        while not condition() and time.monotonic() < limit:
            time.sleep(0.01)
        self.assertTrue(condition())

    def processes(self, mark):
        """Returns pids and names of the processes that have this in their environment."""
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "comm").read_text(encoding="ascii").strip()
            except OSError:
                continue
        return found

    def test_namespace_ends_all(self):
        """If aqrun and its guard are killed together, nothing is left to end processes that shells
        have started."""
        prefix = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        self.need(*prefix, "true")
        mark = f"AQUEDUCT_TEST_HOLE={os.getpid()}"
        # The sleeping processes hold no pipe of this test, and two have left the process groups of
        # their ranks.
        script = "sleep 1000 & setsid sleep 1000 & echo started; wait"
        with subprocess.Popen(["env", mark, *prefix, os.fspath(self.aqrun), "-n", "2", "sh", "-c",
                               script], stdout=subprocess.PIPE, text=True) as job, \
                contextlib.ExitStack() as at_end:
            at_end.callback(job.kill)  # and with it everything in the namespace
            for _ in range(2):
                self.assertEqual(job.stdout.readline(), "started\n")
            self.until(lambda: list(self.processes(mark).values()).count("sleep") == 4)
            for pid, name in self.processes(mark).items():
                if name in ("aqrun", "aq-guard"):
                    with contextlib.suppress(ProcessLookupError):  # it has died with the other one
                        os.kill(pid, signal.SIGKILL)
            self.until(lambda: job.poll() is not None and not self.processes(mark))

    def test_no_network(self):
        self.within("unshare", "--net")

    def test_no_network_in_ranks(self):
        """Ranks in different networks cannot wake each other by name."""
        prefix = ["unshare", "--net"]
        self.need(*prefix, "true")
        for wait in ("auto", "block"):
            job = [self.aqrun, "-E", f"AQ_WAIT={wait}", "-n", str(RANKS), *prefix, self.program,
                   STEPS]
            self.works(*job)

    def test_own_ipc_and_names(self):
        self.within("unshare", "--ipc", "--uts", "--cgroup")


class Calls(Case):
    def forbidden(self, *calls):
        return [self.place / "job_forbid", ",".join(calls)]

    def test_no_ptrace(self):
        prefix = self.forbidden("ptrace", "process_vm_readv", "process_vm_writev")
        self.within(*prefix)
        said = self.expect(run([*prefix, BUILD / "tools/aqinfo/aqinfo", "cma"]), 0).stdout
        self.assertRegex(said, "no: .*seccomp")
        self.assertRegex(said, r"allow\s+process_vm_readv")

    def test_no_membarrier(self):
        self.within(*self.forbidden("membarrier"))

    def test_no_pidfd(self):
        self.within(*self.forbidden("pidfd_open", "pidfd_getfd"))

    def test_no_close_range(self):
        self.within(*self.forbidden("close_range"))

    def test_no_prctl(self):
        result = self.within(*self.forbidden("prctl"))
        self.assertEqual(result.stderr.count("refuses PR_SET_CHILD_SUBREAPER"), 1, result.stderr)

    def test_no_personality(self):
        prefix = self.forbidden("personality")
        self.need(*prefix, "true")
        result = self.works(*prefix, self.aqrun, "--same-addresses", *self.job[1:])
        self.assertEqual(result.stderr.count("--same-addresses: this system refuses"), 1,
                         result.stderr)
        self.assertEqual(self.works(*prefix, *self.job).stderr, "")

    def test_no_affinity(self):
        self.within(*self.forbidden("sched_getaffinity", "sched_setaffinity"))

    def test_no_numa(self):
        self.within(*self.forbidden("mbind", "move_pages"))

    def test_no_sizes(self):
        prefix = self.forbidden("ftruncate")
        self.need(*prefix, "true")
        self.fails(*prefix, *self.job, says=["ftruncate", "seccomp profile"])
        self.fails(*prefix, self.program, says=["ftruncate is blocked", "seccomp profile"])

    def test_no_seals(self):
        prefix = self.forbidden("F_ADD_SEALS")
        self.need(*prefix, "true")
        for job in (self.job, [self.program]):
            self.fails(*prefix, *job, says=["F_ADD_SEALS", "seccomp profile"])

    def test_no_memfd(self):
        prefix = self.forbidden("memfd_create")
        self.need(*prefix, "true")
        self.fails(*prefix, *self.job, says=["memfd_create", "seccomp profile"])
        self.fails(*prefix, self.program, says=["memfd_create", "seccomp profile"])


class Callers(Case):
    """State that a process inherits from the process that started it."""

    def test_closed_standard_files(self):
        """Closed in aqrun, and in ranks, whose sockets must not become their standard output."""
        for closed in ("<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"):
            self.expect(run(["bash", "-c", f'exec "$@" {closed}', "bash", *self.job]), 0)
            rank = ["bash", "-c", f'exec "$@" {closed}', "bash", self.place / "core_victim",
                    "aq_exit7", "poll"]
            result = self.expect(run([self.aqrun, "-n", "2", *rank]), 7)
            self.assertEqual(result.stderr, "", closed)

    def test_ignored_signals(self):
        for name in ("CHLD", "PIPE", "INT", "QUIT", "HUP"):
            self.works(*shell(f"trap '' {name}"), *self.job)
            self.expect(run([*shell(f"trap '' {name}"), self.aqrun, "-n", "3",
                             self.place / "core_victim", "segv", "barrier"]), 139)

    def test_blocked_signals(self):
        def block():
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

        self.expect(run(self.job, preexec_fn=block), 0)
        for how, code in (("aq_exit7", 7), ("kill", 137), ("return5", 5)):
            for where in ("barrier", "sleep"):
                victim = [self.place / "core_victim", how, where]
                began = time.monotonic()
                self.expect(run([self.aqrun, "-n", "3", *victim], preexec_fn=block), code)
                self.assertLess(time.monotonic() - began, TIMEOUT)

    def test_reader_that_leaves(self):
        for prefix in ([], ["-p"]):
            began = time.monotonic()
            result = run(["bash", "-c", '"$@" | head -1; exit "${PIPESTATUS[0]}"', "bash",
                          self.aqrun, *prefix, "-n", "4", "sh", "-c", "while :; do echo y; done"])
            self.expect(result, 128 + signal.SIGPIPE)
            self.assertEqual(result.stdout.count("\n"), 1)
            self.assertLess(time.monotonic() - began, TIMEOUT)

    def test_input_reaches_the_first_rank(self):
        result = run([self.aqrun, "-n", "3", "sh", "-c", "cat; echo end"], input="a\nb\n")
        self.expect(result, 0)
        self.assertEqual(sorted(result.stdout.split()), ["a", "b", "end", "end", "end"])


class Together(Case):
    """Jobs of several users and namespaces at the same time do not affect each other."""

    def start(self, command):
        job = subprocess.Popen(list(map(os.fspath, command)), text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        return job

    def test_jobs_of_all_kinds(self):
        prefixes = [[], [], ["unshare", "--net"], ["unshare", "--net"], ["unshare", "--user"],
                    ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"],
                    as_nobody(), as_nobody(user=NOBODY - 1), as_nobody(user=NOBODY - 1)]
        usable = [prefix for prefix in prefixes
                  if not prefix or run([*prefix, "true"]).returncode == 0]
        jobs = [self.start([*prefix, *self.job]) for _ in range(2) for prefix in usable]
        for job in jobs:
            out, err = job.communicate(timeout=100)
            self.assertEqual((job.returncode, err), (0, ""), job.args)
            for rank in range(RANKS):
                self.assertEqual(out.count(LEFT.format(rank)), 1, job.args)
        if len(usable) < len(prefixes):
            self.skipTest("not all kinds of namespaces and users are allowed here")

    def test_one_dies_among_others(self):
        """A job that is killed does not affect the others."""
        others = [self.start(self.job[:-1]) for _ in range(4)]
        for how, code in (("kill", 137), ("segv", 139), ("abort", 134)):
            self.expect(run([self.aqrun, "-n", "3", self.place / "core_victim", how, "poll"]),
                        code)
        for job in others:
            _, err = job.communicate(timeout=100)
            self.assertEqual((job.returncode, err), (0, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
