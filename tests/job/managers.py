#!/usr/bin/env python3
"""Jobs started by real managers: mpiexec.hydra, Open MPI's mpirun, and srun of a private Slurm.

usage: managers.py BUILD_DIR [CLASS…]

Each starts job_manager_client, whose ranks query their identity and exchange values, and a program
whose ranks meet, work and end in several ways. If something is not installed, or needs root, the
test is skipped with the reason printed.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

BUILD = pathlib.Path(sys.argv[1]).resolve()
CLIENT = BUILD / "tests/job/job_manager_client"
AQRUN = BUILD / "tools/aqrun/aqrun"
MANAGED = BUILD / "tests/job/job_managed"
FORBID = BUILD / "tests/job/job_forbid"
WHOLE = "open print check exchange missing room meet exchange close".split()
TIMEOUT = 60  # seconds: more than a busy machine needs
LINE = re.compile(r"rank (\d+) of (\d+) host (\d+) of (\d+) local (\d+) of (\d+) first (\d+) "
                  r"by (\w+) \(([^)]+)\) job (\S+)")
# Variables that may come from other jobs, and those that tests set themselves.
FOREIGN = ("AQ_", "GASNET_", "PMI", "SLURM", "OMPI_", "HYDRA_", "HYDI_", "MPI", "MUNGE")
# Replaces ssh: skips options, and runs the command locally, with a folder for the host.
SHELL = """#!/bin/sh
while :; do case $1 in -*) shift;; *) break;; esac; done
export TMPDIR="$TMPDIR/$1"
mkdir -p "$TMPDIR"
shift
exec sh -c "$*"
"""


def processes(mark):
    """Returns the processes whose environment contains the mark."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((int(folder.name), (folder / "cmdline").read_bytes()))
    return found


def until(condition, what, seconds=TIMEOUT):
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise TimeoutError(what)
        time.sleep(0.02)


def start(signal_name, command, **options):
    """Popen in a session of its own; the process gets the signal when this one ends, however."""
    return subprocess.Popen(["setpriv", "--pdeathsig", signal_name, *map(os.fspath, command)],
                            stdin=subprocess.DEVNULL, start_new_session=True, **options)


