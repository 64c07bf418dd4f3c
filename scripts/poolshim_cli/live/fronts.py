# SPDX-License-Identifier: MIT
"""Free blocks in fronts and windows, and in quarantine, which their slabs count as used: see
pools/engine/front/ and pools/engine/harden/hard_quarantine.h.

    fronts = Fronts(memory, layout)
    fronts.fronts(), fronts.windows(), fronts.quarantined()

The words of a thread are not readable from outside, and so the blocks of its free streak count as
live. They are of one slab, and return when another streak opens, or after a while.
"""

from __future__ import annotations

import bisect
import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from ..errors import Failed
from .layout import Layout
from .memory import PAGE_BYTES, Memory, Record
from .slots import SHARED_BYTES_MAX, TABLES_MAX, signed

if TYPE_CHECKING:
    from .census import Census, SizeClass

RECORDS_MAX = 1 << 20
APART_MAX = 256  # tables of partitions; the library has fewer
WORD = 8
ADDRESS = (1 << 63) - 1  # of an entry: the other bit says that it is about to return


class Fronts:
    """The fronts and windows of a process."""

    def __init__(self, memory: Memory, layout: Layout) -> None:
        self.memory, self.layout = memory, layout
        self.mask = layout.offset("front.count_mask")
        self.shift = layout.offset("front.takes_shift")
        self.range_shift = layout.offset("range.address_shift")
        self.record_bytes = layout.offset("windows")
        self.next = layout.record("windows.next")

    def words(self, place: str) -> memoryview:
        """A variable as words."""
        data = self.memory.read(self.layout.place(place), self.layout.places[place][1])
        return memoryview(data).cast("Q")

    # ---- fronts ----

    def places(self) -> list[tuple[int, int]]:
        """The first entry of each class in a front, and the most that it has."""
        layout, step = self.layout, self.layout.offset("front_place")
        record = layout.record("front_place.first", "front_place.most")
        data = self.memory.read(layout.place("front_places"), layout.places["front_places"][1])
        is_usual = len(data) <= SHARED_BYTES_MAX
        return (places_in if is_usual else places_in.__wrapped__)(data, record, step)

    def front_bytes(self, places: list[tuple[int, int]]) -> int:
        """The length of a front, with its entries."""
        return self.layout.offset("front") + WORD * sum(most for _, most in places)

    def fronts(self) -> Iterator[tuple[int, memoryview]]:
        """The address of each front and its states, by class."""
        states = self.layout.field("front.states")
        found = [*self.words("own_front"), *self.words("fronts"), *self.apart()]
        for front in dict.fromkeys(front for front in found if front):
            self.memory.check()
            data = self.memory.read(front + states.offset, states.length)
            yield front, memoryview(data).cast("Q")

    def apart(self) -> Iterator[int]:
        """The addresses of fronts of partitions, and zeroes; none of an older library."""
        if "apart_fronts" not in self.layout.places:
            return
        (base, length), step = self.layout.places["apart_fronts"], self.layout.offset("front_table")
        count = min(self.memory.number(self.layout.place("apart_end"), 4), APART_MAX)
        parts = self.memory.number(self.layout.place("part_fronts"))
        tables = [*range(base, base + length, step), *range(parts, parts + step * APART_MAX, step)]
        own, fronts = (self.layout.field(f"front_table.{name}") for name in ("own", "fronts"))
        end = self.layout.record("front_table.end")
        for table in tables[:count]:
            (count,) = end.of(self.memory.read(table, own.offset + WORD))
            yield self.memory.number(table + own.offset)
            count = min(count, fronts.length // WORD)
            yield from memoryview(self.memory.read(table + fronts.offset, count * WORD)).cast("Q")

    def entries(self, front: int, ranges: list[tuple[int, int]]) -> Iterator[list[int]]:
        """Blocks of each range of entries in a front; an entry that a return has taken is 0. Ranges
        are read in one step where no whole page lies between them: none is touched by that."""
        base = front + self.layout.offset("front.entries")
        parts: list[tuple[int, int]] = []
        for first, count in sorted(ranges):
            start, end = base + first * WORD, base + (first + count) * WORD
            if parts and start // PAGE_BYTES <= (parts[-1][1] - 1) // PAGE_BYTES:
                parts[-1] = parts[-1][0], max(end, parts[-1][1])
            else:
                parts.append((start, end))
        words = {start: memoryview(self.memory.read(start, end - start)).cast("Q")
                 for start, end in parts}  # fmt: skip
        starts = list(words)
        for first, count in ranges:
            address = base + first * WORD
            start = starts[bisect.bisect_right(starts, address) - 1]
            at = (address - start) // WORD
            yield [block & ADDRESS for block in words[start][at : at + count] if block]

    def blocks(self) -> Iterator[int]:
        """The address of each block in a front."""
        places = self.places()
        for front, states in self.fronts():
            for found in self.entries(front, self.ranges(states, places)):
                yield from found

    def ranges(
        self, states: memoryview, places: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """The first entry and the number of entries of each class that a front has blocks of."""
        found = []
        for state, (first, most) in zip(states, places, strict=False):
            if state and (count := min(state & self.mask, most)):
                found.append((first, count))
        return found

    # ---- windows ----

    def records(self) -> Iterator[tuple[int, bytes]]:
        """The address of each record, and its bytes."""
        address = self.words("windows")[0]
        known: set[int] = set()
        while address:
            if address in known or len(known) == RECORDS_MAX:
                raise Failed(f"process {self.memory.pid}: its list of windows has no end")
            known.add(address)
            data = self.memory.read(address, self.record_bytes)
            yield address, data
            (address,) = self.next.of(data)

    def windows(self) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """The address of each record; by class, the lowest block of a range and its blocks."""
        ranges = self.layout.field("windows.ranges")
        for address, data in self.records():
            words = memoryview(data[ranges.offset : ranges.offset + ranges.length]).cast("Q")
            yield address, [(word >> self.range_shift, word % (1 << self.range_shift))
                            for word in words]  # fmt: skip

    def holds(self, address: int, index: int, block_bytes: int) -> bool:
        """True if a block of a class is in a window."""
        found = (ranges[index] for _, ranges in self.windows())
        return any(lowest <= address < lowest + count * block_bytes for lowest, count in found)

    # ---- quarantine ----

    def quarantined(self) -> Iterator[tuple[int, int]]:
        """The class and the address of each block."""
        layout = self.layout
        table, step = layout.place("hard"), layout.offset("hard_places")
        shards, places = layout.field("hard.shards"), layout.field("hard.places")
        record = layout.record("hard_places.first", "hard_places.count")
        classes = self.memory.read(table + places.offset, places.length)
        found = memoryview(self.memory.read(table + shards.offset, shards.length)).cast("Q")
        for shard in found:
            for index in range(len(classes) // step) if shard else ():
                first, count = record.of(classes, index * step)
                address = shard + layout.offset("hard_shard.held") + first * WORD
                words = memoryview(self.memory.read(address, count * WORD)).cast("Q")
                yield from ((index, block) for block in words if block)

    # ---- all ----

    def by_granule(self, granule: int) -> Counter[int]:
        """The number of blocks by the granule where they start; those of a window by its lowest."""
        found: Counter[int] = Counter()
        apart = {*self.blocks(), *(block for _, block in self.quarantined())}
        found.update(block // granule * granule for block in apart)
        for _, ranges in self.windows():
            for lowest, count in ranges:
                found[lowest // granule * granule] += count
        return found

    def count(self, census: Census) -> None:
        """Subtracts the blocks, and adds what malloc took, as subtract_cached of census.c does."""
        classes, places = census.classes, self.places()
        front_bytes = self.front_bytes(places)
        lengths = self.layout.offset("front.lengths")
        census.medium_requests += signed(self.words("medium_singles")[0])
        for front, states in self.fronts():
            census.fronts.append((front, front_bytes))
            census.medium_requests += sum(state >> self.shift for state in states[lengths:])
            found = self.entries(front, self.ranges(states, places))
            for state, one, (_, most) in zip(states, classes, places, strict=False):
                if not state:
                    continue
                one.taken_blocks += state >> self.shift
                if min(state & self.mask, most):
                    one.live_blocks -= len(next(found))
        for record, ranges in self.windows():
            census.metadata_pages.update(pages_of(record, self.record_bytes))
            for (_, count), one in zip(ranges, classes, strict=False):
                if count:
                    one.taken_blocks -= count
                    one.live_blocks -= count
        for index, _ in self.quarantined():
            classes[index].live_blocks -= 1
        self.add_counts(classes)

    def add_counts(self, classes: list[SizeClass]) -> None:
        """Blocks from windows and from the store, and the mean of the rounding."""
        layout, step = self.layout, self.layout.offset("store_counts")
        record = layout.record("store_counts.windowed", "store_counts.singles")
        data = self.memory.read(layout.place("store_counts"), step * len(classes))
        roundings = self.memory.read(layout.place("front_rounding"), 2 * len(classes))
        for index, one in enumerate(classes):
            windowed, singles = record.of(data, index * step)
            one.taken_blocks += windowed + signed(singles)
            one.rounding = int.from_bytes(roundings[2 * index : 2 * index + 2], "little")


@functools.lru_cache(TABLES_MAX)
def places_in(data: bytes, record: Record, step: int) -> list[tuple[int, int]]:
    """The table; processes with the same sizes share it."""
    found = (record.of(data, at) for at in range(0, len(data) // step * step, step))
    return [(first, most) for first, most in found]


def pages_of(address: int, nbytes: int) -> range:
    """The numbers of the pages that a structure is in."""
    return range(address // PAGE_BYTES, (address + nbytes - 1) // PAGE_BYTES + 1)


def page_ranges(pages: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The address and bytes of each sequence of adjacent pages."""
    ordered = sorted(pages)
    if not ordered:
        return
    starts = [ordered[0], *(after for before, after in pairwise(ordered) if after != before + 1)]
    ends = [*(before for before, after in pairwise(ordered) if after != before + 1), ordered[-1]]
    for first, last in zip(starts, ends, strict=True):
        yield first * PAGE_BYTES, (last + 1 - first) * PAGE_BYTES
