# SPDX-License-Identifier: MIT
"""The statistics of a running process, as POOLSHIM_STATS writes them at its exit: shim/stats.c.

    report = take(1234); table(report), as_json(report)

The rows are those of figures.def, their layout is the library's; a test compares them.
"""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import control
from ..errors import Failed
from ..foreign import files
from ..terminal import NO_TERMINAL
from . import heaps, threads
from .census import Census, Reader, SizeClass
from .figures import FIGURES, Figure
from .memory import PAGE_BYTES, READING_SECONDS, Memory, Unreadable

FORMAT_VERSION = 2
LABEL_COLUMN, NUMBER_COLUMN, SIZE_COLUMN = 26, 18, 14
QUOTED_LIMIT = 64
NAME_MAX = 4096
CLASS_COLUMNS = (("block bytes", 12), ("live blocks", 14), ("live bytes", 16), ("slabs", 9),
                 ("slab bytes", 16), ("waste bytes", 16), ("waste %", 9))  # fmt: skip
CLASS_OPTIONAL = (4, 5, 3, 6)  # of these columns; the first is left out first
LINE_COLUMNS = 2 + LABEL_COLUMN + NUMBER_COLUMN + len(" bytes") + SIZE_COLUMN
UNITS = ("KiB", "MiB", "GiB")


@dataclass
class Report:
    """What the rows show."""

    pid: int
    program: str
    release: str
    census: Census
    resident_bytes: int | None = None
    resident_peak_bytes: int | None = None
    huge_bytes: int | None = None
    seconds: float = 0.0  # since the start
    threads: threads.Threads | None = None  # where they are asked for

    @property
    def malloc_rate(self) -> int:
        """A second, since the start."""
        return int(self.census.malloc_count / max(self.seconds, 0.001))

    @property
    def free_rate(self) -> int:
        """Frees per second."""
        return int(self.census.free_count / max(self.seconds, 0.001))


def kib_of(pid: int, name: str, key: str) -> int | None:
    """The line "<key>:   123 kB" of a file of /proc, in bytes; None without."""
    try:
        text = files.read_proc(pid, name).decode(errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        word, _, value = line.partition(":")
        if word == key and value.split()[:1] and value.split()[0].isdigit():
            return int(value.split()[0]) * 1024
    return None


def program_of(pid: int) -> str:
    """The name that the process was started by, without its directory."""
    try:
        words = files.read_proc(pid, "cmdline").split(b"\0", 1)
        name = words[0].rpartition(b"/")[2][:NAME_MAX] or files.read_proc(pid, "comm").strip()
    except OSError as error:
        raise control.explain(pid, error.errno or 0, "its name") from None
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "?" for byte in name)


