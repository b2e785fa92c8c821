#!/usr/bin/env python3
"""MPI programs over the provider for libfabric, with Debian's Open MPI.

usage: mpi.py PROVIDERS SOURCE CASE    (PROVIDERS: the folder of libaqueduct-fi.so)
"""

import glob
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

COMPILER, LAUNCHER, PYTHON = "mpicc.openmpi", "mpirun.openmpi", "/usr/bin/python3"
LOSS = {"AQ_UDP_LOSSY": "loss=10,dup=5,reorder=5"}
OBJECTS = """
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
after, before = (rank + 1) % size, (rank - 1) % size
all_of_them = world.allgather({"rank": rank, "list": list(range(rank * 1000))})
assert [each["rank"] for each in all_of_them] == list(range(size))
assert len(all_of_them[-1]["list"]) == (size - 1) * 1000
assert world.sendrecv(("text", rank, b"x" * 100000), dest=after, source=before)[1] == before
requests = [world.isend([rank, tag], dest=after, tag=tag) for tag in range(50)]
for tag in reversed(range(50)):
    assert world.recv(source=before, tag=tag) == [before, tag]
MPI.Request.waitall(requests)
if rank == 0:
    print(f"{size} ranks: all right")
"""


def skip(reason, packages="all"):
    print(f"skipped: {reason} [.ci/install-deps.sh {packages}]")
    sys.exit(77)


def need(program):
    if shutil.which(program) is None:
        skip(f"{program} is not installed", "ci")


def memory():
    """Available memory in bytes."""
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


class Runs:
    """mpirun, in a folder of its own."""

    def __init__(self, providers, folder):
        self.providers, self.folder = providers, folder

    def run(self, ranks, transport, command, settings=None, over=True, around=(), options=()):
        """Returns the output of a job, over the provider or over Open MPI's own transports.

        `around` is a command that starts it; `options` are more options of mpirun.
        """
        settings = dict(settings or {}, FI_PROVIDER_PATH=self.providers,
                        AQ_TRANSPORTS=f"loop,{transport}")
        choice = ["--mca", "pml", "cm", "--mca", "mtl", "ofi",
                  "--mca", "mtl_ofi_provider_include", "aqueduct"] if over else []
        passed = [option for name in settings for option in ("-x", name)]
        choice += ["--mca", "btl_vader_backing_directory", self.folder]  # not in /dev/shm
        job = [*around, LAUNCHER, "--allow-run-as-root", "--oversubscribe", *choice, *options,
               *passed, "-np", str(ranks), *command]
        done = subprocess.run(job, env=dict(os.environ, TMPDIR=self.folder, **settings),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              cwd=self.folder, check=False)
        if done.returncode != 0:
            print(done.stdout)
            sys.exit(f"mpi.py: {LAUNCHER} ended with {done.returncode}")
        return done.stdout

    def expect(self, pattern, *arguments, times=1, **options):
        said = self.run(*arguments, **options)
        print(said)
        if len(re.findall(pattern, said)) != times:
            sys.exit(f"mpi.py: the output does not contain {pattern}, {times} times")


def own_program(runs, source, ranks, transport, settings=None, arguments=(), options=(),
                over=True):
    """The program mpi.c, which checks what it receives."""
    if "large" in arguments and memory() < 6 << 30:
        print("skipped: less than 6 GB of memory are available")
        sys.exit(77)
    program = f"{runs.folder}/mpi"
    subprocess.run([COMPILER, "-O2", "-o", program, source], check=True)
    runs.expect(f"{ranks} ranks: all right", ranks, transport, [program, *arguments],
                settings=settings, options=options, over=over)


# Windows by puts, gets and atomics of the provider, with two-sided messages beside them.
OSC_RDMA = ["--mca", "pml", "ob1", "--mca", "btl", "ofi,self", "--mca", "btl_ofi_mode", "2",
            "--mca", "btl_ofi_provider_include", "aqueduct", "--mca", "osc", "rdma"]


def one_sided(runs, source, transport):
    """Windows by messages (osc/pt2pt, before Open MPI 5), and by puts, gets and atomics (osc/rdma)
    with two-sided messages beside them."""
    components = subprocess.run(["ompi_info"], stdout=subprocess.PIPE, text=True, check=True).stdout
    if "MCA osc: pt2pt" in components:
        own_program(runs, source, 3, transport, None, ["one-sided"], ["--mca", "osc", "pt2pt"])
    own_program(runs, source, 3, transport, None, ["one-sided"], OSC_RDMA, over=False)


def build(runs, source, name):
    """Compile a program that uses Aqueduct."""
    library = pathlib.Path(runs.providers).parents[2]
    tree = pathlib.Path(source).resolve().parents[2]
    program = f"{runs.folder}/{pathlib.Path(name).stem}"
    subprocess.run([COMPILER, "-O2", f"-I{tree}/include", "-o", program, tree / name,
                    f"-L{library}", f"-Wl,-rpath,{library}", "-laqueduct"], check=True)
    return program


def both(runs, source, transport):
    """An MPI program that uses Aqueduct's own interface, too."""
    runs.expect("3 ranks: all right", 3, transport, [build(runs, source, "tests/fi/both.c")])


