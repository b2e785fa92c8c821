#!/usr/bin/env python3
"""Draws the results of the simulator: writes OUT.svg, and prints the tables that belong to it.

usage: figures.py BUILD_DIR OUT.svg
"""

import csv
import math
import pathlib
import subprocess
import sys

WIDTH, HEIGHT, LEFT, TOP, PLOT_W, PLOT_H = 360, 320, 58, 62, 280, 190
# Colors that people with any color vision can tell apart (Okabe and Ito), as in aqperf --plot, on a
# white and on a dark background.
COLORS = (("#0072b2", "#3d9fe0"), ("#d55e00", "#f0772b"), ("#009e73", "#2fc89b"),
          ("#cc79a7", "#e29cc4"))
STYLE = (".back{fill:#ffffff}text{fill:#111111}.grid{stroke:#dddddd}"
         ".line{fill:none;stroke:currentColor;stroke-width:2}.tick{font-size:12px;fill:#444444}"
         ".key{font-size:12px;fill:currentColor}.panel{font-size:14px;font-weight:bold}")
DARK = ".back{fill:#14181d}text{fill:#dde3ea}.grid{stroke:#38414b}.tick{fill:#aeb8c3}"
PICTURES = ("GB/s of four flows; ms", "bytes of a peer; peers", "packets per message; peers",
            "answered % after a partition; ms")


def read(build):
    """{picture: {line: [(x, y)]}}"""
    said = subprocess.run([build / "tests/sim/sim", "--figures"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    pictures = {}
    for row in csv.DictReader(said.splitlines()):
        lines = pictures.setdefault(row["picture"], {})
        lines.setdefault(row["line"], []).append((float(row["x"]), float(row["y"])))
    return pictures


def draw(name, lines, left):
    """A panel of the picture. Numbers of peers are on a logarithmic axis."""
    title, unit = name.split("; ")
    log = unit == "peers"
    place = math.log10 if log else float
    points = [point for line in lines.values() for point in line]
    low, high = (place(edge(x for x, _ in points)) for edge in (min, max))
    top = max(y for _, y in points) * 1.1

    def at(x, y):
        across = (place(x) - low) / ((high - low) or 1)
        return left + LEFT + across * PLOT_W, TOP + PLOT_H * (1 - y / top)

    yield f'<text x="{left + LEFT}" y="{TOP - 12}" class="panel">{title}</text>'
    for step in range(5):
        y = top * step / 4
        height = at(points[0][0], y)[1]
        yield f'<path d="M{left + LEFT} {height:.1f}h{PLOT_W}" class="grid"/>'
        yield (f'<text x="{left + LEFT - 6}" y="{height + 4:.1f}" class="tick" '
               f'text-anchor="end">{y:.3g}</text>')
    marks = [10 ** e for e in range(round(low), round(high) + 1)] if log else \
        [low + (high - low) * part / 4 for part in range(5)]
    for mark in marks:
        yield (f'<text x="{at(mark, 0)[0]:.1f}" y="{TOP + PLOT_H + 18}" class="tick" '
               f'text-anchor="middle">{mark:g}</text>')
    yield (f'<text x="{left + LEFT + PLOT_W / 2}" y="{TOP + PLOT_H + 36}" class="tick" '
           f'text-anchor="middle">{unit}</text>')
    for i, (line, values) in enumerate(lines.items()):
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in (at(*value) for value in values))
        yield f'<path d="M{path}" class="line c{i % 4}"/>'
        x, y = left + LEFT + 140 * (i % 2), TOP + PLOT_H + 54 + 16 * (i // 2)
        yield f'<text x="{x}" y="{y}" class="key c{i % 4}">{line}</text>'


def style():
    """Colors follow the reader's preference, even if a page embeds the picture."""
    light, dark = ("".join(f".c{i}{{color:{colors[way]}}}" for i, colors in enumerate(COLORS))
                   for way in (0, 1))
    return (f"<style>{STYLE}{light}\n@media (prefers-color-scheme:dark){{{DARK}{dark}"
            "}</style>")


def main():
    pictures = read(pathlib.Path(sys.argv[1]))
    width = WIDTH * 2
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{2 * HEIGHT + 20}" '
           f'viewBox="0 0 {width} {2 * HEIGHT + 20}" font-family="Helvetica, Arial, sans-serif">',
           style(), '<rect width="100%" height="100%" class="back"/>']
    for i, name in enumerate(PICTURES):
        out.append(f'<g transform="translate(0 {i // 2 * HEIGHT})">')
        out += draw(name, pictures[name], i % 2 * WIDTH)
        out.append("</g>")
    pathlib.Path(sys.argv[2]).write_text("\n".join(out + ["</svg>", ""]), encoding="utf-8")
    print("| peers | bytes per peer, unused / connected | packets per message | "
          "Jain's index | M requests/s |\n|---|---|---|---|---|")
    columns = [pictures["bytes of a peer; peers"]["never talked to"],
               pictures["bytes of a peer; peers"]["connected"],
               pictures["packets per message; peers"]["request or reply"],
               pictures["Jain's index; peers"]["requests"],
               pictures["M requests/s; peers"]["requests"]]
    for (n, silent), (_, up), (_, packets), (_, jain), (_, rate) in zip(*columns):
        print(f"| {n:.0f} | {silent:.0f} / {up:.0f} | {packets:.2f} | {jain:.2f} | {rate:.2f} |")
    print("\n| 10,000 peers after a partition | 99 of 100 answered | all |\n|---|---|---|")
    for line, values in pictures["answered % after a partition; ms"].items():
        print(f"| {line[6:]} | {next(x for x, y in values if y >= 99):.0f} ms | "
              f"{values[-1][0]:.0f} ms |")


if __name__ == "__main__":
    main()
