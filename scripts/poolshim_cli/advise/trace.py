# SPDX-License-Identifier: MIT
"""Reads what POOLSHIM_TRACE writes: the format is that of pools/engine/record/trace.h.

    trace = read(Path("1234.trace"))
    trace.size[i], trace.born[i], trace.died[i]      # of the block i

The blocks are in the order of their allocation. Times are places in the order of all events.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import BadRequest
from ..pprof import Location, Mapping

MAGIC = b"PSTRACE2"
MAGIC_STEM = MAGIC[:-1]
WINDOWS = 33
HEADER = struct.Struct(f"<8s7Q{WINDOWS}Q{WINDOWS}Q7Q")
EVENT = struct.Struct("<QIIIHBB")
MADE, FREED, RESIZED, ZEROED = 1, 2, 4, 8
KIND_MASK = 3
FRAMES_MOST = 24
LIVE = -1  # never freed, as far as the trace goes
COUNT_MODULUS = 1 << 32

Stack = tuple[int, ...]


def numbers() -> array[int]:
    """A column of the table of blocks."""
    return array("q")


@dataclass
class Trace:
    """The blocks of all windows, in columns; the stacks; the code that was loaded."""

    size: array[int] = field(default_factory=numbers)
    stack: array[int] = field(default_factory=numbers)  # names of self.stacks, 0: none
    thread: array[int] = field(default_factory=numbers)
    born: array[int] = field(default_factory=numbers)
    window: array[int] = field(default_factory=numbers)
    died: array[int] = field(default_factory=numbers)
    free_stack: array[int] = field(default_factory=numbers)
    free_thread: array[int] = field(default_factory=numbers)
    is_resized: bytearray = field(default_factory=bytearray)
    stacks: dict[int, Stack] = field(default_factory=dict)
    mappings: list[Mapping] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)  # by window: what one block represents
    made_count: int = 0  # by the whole process
    made_bytes: int = 0
    lost_stacks: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether each allocation was traced."""
        return all(weight == 1 for weight in self.weights[:1]) and len(set(self.window)) <= 1

    def weight(self, block: int) -> float:
        """Allocations of the process that a block represents."""
        return self.weights[self.window[block]]

    def location(self, address: int) -> Location:
        """A call site."""
        for mapping in self.mappings:
            if mapping.start <= address < mapping.limit:
                return Location(address, mapping, "")
        return Location(address, None, "")


def read_mappings(text: str) -> list[Mapping]:
    """The code of files, as /proc/PID/maps lists it."""
    found = []
    for line in text.splitlines():
        words = line.split(None, 5)
        if len(words) < 6 or "x" not in words[1] or not words[5].startswith("/"):
            continue
        start, _, limit = words[0].partition("-")
        found.append(Mapping(int(start, 16), int(limit, 16), int(words[2], 16), words[5], ""))
    return found


