# SPDX-License-Identifier: MIT
"""Several running processes at once: those of the machine that run on poolshim, read in turns.

    watch = Watch([]); rows = watch.read()

The first reading of a process has no rates. A process that ends drops out.
"""

from __future__ import annotations

import os
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from .. import control
from ..errors import GIVING_UP, Failed, OwnFailure
from . import report
from .census import Census, Reader
from .memory import Memory
from .residence import Split, split

HISTORY = 64


@dataclass
class Row:
    """What one process shows at one moment."""

    pid: int
    program: str
    census: Census
    split: Split
    malloc_count: int  # never less than in the row before
    free_count: int
    malloc_rate: float | None  # per second; None: not known, or not yet
    free_rate: float | None
    history: list[int]  # RSS, the newest last


@dataclass
class Watched:
    """A process that is read again and again."""

    memory: Memory
    reader: Reader
    begun: str
    seconds: float = 0.0
    calls: tuple[int, int] | None = None
    history: deque[int] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def rates(self, census: Census) -> tuple[float | None, float | None]:
        """Since the reading before."""
        now, before, calls = time.monotonic(), self.seconds, self.calls or (0, 0)
        is_first, counted = self.calls is None, (census.malloc_count, census.free_count)
        # A count of a moment may be lower than that of one before; a counter must not fall.
        self.seconds = now
        self.calls = max(counted[0], calls[0]), max(counted[1], calls[1])
        if is_first or not census.has_calls or now <= before:
            return None, None
        made, freed = ((new - old) / (now - before) for new, old in zip(self.calls, calls))
        return made, freed

    def row(self) -> Row:
        """Now."""
        pid = self.memory.pid
        found = report.read(self.memory, self.reader)
        if report.start_of(pid) != self.begun:
            raise control.gone(pid)
        rss = report.resident_of(pid) or 0
        parts = split(self.memory, self.reader, found.census, rss)
        made, freed = self.rates(found.census)
        self.history.append(parts.rss)
        counts = self.calls or (0, 0)
        return Row(pid, found.program, found.census, parts, *counts, made, freed,
                   list(self.history))  # fmt: skip


def is_on_poolshim(pid: int) -> bool:
    """Has it mapped the library? False for what may not be read."""
    try:
        text = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False
    return control.LIBRARY.encode() in text


def all_pids() -> list[int]:
    """Processes of this machine that run on poolshim, as far as they may be read."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return sorted(pid for pid in pids if pid != os.getpid() and is_on_poolshim(pid))


class Watch:
    """The processes asked for; without any, all there are at each reading."""

    def __init__(self, pids: list[int]) -> None:
        self.pids = pids
        self.watched: dict[int, Watched] = {}
        self.refused: dict[int, str] = {}  # why not
        for pid in pids:
            self.add(pid)

    def add(self, pid: int) -> None:
        """One more."""
        memory = Memory(pid)
        self.watched[pid] = Watched(memory, Reader(memory), report.start_of(pid))

    def look_for_more(self) -> None:
        """Processes that have started."""
        pids = all_pids()
        for pid in pids:
            if pid in self.watched or pid in self.refused:
                continue
            try:
                self.add(pid)
            except (OwnFailure, Failed) as error:
                self.refused[pid] = str(error)
        for pid in self.refused.keys() - set(pids):
            del self.refused[pid]

    def read(self) -> list[Row]:
        """All that are still there."""
        if not self.pids:
            self.look_for_more()
        rows = []
        for pid, one in list(self.watched.items()):
            try:
                rows.append(one.row())
            except GIVING_UP:
                one.memory.close()
                del self.watched[pid]
        return rows
