"""Where the programs are, and how tests run them: as users do, without the settings of this
shell."""

import contextlib
import fcntl
import os
import pathlib
import pty
import struct
import subprocess
import sys
import termios
import unittest

BUILD = pathlib.Path(sys.argv[1])
ARGUMENTS = sys.argv[2:]
AQRUN = BUILD / "tools/aqrun/aqrun"
AQINFO = BUILD / "tools/aqinfo/aqinfo"
AQTOP = BUILD / "tools/aqtop/aqtop"
AQPERF = BUILD / "tools/aqperf/aqperf"
EXAMPLES = BUILD / "examples"


def environment(settings):
    """Returns the environment, with AQ_ and GASNET_ variables from `settings` only."""
    ours = {name: value for name, value in os.environ.items()
            if not name.startswith(("AQ_", "GASNET_"))}
    ours.update(settings)
    return ours


def run(*command, **settings):
    """Run a command until it exits."""
    return subprocess.run([os.fspath(part) for part in command], env=environment(settings),
                          timeout=100, capture_output=True, text=True, errors="replace",
                          check=False)


@contextlib.contextmanager
def start(*command, **settings):
    """Start a command to read its output while it runs; it is killed if the test fails."""
    with subprocess.Popen([os.fspath(part) for part in command], env=environment(settings),
                          stdout=subprocess.PIPE, text=True, errors="replace") as program:
        try:
            yield program
        except BaseException:
            program.kill()
            raise


def on_terminal(columns, *command):
    """Run a command whose output is a terminal of this many columns; returns the output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    with subprocess.Popen([os.fspath(part) for part in command], env=environment({}),
                          stdout=theirs) as program, os.fdopen(ours, "rb") as terminal:
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):  # the program has closed the terminal
            while part := terminal.read1():
                text += part
    assert program.returncode == 0, text
    return text.decode().replace("\r\n", "\n")


def job(ranks, *command, **settings):
    """Run a command as a job of this many ranks."""
    return run(AQRUN, "-n", str(ranks), *command, **settings)


class Case(unittest.TestCase):
    """Tests that show the output of a program that has not behaved as expected."""

    def expect(self, result, code):
        said = f"{result.args}\nstdout: {result.stdout}\nstderr: {result.stderr}"
        self.assertEqual(result.returncode, code, said)
        return result


def main():
    unittest.main(argv=sys.argv[:1])