def resident_of(pid: int) -> int | None:
    """RSS by the cheap count."""
    try:
        return int(files.read_proc(pid, "statm").split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return None


def peak_of(pid: int, resident: int) -> int | None:
    """The highest RSS: at least the present one. The kernel adds to VmHWM in batches."""
    peak = kib_of(pid, "status", "VmHWM")
    return peak if peak is None else max(peak, resident)


def start_of(pid: int) -> str:
    """When the process started, in the kernel's clock: another process has another."""
    try:
        return files.read_proc(pid, "stat").rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        raise control.gone(pid) from None


def seconds_since(start: str) -> float:
    """Since a moment in ticks after the boot, as start_of has it."""
    try:
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return uptime - int(start) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


def read(
    memory: Memory, reader: Reader | None = None, seconds: float = READING_SECONDS,
    has_threads: bool = False,
) -> Report:
    """Reads the report of the process; Failed if that takes longer."""
    pid, begun = memory.pid, start_of(memory.pid)
    try:
        with memory.reading(seconds):
            reader = reader or Reader(memory)
            census = reader.census()
            of_threads = threads.read(memory, reader.layout) if has_threads else None
    except Unreadable as error:
        if start_of(pid) != begun:
            raise control.gone(pid) from None
        raise Failed(str(error)) from None
    resident = kib_of(pid, "smaps_rollup", "Rss")
    if resident is None:
        resident = resident_of(pid)
    report = Report(
        pid, program_of(pid), reader.layout.release, census, resident,
        peak_of(pid, resident or 0), kib_of(pid, "smaps_rollup", "AnonHugePages"),
        seconds_since(begun), of_threads,
    )  # fmt: skip
    if start_of(pid) != begun:
        raise control.gone(pid)
    return report


def value_of(report: Report, figure: Figure) -> Any:
    """The value of a row; None: unknown."""
    if not figure.is_known(report.census):
        return None
    return getattr(report if hasattr(report, figure.name) else report.census, figure.name)


def size_class(one: SizeClass) -> dict[str, int]:
    """An element of size_classes."""
    return {"block_bytes": one.block_bytes, "live_count": one.live_blocks,
            "live_bytes": one.live_bytes, "slab_count": one.slabs,
            "slab_bytes": one.slab_bytes, "waste_bytes": one.waste_bytes}  # fmt: skip


def as_dict(report: Report) -> dict[str, Any]:
    """The report as docs/stats.md describes it."""
    found: dict[str, Any] = {"format": FORMAT_VERSION, "poolshim": report.release,
                             "pid": report.pid, "program": report.program}  # fmt: skip
    for figure in FIGURES:
        found.setdefault(figure.section, {})[figure.key] = value_of(report, figure)
    if report.census.heaps.count:
        found["heap_count"] = report.census.heaps.count
        found["heaps"] = report.census.heaps.rows
    if report.threads is not None:
        found |= threads.as_dict(report.threads)
    found["size_classes"] = [size_class(one) for one in report.census.classes]
    return found


def as_json(report: Report) -> str:
    """One object, indented as the library's."""
    found = as_dict(report)
    lists = {key: found.pop(key) for key in ("heaps", "threads", "size_classes") if key in found}
    text = json.dumps(found, indent=2)[: -len("\n}")]
    for key, rows in lists.items():
        lines = ",\n".join(f"    {json.dumps(one)}" for one in rows)
        text += f',\n  "{key}": [\n{lines}\n  ]'
    return text + "\n}\n"


def rounded(count: int) -> str:
    """12.5 MiB, as the library writes it."""
    if count < 1024:
        return f"{count} B"
    unit = 0
    while unit < len(UNITS) - 1 and count >> 10 * (unit + 1) >= 1024:
        unit += 1
    divisor = 1 << 10 * (unit + 1)
    tenths = count // divisor * 10 + count % divisor * 10 // divisor
    return f"{tenths // 10}.{tenths % 10} {UNITS[unit]}"


def quoted(text: str) -> str:
    """For the first line."""
    shown = text[:QUOTED_LIMIT].replace('"', "?")
    return f'"{shown}"' if len(text) <= QUOTED_LIMIT else f'"{shown}..."'


def percent(part: int, whole: int) -> str:
    """A percentage with one decimal, not rounded up."""
    tenths = part * 1000 // whole if whole else 0
    return f"{tenths // 10}.{tenths % 10}"


def class_columns(columns: int) -> list[int]:
    """The columns of the last table that a terminal has room for."""
    found = list(range(len(CLASS_COLUMNS)))
    for least in CLASS_OPTIONAL:
        if sum(CLASS_COLUMNS[at][1] for at in found) <= columns:
            break
        found.remove(least)
    return found


def class_rows(census: Census) -> Iterator[tuple[int | str, ...]]:
    """Titles, classes with live blocks, all others in one line, the sum."""
    yield tuple(title for title, _ in CLASS_COLUMNS)
    for one in census.classes:
        if one.live_blocks:
            yield (one.block_bytes, one.live_blocks, one.live_bytes, one.slabs, one.slab_bytes,
                   one.waste_bytes, percent(one.waste_bytes, one.slab_bytes))  # fmt: skip
    empty = [one for one in census.classes if not one.live_blocks and one.slabs]
    if empty:
        nbytes = sum(one.slab_bytes for one in empty)
        yield "unused", 0, 0, sum(one.slabs for one in empty), nbytes, nbytes, ""
    waste, nbytes = census.small_waste_bytes, census.small_slab_bytes
    yield ("all", census.small_live_blocks, census.small_live_bytes, census.small_slabs, nbytes,
           waste, percent(waste, nbytes))  # fmt: skip


def class_lines(census: Census, columns: int) -> str:
    """The last table."""
    shown = class_columns(columns)
    return "".join("".join(f"{row[at]:>{CLASS_COLUMNS[at][1]}}" for at in shown) + "\n"
                   for row in class_rows(census))  # fmt: skip


def value_text(figure: Figure, value: int | str | None, columns: int) -> str:
    """The value of a row; a size in bytes, too, where there is room."""
    shown = "unknown" if value is None else str(value)
    if figure.unit != "BYTES" or not isinstance(value, int):
        return f"{shown:>{NUMBER_COLUMN}}"
    if columns < LINE_COLUMNS:
        return f"{rounded(value):>{NUMBER_COLUMN}}"
    return f"{shown:>{NUMBER_COLUMN}} bytes{rounded(value):>{SIZE_COLUMN}}"


def table(report: Report, columns: int = NO_TERMINAL) -> str:
    """For people: as the library writes it, or narrower where a terminal has no room for that."""
    head = f"poolshim {report.release}: statistics of process {report.pid}, "
    head += quoted(report.program)
    lines = textwrap.fill(head, columns, subsequent_indent="  ") + "\n"
    section = ""
    for figure in FIGURES:
        if figure.section != section:
            section = figure.section
            lines += f"\n{section.replace('_', ' ')}\n"
        value = value_text(figure, value_of(report, figure), columns)
        lines += f"  {figure.label:{LABEL_COLUMN}}{value}\n"
    lines += heaps.lines(report.census.heaps, quoted)
    if report.threads is not None:
        lines += threads.lines(report.threads)
    return lines + "\nsize classes\n" + class_lines(report.census, columns)


def take(pid: int, has_threads: bool = False) -> Report:
    """Reads the report of a process once."""
    with Memory(pid) as memory:
        return read(memory, has_threads=has_threads)