def nested(runs, source):
    """Jobs of aqrun inside the processes of mpirun, and jobs of mpirun inside the ranks of
    aqrun."""
    aqrun = [pathlib.Path(runs.providers).parents[3] / "tools/aqrun/aqrun", "-n", "2"]
    mpi = f"{runs.folder}/mpi"
    subprocess.run([COMPILER, "-O2", "-o", mpi, source], check=True)
    runs.expect("hello from rank [01] of 2", 2, "shm",
                [*aqrun, build(runs, source, "examples/hello.c")], times=4)
    # Two concurrent mpirun sometimes fail when both create the same folder.
    each = [*aqrun, "sh", "-c", 'TMPDIR=$TMPDIR/$AQ_RANK; mkdir -p "$TMPDIR"; exec "$@"', "sh"]
    runs.expect("2 ranks: all right", 2, "shm", [mpi], around=each, times=2)
    # A program that uses Aqueduct itself must join the inner job, not the outer one.
    runs.expect("2 ranks: all right", 2, "shm", [build(runs, source, "tests/fi/both.c")],
                around=[*each, "env", "-u", "AQ_BOOT_FD"], times=2)


def objects(runs, transport):
    """Python objects, by mpi4py."""
    if subprocess.run([PYTHON, "-c", "import mpi4py"], capture_output=True,
                      check=False).returncode != 0:
        skip("python3-mpi4py is not installed", "ci")
    runs.expect("3 ranks: all right", 3, transport, [PYTHON, "-c", OBJECTS])


def netpipe(runs, transport):
    """Ping-pong of all sizes, with all bytes checked."""
    need("NPopenmpi")
    said = runs.run(2, transport, ["NPopenmpi", "-i", "-u", "300000"])
    print(said)
    if "Integrity check passed" not in said or "failed" in said.lower():
        sys.exit("mpi.py: the integrity check of NetPIPE failed")


def hpcc(runs, transport):
    """The HPC Challenge benchmarks, which verify their results."""
    need("hpcc")
    sample = pathlib.Path("/usr/share/doc/hpcc/examples/_hpccinf.txt").read_text(encoding="utf-8")
    text = re.sub(r"^1000(\s+Ns)", r"300\1", sample, flags=re.MULTILINE)
    pathlib.Path(runs.folder, "hpccinf.txt").write_text(text, encoding="utf-8")
    runs.run(4, transport, ["hpcc"])
    result = pathlib.Path(runs.folder, "hpccoutf.txt").read_text(encoding="utf-8")
    if "Success=1" not in result or "PASSED" not in result or "FAILED" in result:
        print(result)
        sys.exit("mpi.py: hpcc reports wrong results")


def scalapack(runs, transport):
    """Linear systems, by a test of ScaLAPACK that checks residuals."""
    found = glob.glob("/usr/lib/*/scalapack/openmpi-tests")
    if not found:
        skip("scalapack-mpi-test is not installed", "ci")
    shutil.copy("/usr/share/scalapack/LU.dat", runs.folder)
    runs.expect(r"Finished +(\d+) tests.*\n +\1 tests completed and passed", 4, transport,
                [f"{found[0]}/xslu"])


def coarrays(runs, transport):
    """Coarrays of Fortran, which are windows, by tests of OpenCoarrays."""
    found = glob.glob("/usr/lib/*/open-coarrays/openmpi/bin/OpenCoarrays-*-tests")
    if not found:
        skip("libcoarrays-openmpi-dev is not installed", "ci")
    for program in ("atomics", "strided_sendget", "teams_coarray_sendget"):
        runs.expect("Test passed", 4, transport, [f"{found[0]}/{program}"], options=OSC_RDMA,
                    over=False)


def lammps(runs, transport):
    """A simulation computes the same numbers as over Open MPI's own transports."""
    need("lmp")
    found = glob.glob("/usr/share/lammps/examples/melt/in.melt*")
    if not found:
        skip("lammps-examples is not installed", "ci")
    bytes_of = pathlib.Path(found[0]).read_bytes()
    text = gzip.decompress(bytes_of) if found[0].endswith(".gz") else bytes_of
    pathlib.Path(runs.folder, "in.melt").write_bytes(text)
    tables = []
    for over in (False, True):
        said = runs.run(4, transport, ["lmp", "-in", "in.melt", "-log", "none"], over=over)
        tables.append(re.search(r"^Step .*?^(?=Loop)", said, re.MULTILINE | re.DOTALL).group(0))
    if tables[0] != tables[1]:
        print(*tables)
        sys.exit("mpi.py: the numbers of LAMMPS differ")


def main():
    providers, source, case = sys.argv[1:]
    for program in (COMPILER, LAUNCHER):
        if shutil.which(program) is None:
            skip(f"{program} is not installed")
    cases = {
        "shm.2": lambda runs: own_program(runs, source, 2, "shm"),
        "shm.8": lambda runs: own_program(runs, source, 8, "shm"),
        "udp.2": lambda runs: own_program(runs, source, 2, "udp"),
        "udp.4": lambda runs: own_program(runs, source, 4, "udp"),
        "udp.loss": lambda runs: own_program(runs, source, 3, "udp", LOSS),
        "nested": lambda runs: nested(runs, source),
        "shm.large": lambda runs: own_program(runs, source, 2, "shm", None, ["large"]),
        "udp.large": lambda runs: own_program(runs, source, 2, "udp", None, ["large"]),
    }
    for transport in ("shm", "udp"):
        cases[f"{transport}.osc"] = \
            lambda runs, transport=transport: one_sided(runs, source, transport)
        cases[f"{transport}.both"] = \
            lambda runs, transport=transport: both(runs, source, transport)
        for test in (objects, netpipe, hpcc, lammps, scalapack, coarrays):
            cases[f"{transport}.{test.__name__}"] = \
                lambda runs, test=test, transport=transport: test(runs, transport)
    with tempfile.TemporaryDirectory() as folder:
        cases[case](Runs(providers, folder))


if __name__ == "__main__":
    main()
