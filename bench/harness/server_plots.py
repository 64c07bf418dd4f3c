# SPDX-License-Identifier: MIT
"""Draws memory over time of a program that bench/servers.py measured, under each allocator.

    PYTHONPATH=bench:scripts python3 -m harness.server_plots build/servers

One SVG beside each JSON. The site draws those of bench/results. Needs Python alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from .svg import COLOURS, style

SUBJECT, BACKGROUND = "poolshim", "background"  # the same with its thread
COLOUR_OF_OTHERS = "#1f2328"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 384, 264, 44, 12, 74, 34
LEGEND_COLUMNS, LEGEND_LINE = 3, 15
TICKS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000)

Content = dict[str, Any]
Scale = Callable[[float], float]


def step(high: float, count: int) -> int:
    """Between two lines of the grid: so many at most."""
    return next((tick for tick in TICKS if high / tick <= count), TICKS[-1])


def typical_end(content: Content, name: str) -> float:
    """Seconds at which the load of the shown run ended: the run whose mean is the median."""
    runs = sorted((run for run in content["runs"] if run["allocator"] == name),
                  key=lambda run: run["mean"])  # fmt: skip
    return float(runs[(len(runs) - 1) // 2]["ended_ms"]) / 1000


def grid(long: float, high: float, x: Scale, y: Scale) -> Iterator[str]:
    """Lines for memory, numbers for both, what they are."""
    for mib in range(0, int(high) + 1, step(high, 5)):
        yield (f'<line x1="{LEFT}" y1="{y(mib):.1f}" x2="{WIDTH - RIGHT}" y2="{y(mib):.1f}" '
               f'stroke="#d0d7de"/>')  # fmt: skip
        yield f'<text x="{LEFT - 5}" y="{y(mib) + 4:.1f}" text-anchor="end">{mib}</text>'
    for second in range(0, int(long) + 1, step(long, 8)):
        yield (f'<text x="{x(second):.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">'
               f"{second}</text>")  # fmt: skip
    yield (f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">seconds; '
           f"the dot: the load has ended</text>")  # fmt: skip
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield (f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">'
           f"resident MiB</text>")  # fmt: skip


def curves(content: Content, x: Scale, y: Scale) -> Iterator[str]:
    """One for each allocator, with its dot and its place in the legend."""
    for number, (name, curve) in enumerate(content["curves"].items()):
        colour = COLOURS.get(SUBJECT if name == BACKGROUND else name, COLOUR_OF_OTHERS)
        wide = 2.5 if name == SUBJECT else 1.5
        dashes = ' stroke-dasharray="5 3"' if name == BACKGROUND else ""
        line = f'stroke="{colour}" stroke-width="{wide}"{dashes}'
        points = " ".join(f"{x(at / 1000):.1f},{y(kib / 1024):.1f}" for at, kib in curve)
        yield f'<polyline points="{points}" fill="none" {line}><title>{name}</title></polyline>'
        end = typical_end(content, name)
        at, kib = min(curve, key=lambda point: abs(point[0] / 1000 - end))
        yield (f'<circle cx="{x(at / 1000):.1f}" cy="{y(kib / 1024):.1f}" r="4" '
               f'fill="{colour}"/>')  # fmt: skip
        row, column = divmod(number, LEGEND_COLUMNS)
        left, top = 8 + column * (WIDTH - 8) / LEGEND_COLUMNS, 32 + row * LEGEND_LINE
        yield f'<line x1="{left:.0f}" y1="{top}" x2="{left + 14:.0f}" y2="{top}" {line}/>'
        yield f'<text x="{left + 17:.0f}" y="{top + 4}">{name}</text>'


def picture(title: str, content: Content) -> str:
    """The SVG of one program."""
    found = [point for curve in content["curves"].values() for point in curve]
    long, high = max(at for at, _ in found) / 1000, max(kib for _, kib in found) / 1024 * 1.05

    def x(second: float) -> float:
        return LEFT + second / long * (WIDTH - RIGHT - LEFT)

    def y(mib: float) -> float:
        return HEIGHT - BOTTOM - mib / high * (HEIGHT - BOTTOM - TOP)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img">', f"<title>{escape(title)}</title>",
        *style(), f'<text x="8" y="16">{escape(title)}</text>',
        *grid(long, high, x, y), *curves(content, x, y), "</svg>",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def draw_all(folder: Path, titles: dict[str, str]) -> list[Path]:
    """A picture for each result that has curves; returns their paths."""
    made = []
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        if content.get("curves"):
            made.append(path.with_suffix(".svg"))
            made[-1].write_text(picture(titles.get(path.stem, path.stem), content))
    return made


if __name__ == "__main__":
    for drawn in draw_all(Path(sys.argv[1]), {}):
        print(drawn)
