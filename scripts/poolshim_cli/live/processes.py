# SPDX-License-Identifier: MIT
"""Several running processes at once: those of the machine that run on poolshim, read in turns.

    watch = Watch([]); rows = watch.read()

The first reading of a process, or of the program that it has become, has no rates. A process that
ends drops out. So does a process that takes long to read: another user controls its memory, and it
must not delay the figures of the others. Processes that were read fast the last time come first.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .. import control
from ..errors import GIVING_UP, OwnFailure
from ..foreign import files, patience
from . import containers, report, threads
from .census import Census, Reader
from .counts import NAMES, Counts, is_running, program_mark
from .memory import Memory
from .residence import Split, split

T = TypeVar("T")

HISTORY = 64
TRIES = 2  # of a reading; an exec may fall into one
ALL_SECONDS = 10.0  # of a reading of all processes; that of a process that has begun ends
ONE_SECONDS = 10.0  # of one of them; longer, and it is put aside
READING_SECONDS = 60.0  # after which the thread of one that was put aside ends
SHORT_SECONDS = 1.0  # the same, while others are aside
USUAL_TIMES = 10  # as long as the last time: no cause to put it aside
ASIDE_SECONDS, ASIDE_DOUBLED_MAX = 60.0, 6


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
    pss: int | None = None  # where it is asked for: the kernel looks at each page
    threads: threads.Threads | None = None  # where their frees are counted


@dataclass
class Watched:
    """A process that is read again and again, whatever program it becomes."""

    memory: Memory
    begun: str
    user: int
    mark: bytes = b""  # of the program that the reader is for
    reader: Reader | None = None
    seconds: float | None = None  # when it was read before
    took_seconds: float = math.inf  # the last time
    has_pss: bool = False
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
        """Now. One that became another program meanwhile is read again."""
        for left in reversed(range(TRIES)):
            try:
                return self.row_of_program()
            except GIVING_UP:
                self.detach()
                if left == 0 or not is_running(self.memory.pid, self.begun):
                    raise
        raise AssertionError("unreachable")

    def row_of_program(self) -> Row:
        """Reads the row of the program that the process now runs."""
        pid = self.memory.pid
        with self.memory.reading(READING_SECONDS):
            reader = self.attach()
            census = reader.census()
            rss = report.resident_of(pid) or 0
            has_threads = threads.are_counted(self.memory, reader.layout)
            of_threads = threads.read(self.memory, reader.layout) if has_threads else None
            parts, program = split(self.memory, reader, census, rss), report.program_of(pid)
            census.forget_places()
            pss = report.kib_of(pid, "smaps_rollup", "Pss") if self.has_pss else None
            if report.start_of(pid) != self.begun or program_mark(pid) != self.mark:
                raise control.gone(pid)
        made, freed = self.rates(census)
        self.history.append(parts.rss)
        counts = {name: self.counts[name] for name in NAMES}
        history = list(self.history)
        return Row(pid, program, census, parts, counts, made, freed, history, pss, of_threads)


def is_on_poolshim(pid: int) -> bool:
    """Has it mapped the library, or in its program? False for what may not be read."""
    try:
        text = files.read_proc(pid, "maps")
    except OSError:
        return False
    return control.LIBRARY.encode() in text or control.is_linked(pid)


def start_or_none(pid: int) -> str | None:
    """When it was started; None once it has ended."""
    try:
        return report.start_of(pid)
    except OwnFailure:
        return None


@dataclass
class Late:
    """A process that delayed a reader."""

    begun: str | None
    thread: threading.Thread | None  # that is still blocked
    until_s: float
    times: int


class Aside:
    """Processes that are not read for a while, each time for twice as long."""

    def __init__(self) -> None:
        self.late: dict[int, Late] = {}
        self.delays: Counter[int] = Counter()  # by user

    def put(self, pid: int, thread: threading.Thread | None = None) -> None:
        """One more."""
        times = self.late[pid].times + 1 if pid in self.late else 0
        until_s = time.monotonic() + ASIDE_SECONDS * 2 ** min(times, ASIDE_DOUBLED_MAX)
        self.late[pid] = Late(start_or_none(pid), thread, until_s, times)
        self.delays[user_of(pid)] += 1

    def has(self, pid: int) -> bool:
        """Also False of another process that has the number now."""
        late = self.late.get(pid)
        if late is None or late.begun != start_or_none(pid):
            self.late.pop(pid, None)
            return False
        is_waiting = late.thread is not None and late.thread.is_alive()
        return is_waiting or time.monotonic() < late.until_s

    def has_any(self) -> bool:
        """Is any process late? Then new processes get little time: they may be late, too."""
        return any(self.has(pid) for pid in list(self.late))


def user_of(pid: int) -> int:
    """-1 once it has ended."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def look(aside: Aside, known: set[int], found: list[int], at: list[int]) -> None:
    """Adds the other processes of this machine that run on poolshim, as far as they may be read."""
    for pid in containers.all_pids():
        at[0] = pid
        is_other = pid not in known and pid != os.getpid()
        if is_other and not aside.has(pid) and is_on_poolshim(pid):
            found.append(pid)