def end_all(mark):
    """Kills the processes with the mark, and those that they start meanwhile."""
    def ended():
        for pid, _ in processes(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not processes(mark)
    until(ended, f"cannot be killed: {mark}")


def need(*programs):
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for program in programs:
        if shutil.which(program, path=path) is None:
            raise unittest.SkipTest(f"{program} is not installed [.ci/install-deps.sh all]")


class Case(unittest.TestCase):
    """A folder and an environment, and jobs that run in them and must leave nothing behind."""

    @classmethod
    def setUpClass(cls):
        cls.prepare(cls.addClassCleanup)

    @classmethod
    def prepare(cls, cleanup):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="aqueduct-managers-"))
        cleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(FOREIGN)}
        cls.environment["PATH"] += ":/usr/sbin:/sbin"
        # Ignore leaks of libpmix at exit.
        cls.environment["LSAN_OPTIONS"] = f"suppressions={cls.write('leaks', 'leak:libpmix')}"
        cls.environment.update(TMPDIR=str(cls.place), OMPI_ALLOW_RUN_AS_ROOT="1",
                               OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    @classmethod
    def write(cls, name, text, mode=0o644):
        path = cls.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    def run_job(self, command, **settings):
        mark = f"MANAGERS_MARK={uuid.uuid4()}"
        environment = {**self.environment, **settings, "MANAGERS_MARK": mark.split("=")[1]}
        with start("TERM", command, env=environment, cwd=self.place, stdout=subprocess.PIPE,
                   stderr=subprocess.PIPE, text=True, errors="replace") as job:
            try:
                out, err = job.communicate(timeout=TIMEOUT)
                until(lambda: not processes(mark), f"left by {command}: {processes(mark)}", 10)
            except subprocess.TimeoutExpired:
                end_all(mark)
                out, err = job.communicate()
                self.fail(f"does not end: {command}\nstdout: {out}\nstderr: {err}")
            finally:
                end_all(mark)
        return subprocess.CompletedProcess(command, job.returncode, out, err)

    def said(self, result):
        return f"{result.args}\ncode: {result.returncode}\nstdout: {result.stdout}\n" \
               f"stderr: {result.stderr}"

    def works(self, command, ranks, hosts, kind, steps=(), **settings):
        """All ranks see the same job, and each has a different place in it."""
        result = self.run_job([*command, CLIENT, *WHOLE, *steps], **settings)
        self.assertEqual(result.returncode, 0, self.said(result))
        lines = [LINE.fullmatch(line) for line in result.stdout.splitlines()]
        self.assertTrue(all(lines), self.said(result))
        seen = sorted(tuple(map(int, line.groups()[:7])) for line in lines)
        self.assertEqual([place[0] for place in seen], list(range(ranks)), self.said(result))
        self.assertEqual({(place[1], place[3]) for place in seen}, {(ranks, hosts)})
        self.assertEqual(len({line.group(10) for line in lines}), 1, self.said(result))
        self.assertEqual({line.group(8) for line in lines}, {kind})
        for host in range(hosts):
            local = [place for place in seen if place[2] == host]
            self.assertEqual([place[4:] for place in local],
                             [(i, len(local), local[0][0]) for i in range(len(local))],
                             self.said(result))
        return result

    def fails(self, command, *steps, says=(), program=(CLIENT,), **settings):
        """The job fails with these messages. Ranks write standard error to a file, since managers
        drop it when they kill ranks."""
        began = time.monotonic()
        log = self.place / f"log-{uuid.uuid4()}"
        rank = ["sh", "-c", f'exec "$@" 2>>"{log}"', "sh", *program, *steps]
        result = self.run_job([*command, *rank], **settings)
        result.stderr += log.read_text(encoding="utf-8")
        self.assertNotEqual(result.returncode, 0, self.said(result))
        self.assertLess(time.monotonic() - began, TIMEOUT / 2)
        for text in says:
            self.assertIn(text, result.stderr, self.said(result))
        return result

    def alone(self, command, count, **settings):
        """Each rank finds that there is no manager."""
        result = self.run_job([*command, CLIENT, "open"], **settings)
        self.assertEqual((result.returncode, result.stdout), (0, "no manager\n" * count),
                         self.said(result))


class Manager:
    """Tests of every manager; a class has kind, command(ranks) and two_hosts(ranks)."""

    environment_of_manager = ()
    aborts_with = 42
    settings = {}

    def test_ranks(self):
        for ranks in (1, 3, 9):
            self.works(self.command(ranks), ranks, 1, self.kind, **self.settings)

    def test_two_hosts(self):
        self.works(self.two_hosts(3), 3, 2, self.kind, **self.settings)

    def test_an_end_in_good_order_is_no_crash(self):
        result = self.run_job([*self.command(3), CLIENT, "open", "pid", "close", "exit=0@0",
                               "outlive"], **self.settings)
        self.assertEqual((result.returncode, result.stdout), (0, 2 * "outlived rank 0\n"),
                         self.said(result))

    def test_abort(self):
        for others in ("hang", "fence"):
            result = self.fails(self.command(3), "open", "abort=42@1", others, **self.settings)
            # A rank in the fence may get the error and end the job with code 3 before the manager
            # ends it.
            if self.aborts_with and others == "hang":
                self.assertEqual(result.returncode, self.aborts_with, self.said(result))

    def test_one_does_not_come(self):
        for steps in (["hang@0", "fence"], ["exchange", "hang@2", "fence"]):
            self.fails(self.command(3), "open", *steps, says=["all 3 ranks have joined"],
                       AQ_START_TIMEOUT="500ms", **self.settings)

    def test_one_dies(self):
        self.fails(self.command(3), "open", "exit=5@2", "fence", AQ_START_TIMEOUT="1s",
                   **self.settings)

    def test_aqrun_inside(self):
        self.alone([*self.command(1), AQRUN, "--spawner", "fork", "-n", "2"], 2, **self.settings)

    def test_alone_on_purpose(self):
        self.alone(self.command(2), 2, **self.settings, AQ_BOOT="single")

    def program(self, command, ranks, how, **settings):
        began = time.monotonic()
        result = self.run_job([*command, MANAGED, how], **self.settings, **settings)
        worked = sorted(line for line in result.stdout.splitlines() if "worked" in line)
        self.assertEqual(worked, sorted(f"rank {rank} of {ranks} has worked"
                                        for rank in range(ranks)), self.said(result))
        self.assertLess(time.monotonic() - began, TIMEOUT / 2)
        return result

    def test_programs(self):
        """The ranks meet, work and leave, on one host and on two."""
        for ranks in (1, 4):
            result = self.program(self.command(ranks), ranks, "finalize")
            self.assertEqual(result.returncode, 0, self.said(result))
        result = self.program(self.two_hosts(4), 4, "finalize")
        self.assertEqual(result.returncode, 0, self.said(result))

    def test_one_file_of_two_hosts(self):
        """The first host's agent writes the counters and traces of all ranks."""
        trace, stats = self.place / "trace", self.place / "stats"
        result = self.program(self.two_hosts(4), 4, "finalize", AQ_TRACE_FILE=str(trace),
                              AQ_STATS_FILE=str(stats))
        self.assertEqual(result.returncode, 0, self.said(result))
        # The agent ends a moment after the ranks.
        until(lambda: trace.read_text().endswith("]\n"), "the trace has no end", 10)
        events = json.loads(trace.read_text())
        self.assertEqual({event["pid"] for event in events}, set(range(4)))
        self.assertRegex(stats.read_text(), "clock of host node 1: offset .* us, error .* us")
        self.assertEqual(set(re.findall(r"(?m)^rank (\d)", stats.read_text())), set("0123"))

    def test_ends_of_programs(self):
        """All ranks end together, and the exit code is that of the first, if the manager passes it
        on."""
        bad = range(1, 256)
        for how, codes in (("exit0", [0]), ("exit7", [7]), ("threads7", [7]), ("return5", [5]),
                           ("abort", bad)):
            result = self.program(self.command(3), 3, how)
            self.assertIn(result.returncode, codes, self.said(result))
        for how, codes in (("exit7", [7]), ("kill", bad)):
            result = self.program(self.two_hosts(3), 3, how)
            self.assertIn(result.returncode, codes, self.said(result))
        # Without agents, ranks are not notified, and wait for part of AQ_EXIT_TIMEOUT.
        result = self.program(self.two_hosts(3), 3, "orphans", AQ_EXIT_TIMEOUT="400ms")
        self.assertIn(result.returncode, bad, self.said(result))

    def test_hidden_manager(self):
        """A script has removed the variables by which a rank finds the manager."""
        hide = ["env", *(f"--unset={name}" for name in self.environment_of_manager)]
        self.fails([*self.command(2), *hide], "open", says=["of 2 (", "AQ_BOOT=single"])
        self.alone([*self.command(1), *hide], 1)


class Hydra(Manager, Case):
    kind = "pmi"
    environment_of_manager = ("PMI_FD",)

    @classmethod
    def setUpClass(cls):
        need("mpiexec.hydra")
        super().setUpClass()
        cls.shell = cls.write("shell", SHELL, 0o755)

    def command(self, ranks):
        return ["mpiexec.hydra", "-n", str(ranks)]

    def two_hosts(self, ranks):
        return ["mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", self.shell, "-hosts",
                "alpha,beta", "-n", str(ranks)]

    def test_agent_fails_at_once(self):
        """The reason for an agent's failure is printed, however soon the job ends."""
        result = self.fails(self.command(1), "finalize",
                            program=(FORBID, "epoll_create1", MANAGED), **self.settings)
        if "no filter of system calls" in result.stderr:
            self.skipTest("no filter of system calls")
        self.assertRegex(result.stderr, "this host's agent: .*epoll_create1")

    def test_time_to_leave(self):
        """A rank that is writing its last output has as much time for that as under aqrun."""
        began = time.monotonic()
        result = self.program(self.command(2), 2, "orphans", AQ_EXIT_TIMEOUT="4s")
        self.assertNotEqual(result.returncode, 0, self.said(result))
        self.assertGreaterEqual(time.monotonic() - began, 3, self.said(result))


class HydraPmi2(Hydra):
    """Not run unless requested: hydra 4.0 sometimes hangs when a rank fails in it."""

    kind = "pmi2"
    settings = {"AQ_BOOT": "pmi2"}

    test_abort = test_one_dies = test_one_does_not_come = test_agent_fails_at_once = None
    test_aqrun_inside = test_alone_on_purpose = test_hidden_manager = test_time_to_leave = None


class HydraPort(Hydra):
    environment_of_manager = ("PMI_PORT", "PMI_ID")

    @classmethod
    def setUpClass(cls):
        try:
            socket.gethostbyname(socket.gethostname())
        except OSError as error:
            raise unittest.SkipTest("hydra names this host, whose name is not known [/etc/hosts]"
                                    ) from error
        super().setUpClass()

    test_hidden_manager = None  # no other variable shows that there is a manager
    test_time_to_leave = None

    def command(self, ranks):
        return ["mpiexec.hydra", "-pmi-port", "-n", str(ranks)]


class OpenMpi(Manager, Case):
    kind = "pmix"
    environment_of_manager = ("PMIX_NAMESPACE", "PMIX_RANK")

    @classmethod
    def setUpClass(cls):
        need("mpirun.openmpi")
        super().setUpClass()
        cls.shell = cls.write("shell", SHELL, 0o755)

    def command(self, ranks):
        return ["mpirun.openmpi", "--mca", "plm_rsh_agent", self.shell, "--oversubscribe", "-np",
                str(ranks)]

    def two_hosts(self, ranks):
        return [*self.command(ranks), "--host", "alpha:2,beta:2"]

    def test_library_missing(self):
        self.fails(self.command(2), "open", AQ_PMIX_LIBRARY="/nowhere/libpmix.so.2",
                   says=["libpmix2", "AQ_PMIX_LIBRARY"])


def free_ports(count):
    """Returns free ports outside the range that the system assigns, from which concurrent tests
    take theirs."""
    given = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    spared = [port for port in range(1024, 65536)
              if not int(given.split()[0]) <= port <= int(given.split()[1])]
    found = []
    while len(found) < count:
        port = random.choice(spared)
        with contextlib.suppress(OSError), socket.socket() as each:
            each.bind(("", port))
            found += [port] if port not in found else []
    return found


class Slurm(Case):
    """A private Slurm with two nodes on this machine, in a folder of its own, shared by all
    classes."""

    daemons = []

    @classmethod
    def setUpClass(cls):
        need("munged", "slurmctld", "slurmd", "srun")
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root can run slurmd")
        if not Slurm.daemons:
            Slurm.start()

    @classmethod
    def start(cls):
        cls.prepare(unittest.addModuleCleanup)
        unittest.addModuleCleanup(cls.end)
        cls.mark = f"SLURM_OF_TEST={uuid.uuid4()}"
        cls.place.chmod(0o711)  # munged's socket must be accessible to all users
        cls.write("key", uuid.uuid4().hex * 8, 0o400)
        cls.configure()
        cls.environment["SLURM_CONF"] = str(cls.place / "slurm.conf")
        cls.daemon("munged", "--foreground", *(f"--{name}={cls.place / file}" for name, file in (
            ("socket", "munge"), ("key-file", "key"), ("pid-file", "munged.pid"),
            ("log-file", "munged.log"), ("seed-file", "seed"))))
        until((cls.place / "munge").is_socket, "munged has not started")
        cls.daemon("slurmctld", "-D")
        for node in (1, 2):
            cls.daemon("slurmd", "-D", "-N", f"n{node}",
                       SLURM_CONF=str(cls.place / f"node{node}/slurm.conf"))
        until(cls.idle, "the nodes of Slurm have not started")

    @classmethod
    def configure(cls):
        control, first, second = free_ports(3)
        here = cls.place
        name = socket.gethostname()
        conf = cls.write("slurm.conf", f"""\
ClusterName=aqueduct
SlurmctldHost={name}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={here}/munge
CredType=cred/munge
SlurmctldPort={control}
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/slurmd.%n.pid
SlurmctldLogFile={here}/slurmctld.log
SlurmdLogFile={here}/slurmd.%n.log
StateSaveLocation={here}/state
SlurmdSpoolDir={here}/spool.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
ReturnToService=2
SwitchType=switch/none
MpiDefault=none
NodeName=n1 NodeHostname={name} NodeAddr=127.0.0.1 Port={first} CPUs=16
NodeName=n2 NodeHostname={name} NodeAddr=127.0.0.1 Port={second} CPUs=16
PartitionName=p Nodes=n1,n2 Default=YES State=UP OverSubscribe=FORCE:64
""")
        (here / "state").mkdir()
        # PMIx uses the same names of sockets on each node.
        for node in (1, 2):
            cls.write(f"node{node}/mpi.conf", f"PMIxCliTmpDirBase={here}/node{node}\n")
            shutil.copy(conf, here / f"node{node}")
        cls.write("mpi.conf", f"PMIxCliTmpDirBase={here}\n")

    @classmethod
    def daemon(cls, *command, **environment):
        name, value = cls.mark.split("=")
        output = cls.write(f"{pathlib.Path(command[0]).name}{len(cls.daemons)}.out", "")
        with open(output, "ab") as file:
            cls.daemons.append(start(
                "KILL", command, env={**cls.environment, **environment, name: value},
                cwd=cls.place, stdout=file, stderr=file))

    @classmethod
    def idle(cls):
        for daemon in cls.daemons:
            if daemon.poll() is not None:
                logs = "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1500:]}"
                                 for path in [*cls.place.glob("*.out"), *cls.place.glob("*.log")])
                raise RuntimeError(f"{daemon.args} has ended:\n{logs}")
        listed = subprocess.run(["sinfo", "--noheader", "--format=%t %D"], env=cls.environment,
                                capture_output=True, text=True, timeout=TIMEOUT, check=False)
        return listed.stdout.split() == ["idle", "2"]

    @classmethod
    def end(cls):
        for daemon in reversed(cls.daemons):
            daemon.terminate()
        for daemon in reversed(cls.daemons):
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(5)
        end_all(cls.mark)  # slurmstepd, or a hanging daemon
        for daemon in cls.daemons:
            daemon.wait(TIMEOUT)

    def command(self, ranks):
        return self.step(ranks, 1)

    def two_hosts(self, ranks):
        return self.step(ranks, 2)

    def step(self, ranks, hosts):
        return ["srun", f"--mpi={self.mpi}", f"--ntasks={ranks}", f"--nodes={hosts}"]

    mpi = "none"

    def test_without_a_way_to_it(self):
        result = self.fails(self.step(2, 2), "open", says=["--mpi=pmi2 or --mpi=pmix"])
        self.assertEqual(result.returncode, 3, self.said(result))
        self.alone(self.step(2, 2), 2, AQ_BOOT="single")
        self.alone(self.step(1, 1), 1)

    def test_commands_of_a_batch_script_are_alone(self):
        script = self.write("script", f'#!/bin/sh\n"{CLIENT}" open\necho "code $?"\n', 0o755)
        output = self.write("batch.out", "")
        result = self.run_job(["sbatch", "--ntasks=4", "--output", output, script])
        self.assertEqual(result.returncode, 0, self.said(result))
        # sbatch --wait polls every 10 s
        until(lambda: "code" in output.read_text(encoding="utf-8"), "the batch job does not end")
        self.assertEqual(output.read_text(encoding="utf-8"), "no manager\ncode 0\n")


class SlurmPmi2(Manager, Slurm):
    kind = mpi = "pmi2"
    aborts_with = None
    environment_of_manager = ("PMI_FD",)

    test_without_a_way_to_it = test_commands_of_a_batch_script_are_alone = None

    def test_the_older_protocol(self):
        self.works(self.step(3, 2), 3, 2, "pmi", AQ_BOOT="pmi")


class SlurmPmix(Manager, Slurm):
    kind = mpi = "pmix"
    aborts_with = None
    environment_of_manager = ("PMIX_NAMESPACE", "PMIX_RANK")

    test_without_a_way_to_it = test_commands_of_a_batch_script_are_alone = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tried = subprocess.run(["srun", "--mpi=pmix", "true"], env=cls.environment,
                               capture_output=True, text=True, timeout=TIMEOUT, check=False)
        if "Invalid MPI type" in tried.stderr:  # no plugin, or no libpmix.so for it
            raise unittest.SkipTest(f"this Slurm has no pmix: {tried.stderr.strip()}")


if __name__ == "__main__":
    PROGRAM = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2, exit=False)
    RESULT = PROGRAM.result
    if not RESULT.wasSuccessful():
        sys.exit(1)
    if RESULT.skipped and not RESULT.testsRun:
        sys.exit(77)
