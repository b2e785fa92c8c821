#!/usr/bin/env python3
"""Output of failing programs: messages, backtraces of each kind, verbose settings, freezing.

usage: debug.py AQRUN PROGRAM
"""

import os
import subprocess
import sys
import threading

FRAMES = "gasnet_debug"  # occurs in the frames of the program's own functions
OWN = "the client's own trace"
PAGE = 4096


def pages(part):
    """Returns the bytes of this share of the host's memory, in whole pages."""
    return int(part * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) // PAGE * PAGE


# The kind of failure, settings, the exit code (None: not 0), texts that must occur, and texts that
# must not.
CASES = (
    ("none", {}, 0, (), ("ENV parameter", "FATAL", FRAMES)),
    ("none", {"GASNET_VERBOSEENV": "1"}, 0, ("ENV parameter: DEBUG_NUMBER = 7   (default)",), ()),
    ("none", {"GASNET_VERBOSEENV": "1", "DEBUG_NUMBER": "12"}, 0,
     ("ENV parameter: DEBUG_NUMBER = 12\n",), ()),
    ("fatal", {}, None, ("FATAL ERROR (proc 1", "in main at ", "told to, number 5"), (OWN,)),
    ("fatal", {"GASNET_BACKTRACE": "1", "GASNET_BACKTRACE_TYPE": "OWN"}, None, (OWN,), ()),
    ("fatal", {"AQ_STATS": "yes"}, None, ("told to, number 5", "rank 1: barrier 2 "),
     ("Caught a fatal signal",)),
    ("fatal", {"AQ_STATS": "yes", "GASNET_NO_CATCH_SIGNAL": "*"}, None,
     ("rank 1: barrier 2 ",), ()),
    ("signal", {"AQ_STATS": "yes"}, None, ("Caught a fatal signal: SIGSYS", "rank 1: barrier 2 "),
     ()),
    ("signal", {}, None, ("Caught a fatal signal: SIGSYS",), (OWN,)),
    ("signal", {"GASNET_BACKTRACE": "1", "GASNET_BACKTRACE_TYPE": "OWN"}, None,
     ("Caught a fatal signal: SIGSYS", OWN), ()),
    ("signal", {"GASNET_BACKTRACE": "1", "GASNET_BACKTRACE_TYPE": "NOTHING,EXECINFO"}, None,
     (FRAMES,), (OWN,)),
    ("signal", {"GASNET_BACKTRACE": "1", "GASNET_BACKTRACE_TYPE": "OWN",
                "GASNET_BACKTRACE_NODES": "0"}, None, ("Caught a fatal signal",), (OWN,)),
    ("signal", {"GASNET_BACKTRACE": "1", "GASNET_BACKTRACE_TYPE": "OWN",
                "GASNET_BACKTRACE_NODES": "3,1-2"}, None, (OWN,), ()),
    ("misuse", {"GASNET_BACKTRACE": "1", "GASNET_BACKTRACE_TYPE": "OWN"}, None,
     ("gex_RMA_PutBlocking", OWN), ()),
    ("asked", {"GASNET_BACKTRACE_SIGNAL": "SIGUSR2", "GASNET_BACKTRACE_TYPE": "OWN"}, 0,
     (OWN,), ()),
    ("none", {"GASNET_VERBOSEENV": "1", "GASNET_MAX_SEGSIZE": "64MB/P"}, 0,
     ("ENV parameter: GASNET_MAX_SEGSIZE = 64MB/P\n",
      "ENV parameter: GASNET_EXITTIMEOUT = 2s   (default)"), ()),
    ("none", {"GASNET_VERBOSEENV": "1", "GASNET_OP_OUST_PP": "32", "GASNET_USE_UDREG": "0",
              "AQ_IBV_SPARES": "5"}, 0,
     ("GASNET_MAX_SEGSIZE = 0.85/H   (default)\n", "GASNET_NETWORKDEPTH_PP = 32\n",
      "GASNET_OP_OUST_PP = 32\n", "GASNET_AM_SPARES = 5\n", "GASNET_USE_UDREG = 0\n",
      "GASNET_USE_FIREHOSE = 0\n", "GASNET_PHYSMEM_NOPROBE = 1   (default)\n",
      "GASNET_BARRIER = DISSEM   (default)\n", "GASNET_VAPI_PORTS =    (default)\n",
      "GASNET_HCA_ID =    (default)\n", "GASNET_PORT_NUM = 0   (default)\n",
      "MPIRUN_CMD =    (default)\n", "PMIRUN_CMD =    (default)\n",
      "GASNET_VAPI_SPAWNER = *not set*   (default)\n"), ()),
    ("none", {"GASNET_RCV_THREAD": "perhaps"}, None,
     ("GASNET_RCV_THREAD=\"perhaps\" is not valid",), ("aq_exit",)),
    ("none", {"GASNET_MAX_THREADS": "few"}, None, ("GASNET_MAX_THREADS is \"few\"",), ()),
    ("none", {"GASNET_COLL_SCRATCH_SIZE": "8Q"}, None,
     ("GASNET_COLL_SCRATCH_SIZE is \"8Q\"",), ()),
    ("none", {"GASNET_PHYSMEM_MAX": "much"}, None,
     ("GASNET_PHYSMEM_MAX=\"much\" is not valid",), ()),
    ("none", {"GASNET_SUPERNODE_MAXSIZE": "x"}, None, ("GASNET_SUPERNODE_MAXSIZE=\"x\"",), ()),
    ("none", {"GASNET_DOMAIN_COUNT": "17", "GASNET_NUM_QPS": "9", "GASNET_BBUF_COUNT": "0",
              "GASNET_NETWORKDEPTH_SPACE": "64M", "GASNET_VERBOSENV": "1"}, 0,
     ("GASNET_DOMAIN_COUNT=17 is not supported (valid: 1 to 8): using 8\n",
      "GASNET_NUM_QPS=9 is", "GASNET_NETWORKDEPTH_SPACE=64M is",
      "GASNET_VERBOSENV is not a setting and is ignored: did you mean GASNET_VERBOSEENV?"),
     ("aq[1]", "BBUF")),
    ("limit", {"GASNET_MAX_SEGSIZE": "64MB"}, 0, (f"at most {64 << 20} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "0.125 gb/p"}, 0, (f"at most {128 << 20} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "64M/H"}, 0, (f"at most {32 << 20} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "1000"}, 0, ("at most 4096 bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "0.25/P"}, 0, (f"at most {pages(0.25)} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "0.25"}, 0, (f"at most {pages(0.25)} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "25%"}, 0, (f"at most {pages(0.25)} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "85%/P"}, 0, (f"at most {pages(0.5)} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "0.85"}, 0, (f"at most {pages(0.5)} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "100%/H"}, 0, (f"at most {pages(0.5)} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": ".5/H"}, 0, (f"at most {pages(0.25)} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "1TB"}, 0, (f"at most {pages(0.5)} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "50000GB/P"}, 0, (f"at most {pages(0.5)} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "50000GB/H"}, 0, (f"at most {pages(0.5)} bytes",), ()),
    ("limit", {}, 0, (f"at most {pages(0.425)} bytes",), ()),
    ("limit", {"AQ_MAX_SEGMENT": "5M", "GASNET_MAX_SEGSIZE": "64MB"}, 0,
     (f"at most {5 << 20} bytes",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "much"}, None,
     ("GASNET_MAX_SEGSIZE=\"much\" is not valid: give a size such as",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "64M/X"}, None, ("GASNET_MAX_SEGSIZE=\"64M/X\"",), ()),
    ("limit", {"GASNET_MAX_SEGSIZE": "0"}, None, ("GASNET_MAX_SEGSIZE=\"0\"",), ()),
    ("no-handler", {}, None, ("handler 199, which is not registered with endpoint 0 here: call "
                              "gex_EP_RegisterHandlers in every process, then a barrier",),
     ("aq_am_register",)),
    ("no-endpoint", {}, None, ("endpoint 3, which does not exist here: call gex_EP_Create with "
                               "GEX_EP_CAPABILITY_AM in",), ("aq_ep_create",)),
    ("strange-image", {}, None, ("gasnet_coll_init: image 9 does not belong to process",), ()),
    ("no-image", {}, None, ("gasnet_coll_init: process 1 has no image",), ()),
    ("no-root", {}, None, ("image 4 is the root, but the team has images 0 to 3",), ()),
    ("none", {"GASNET_BACKTRACE": "perhaps"}, None, ("GASNET_BACKTRACE is \"perhaps\"",), ()),
)


