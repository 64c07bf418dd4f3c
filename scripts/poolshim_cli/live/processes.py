# SPDX-License-Identifier: MIT
"""Several running processes at once: those of the machine that run on poolshim, read in turns.

    watch = Watch([]); rows = watch.read()

The first reading of a process, or of the program that it has become, has no rates. A process that
ends drops out.
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
from .counts import NAMES, Counts, is_running, program_mark
from .memory import Memory
from .residence import Split, split

HISTORY = 64
TRIES = 2  # of a reading; an exec may fall into one


@dataclass
class Row:
    """What one process shows at one moment."""

    pid: int
    program: str
    census: Census
    split: Split
    counts: dict[str, int]  # by the names of Counts; never less than in the row before
    malloc_rate: float | None  # per second; None: not known, or not yet
    free_rate: float | None
    history: list[int]  # RSS, the newest last


@dataclass
class Watched:
    """A process that is read again and again, whatever program it becomes."""

    memory: Memory
    begun: str
    mark: bytes = b""  # of the program that the reader is for
    reader: Reader | None = None
    seconds: float | None = None  # when it was read before
    counts: Counts = field(default_factory=Counts)
    history: deque[int] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def attach(self) -> Reader:
        """A reader for the program that it is now."""
        mark = program_mark(self.memory.pid)
        if self.reader is None or mark != self.mark:
            self.detach()
            if self.mark and mark != self.mark:
                self.counts.begin_program()
                self.seconds = None
            self.mark = mark
            self.reader = Reader(self.memory)
        return self.reader

    def detach(self) -> None:
        """The next reading begins anew."""
        self.memory.close()
        self.reader = None

    def rates(self, census: Census) -> tuple[float | None, float | None]:
        """Since the reading before."""
        now, before = time.monotonic(), self.seconds
        made, freed = self.counts["malloc_count"], self.counts["free_count"]
        self.counts.add(census)
        self.seconds = now
        if before is None or not census.has_calls or now <= before:
            return None, None
        made, freed = self.counts["malloc_count"] - made, self.counts["free_count"] - freed
        return made / (now - before), freed / (now - before)

    def row(self) -> Row:
        """Now."""
        pid = self.memory.pid
        reader = self.attach()
        found = report.read(self.memory, reader)
        rss = report.resident_of(pid) or 0
        parts = split(self.memory, reader, found.census, rss)
        if report.start_of(pid) != self.begun or program_mark(pid) != self.mark:
            raise control.gone(pid)
        made, freed = self.rates(found.census)
        self.history.append(parts.rss)
        counts = {name: self.counts[name] for name in NAMES}
        return Row(pid, found.program, found.census, parts, counts, made, freed,
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
        one = Watched(Memory(pid), report.start_of(pid))
        one.attach()
        self.watched[pid] = one

    def look_for_more(self) -> None:
        """Processes that have started, or were not ready before."""
        pids = all_pids()
        for pid in pids:
            if pid in self.watched:
                continue
            try:
                self.add(pid)
                self.refused.pop(pid, None)
            except (OwnFailure, Failed) as error:
                self.refused[pid] = str(error)
        for pid in self.refused.keys() - set(pids) - self.watched.keys():
            del self.refused[pid]

    def read(self) -> list[Row]:
        """All that are still there. One that is another program by now, or none of ours, is
        looked at again at the next reading."""
        if not self.pids:
            self.look_for_more()
        rows = []
        for pid, one in list(self.watched.items()):
            row = self.read_one(one)
            if row is not None:
                rows.append(row)
                self.refused.pop(pid, None)
            elif not is_running(pid, one.begun):
                del self.watched[pid]
                self.refused.pop(pid, None)
        return rows

    def read_one(self, one: Watched) -> Row | None:
        """None: it cannot be read now."""
        for _ in range(TRIES):
            try:
                return one.row()
            except GIVING_UP as error:
                one.detach()
                self.refused[one.memory.pid] = str(error)
        return None
