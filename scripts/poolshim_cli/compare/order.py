# SPDX-License-Identifier: MIT
"""From a trace of POOLSHIM_TRACE to the calls that replay_malloc makes, in their order.

    order = write_order(Path("server.trace"), Path("calls"))
    order.calls, order.threads, order.live_bytes

Blocks are places that are used again, so that the replay's table has as many as live at a time.
The two events of a realloc become one call. Of a trace that is not whole, the first window.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ..advise.trace import COUNT_MODULUS, EVENT, FREED, HEADER, KIND_MASK, MADE, RESIZED, ZEROED
from ..advise.trace import Head, read_head
from ..errors import BadRequest

MAGIC = 0x314D5250
START = struct.Struct("<4I")
CALL = struct.Struct("<IIHBB")
ALLOC, ZALLOC, ALIGN, REALLOC, FREE, END = range(6)
SHARE_UNIT = 65536
LARGE_BYTES = 1 << 20  # blocks from here on are written to in part, where the RSS says so
ALIGN_SHIFT_MAX = 30
PIECE_EVENTS = 1 << 14  # read at a time
FLUSH_BYTES = 1 << 16

Event = tuple[int, int, int, int, int, int, int]


@dataclass
class Order:
    """What was written."""

    head: Head
    calls: int = 0
    threads: int = 0  # all of them
    live_bytes: int = 0  # requested, at their height
    used_bytes: int = 0  # of them, those that the replay writes to


@dataclass
class Level:
    """Live bytes, and their parts at the height."""

    small: int = 0
    large: int = 0
    top_small: int = 0
    top_large: int = 0

    def change(self, size: int, sign: int) -> None:
        """One block more or less."""
        if size < LARGE_BYTES:
            self.small += sign * size
        else:
            self.large += sign * size
        if self.small + self.large > self.top_small + self.top_large:
            self.top_small, self.top_large = self.small, self.large

    def share_of_large(self, peak_rss_bytes: int) -> float:
        """The part of the large blocks that the process can have used, by its peak RSS."""
        if not self.top_large or not peak_rss_bytes:
            return 1.0
        return max(0.0, min(1.0, (peak_rss_bytes - self.top_small) / self.top_large))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, Head]]:
    """The trace and its header; one line where it is none."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadRequest(f"{path}: not a regular file")
            try:
                head = read_head(file.read(HEADER.size), status.st_size)
            except ValueError as error:
                raise BadRequest(f"{path}: not a trace of POOLSHIM_TRACE: {error}") from None
            yield file, head
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None


def events_of(file: BinaryIO, head: Head) -> Iterator[Event]:
    """Those of the first window, up to the first allocation after it."""
    file.seek(head.event_begin)
    left, made = head.event_count, 0
    after = head.starts[1] if head.starts[1] < COUNT_MODULUS else COUNT_MODULUS
    while left:
        piece = file.read(min(left, PIECE_EVENTS) * EVENT.size)
        left -= min(left, PIECE_EVENTS)
        piece = piece[: len(piece) // EVENT.size * EVENT.size]
        for event in EVENT.iter_unpack(piece):
            if event[5] & KIND_MASK == MADE:
                made += 1
                if made > head.ends[0] or event[3] >= after:
                    return
            yield event  # type: ignore[misc]


@dataclass
class Lives:
    """When threads begin and end: the place of the first and the last event of each."""

    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)

    def ending(self) -> set[int]:
        """Threads that end with their last event, since others begin later. The main thread, and
        those that no thread follows, live on: they may be idle."""
        newest = max(self.first.values(), default=0)
        main = min(self.first, key=lambda one: self.first[one], default=0)
        return {one for one, at in self.last.items() if at < newest and one != main}


def lives_of(events: Iterator[Event]) -> Lives:
    """The first of two passes. Thread 0 is any thread past its destructors."""
    lives = Lives()
    for at, event in enumerate(events):
        thread = event[4]
        if thread and event[5] & KIND_MASK:
            lives.first.setdefault(thread, at)
            lives.last[thread] = at
    return lives