def watched_of(pid: int, has_pss: bool) -> Watched:
    """One that has not been read yet."""
    memory = Memory(pid)
    with memory.reading(READING_SECONDS):
        one = Watched(memory, report.start_of(pid), user_of(pid), has_pss=has_pss)
        one.attach()
        return one


def first_of(pid: int, has_pss: bool) -> tuple[Watched, Row]:
    """The record of a process, with its first reading."""
    one = watched_of(pid, has_pss)
    return one, one.row()


class Watch:
    """The processes asked for; without any, all there are at each reading."""

    def __init__(self, pids: list[int], has_pss: bool = False, container: str = "") -> None:
        self.pids, self.container = pids, container  # container: of which all are asked for
        self.has_pss = has_pss
        self.watched: dict[int, Watched] = {pid: watched_of(pid, has_pss) for pid in pids}
        self.refused: dict[int, str] = {}  # why, at the last reading
        self.aside = Aside()
        self.left_seconds = 0.0  # for this reading

    def is_served(self, pid: int) -> bool:
        """Is it one of those asked for?"""
        if not self.container:
            return not self.pids or pid in self.pids
        identity = containers.identity_in(containers.paths_of(pid))
        return containers.is_asked_for(identity, self.container)

    def read(self) -> list[Row]:
        """All that are still there, and can be read in time."""
        self.left_seconds = ALL_SECONDS
        self.refused.clear()
        rows = self.known_rows()
        if not self.pids:
            rows += self.new_rows()
        return sorted(rows, key=lambda row: row.pid)

    def known_rows(self) -> list[Row]:
        """The fastest first. Those that are not reached remain for the next time."""
        order = sorted(self.watched.items(),
                       key=lambda one: (self.aside.delays[one[1].user], one[1].took_seconds))
        rows = []
        for pid, one in order:
            if self.left_seconds <= 0:
                break
            before = self.left_seconds
            usual = max(SHORT_SECONDS, USUAL_TIMES * one.took_seconds)
            row = self.timed(usual if self.aside.has_any() else ONE_SECONDS, pid, one.row)
            if row is None:
                if self.aside.has(pid) or not is_running(pid, one.begun):
                    del self.watched[pid]
                continue
            one.took_seconds = before - self.left_seconds
            rows.append(row)
        return rows

    def found(self) -> list[int]:
        """New processes on poolshim; those of users with one that delayed a reader are last."""
        pids: list[int] = []
        at = [0]
        try:
            patience.Call(look, self.aside, set(self.watched), pids, at).result(ONE_SECONDS)
        except patience.Stuck as stuck:
            self.aside.put(at[0], stuck.thread)
        found = [pid for pid in list(pids) if self.is_served(pid)]
        return sorted(found, key=lambda pid: self.aside.delays[user_of(pid)])

    def new_rows(self) -> list[Row]:
        """Rows of processes that have started."""
        rows = []
        for pid in self.found():
            before, is_short = self.left_seconds, self.aside.has_any()
            if before <= 0 or not patience.has_room():
                break
            pair = self.timed(SHORT_SECONDS if is_short else ONE_SECONDS, pid, first_of, pid,
                              self.has_pss)  # fmt: skip
            if pair is not None:
                self.watched[pid] = pair[0]
                pair[0].took_seconds = before - self.left_seconds
                rows.append(pair[1])
            elif self.aside.has(pid):
                self.left_seconds = min(self.left_seconds, SHORT_SECONDS)
        return rows

    def timed(
        self, seconds: float, pid: int, function: Callable[..., T], *arguments: Any
    ) -> T | None:
        """What a thread reads of a process; None where it has ended, or cannot be read."""
        call, thread = patience.Call(function, *arguments), None
        seconds = min(seconds, ONE_SECONDS)
        try:
            return call.result(seconds)
        except patience.Stuck as stuck:
            thread, self.refused[pid] = stuck.thread, f"process {pid}: reading it {stuck}"
        except GIVING_UP as error:
            self.refused[pid] = str(error)
        finally:
            self.left_seconds -= call.used_seconds
        if call.used_seconds >= seconds:
            self.aside.put(pid, thread)
        return None
