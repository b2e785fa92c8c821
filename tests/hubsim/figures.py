#!/usr/bin/env python3
"""The table of large jobs in docs/measurements.md, from counts of the simulator.

usage: figures.py BUILD_DIR
"""

import csv
import pathlib
import subprocess
import sys


def main():
    program = pathlib.Path(sys.argv[1]) / "tests/hubsim/hubsim"
    said = subprocess.run([program, "--figures"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    print("| hosts, ranks | depth of the tree | rounds: start and first table, table, agreement, "
          "exit | messages to the root / to another agent at most | MB to and from the root | s of "
          "one processor for all |\n|---|---|---|---|---|---|")
    for row in csv.DictReader(said.splitlines()):
        in_mb, out_mb = (int(row[name]) / 1e6 for name in ("root_in", "root_out"))
        rounds = ", ".join(row[name] for name in ("start", "table", "agreement", "exit"))
        print(f"| {row['agents']}, {row['ranks']} | {row['depth']} | {rounds} | "
              f"{row['root_frames']} / {row['agent_frames']} | {in_mb:.0f} / {out_mb:.0f} | "
              f"{row['seconds']} |")


if __name__ == "__main__":
    main()