class Writer:
    """The second pass: from events to calls."""

    def __init__(self, out: BinaryIO, lives: Lives) -> None:
        self.out, self.lives, self.ending = out, lives, lives.ending()
        self.level, self.data = Level(), bytearray()
        self.calls = 0
        self.live: dict[int, int] = {}  # address -> place
        self.sizes: list[int] = []  # by place
        self.free_places: list[int] = []
        self.slots: dict[int, int] = {}  # thread -> its number in the file
        self.free_slots: list[int] = []
        self.slot_count = 0
        self.slot = 0  # of the last event
        self.halves: dict[int, tuple[Event, int]] = {}  # thread -> half of a realloc, its place

    def emit(self, kind: int, place: int, size: int = 0, align_shift: int = 0) -> None:
        """One call, by the thread of the present event."""
        self.data += CALL.pack(place, size, self.slot, kind, align_shift)
        self.calls += kind != END
        if len(self.data) >= FLUSH_BYTES:
            self.out.write(self.data)
            self.data.clear()

    def slot_of(self, thread: int) -> int:
        """The thread's number; thread 0 is whichever made the last call."""
        if not thread:
            return self.slot
        if thread not in self.slots:
            if self.free_slots:
                self.slots[thread] = heapq.heappop(self.free_slots)
            else:
                self.slots[thread] = self.slot_count
                self.slot_count += 1
        return self.slots[thread]

    def take_place(self, size: int) -> int:
        """For a new block."""
        self.level.change(size, 1)
        if self.free_places:
            place = self.free_places.pop()
            self.sizes[place] = size
        else:
            place = len(self.sizes)
            self.sizes.append(size)
        return place

    def free(self, place: int) -> None:
        """The block of a place."""
        self.level.change(self.sizes[place], -1)
        self.free_places.append(place)
        self.emit(FREE, place)

    def alloc(self, event: Event) -> None:
        """A new block. One that is live at its address has been freed unseen."""
        address, size, _, _, _, kind, align_shift = event
        if address in self.live:
            self.free(self.live.pop(address))
        align_shift = min(align_shift, ALIGN_SHIFT_MAX)
        place = self.live[address] = self.take_place(size)
        self.emit(ALIGN if align_shift else ZALLOC if kind & ZEROED else ALLOC, place, size,
                  align_shift)  # fmt: skip

    def resize(self, place: int, made: Event) -> None:
        """A realloc."""
        address, size = made[:2]
        if address in self.live:
            self.free(self.live.pop(address))
        self.level.change(self.sizes[place], -1)
        self.level.change(size, 1)
        self.sizes[place] = size
        self.live[address] = place
        self.emit(REALLOC, place, size)

    def finish_half(self, thread: int) -> None:
        """Half of a realloc that the other half does not follow is a call of its own."""
        half = self.halves.pop(thread, None)
        if half is None:
            return
        event, place = half
        if event[5] & KIND_MASK == MADE:
            self.alloc(event)
        else:
            self.free(place)

    def resized(self, event: Event) -> None:
        """An event within a realloc. In place: freed, then made; with a copy: made, then freed."""
        thread, is_made = event[4], event[5] & KIND_MASK == MADE
        half = self.halves.get(thread)
        is_other = half is not None and (half[0][5] & KIND_MASK == MADE) != is_made
        if not is_other:
            self.finish_half(thread)
        place = -1 if is_made else self.live.pop(event[0], -1)
        if is_other and half is not None and (is_made or place >= 0):
            del self.halves[thread]
            self.resize(half[1] if is_made else place, event if is_made else half[0])
        elif is_made or place >= 0:
            self.finish_half(thread)
            self.halves[thread] = (event, place)

    def write(self, event: Event, at: int) -> None:
        """What one event calls."""
        thread, kind = event[4], event[5]
        if not kind & KIND_MASK:
            return
        self.slot = self.slot_of(thread)
        if kind & RESIZED:
            self.resized(event)
        else:
            self.finish_half(thread)
            if kind & KIND_MASK == MADE:
                self.alloc(event)
            elif kind & KIND_MASK == FREED and event[0] in self.live:
                self.free(self.live.pop(event[0]))
        if thread in self.ending and self.lives.last[thread] == at:
            self.finish_half(thread)
            self.emit(END, 0)
            heapq.heappush(self.free_slots, self.slots.pop(thread))
            self.slot = 0

    def finish(self) -> None:
        """The rest."""
        for thread in list(self.halves):
            self.slot = self.slot_of(thread)
            self.finish_half(thread)
        self.out.write(self.data)


def write_order(trace: Path, path: Path) -> Order:
    """The file for replay_malloc; one line where the trace cannot be replayed."""
    with opened(trace) as (file, head), path.open("wb") as out:
        lives = lives_of(events_of(file, head))
        out.write(bytes(START.size))
        writer = Writer(out, lives)
        for at, event in enumerate(events_of(file, head)):
            writer.write(event, at)
        writer.finish()
        if not writer.sizes:
            raise BadRequest(f"{trace}: no allocation was traced")
        level = writer.level
        share = level.share_of_large(head.peak_rss_bytes)
        out.seek(0)
        out.write(START.pack(
            MAGIC, len(writer.sizes), max(1, writer.slot_count), round(share * SHARE_UNIT)
        ))  # fmt: skip
    return Order(
        head, writer.calls, max(1, len(lives.first)), level.top_small + level.top_large,
        level.top_small + round(share * level.top_large),
    )  # fmt: skip
