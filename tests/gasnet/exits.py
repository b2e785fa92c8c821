#!/usr/bin/env python3
"""How jobs end, as seen from outside: each case of exits.c with several numbers of processes.

usage: exits.py AQRUN PROGRAM_SEQ PROGRAM_PAR [ranks=N] [some] [late-signals]

With ranks=N, only this number of processes; with "some", only one case of each kind of end. With
late-signals, the programs handle signals only when they make a system call, as under the thread
sanitizer, so ranks that spin handle none, and none interrupts the handler of another.
"""

import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import time

CODE = 42
# Case -> (valid exit codes, numbers of ranks to run it with, a line that must be printed).
ALONE = (0, 1, 2, 4)
SEVERAL = (2, 4)
# With this timeout, a process that wrongly waits for ranks that just poll or wait would hang.
LONG_TIMEOUT = {"AQ_EXIT_TIMEOUT": "1000s"}
# Cases of exits.c: a signal without and with a handler of SIGQUIT.
SIGNAL, SIGNAL_HANDLED = 100, 200
FATAL = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGSYS)
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXCPU)
ENVIRONMENT = {45: {"GASNET_CATCH_EXIT": "0", "AQ_EXIT_TIMEOUT": "100ms"},
               24: {**LONG_TIMEOUT, "GASNET_RCV_THREAD": "1"},
               37: {"AQ_TRACE": "job"},
               **{case: LONG_TIMEOUT for case in (20, 21, 23, 25, 51, 61, 62)}}
# A second exit code in the same process changes nothing: each process ends with the first.
FIRST = (80, 81, 82, 83)
SEQ_CASES = {
    10: ((CODE,), ALONE, None),
    11: ((CODE,), ALONE, "exits"),
    20: ((CODE,), SEVERAL, None),
    21: ((CODE,), SEVERAL, "exits"),
    23: ((CODE,), ALONE, "exits"),
    24: ((CODE,), ALONE, "exits"),
    25: ((CODE,), ALONE, "exits"),
    27: ((CODE,), ALONE, "exits"),
    29: ((CODE,), SEVERAL, "rank 0 spins"),
    31: ((139, -11), ALONE, "Caught a fatal signal: SIGSEGV(11)"),
    32: ((134, -6), ALONE, "on purpose"),
    35: ((CODE,), SEVERAL, "heard SIGQUIT"),
    36: ((CODE,), SEVERAL, "heard SIGQUIT"),
    37: ((CODE,), SEVERAL, "heard SIGQUIT"),
    40: ((CODE,), ALONE, None),
    41: ((CODE,), ALONE, None),
    45: ((CODE,), SEVERAL, "stayed"),
    50: ((CODE,), ALONE, "exits"),
    51: ((CODE,), ALONE, "exits"),
    52: ((CODE,), ALONE, "exits"),
    61: ((CODE,), ALONE, "exits"),
    62: ((CODE,), ALONE, "exits"),
    **{case: ((CODE,), (2,), None) for case in FIRST},
    **{SIGNAL + number: ((128 + number, -number), ALONE, "wrote this") for number in FATAL},
    **{SIGNAL + number: ((1,), ALONE, "wrote this") for number in ENDING},
    **{SIGNAL_HANDLED + number: ((CODE,), ALONE, "heard SIGQUIT") for number in ENDING},
}
# All ranks together; one alone, while others wait or compute; by a signal; in a signal handler; in
# PAR.
SOME = (10, 11, 21, 29, 31, 35, 45, SIGNAL + signal.SIGABRT, SIGNAL + signal.SIGTERM,
        SIGNAL_HANDLED + signal.SIGTERM, 71, 80)
DEAF = (29, 36, 37, *(SIGNAL_HANDLED + number for number in ENDING))
PAR_CASES = {
    10: ((CODE,), (2,), None),
    21: ((CODE,), (2,), "exits"),
    52: ((CODE,), (2,), "exits"),
    70: ((CODE,), ALONE, None),
    71: ((CODE,), SEVERAL, None),
    72: ((CODE,), ALONE, None),
    73: ((CODE,), ALONE, None),
    74: ((CODE,), ALONE, None),
}


def run(aqrun, program, case, ranks):
    """Returns a description of the failure of this case, or None."""
    codes, _, line = case[1]
    command = [program, str(case[0])]
    if case[0] in FIRST:
        command = ["sh", "-c", '"$@"; echo "ends with $?"', "sh", *command]
    if ranks:
        command = [aqrun, "-n", str(ranks), *command]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, timeout=100, check=False,
                              env={**os.environ, **ENVIRONMENT.get(case[0], {})})
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode not in codes:
        return f"exit code {done.returncode}, not one of {codes}:\n{done.stdout}"
    if line is not None and line not in done.stdout:
        return f"does not say \"{line}\":\n{done.stdout}"
    if case[0] in FIRST and re.findall(r"ends with (\d+)", done.stdout) != [str(CODE)] * ranks:
        return f"the processes end with other codes:\n{done.stdout}"
    fatal = case[0] in (31, 32) or case[0] - SIGNAL in FATAL
    for word in ("ERROR", "fatal signal"):
        if word in done.stdout and not fatal:
            return f"says \"{word}\":\n{done.stdout}"
    return None


def run_unread(aqrun, program):
    """The output is left unread for longer than half of AQ_EXIT_TIMEOUT (2 s by default), which is
    the limit for writing it, so this test has to wait. Afterwards, all of the output must
    arrive."""
    with subprocess.Popen([aqrun, "-n", "2", program, "33"], stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**os.environ, "GASNET_EXITTIMEOUT": "60"}) as job:
        first = job.stdout.read(1)  # the rank is writing
        time.sleep(1.2)
        lines = (first + job.stdout.read()).count("much")
    if (lines, job.returncode) != (8192, 139):
        return f"writes {lines} lines and ends with {job.returncode}"
    return None


def main():
    aqrun, seq, par = sys.argv[1:4]
    deaf = DEAF if "late-signals" in sys.argv[4:] else ()
    if "unknown-codes" in sys.argv[4:]:  # the library does not see the code that main returns
        deaf += (81,)
    some = "some" in sys.argv[4:]
    only = [int(word[6:]) for word in sys.argv[4:] if word.startswith("ranks=")]
    jobs = [(program, case, ranks) for program, cases in ((seq, SEQ_CASES), (par, PAR_CASES))
            for case in cases.items() if case[0] not in deaf for ranks in case[1][1]
            if (not only or ranks in only) and (not some or case[0] in SOME)]
    # Most of them spend their time waiting for ranks that will not arrive.
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        unread = pool.submit(run_unread, aqrun, seq)
        findings = list(pool.map(lambda job: run(aqrun, *job), jobs))
    jobs.append((seq, (33,), 2))
    findings.append(unread.result())
    wrong = 0
    for (_, case, ranks), finding in zip(jobs, findings):
        if finding:
            wrong += 1
            print(f"case {case[0]} with {ranks} ranks {finding}")
    if wrong:
        sys.exit(f"{wrong} of {len(jobs)} cases are wrong")
    print(f"{len(jobs)} cases ended as they should")


if __name__ == "__main__":
    main()
