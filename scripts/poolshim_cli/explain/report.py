# SPDX-License-Identifier: MIT
"""The report on a terminal: a picture, the account, the call sites, the verdict.

    report.write(history, verdict, 10, sys.stderr, notes)
"""

from __future__ import annotations

import os
import textwrap
from typing import TextIO

from ..terminal import WIDTH, width_of
from .account import PARTS
from .history import Course, History
from .verdict import Verdict, mib

HEIGHT = 14
LETTERS = {
    "live": "L", "rounding": "r", "pinned": "P", "room": "u", "cache": "c", "huge": "h",
    "pools": "p", "stacks": "s", "other": "o", "files": "f", "shared": "m", "code": "x",
    "metadata": "d", "profile": "q",
}  # fmt: skip
COLOURS = {
    "live": 32, "rounding": 33, "pinned": 31, "room": 35, "cache": 36, "huge": 95, "pools": 92,
    "stacks": 34, "other": 94, "files": 90, "shared": 96, "code": 37, "metadata": 93, "profile": 90,
}  # fmt: skip
LEAST_SHARE = 0.0005  # of a part that the table lists
ROUNDING_LEAST = 70  # columns, from which on the table has the rounding of call sites


def columns_of(history: History, count: int) -> list[dict[str, float]]:
    """The account at equally spaced times, the last known one at each."""
    moments = [one for one in history.watch.moments if history.pid in one.accounts]
    begin, end = moments[0].at_s, moments[-1].at_s
    found, at = [], 0
    for column in range(count):
        now = begin + (end - begin) * (column + 0.5) / count
        while at + 1 < len(moments) and moments[at + 1].at_s <= now:
            at += 1
        found.append(moments[at].accounts[history.pid].parts)
    return found


def column_text(parts: dict[str, float], unit: float) -> list[str]:
    """The parts of a column from below, each cell what most of it is for."""
    bounds, total = [], 0.0
    for name in PARTS:
        bounds.append((total, total + parts.get(name, 0.0), name))
        total = bounds[-1][1]
    cells = []
    for row in range(round(total / unit)):
        low, high = row * unit, (row + 1) * unit
        cells.append(max(bounds, key=lambda one: min(one[1], high) - max(one[0], low))[2])
    return cells


