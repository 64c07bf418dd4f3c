# SPDX-License-Identifier: MIT
"""The tables of `poolshim profile`: as many columns as the terminal has room for.

Names are folded, not cut. Where the output is no terminal, every column is there.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TextIO

from ..sizes import mib
from ..terminal import columns_of
from . import rates
from .dumps import MINUTE_S, Change
from .sites import Row

NAME_COLUMNS, NAME_LEAST = 60, 16
WIDE, MEDIUM = 110, 80  # columns of a terminal, from which on there are more of the table
Cells = list[tuple[str, int]]  # title or value, and columns


def joined(cells: Cells) -> str:
    """Right-justified."""
    return " ".join(f"{text:>{columns}}" for text, columns in cells)


def signed(nbytes: float) -> str:
    """A change in MiB."""
    return f"{'+' if nbytes >= 0 else '-'}{mib(abs(round(nbytes)))}"


def lines_of(cells: Cells, name: str, callers: Sequence[str], width: int) -> list[str]:
    """A row: the site beside its figures, its callers below."""
    head = joined(cells)
    columns = min(NAME_COLUMNS, max(NAME_LEAST, width - len(head) - 2))
    if width >= WIDE:
        texts = [shortened(name)]
        texts += ["< " + " < ".join(map(shortened, callers))] if callers else []
    else:
        texts = textwrap.wrap(name, columns, break_on_hyphens=False) or [name]
        texts += textwrap.wrap("\n".join(f"< {one}" for one in callers), columns,
                               break_on_hyphens=False)  # fmt: skip
    blank = " " * len(head)
    return [f"{head if at == 0 else blank}  {text}" for at, text in enumerate(texts)]


def shortened(name: str) -> str:
    """A name that leaves the table a table."""
    return name if len(name) <= NAME_COLUMNS else name[: NAME_COLUMNS - 1] + "…"


# ---- one profile ----


def row_cells(row: Row | None, total: int, width: int, has_rates: bool) -> Cells:
    """The figures of a row; without one, their titles."""
    one = row or Row("", 0, 0, 0, ())
    rate = one.rate
    every: list[tuple[str, str, int, int]] = [
        ("MiB", mib(one.nbytes), 10, 0),
        ("±", mib(one.error_bytes), 8, MEDIUM),
        ("%", f"{100 * one.nbytes / max(total, 1):.1f}", 6, WIDE if has_rates else 0),
        ("blocks", str(one.blocks), 10, MEDIUM),
    ]
    if has_rates:
        every += [
            ("MiB/s", mib(round(rate.bytes_per_s)) if rate else "", 7, MEDIUM),
            ("blocks/s", f"{rate.blocks_per_s:.0f}" if rate else "", 9, WIDE),
            ("lifetime", rates.lifetime_text(rate), 15, MEDIUM),
        ]
    return [(text if row else title, columns) for title, text, columns, least in every
            if width >= least]  # fmt: skip


def print_rows(rows: list[Row], top: int, stream: TextIO) -> None:
    """The call sites of a profile."""
    width, total = columns_of(stream), sum(row.nbytes for row in rows)
    has_rates = any(row.rate for row in rows)
    print(f"{joined(row_cells(None, total, width, has_rates))}  call site", file=stream)
    for row in rows[:top]:
        cells = row_cells(row, total, width, has_rates)
        print("\n".join(lines_of(cells, row.name, row.callers, width)), file=stream)
    rest = rows[top:]
    if rest:
        more = Row("", sum(row.nbytes for row in rest), sum(row.blocks for row in rest), 0, ())
        titles = row_cells(None, total, width, has_rates)
        values = row_cells(more, total, width, has_rates)
        cells = [(value if title in ("MiB", "blocks") else "", columns)
                 for (title, columns), (value, _) in zip(titles, values, strict=True)]  # fmt: skip
        print(f"{joined(cells)}  {len(rest)} more", file=stream)


# ---- changes between profiles ----


def change_cells(row: Change | None, width: int, seconds: float) -> Cells:
    """The figures of a change; without one, their titles."""
    one = row or Change("", 0, 0, 0, ())
    every = [("MiB", signed(one.nbytes), 10, 0), ("±", mib(one.error_bytes), 8, MEDIUM),
             ("blocks", f"{one.blocks:+d}", 10, MEDIUM)]  # fmt: skip
    if seconds:
        factor = MINUTE_S / seconds
        every += [("MiB/min", signed(one.nbytes * factor), 8, 0),
                  ("±", mib(round(one.error_bytes * factor)), 7, MEDIUM)]  # fmt: skip
    return [(text if row else title, columns) for title, text, columns, least in every
            if width >= least]  # fmt: skip


def print_changes(rows: list[Change], top: int, stream: TextIO, seconds: float = 0.0) -> None:
    """seconds: between the two profiles; 0: not known."""
    width = columns_of(stream)
    print(f"{joined(change_cells(None, width, seconds))}  call site", file=stream)
    for row in rows[:top]:
        cells = change_cells(row, width, seconds)
        print("\n".join(lines_of(cells, row.name, row.callers, width)), file=stream)
    if rows[top:]:
        first, *others = change_cells(Change("", sum(row.nbytes for row in rows[top:]), 0, 0, ()),
                                      width, seconds)  # fmt: skip
        blank = [("", columns) for _, columns in others]
        print(f"{joined([first, *blank])}  {len(rows) - top} more", file=stream)
