# SPDX-License-Identifier: MIT
"""Draws boost_intrusive_pool's curves: cost of an object against the enlarge step, for each malloc.

Called by bench/pools.py --published. One SVG; needs Python alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log2, log10

from .published_tables import PATTERNS, STEPS, Curves
from .svg import style

PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, GAP = 200, 150, 44, 44, 34
COLOURS = {"ps_intrusive": "#0969da", "boost_intrusive_pool": "#c4631d", "new": "#57606a"}
LOW_NS, HIGH_NS = 30.0, 3000.0
LINES_NS = (30, 100, 300, 1000, 3000)


def place_x(step: int) -> float:
    return PANEL_WIDTH * log2(step) / log2(STEPS[-1])


def place_y(value_ns: float) -> float:
    inside = min(max(value_ns, LOW_NS), HIGH_NS)
    return PANEL_HEIGHT * (1 - log10(inside / LOW_NS) / log10(HIGH_NS / LOW_NS))


def panel(title: str, curves: dict[str, dict[int, float]]) -> Iterator[str]:
    """One malloc and one pattern: the grid, then a line for each contestant."""
    yield f'<text x="0" y="-8">{title}</text>'
    for value in LINES_NS:
        y = place_y(value)
        yield f'<line x1="0" y1="{y:.1f}" x2="{PANEL_WIDTH}" y2="{y:.1f}" stroke="#d0d7de"/>'
        yield f'<text x="-4" y="{y + 4:.1f}" text-anchor="end">{value}</text>'
    for step in STEPS[::2]:
        yield (f'<text x="{place_x(step):.1f}" y="{PANEL_HEIGHT + 14}" text-anchor="middle">'
               f"{step}</text>")  # fmt: skip
    for pool, curve in curves.items():
        points = " ".join(f"{place_x(step):.1f},{place_y(value):.1f}"
                          for step, value in curve.items())  # fmt: skip
        yield (f'<polyline points="{points}" fill="none" stroke="{COLOURS[pool]}" '
               f'stroke-width="2"/>')  # fmt: skip


def draw(curves: Curves) -> str:
    """A column for each malloc, a row for each pattern."""
    width = LEFT + len(curves) * (PANEL_WIDTH + GAP)
    height = TOP + len(PATTERNS) * (PANEL_HEIGHT + 2 * GAP)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">',
             *style()]  # fmt: skip
    lines.append('<text x="8" y="15" font-weight="bold">nanoseconds of an object by enlarge step'
                 "</text>")  # fmt: skip
    for number, (pool, colour) in enumerate(COLOURS.items()):
        x = 300 + 140 * number
        lines.append(f'<text x="{x}" y="15" fill="{colour}">{pool}</text>')
    for column, (malloc, patterns) in enumerate(curves.items()):
        for row, pattern in enumerate(PATTERNS):
            x = LEFT + column * (PANEL_WIDTH + GAP)
            y = TOP + row * (PANEL_HEIGHT + 2 * GAP)
            lines.append(f'<g transform="translate({x} {y})">')
            lines += panel(f"{malloc}, {pattern}", patterns[pattern])
            lines.append("</g>")
    return "\n".join([*lines, "</svg>"]) + "\n"
