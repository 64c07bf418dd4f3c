# SPDX-License-Identifier: MIT
"""The rows of `poolshim top --threads`: the bytes of each thread of some processes, and rates.

    watch = Watch([1234]); watch.read(); rows = watch.read()
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..errors import GIVING_UP, BadRequest
from ..live import layout, report
from ..live.counts import is_running
from ..live.memory import Memory
from ..live.threads import Thread, read
from .screen import UNKNOWN, size

NAME_COLUMNS = 16  # as the kernel has them
HEAD_LINES = 6  # of a screen, that are no row
LEGEND = (
    "alloc, freed: bytes so far; alloc/s, freed/s: in the last interval. Freed bytes are counted "
    "with POOLSHIM_THREAD_BYTES=1, or after poolshim set PID thread-bytes=1; without, blocks above "
    "8 KiB count for 2 KiB"
)
TITLES = ("pid", "thread", "name", "alloc", "freed", "alloc/s", "freed/s")
WIDTHS = (7, 7, NAME_COLUMNS, 6, 6, 7, 7)


@dataclass(frozen=True)
class Row:
    """A thread at a moment."""

    pid: int
    thread: Thread
    allocated_rate: float | None  # bytes a second; None: not known yet
    freed_rate: float | None


class Watch:
    """The threads of processes that run on poolshim; those that end drop out."""

    def __init__(self, pids: list[int]) -> None:
        if not pids:
            raise BadRequest("which process? poolshim top --threads PID")
        self.pids = pids
        self.refused: dict[int, str] = {}
        self.before: dict[tuple[int, int], tuple[float, Thread]] = {}
        self.watched: dict[int, tuple[Memory, str, layout.Layout]] = {}
        for pid in pids:
            memory = Memory(pid)
            self.watched[pid] = memory, report.start_of(pid), layout.find(memory)

    def read(self) -> list[Row]:
        """All that are still there."""
        rows: list[Row] = []
        for pid, (memory, begun, found) in list(self.watched.items()):
            try:
                with memory.reading():
                    threads = read(memory, found).rows
            except GIVING_UP as error:
                self.refused[pid] = str(error)
                del self.watched[pid]
                continue
            if is_running(pid, begun):
                rows += [self.row(pid, one) for one in threads]
            else:
                del self.watched[pid]
        return rows

    def row(self, pid: int, thread: Thread) -> Row:
        """With the rates since the reading before."""
        now, key = time.monotonic(), (pid, thread.id or 0)
        then, before = self.before.get(key, (now, thread))
        self.before[key] = now, thread
        if thread.id is None or now <= then:
            return Row(pid, thread, None, None)
        made = max(0, thread.allocated_bytes - before.allocated_bytes) / (now - then)
        if thread.freed_bytes is None or before.freed_bytes is None:
            return Row(pid, thread, made, None)
        freed = max(0, thread.freed_bytes - before.freed_bytes) / (now - then)
        return Row(pid, thread, made, freed)


def as_dict(row: Row) -> dict[str, object]:
    """For --json."""
    return {"pid": row.pid, "id": row.thread.id, "name": row.thread.name,
            "allocated_bytes": row.thread.allocated_bytes, "freed_bytes": row.thread.freed_bytes,
            "allocated_rate": row.allocated_rate, "freed_rate": row.freed_rate}  # fmt: skip


def shown(value: float | None) -> str:
    """A size, or none."""
    return UNKNOWN if value is None else size(int(value))


def table(rows: list[Row], _width: int) -> Table:
    """The thread that has allocated most first."""
    found = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, collapse_padding=True)
    for title, width in zip(TITLES, WIDTHS):
        found.add_column(title, width=width, no_wrap=True, overflow="crop",
                         justify="left" if title == "name" else "right")  # fmt: skip
    for row in sorted(rows, key=lambda row: -row.thread.allocated_bytes):
        one = row.thread
        cells = (str(row.pid), UNKNOWN if one.id is None else str(one.id), one.name,
                 shown(one.allocated_bytes), shown(one.freed_bytes), shown(row.allocated_rate),
                 shown(row.freed_rate))  # fmt: skip
        found.add_row(*map(Text, cells))
    return found


def page(rows: list[Row], width: int, height: int) -> list[RenderableType]:
    """What fits on the screen."""
    head = Text(f"poolshim top: {len(rows)} {'thread' if len(rows) == 1 else 'threads'}; q ends")
    first = sorted(rows, key=lambda row: -row.thread.allocated_bytes)
    return [head, table(first[: max(1, height - HEAD_LINES)], width), Text(LEGEND, style="dim")]
