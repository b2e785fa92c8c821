#!/usr/bin/env python3
"""Draws docs/pictures/aqtop.svg: the screen of a real aqtop that watches a job on two hosts.

Both hosts are this machine, by a replacement for ssh. Colors follow the reader's preference.

usage: screen.py BUILD_DIR OUT.svg     (needs tmux)
"""

import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

COLUMNS, LINES, WIDTH, HEIGHT, MARGIN = 108, 9, 7.2, 18, 14
CODES = re.compile(r"\x1b\[[0-9;]*m")
SHELL = """#!/bin/sh
while :; do case $1 in -o|-F|-p|-i) shift 2;; -*) shift;; *) break;; esac; done
shift
exec sh -c "$*"
"""
STYLE = """.back{fill:#ffffff}.edge{fill:none;stroke:#8b959f}.bar{fill:#1c2128}
text{font:12px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#1c2128}
text{white-space:pre}.on{fill:#ffffff}
@media (prefers-color-scheme:dark){.back{fill:#14181d}.edge{stroke:#6b7683}.bar{fill:#dde3ea}
text{fill:#dde3ea}.on{fill:#14181d}}"""


def watch(build, folder):
    """The lines of the screen, with the marks of tmux, once all ranks are busy."""
    shell, aqtop = folder / "ssh", build / "tools/aqtop/aqtop"
    shell.write_text(SHELL, encoding="utf-8")
    shell.chmod(0o700)
    (folder / "heat").symlink_to(build / "examples/heat")
    tmux = ["tmux", "-L", f"aqueduct-{os.getpid()}", "-f", "/dev/null"]
    with subprocess.Popen(
            [build / "tools/aqrun/aqrun", "--hosts", "n1,n2", "-n", "4", "./heat", "--size",
             "1200x1200", "--steps", "1000000"], cwd=folder, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "AQ_SSH_CMD": str(shell)}) as job:
        limit = time.monotonic() + 30
        try:
            while subprocess.run([aqtop, "-b", "-n", "1", str(job.pid)], check=False,
                                 capture_output=True).returncode != 0:
                if time.monotonic() > limit or job.poll() is not None:
                    sys.exit("screen: the job does not begin")
                time.sleep(0.1)
            subprocess.run([*tmux, "new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES),
                            f"{aqtop} -d 1 {job.pid}"], check=True)
            while time.monotonic() < limit:
                screen = subprocess.run([*tmux, "capture-pane", "-p", "-e"], check=True,
                                        capture_output=True, text=True).stdout
                # The first figures cover the time since the start of the job.
                if len(re.findall(r"^ +[0-3] n[12] +[1-9]", CODES.sub("", screen), re.M)) == 4:
                    time.sleep(3)
                    return subprocess.run([*tmux, "capture-pane", "-p", "-e"], check=True,
                                          capture_output=True, text=True).stdout.splitlines()
                time.sleep(0.1)
            sys.exit(f"screen: no figures in half a minute; the screen: {screen}")
        finally:
            subprocess.run([*tmux, "kill-server"], check=False)
            job.terminate()


def draw(lines):
    width, height = COLUMNS * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
           f'viewBox="0 0 {width:.0f} {height}" role="img">')
    yield f"<title>aqtop watches a job of four ranks on two hosts</title>\n<style>{STYLE}</style>"
    yield f'<rect class="back" width="{width:.0f}" height="{height}" rx="5"/>'
    yield (f'<rect class="edge" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" '
           'rx="5"/>')
    for row, line in enumerate(lines):
        reverse = "\x1b[7m" in line
        text = CODES.sub("", line).rstrip()
        top = MARGIN + row * HEIGHT
        if reverse:
            yield (f'<rect class="bar" x="{MARGIN}" y="{top + 1}" width="{COLUMNS * WIDTH:.0f}" '
                   f'height="{HEIGHT}"/>')
        if text:
            mark = ' class="on"' if reverse else ""
            yield (f'<text x="{MARGIN}" y="{top + 14}"{mark} xml:space="preserve" '
                   f'textLength="{len(text) * WIDTH:.1f}">{html.escape(text)}</text>')
    yield "</svg>\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="aqueduct-screen-") as folder:
        lines = watch(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(folder))
    pathlib.Path(sys.argv[2]).write_text("\n".join(draw(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