def read_stacks(data: bytes, names: set[int]) -> dict[int, Stack]:
    """The stacks that events name, by the place of their words; 0 is none. Between them may be
    words that a thread had claimed, and not written yet, when the process ended."""
    words = array("Q", data[: len(data) // 8 * 8])
    found: dict[int, Stack] = {0: ()}
    for at in names:
        if 0 < at < len(words) and 0 < words[at] <= FRAMES_MOST:
            found[at] = tuple(words[at + 1 : at + 1 + words[at]])
    return found


def weights_of(starts: list[int], ends: list[int], made_count: int) -> list[float]:
    """A window represents the allocations up to the next one."""
    found = []
    for start, end, after in zip(starts, ends, [*starts[1:], made_count], strict=True):
        traced = min(end, made_count) - start
        until = min(after, made_count) - start
        found.append(until / traced if traced > 0 else 0.0)
    return found


class Builder:
    """Joins each free with its allocation."""

    def __init__(self, trace: Trace, ends: list[int]) -> None:
        self.trace, self.ends, self.window, self.high = trace, ends, 0, 0
        self.live: dict[int, int] = {}

    def made(self, time: int, event: tuple[int, ...]) -> None:
        """An allocation."""
        address, size, stack, count, thread, kind, _ = event
        trace = self.trace
        count += self.high
        if count + COUNT_MODULUS // 2 < self.ends[self.window]:
            self.high += COUNT_MODULUS
            count += COUNT_MODULUS
        while self.window + 1 < WINDOWS and count >= self.ends[self.window]:
            self.window += 1
        self.live[address] = len(trace.size)
        trace.size.append(size)
        trace.stack.append(stack)
        trace.thread.append(thread)
        trace.born.append(time)
        trace.window.append(self.window)
        trace.died.append(LIVE)
        trace.free_stack.append(0)
        trace.free_thread.append(0)
        trace.is_resized.append(1 if kind & RESIZED else 0)

    def freed(self, time: int, event: tuple[int, ...]) -> None:
        """A free."""
        block = self.live.pop(event[0], None)
        if block is not None:
            self.trace.died[block] = time
            self.trace.free_stack[block] = event[2]
            self.trace.free_thread[block] = event[4]
            self.trace.is_resized[block] |= 1 if event[5] & RESIZED else 0


@dataclass(frozen=True)
class Head:
    """The header, checked against the length of the file."""

    stack_begin: int
    stack_end: int
    event_begin: int
    event_count: int  # that are in the file
    maps_begin: int
    maps_end: int
    starts: list[int]
    ends: list[int]
    stack_words: int
    made_count: int
    made_bytes: int
    lost_stacks: int
    # Of the process within the first window, without what the trace takes; 0: not known.
    peak_rss_bytes: int

    @property
    def is_whole(self) -> bool:
        """Whether the first window has all allocations."""
        return self.made_count <= self.ends[0]


def read_head(data: bytes, length: int) -> Head:
    """The header of a trace of so many bytes; ValueError where it is none."""
    if len(data) < HEADER.size:
        raise ValueError("it is too short")
    head = HEADER.unpack_from(data)
    if head[0] != MAGIC and head[0].startswith(MAGIC_STEM):
        raise ValueError("another version of poolshim wrote it")
    if head[0] != MAGIC or head[7] != WINDOWS:
        raise ValueError("it does not begin like one")
    _, stack_begin, stack_end, event_begin, event_limit, maps_begin, maps_end = head[:7]
    starts, ends = list(head[8 : 8 + WINDOWS]), list(head[8 + WINDOWS : 8 + 2 * WINDOWS])
    words, event_count, made_count, made_bytes, lost, unwind_bytes, peak_rss_bytes = head[-7:]
    count = min(event_count, event_limit)
    if max(stack_end, maps_end, event_begin + count * EVENT.size) > length:
        raise ValueError("it ends early")
    return Head(
        stack_begin, stack_end, event_begin, count, maps_begin, maps_end, starts, ends, words,
        made_count, made_bytes, lost, max(0, peak_rss_bytes - unwind_bytes),
    )  # fmt: skip


def parse(data: bytes) -> Trace:
    """A trace; ValueError where the bytes are none."""
    head = read_head(data, len(data))
    maps = data[head.maps_begin : head.maps_end].split(b"\0", 1)[0].decode(errors="replace")
    trace = Trace(
        mappings=read_mappings(maps),
        weights=weights_of(head.starts, head.ends, head.made_count),
        made_count=head.made_count, made_bytes=head.made_bytes, lost_stacks=head.lost_stacks,
    )  # fmt: skip
    builder = Builder(trace, head.ends)
    begin = head.event_begin
    events = memoryview(data)[begin : begin + head.event_count * EVENT.size]
    for time, event in enumerate(EVENT.iter_unpack(events)):
        if event[5] & KIND_MASK == MADE:
            builder.made(time, event)
        elif event[5] & KIND_MASK == FREED:
            builder.freed(time, event)
    names = {*trace.stack, *trace.free_stack}
    stacks_end = min(head.stack_end, head.stack_begin + 8 * head.stack_words)
    trace.stacks = read_stacks(data[head.stack_begin : stacks_end], names)
    return trace


def read(path: Path) -> Trace:
    """The trace in a file; one line where it cannot be read."""
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise BadRequest(f"{path}: not a trace of POOLSHIM_TRACE: {error}") from None
