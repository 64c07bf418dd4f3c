# SPDX-License-Identifier: MIT
"""The table of `poolshim top`, as wide as the terminal: less of it where that is narrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..live.processes import Row

UNITS = "KMGT"
LEVELS = "▁▂▃▄▅▆▇█"
TREND_COLUMNS = 8
PROGRAM_LEAST, PROGRAM_MOST = 8, 24
UNKNOWN = "-"
NARROW_COLUMNS = 80  # below it, the columns of NARROW


def scaled(value: float, base: int) -> str:
    """At most five characters: 950K, 12.3M, 999G."""
    if value < base:
        return f"{value:.0f}"
    for unit in UNITS:
        value /= base
        if value < 99.95:
            return f"{value:.1f}{unit}"
        if value < 999.5 or unit == UNITS[-1]:
            return f"{value:.0f}{unit}"
    raise AssertionError("unreachable")


def size(nbytes: int) -> str:
    """A size, in units of 1024."""
    return scaled(nbytes, 1024)


def rate(per_second: float | None) -> str:
    """A rate, in units of 1000."""
    return UNKNOWN if per_second is None else scaled(per_second, 1000)


def sparkline(values: list[int], columns: int = TREND_COLUMNS) -> str:
    """The newest values; the lowest and the highest of them span the levels, unless they are near
    each other: a hundredth is no change."""
    shown = values[-columns:]
    low, high = min(shown), max(shown)
    reach = max(high - low, high // 100, 1)
    return "".join(LEVELS[(value - low) * (len(LEVELS) - 1) // reach] for value in shown)


@dataclass(frozen=True)
class Column:
    """One of the table."""

    title: str
    width: int
    text: Callable[[Row], str]
    is_left: bool = False


COLUMNS = {
    column.title: column
    for column in (
        Column("pid", 7, lambda row: str(row.pid)),
        Column("program", PROGRAM_LEAST, lambda row: row.program, True),
        Column("rss", 5, lambda row: size(row.split.rss)),
        Column("live", 5, lambda row: size(row.split.live)),
        Column("round", 5, lambda row: size(row.split.rounding)),
        Column("free", 5, lambda row: size(row.split.free)),
        Column("cache", 5, lambda row: size(row.split.cache)),
        Column("meta", 5, lambda row: size(row.split.metadata)),
        Column("other", 5, lambda row: size(row.split.outside)),
        Column("alloc", 5, lambda row: rate(row.malloc_rate)),
        Column("freed", 5, lambda row: rate(row.free_rate)),
        Column("trend", TREND_COLUMNS, lambda row: sparkline(row.history), True),
    )
}
NARROW = ("pid", "program", "rss", "live", "free", "other", "alloc")
LEGEND = (
    "rss = live + round(ing up to classes, about) + free (in part-filled slabs) + cache (free "
    "pages) + meta(data) + other (outside the heap); alloc, freed: calls of malloc and free a "
    "second; trend: of rss"
)


def chosen(width: int) -> list[Column]:
    """Columns for a width."""
    names = COLUMNS if width >= NARROW_COLUMNS else NARROW
    return [COLUMNS[name] for name in names]


def program_width(columns: list[Column], width: int) -> int:
    """What the others leave."""
    others = sum(column.width for column in columns if column.title != "program")
    left = width - others - (len(columns) - 1)
    return max(4, min(left, PROGRAM_MOST))


def table(rows: list[Row], width: int) -> Table:
    """The largest process first."""
    found = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, collapse_padding=True)
    columns = chosen(width)
    for column in columns:
        cells = program_width(columns, width) if column.title == "program" else column.width
        found.add_column(column.title, width=cells, no_wrap=True, overflow="crop",
                         justify="left" if column.is_left else "right")  # fmt: skip
    for row in sorted(rows, key=lambda row: (-row.split.rss, row.pid)):
        found.add_row(*(Text(column.text(row)) for column in columns))
    return found


def page(rows: list[Row], width: int, height: int) -> list[RenderableType]:
    """What fits on the screen."""
    head = Text(f"poolshim top: {len(rows)} {'process' if len(rows) == 1 else 'processes'}; "
                "q ends")  # fmt: skip
    shown = sorted(rows, key=lambda row: (-row.split.rss, row.pid))[: max(1, height - 6)]
    return [head, table(shown, width), Text(LEGEND, style="dim")]
