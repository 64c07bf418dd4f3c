# SPDX-License-Identifier: MIT
"""The table of a running process's heap profile: stacks and live samples at one moment.

    found = Samples(memory, layout).read(); found.stacks, found.live

The other side of pools/engine/profile/table.h. The table is read as a whole, and again until no
thread has changed it meanwhile; that blocks no thread. Where they change it at each of many
attempts, the last one is used: `is_settled` is false, and a few samples may be wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..foreign.text import printable
from ..pprof import Line
from .layout import Layout
from .memory import Memory, contradictions

ATTEMPTS = 200
PAUSE_SECONDS = 0.0005
TABLE_BYTES_MAX = 64 << 30  # as POOLSHIM_PROFILE_MAX
FRAMES_MAX = 64
SAMPLE_BYTES_MIN = 24
WORD = 8
UNKNOWN = "??"


@dataclass(frozen=True)
class Stack:
    """The call sites of a stack, innermost first, and all allocations there since the start."""

    sites: tuple[int, ...] = ()
    made_weight: int = 0
    made_bytes: int = 0
    peak_weight: int = 0  # live at the peak of the period, of the period (poolshim_peak_begin)
    peak_bytes: int = 0


@dataclass(frozen=True)
class Sample:
    """A live block that is sampled."""

    block: int
    nbytes: int
    requested: int
    weight: int
    slab: int  # address of the slab that would have had it otherwise; 0: none
    stack: int  # address of its stack; in no table: one that did not fit
    number: int  # of the samples since the start, modulo 2^32
    is_medium: bool


@dataclass
class Snapshot:
    """The table."""

    stacks: dict[int, Stack] = field(default_factory=dict)  # by address
    lines: dict[int, Line] = field(default_factory=dict)  # of interpreted programs, by site
    live: list[Sample] = field(default_factory=list)
    base: int = 0  # of its memory; 0: there is none
    nbytes: int = 0
    sample_count: int = 0  # since the start
    lost_stacks: int = 0  # of them: of stacks that did not fit
    lost_blocks: int = 0  # of them: counted as freed, since the table was full
    live_bytes: int = 0  # of all live samples, with the blocks that they represent
    is_settled: bool = True


def text_of(data: bytes) -> str:
    """A text of the process."""
    return printable(data.decode("utf-8", "replace")) or UNKNOWN


class Samples:
    """Reads the samples of one process."""

    def __init__(self, memory: Memory, layout: Layout) -> None:
        self.memory = memory
        self.layout = layout
        self.header = layout.record(
            "table.base", "table.buckets", "table.used_end", "table.sequence"
        )
        self.counts = layout.record(
            "profile.sample_count", "profile.lost_stacks", "profile.lost_blocks",
            "profile.live_bytes",
        )  # fmt: skip
        self.sample = layout.record(
            "sample.block", "sample.bytes", "sample.requested", "sample.weight", "sample.slab",
            "sample.stack", "sample.number", "sample.is_medium", "sample.chain",
        )  # fmt: skip
        self.sample_bytes = layout.offset("sample")
        self.stack = layout.record(
            "stack.made_weight", "stack.made_bytes", "stack.count", "stack.chain"
        )
        self.sites_at = layout.offset("stack.sites")
        self.marks = self.period = None
        if "stack.peak_number" in layout.numbers:  # an older library has none
            parts = ("weight", "bytes", "number")
            names = [f"stack.{mark}_{part}" for mark in ("period", "peak") for part in parts]
            self.marks = layout.record(*names)
            self.period = layout.record("profile.period_number", "profile.peak_number")
        self.line_site = self.line_limit = 0
        if "line.site" in layout.numbers:  # an older library has none
            self.line_site, self.line_limit = map(layout.offset, ("line.site", "line.limit"))
            self.line = layout.record("line.number", "line.file_bytes", "line.function_bytes")
            self.text_at = layout.offset("line.text")

    def variable(self, name: str) -> bytes:
        """The bytes of a variable of the library."""
        return self.memory.read(self.layout.place(name), self.layout.places[name][1])

    def read(self) -> Snapshot:
        """At this moment."""
        with self.memory.reading(), contradictions(self.memory.pid):
            return self.read_settled()

    def read_settled(self) -> Snapshot:
        """Once no thread has changed it meanwhile."""
        for attempt in range(1, ATTEMPTS + 1):
            base, buckets, end, sequence = self.header.of(self.variable("table"))
            if not 0 < end - base <= TABLE_BYTES_MAX:
                return Snapshot()
            if sequence % 2 == 1 and attempt < ATTEMPTS:
                time.sleep(PAUSE_SECONDS)
                continue
            self.memory.allow_bytes()
            counts, lost = self.variable("profile"), self.variable("lost_stack")
            table = self.memory.read(base, end - base)
            is_settled = self.header.of(self.variable("table"))[2:] == (end, sequence)
            if is_settled or attempt == ATTEMPTS:
                break
        period = self.period.of(counts) if self.period else ()
        snapshot = self.parse(table, base, buckets, period)
        snapshot.is_settled = is_settled and sequence % 2 == 0
        (snapshot.sample_count, snapshot.lost_stacks, snapshot.lost_blocks,
         snapshot.live_bytes) = self.counts.of(counts)  # fmt: skip
        made_weight, made_bytes, _, _ = self.stack.of(lost)
        snapshot.stacks[self.layout.place("lost_stack")] = Stack(
            (), made_weight, made_bytes, *self.peak_of(lost, 0, period)
        )
        return snapshot

    def peak_of(self, table: bytes, at: int, period: tuple[int, ...]) -> tuple[int, int]:
        """Of the stack there, at the peak of the period. One without a change since had then the
        same. period: its number, and that of its peak."""
        if self.marks is None or not period:
            return 0, 0
        weight, nbytes, number, peak_weight, peak_bytes, peak = self.marks.of(table, at)
        if number != period[0]:
            return 0, 0
        return (peak_weight, peak_bytes) if peak == period[1] else (weight, nbytes)

    def parse(
        self, table: bytes, base: int, buckets: int, period: tuple[int, ...] = ()
    ) -> Snapshot:
        """The chains of both halves of the buckets."""
        places = memoryview(table)[: buckets * 2 * WORD].cast("Q")
        stacks = dict(self.stacks(table, base, places[:buckets], period))
        sites = {site for stack in stacks.values() for site in stack.sites}
        return Snapshot(
            stacks, dict(self.lines(table, sites)),
            list(self.samples(table, base, places[buckets:])), base, len(table),
        )  # fmt: skip

    def lines(self, table: bytes, sites: set[int]) -> Iterator[tuple[int, Line]]:
        """The lines of sites that are no addresses of code; one whose record does not lie in the
        table has no names."""
        for site in sites:
            at = site - self.line_site
            if not 0 <= at < self.line_limit:
                continue
            self.memory.check()
            number = file_bytes = function_bytes = 0
            start = at + self.text_at
            if start <= len(table) - self.line.nbytes:
                number, file_bytes, function_bytes = self.line.of(table, at)
            file = table[start : start + file_bytes]
            function = table[start + file_bytes : start + file_bytes + function_bytes]
            yield site, Line(text_of(file), text_of(function), number)

    def samples(self, table: bytes, base: int, heads: memoryview) -> Iterator[Sample]:
        """No step leaves the table, and there are no more steps than samples."""
        least, last = heads.nbytes * 2, len(table) - self.sample_bytes
        left = len(table) // max(self.sample_bytes, SAMPLE_BYTES_MIN)
        for address in heads:
            while least <= address - base <= last and left > 0:
                self.memory.check()
                *values, is_medium, chain = self.sample.of(table, address - base)
                yield Sample(*values, bool(is_medium))
                address, left = chain, left - 1

    def stacks(
        self, table: bytes, base: int, heads: memoryview, period: tuple[int, ...]
    ) -> Iterator[tuple[int, Stack]]:
        """The stacks with their addresses."""
        least, last = heads.nbytes * 2, len(table) - self.sites_at
        left = len(table) // max(self.sites_at, SAMPLE_BYTES_MIN)
        for address in heads:
            while least <= address - base <= last and left > 0:
                self.memory.check()
                made_weight, made_bytes, count, chain = self.stack.of(table, address - base)
                start = address - base + self.sites_at
                data = table[start : start + min(count, FRAMES_MAX) * WORD]
                sites = tuple(memoryview(data[: len(data) // WORD * WORD]).cast("Q"))
                peak = self.peak_of(table, address - base, period)
                yield address, Stack(sites, made_weight, made_bytes, *peak)
                address, left = chain, left - 1