def picture(history: History, is_coloured: bool, width: int) -> list[str]:
    """Resident memory over time, by what it is for."""
    label = 10
    columns = columns_of(history, width - label)
    most = max(sum(parts.values()) for parts in columns)
    unit = most / HEIGHT if most else 1.0
    cells = [column_text(parts, unit) for parts in columns]
    lines = []
    for row in range(HEIGHT, 0, -1):
        head = f"{mib(row * unit):>{label - 1}} " if row in (HEIGHT, HEIGHT // 2) else " " * label
        lines.append((head + "".join(
            painted(cell[row - 1], is_coloured) if len(cell) >= row else " " for cell in cells
        )).rstrip())  # fmt: skip
    moments = [one for one in history.watch.moments if history.pid in one.accounts]
    end = f"{moments[-1].at_s:.1f} s"
    start = f"{moments[0].at_s:.1f} s"
    lines.append(" " * label + start + end.rjust(width - label - len(start)))
    return lines


def painted(name: str, is_coloured: bool) -> str:
    """A letter."""
    letter = LETTERS[name]
    return f"\x1b[{COLOURS[name]}m{letter}\x1b[0m" if is_coloured else letter


def account_lines(history: History, is_coloured: bool) -> list[str]:
    """What the resident memory is for, at the moment explained."""
    account = history.account
    lines = [f"{'':3}{'MiB':>9} {'%':>6}  resident memory"]
    for name, title in PARTS.items():
        amount = account.parts.get(name, 0.0)
        if amount >= LEAST_SHARE * account.rss:
            lines.append(f" {painted(name, is_coloured)} {amount / 2**20:9.1f} "
                         f"{100 * amount / account.rss:6.1f}  {title}")  # fmt: skip
    share = min(account.accounted, account.rss) / account.rss if account.rss else 1.0
    lines.append(f"   {account.rss / 2**20:9.1f} {100 * share:6.1f}  accounted for")
    return lines


def figures_of(live: float, pinned: float, rounding: float, width: int) -> str:
    """The figures of call sites, in bytes."""
    parts = [f"{live / 2**20:9.1f}", f"{pinned / 2**20:8.1f}", f"{rounding / 2**20:9.1f}"]
    return " ".join(parts if width >= ROUNDING_LEAST else parts[:2])


def site_text(title: str, figures: str, width: int) -> list[str]:
    """A call site in a line, which 80 columns have room for; in fewer it is folded."""
    if width >= WIDTH:
        line = figures + title
        return [line if len(line) <= width else line[: width - 1] + "…"]
    return textwrap.wrap(title, width, initial_indent=figures, break_on_hyphens=False,
                         subsequent_indent=" " * len(figures))  # fmt: skip


def site_lines(courses: list[Course], top: int, width: int) -> list[str]:
    """The lines of call sites: live and pinned bytes."""
    shown = [one for one in courses if one.site.live + one.site.pinned > 0]
    if not shown:
        return []
    titles = f"{'live':>9} {'pinned':>8}" + f" {'rounding':>9}" * (width >= ROUNDING_LEAST)
    lines = [f"{titles}  call site"]
    for one in shown[:top]:
        figures = figures_of(one.site.live, one.site.pinned, one.site.rounding, width)
        lines += site_text(one.title, f"{figures}  ", width)
    if len(shown) > top:
        rest = [one.site for one in shown[top:]]
        live, pinned, rounding = (
            sum(getattr(one, name) for one in rest) for name in ("live", "pinned", "rounding")
        )
        lines.append(f"{figures_of(live, pinned, rounding, width)}  {len(rest)} more")
    return lines


def family_lines(history: History, width: int) -> list[str]:
    """The other processes, where there are some."""
    others = sorted(
        (one for pid, one in history.moment.accounts.items() if pid != history.pid),
        key=lambda one: -one.rss,
    )
    lines = []
    for one in others[:5]:
        name = history.watch.commands.get(one.pid, "")
        copied = f", {mib(one.copied)} of it copied after the fork" if one.copied >= 1 << 20 else ""
        lines += wrapped("besides", f"{name} (process {one.pid}) with {mib(one.rss)}{copied}",
                         width)  # fmt: skip
    if len(others) > 5:
        rest = mib(sum(one.rss for one in others[5:]))
        lines += wrapped("besides", f"{len(others) - 5} more processes with {rest}", width)
    return lines


def wrapped(title: str, text: str, width: int) -> list[str]:
    """A sentence as lines."""
    return textwrap.wrap(text, width, initial_indent=f"{title}: ", subsequent_indent="  ")


def head_of(history: History) -> str:
    """The first line: the process and its memory."""
    account = history.account
    return (
        f"{history.name} (process {history.pid}): {mib(account.rss)} resident at "
        f"{history.moment.at_s:.1f} s; at the peak {mib(history.peak)}; "
        f"{len(history.watch.moments)} samples"
    )


def write(
    history: History, verdict: Verdict, top: int, stream: TextIO, notes: list[str]
) -> None:
    """All of it."""
    is_coloured = stream.isatty() and "NO_COLOR" not in os.environ
    width = width_of(stream)
    lines = textwrap.wrap(head_of(history), width, subsequent_indent="  ")
    lines += [*picture(history, is_coloured, width), ""]
    lines += [*account_lines(history, is_coloured), ""]
    sites = site_lines(history.courses, top, width)
    lines += [*sites, ""] if sites else []
    lines += family_lines(history, width)
    for note in notes:
        lines += wrapped("note", note, width)
    title = "no verdict" if verdict.cause == "unknown" else "verdict"
    lines += [*wrapped(title, verdict.text, width), *wrapped("advice", verdict.advice, width)]
    print("\n".join(lines), file=stream)