def attempt(command, how, settings, code, said, unsaid):
    result = subprocess.run([*command, how], env={**os.environ, **settings}, text=True,
                            capture_output=True, check=False, timeout=60)
    output = result.stdout + result.stderr
    right = (result.returncode == code or (code is None and result.returncode != 0)) and \
        all(text in output for text in said) and not any(text in output for text in unsaid)
    if not right:
        print(f"{how} with {settings}: exit code {result.returncode}, output:\n{output}")
    return right


def check_freeze(command):
    """With GASNET_FREEZE, both processes print instructions at the start and wait; then they are
    killed."""
    job = subprocess.Popen([*command, "none"], env={**os.environ, "GASNET_FREEZE": "1"}, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines, frozen = [], 0
    deadline = threading.Timer(60, job.terminate)
    deadline.start()
    while frozen < 2 and (line := job.stdout.readline()):
        lines.append(line)
        frozen += line == "  set var gasnet_frozen = 0\n"
    waiting = job.poll() is None
    deadline.cancel()
    job.terminate()
    job.communicate(timeout=60)
    if frozen != 2 or not waiting:
        print(f"GASNET_FREEZE: {frozen} of 2 processes froze:\n{''.join(lines)}")
    return frozen == 2 and waiting


def main():
    command = [sys.argv[1], "-n", "2", sys.argv[2]]
    failed = sum(not attempt(command, *case) for case in CASES) + (not check_freeze(command))
    if failed:
        sys.exit(f"{failed} of {len(CASES) + 1} cases are wrong")
    print(f"{len(CASES) + 1} cases")


if __name__ == "__main__":
    main()
