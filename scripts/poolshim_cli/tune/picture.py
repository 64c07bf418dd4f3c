# SPDX-License-Identifier: MIT
"""The picture: what the program had live by size, the classes, and the waste before and after.

matplotlib does the work; it is an extra, imported here only.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from ..errors import need
from .cost import Account, Workload
from .report import size_text

FORMATS = ("svg", "png")
BEFORE, AFTER, LIVE = "#b3541e", "#1f6f8b", "#8a8a8a"
MIB = 1 << 20
SIZES_NAMED = 3  # the sizes with most live bytes


def waste_by_size(workload: Workload, table: Sequence[int]) -> list[float]:
    """Per point of the grid, the bytes that rounding up to the table costs."""
    result = [0.0] * len(workload.points)
    below = 0
    for size in table:
        upto = workload.index(size)
        for i in range(below + 1, upto + 1):
            result[i] = workload.blocks[i] * size - workload.live[i]
        below = upto
    return result


def unit_of(highest: float) -> tuple[float, str]:
    """A divisor and the name of the unit for an axis that reaches so far."""
    for divisor, name in ((1 << 30, "GiB"), (MIB, "MiB"), (1024, "KiB")):
        if highest >= divisor:
            return divisor, name
    return 1, "bytes"


def span_of_sizes(workload: Workload) -> tuple[int, int]:
    """The range of sizes worth showing: a class below the smallest live one, one above the rest."""
    live = [workload.points[i] for i, count in enumerate(workload.blocks) if count > 0]
    if not live:
        return 8, workload.points[-1]
    return max(8, live[0] * 3 // 4), min(workload.points[-1], live[-1] * 4 // 3 + 16)


def draw_sizes(axes: Any, workload: Workload) -> None:
    """Live bytes by requested size."""
    points = [i for i, live in enumerate(workload.live) if live > 0]
    divisor, unit = unit_of(max((workload.live[i] for i in points), default=0))
    axes.vlines(
        [workload.points[i] for i in points], 0, [workload.live[i] / divisor for i in points],
        color=LIVE, linewidth=1.4,
    )  # fmt: skip
    for i in sorted(points, key=lambda i: workload.live[i])[-SIZES_NAMED:]:
        axes.annotate(
            f"{workload.points[i]}", (workload.points[i], workload.live[i] / divisor),
            xytext=(0, 2), textcoords="offset points", ha="center", va="bottom",
        )  # fmt: skip
    axes.set_ylabel(f"live, {unit}")
    axes.set_ylim(bottom=0)
    axes.margins(y=0.12)


def draw_classes(axes: Any, before: Sequence[int], after: Sequence[int]) -> None:
    """The two tables as rows of ticks."""
    axes.plot(before, [1] * len(before), "|", color=BEFORE, markersize=13, markeredgewidth=1.3)
    axes.plot(after, [0] * len(after), "|", color=AFTER, markersize=13, markeredgewidth=1.3)
    axes.set_yticks([1, 0], [f"{len(before)} classes before", f"{len(after)} after"])
    axes.set_ylim(-0.7, 1.7)


def draw_waste(axes: Any, workload: Workload, before: Sequence[int], after: Sequence[int]) -> None:
    """Bytes lost by rounding, summed from the smallest size up."""
    tables = (("before", before, BEFORE), ("after", after, AFTER))
    curves = []
    for name, table, colour in tables:
        total, sums = 0.0, []
        for waste in waste_by_size(workload, table):
            total += waste
            sums.append(total)
        curves.append((name, sums, colour))
    divisor, unit = unit_of(max(sums[-1] for _, sums, _ in curves))
    for name, sums, colour in curves:
        axes.step(
            workload.points[1:], [s / divisor for s in sums[1:]], where="post", color=colour,
            label=f"{name}: {size_text(sums[-1])}",
        )  # fmt: skip
    axes.set_ylabel(f"lost to rounding\nup to this size, {unit}")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", frameon=False)


def draw_terms(axes: Any, before: Account, after: Account) -> None:
    """The three terms of the cost, stacked."""
    terms = (("rounding", "#d9a066"), ("tails", "#6d8f6a"), ("part_filled", "#7d6b91"))
    divisor, unit = unit_of(max(before.waste, after.waste))
    left = [0.0, 0.0]
    for name, colour in terms:
        widths = [getattr(account, name) / divisor for account in (before, after)]
        axes.barh([1, 0], widths, left=left, color=colour, label=name.replace("_", "-"), height=0.6)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_yticks([1, 0], ["before", "after"])
    axes.set_xlim(left=0)
    axes.set_xlabel(f"predicted waste, {unit}")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.55), ncols=3, frameon=False)


def tick_text(size: float) -> str:
    """The label of a size on an axis in bytes."""
    return f"{size:.0f}" if size < 1024 else f"{size / 1024:g} KiB"


def draw(
    workload: Workload, tables: tuple[Sequence[int], Sequence[int]], title: str, kind: str
) -> bytes:
    """The picture as bytes of an SVG or PNG file. tables: before and after."""
    matplotlib = need("matplotlib", "plot")
    matplotlib.use("Agg")
    pyplot = need("matplotlib.pyplot", "plot")
    style = {"font.size": 9, "svg.hashsalt": "poolshim", "axes.spines.top": False,
             "axes.spines.right": False}  # fmt: skip
    metadata = {"Date": None} if kind == "svg" else {}
    with pyplot.rc_context(style):
        figure, axes = pyplot.subplots(
            4, 1, figsize=(8, 7.6), height_ratios=(3, 1, 3, 1.1), layout="constrained"
        )
        draw_sizes(axes[0], workload)
        draw_classes(axes[1], *tables)
        draw_waste(axes[2], workload, *tables)
        for axis in axes[:3]:
            axis.set_xscale("log", base=2)
            axis.set_xlim(*span_of_sizes(workload))
            axis.xaxis.set_major_formatter(lambda x, _: tick_text(x))
        axes[2].set_xlabel("requested size, bytes")
        draw_terms(axes[3], *(workload.account(table) for table in tables))
        figure.suptitle(title)
        result = io.BytesIO()
        figure.savefig(result, format=kind, dpi=150, metadata=metadata)
        pyplot.close(figure)
    return result.getvalue()
