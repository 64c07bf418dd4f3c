# SPDX-License-Identifier: MIT
"""What the resident memory of a process is: the census, and /proc/PID/pagemap for its pages.

    split(memory, reader, census, rss_bytes).outside

Every part is of pages that are in memory now, and the parts add up to the RSS:

    live + rounding + free + cache + metadata + outside == rss

Blocks count as resident where their kind's pages are: pages of slabs that no live block needs are
free, and likewise of the regions of medium blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .census import Census, Reader, inside
from .fronts import page_ranges
from .memory import PAGE_BYTES, Memory, contradictions
from .slots import Leaf

RUNS = re.compile(rb"(.)\1*", re.DOTALL)  # of equal bytes


@dataclass(frozen=True)
class Split:
    """Bytes in memory."""

    rss: int
    live: int  # without the rounding
    rounding: int
    free: int  # in part-filled slabs, and in pages of guarded samples
    cache: int  # free pages, cached mappings, medium blocks in fronts
    metadata: int
    outside: int  # of the program and its libraries: code, stacks, its own mappings


def size_of(pages: bytes) -> int:
    """Bytes of the pages that are in memory."""
    return pages.count(1) * PAGE_BYTES


class Residence:
    """The resident parts of one census."""

    def __init__(self, memory: Memory, reader: Reader, census: Census) -> None:
        self.memory, self.reader, self.census = memory, reader, census

    def range_bytes(self, address: int, nbytes: int) -> int:
        """Resident bytes of a range of addresses."""
        count = (nbytes + PAGE_BYTES - 1) // PAGE_BYTES
        return size_of(self.memory.resident(address, count)) if count else 0

    def kinds_in(self, leaf: Leaf, base: int, nbytes: int) -> Iterator[tuple[int, int, int]]:
        """Kind, first granule and number of granules of the part of a leaf in a range."""
        reader, size = self.reader, self.reader.granule
        count = len(leaf.data) // reader.slot_bytes
        first = max(0, (base - leaf.first) // size)
        last = min(count, (base + nbytes - leaf.first + size - 1) // size)
        kinds = leaf.data[reader.kind_at :: reader.slot_bytes][first:last] if last > first else b""
        for run in RUNS.finditer(kinds):
            yield run[1][0], first + run.start(), run.end() - run.start()

    def by_kind(self) -> dict[int, int]:
        """Resident bytes of the arenas, by the kind of their granules."""
        found: dict[int, int] = {}
        size = self.reader.granule
        pages = max(1, size // PAGE_BYTES)
        for base, nbytes in self.census.arenas:
            resident = self.memory.resident(base, nbytes // PAGE_BYTES)
            total = size_of(resident)
            for leaf in self.census.leaves:
                self.memory.check()
                for kind, at, length in self.kinds_in(leaf, base, nbytes):
                    start = (leaf.first + at * size - base) // PAGE_BYTES
                    part = resident.count(1, max(0, start), start + length * pages) * PAGE_BYTES
                    found[kind] = found.get(kind, 0) + part
                    total -= part
            found[0] = found.get(0, 0) + total  # of leaves that were touched since
        return found

    def metadata(self) -> int:
        """Slots, bitmaps, fronts and windows: the large part of it."""
        census = self.census
        slots = sum(self.range_bytes(leaf.slots, len(leaf.data)) for leaf in census.leaves)
        others = [*census.fronts, *page_ranges(census.metadata_pages)]
        return slots + sum(self.range_bytes(*other) for other in others)

    def split(self, rss: int) -> Split:
        """All parts."""
        census, kinds = self.census, self.reader.kinds
        found = self.by_kind()
        slabs = sum(found.get(kinds[name], 0) for name in ("slab", "inside"))
        medium = found.get(kinds["medium"], 0)
        large = sum(self.range_bytes(*block) for block in census.blocks)
        blocks = census.arena_blocks
        in_arenas = sum(self.range_bytes(*block) for block in blocks)
        runs = sum(nbytes for _, nbytes in blocks)
        kept = sum(self.range_bytes(*one) for one in census.busy
                   if not inside(census.arenas, one[0]))  # fmt: skip
        small_live = min(census.small_live_bytes, slabs)
        medium_live = min(max(0, census.run_live_bytes - runs), medium)
        pools = found.get(kinds["pages"], 0)
        rounding = min(census.rounding_bytes, small_live)
        live = small_live + medium_live + large + pools + census.guard_live_bytes
        free = slabs - small_live + max(0, census.guard_held_bytes - census.guard_live_bytes)
        cache = sum(found.values()) - slabs - medium_live - in_arenas - pools + kept
        metadata = self.metadata()
        heap = live + free + cache + metadata
        if heap > rss:  # RSS was counted at another moment
            rss = heap
        return Split(rss, live - rounding, rounding, free, cache, metadata, rss - heap)


def split(memory: Memory, reader: Reader, census: Census, rss: int) -> Split:
    """Splits the resident memory of a process, whose RSS was read at about the same time."""
    with contradictions(memory.pid):
        return Residence(memory, reader, census).split(rss)
