#!/usr/bin/env python3
"""MPI programs over the provider for libfabric, with Debian's Open MPI.

usage: mpi.py PROVIDERS SOURCE CASE    (PROVIDERS: the folder of libaqueduct-fi.so)
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

COMPILER, LAUNCHER = "mpicc.openmpi", "mpirun.openmpi"
CASES = {  # ranks, transport, further environment, arguments
    "shm.2": (2, "shm", {}, []),
    "shm.8": (8, "shm", {}, []),
    "udp.2": (2, "udp", {}, []),
    "udp.4": (4, "udp", {}, []),
    "udp.loss": (3, "udp", {"AQ_UDP_LOSSY": "loss=10,dup=5,reorder=5"}, []),
    "shm.large": (2, "shm", {}, ["large"]),
    "udp.large": (2, "udp", {}, ["large"]),
}


def skip(reason):
    print(f"skipped: {reason} [.ci/install-deps.sh all]")
    sys.exit(77)


def memory():
    """Available memory in bytes."""
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def main():
    providers, source, case = sys.argv[1:]
    ranks, transport, settings, arguments = CASES[case]
    for program in (COMPILER, LAUNCHER):
        if shutil.which(program) is None:
            skip(f"{program} is not installed")
    if arguments and memory() < 6 << 30:
        skip("less than 6 GB of memory are available")
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/mpi"
        subprocess.run([COMPILER, "-O2", "-o", program, source], check=True)
        environment = dict(os.environ, FI_PROVIDER_PATH=providers, TMPDIR=folder,
                           AQ_TRANSPORTS=f"loop,{transport}", **settings)
        passed = [option for name in ("FI_PROVIDER_PATH", "AQ_TRANSPORTS", *settings)
                  for option in ("-x", name)]
        command = [LAUNCHER, "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "cm",
                   "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "aqueduct",
                   *passed, "-np", str(ranks), program, *arguments]
        run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True,
                             check=False)
        print(run.stdout, end="")
        if run.returncode != 0 or f"{ranks} ranks: all right" not in run.stdout:
            sys.exit(f"mpi.py: {case}: {LAUNCHER} ended with {run.returncode}")


if __name__ == "__main__":
    main()
