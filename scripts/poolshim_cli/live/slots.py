# SPDX-License-Identifier: MIT
"""The slots of the page map that a process has touched: see pools/engine/page/page_map.h.

    for leaf in leaves(memory, layout): leaf.first, leaf.data

A slot is 128 bytes for 64 KiB of addresses, so a heap of 1 GiB is read in 2 MiB. Slots that were
never touched are not read: the table of the whole address range is some hundred times as large.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import Failed
from .layout import Layout
from .memory import PAGE_BYTES, Memory, Record

MASK = (1 << 64) - 1
WORD = 8
TABLES_MAX, SHARED_BYTES_MAX = 8, 1 << 16  # tables in memory that processes share
CLASSES_MAX = 255
REACH_MAX = 1 << 24  # granules; eight times as many as the library's window has at most


@dataclass(frozen=True)
class Leaf:
    """The slots of adjacent granules."""

    first: int  # address of the first granule
    slots: int  # address of its slot
    data: bytes


def signed(value: int) -> int:
    """A word as a distance."""
    return value - (1 << 64) if value >> 63 else value


@dataclass(frozen=True)
class Window:
    """The array of slots that most addresses are in."""

    end: int
    reach: int  # index of its lowest granule, below 0
    slots_end: int


class Map:
    """The page map of a process."""

    def __init__(self, memory: Memory, layout: Layout) -> None:
        self.memory = memory
        self.layout = layout
        self.granule_shift = layout.offset("granule.shift")
        self.slot_shift = layout.offset("slot.shift")
        self.leaf_shift = layout.offset("leaf.shift")
        self.leaf_slots = 1 << (self.leaf_shift - self.granule_shift)
        self.leaf_bytes = self.leaf_slots << self.slot_shift
        self.branch_shift = layout.offset("branch.shift")
        self.record = layout.record("window.end", "window.reach", "window.slots_end")

    def window(self) -> Window:
        """Now. It grows, downwards."""
        end, reach, slots_end = self.memory.values(self.record, self.layout.place("window"))
        return Window(end, max(signed(reach), -REACH_MAX) if reach >> 63 else 0, slots_end)

    def read_touched(self, first: int, slots: int, count: int) -> Iterator[Leaf]:
        """The touched part of an array of slots; adjacent leaves are read in one step."""
        pages = self.leaf_bytes // PAGE_BYTES or 1
        step = max(self.leaf_bytes, PAGE_BYTES)
        total = count << self.slot_shift
        touched = self.memory.touched(slots, (total + PAGE_BYTES - 1) // PAGE_BYTES)
        start = -1
        for at in range(0, total + step, step):
            is_touched = 1 in touched[at // PAGE_BYTES : at // PAGE_BYTES + pages]
            if is_touched and start < 0:
                start = at
            elif not is_touched and start >= 0:
                length = min(at, total) - start
                granules = start >> self.slot_shift << self.granule_shift
                yield Leaf(first + granules, slots + start,
                           self.memory.read(slots + start, length))  # fmt: skip
                start = -1

    def words(self, address: int, count: int) -> Iterator[tuple[int, int]]:
        """Index and value of the words that are not 0 in an array that is touched sparsely."""
        per_page = PAGE_BYTES // WORD
        first_page = address // PAGE_BYTES * PAGE_BYTES
        total = address + count * WORD - first_page
        for page, is_touched in enumerate(
            self.memory.touched(first_page, (total + PAGE_BYTES - 1) // PAGE_BYTES)
        ):
            if is_touched:
                data = self.memory.read(first_page + page * PAGE_BYTES, PAGE_BYTES)
                for i, value in enumerate(struct.unpack(f"<{per_page}Q", data)):
                    index = page * per_page + i - (address - first_page) // WORD
                    if value and 0 <= index < count:
                        yield index, value

    def leaves(self) -> Iterator[Leaf]:
        """All touched slots."""
        window = self.window()
        if window.reach < 0:
            count = -window.reach
            yield from self.read_touched(
                window.end - (count << self.granule_shift),
                window.slots_end - (count << self.slot_shift),
                count,
            )
        place, layout = self.layout.place("map"), self.layout
        root = layout.field("map.root")
        zero_branch = place + layout.offset("map.zero_branch")
        zero_leaf = place + layout.offset("map.zero_leaf")
        leaves = layout.field("branch.leaves")
        for high, distance in self.words(place + root.offset, root.length // WORD):
            branch = (zero_branch + distance & MASK) + leaves.offset
            for low, offset in self.words(branch, leaves.length // WORD):
                first = (high << self.branch_shift) + (low << self.leaf_shift)
                yield from self.read_touched(first, zero_leaf + offset & MASK, self.leaf_slots)

    def find(self, leaves: list[Leaf], address: int) -> tuple[Leaf, int] | None:
        """The leaf with the slot of an address, and the slot's offset in its data."""
        for leaf in leaves:
            at = (address - leaf.first) >> self.granule_shift << self.slot_shift
            if 0 <= at < len(leaf.data):
                return leaf, at
        return None


class Size(NamedTuple):
    """A row of the table of size classes."""

    block_bytes: int
    first: int  # index of the first block used of a slab
    limit: int

    @property
    def capacity(self) -> int:
        """Blocks of a slab."""
        return max(0, self.limit - self.first)


def read_sizes(memory: Memory, layout: Layout, count_place: str = "class_all_count") -> list[Size]:
    """The size classes in force, with those of partitions alone; none before the first allocation.
    count_place: class_count, without the latter."""
    count = memory.number(layout.place(count_place), 4)
    step = layout.offset("class")
    if count > CLASSES_MAX:
        raise Failed(f"process {memory.pid}: {count} size classes are no table")
    data = memory.read(layout.place("classes"), step * count) if count else b""
    record = layout.record("class.block_bytes", "class.first", "class.limit")
    is_usual = len(data) <= SHARED_BYTES_MAX
    return (sizes_in if is_usual else sizes_in.__wrapped__)(data, record, step)


@functools.lru_cache(TABLES_MAX)
def sizes_in(data: bytes, record: Record, step: int) -> list[Size]:
    """The rows of the table; processes with the same classes share them."""
    return [Size(*record.of(data, at)) for at in range(0, len(data), step)]


class Account(NamedTuple):
    """The counts of a slab."""

    class_index: int
    granules: int
    fresh: int  # index after the last block that has been used
    live: int


class Slabs:
    """Computes the account of a slab from its slot: see front/slab.h. Blocks in fronts and windows
    are live ones in it: fronts.py."""

    def __init__(self, layout: Layout, sizes: list[Size]) -> None:
        self.record = layout.record(
            "slab.free_count", "slab.fresh", "slab.class", "slab.capacity", "run.granules"
        )
        self.bits = layout.record("slab.bits", "slab.class")
        self.slot_bytes = 1 << layout.offset("slot.shift")
        self.bitmap_bytes = [-(-size.limit // 8) for size in sizes]

    def of(self, data: bytes, at: int = 0) -> Account:
        """The account of the slab whose slot starts at `at`, as count_slab of census.c."""
        free, fresh, index, capacity, granules = self.record.of(data, at)
        return Account(index, granules, fresh, max(0, capacity - free))

    def bitmap(self, leaf: Leaf, at: int) -> tuple[int, int]:
        """Address and bytes of a bitmap that does not fit the slot; (0, 0) of one that does."""
        bits, index = self.bits.of(leaf.data, at)
        is_inside = 0 <= bits - leaf.slots - at < self.slot_bytes
        return (0, 0) if is_inside or index >= len(self.bitmap_bytes) else (
            bits, self.bitmap_bytes[index])  # fmt: skip
