# SPDX-License-Identifier: MIT
"""The outcome of a gate: as text of the terminal's width, as JSON, as JUnit XML."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from ..foreign.text import printable
from ..terminal import WIDTH
from .arguments import Request
from .judge import Change
from .looks import LARGE
from .outcome import Outcome
from .sites import Row

WIDTH_UNFOLDED = 1000
KIB, MIB = 1 << 10, 1 << 20


def amount(value: float, unit: int) -> str:
    """Bytes in MiB, KiB or bytes, without the unit."""
    is_small = unit == MIB and 0 < abs(value) < unit / 10
    return f"{value / unit:.{3 if is_small else 1}f}"


def unit_of(change: Change) -> tuple[int, str]:
    """That in which a growth is printed."""
    largest = max(abs(change.mean), change.error)
    units = ((MIB, "MiB"), (KIB, "KiB"), (1, "bytes"))
    return next(one for one in units if largest >= one[0] or one[0] == 1)


def scaled(change: Change, scale: float) -> Change:
    """The same in another unit of time."""
    return Change(change.mean * scale, change.error * scale)


def head_of(found: Outcome) -> str:
    """The first line: the answer, with its interval."""
    verdict, change = found.verdict, scaled(found.verdict.nbytes, found.scale)
    unit, name = unit_of(change)
    answer = "live memory grows" if verdict.does_grow else "live memory does not grow"
    return (f"{found.name}: {answer}: {'+' if change.mean >= 0 else ''}{amount(change.mean, unit)} "
            f"{name} per {found.unit} ± {amount(change.error, unit)} ({found.span})")  # fmt: skip


def size_text(size: int, change: Change, found: Outcome) -> str:
    """The growth of one size."""
    change = scaled(change, found.scale)
    what = "blocks above the size classes" if size == LARGE else f"blocks of {size} bytes"
    return f"{what}: {change.mean:+.1f} per {found.unit} ± {change.error:.1f}, by count"


def site_lines(found: Outcome, top: int, width: int) -> list[str]:
    """The table of call sites; callers below each."""
    if not found.rows:
        return []
    unit, name = unit_of(Change(found.rows[0].nbytes * found.scale, 0.0))
    lines = [f"{name:>8} {'±':>6} {'blocks':>7}  call site"]
    for row in found.rows[:top]:
        figures = (f"{amount(row.nbytes * found.scale, unit):>8} "
                   f"{amount(row.error * found.scale, unit):>6} {row.blocks * found.scale:7.0f}  "
                   )  # fmt: skip
        lines += folded(row, figures, width)
    if found.rows[top:]:
        rest = sum(row.nbytes for row in found.rows[top:]) * found.scale
        lines.append(f"{amount(rest, unit):>8} {'':14}  {len(found.rows) - top} more")
    return lines


def folded(row: Row, figures: str, width: int) -> list[str]:
    """A row with its callers, in lines that are no longer than the width."""
    titles = [row.name, *(f"< {caller}" for caller in row.callers)]
    return textwrap.wrap(
        "\n".join(titles), width, initial_indent=figures, subsequent_indent=" " * len(figures),
        break_on_hyphens=False,
    ) or [figures]  # fmt: skip


def notes_of(request: Request, found: Outcome) -> list[str]:
    """What else is to be known."""
    notes = list(found.notes)
    if found.verdict.has_stopped:
        notes.insert(0, "it grew in the first half, and no longer in the second")
    if found.verdict.does_grow and request.server:
        notes.append("a cache that is not full yet grows alike: a longer --warmup fills it")
    return notes


def wrapped(text: str, width: int) -> list[str]:
    """A sentence in lines."""
    return textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)


def body_lines(found: Outcome, notes: Sequence[str], top: int, width: int) -> list[str]:
    """All below the head."""
    lines = site_lines(found, top, width)
    for size, change in found.verdict.sizes.items():
        lines += wrapped(size_text(size, change, found), width)
    for note in notes:
        lines += wrapped(f"note: {note}", width)
    return lines


def text_of(request: Request, found: Outcome, width: int = WIDTH) -> str:
    """The report."""
    lines = wrapped(head_of(found), width)
    if request.requests:
        each = scaled(found.verdict.nbytes, 1 / request.requests)
        lines += wrapped(f"per request: {each.mean:+.1f} bytes ± {each.error:.1f}", width)
    lines += body_lines(found, notes_of(request, found), request.top, width)
    return "\n".join(lines) + "\n"


def numbers(change: Change, scale: float) -> dict[str, float]:
    """For JSON."""
    return {"mean": round(change.mean * scale, 3), "error": round(change.error * scale, 3)}


def to_json(request: Request, found: Outcome) -> dict[str, Any]:
    """All of it; bytes and blocks are per round, or per minute."""
    verdict, scale = found.verdict, found.scale
    each = numbers(verdict.nbytes, 1 / request.requests) if request.requests else None
    return {
        "program": found.name, "grows": verdict.does_grow, "per": found.unit,
        "bytes": numbers(verdict.nbytes, scale), "blocks": numbers(verdict.blocks, scale),
        "bytes_per_request": each, "allow_bytes": request.allow, "rounds": verdict.rounds,
        "warmup": request.warmup if request.server else None, "has_stopped": verdict.has_stopped,
        "sizes": [{"block_bytes": size or None, "blocks": numbers(change, scale)}
                  for size, change in verdict.sizes.items()],
        "sites": [{"name": row.name, "callers": list(row.callers),
                   "bytes": round(row.nbytes * scale, 3), "error": round(row.error * scale, 3),
                   "blocks": round(row.blocks * scale, 3)} for row in found.rows],
        "live_bytes": found.live, "notes": notes_of(request, found),
    }  # fmt: skip


def junit(text: str, name: str, seconds: float, kind: str = "") -> bytes:
    """One test case. kind: failure or error; "": passed."""
    counts = {one: str(int(kind == one)) for one in ("failure", "error")}
    suite = ElementTree.Element("testsuite", {
        "name": "poolshim gate", "tests": "1", "failures": counts["failure"],
        "errors": counts["error"], "time": f"{seconds:.3f}"})  # fmt: skip
    case = ElementTree.SubElement(suite, "testcase", {
        "classname": "poolshim.gate", "name": printable(name), "time": f"{seconds:.3f}"}
    )  # fmt: skip
    lines = [printable(line) for line in text.splitlines()]
    part = ElementTree.SubElement(case, kind or "system-out")
    if kind:
        part.set("message", lines[0] if lines else "")
    part.text = "\n".join(lines)
    found: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return found + b"\n"
