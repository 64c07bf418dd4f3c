# SPDX-License-Identifier: MIT
"""The census of a running process: the figures of pools/engine/record/census.h, from outside.

    with Memory(1234) as memory: Reader(memory).census()

Each word that is read was right at some moment during the reading. The words of a slab and of a
front are right at each instant, so that a class is off by the blocks that move between them
meanwhile. The blocks of a thread's free streak count as live: see fronts.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import Failed
from . import heaps
from .figures import FIGURES
from .fronts import Fronts, pages_of
from .layout import Layout, find
from .memory import Memory, Unreadable, contradictions
from .slots import Leaf, Map, Slabs, read_sizes

ARENAS_MAX = 1 << 16  # the library has at most 4096
USED = re.compile(rb"[^\0]")  # kinds of granules that something begins in, or goes on
CHECKED_SLOTS = 1 << 14  # between two looks at the clock
TRIES = 3
WORDS = [figure.name for figure in FIGURES if figure.is_word]


def inside(ranges: list[tuple[int, int]], address: int) -> bool:
    """Is it in one of them?"""
    return any(base <= address < base + nbytes for base, nbytes in ranges)


@dataclass
class SizeClass:
    """Sums over its slabs, and over what fronts have counted."""

    block_bytes: int
    live_blocks: int = 0
    slabs: int = 0
    slab_bytes: int = 0
    taken_blocks: int = 0
    rounding: int = 0  # share of a block beyond its request, of 65536

    @property
    def live_bytes(self) -> int:
        """At full block size."""
        return self.live_blocks * self.block_bytes

    @property
    def waste_bytes(self) -> int:
        """Bytes of the slabs without a live block."""
        return max(0, self.slab_bytes - self.live_bytes)


@dataclass
class Census:
    """Names as in census.h."""

    classes: list[SizeClass] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    fronts: list[tuple[int, int]] = field(default_factory=list)  # addresses, and bytes
    metadata_pages: set[int] = field(default_factory=set)  # numbers, of short structures
    arenas: list[tuple[int, int]] = field(default_factory=list)  # address and bytes, accessible
    blocks: list[tuple[int, int]] = field(default_factory=list)  # likewise, of large blocks
    busy: list[tuple[int, int]] = field(default_factory=list)  # between owners, or cached mappings
    has_calls: bool = True
    limit_source: str = "none"
    arena_bytes: int = 0
    arena_count: int = 0
    run_live_count: int = 0
    run_live_bytes: int = 0
    run_cached_bytes: int = 0
    run_free_bytes: int = 0
    region_bytes: int = 0  # of medium blocks
    pages_bytes: int = 0
    map_live_count: int = 0
    map_live_bytes: int = 0
    map_cached_count: int = 0
    map_cached_bytes: int = 0
    guard_live_count: int = 0
    guard_live_bytes: int = 0
    guard_held_bytes: int = 0
    cache_dirty_bytes: int = 0
    cache_clean_bytes: int = 0
    metadata_bytes: int = 0
    medium_requests: int = 0
    large_allocs: int = 0
    sample_count: int = 0
    heaps: heaps.Heaps = field(default_factory=heaps.Heaps)

    def __post_init__(self) -> None:
        """Also has the words that no field above names."""
        for name in WORDS:
            setattr(self, name, 0)

    @property
    def small_live_blocks(self) -> int:
        """Blocks of size classes."""
        return sum(one.live_blocks for one in self.classes)

    @property
    def small_live_bytes(self) -> int:
        """At full block size."""
        return sum(one.live_bytes for one in self.classes)

    @property
    def small_slabs(self) -> int:
        """Slabs of all classes."""
        return sum(one.slabs for one in self.classes)

    @property
    def small_slab_bytes(self) -> int:
        """Their addresses."""
        return sum(one.slab_bytes for one in self.classes)

    @property
    def small_waste_bytes(self) -> int:
        """Bytes of all slabs without a live block."""
        return sum(one.waste_bytes for one in self.classes)

    @property
    def rounding_bytes(self) -> int:
        """The part of small_live_bytes that is rounding, an estimate."""
        return sum((one.live_bytes >> 8) * one.rounding >> 8 for one in self.classes)

    @property
    def live_count(self) -> int:
        """Blocks of all kinds."""
        return (self.small_live_blocks + self.run_live_count + self.map_live_count
                + self.guard_live_count)  # fmt: skip

    @property
    def live_bytes(self) -> int:
        """Live bytes of all kinds."""
        return (self.small_live_bytes + self.run_live_bytes + self.map_live_bytes
                + self.guard_live_bytes)  # fmt: skip

    def forget_places(self) -> None:
        """Releases what says where memory is: of a small process 128 KiB. The figures remain."""
        for places in (self.leaves, self.fronts, self.metadata_pages, self.arenas, self.blocks,
                       self.busy):
            places.clear()

    @property
    def arena_blocks(self) -> list[tuple[int, int]]:
        """The large blocks in arenas, not in mappings of their own."""
        return [one for one in self.blocks if inside(self.arenas, one[0])]

    @property
    def malloc_count(self) -> int:
        """Since the start."""
        taken = sum(one.taken_blocks for one in self.classes)
        return taken + self.medium_requests + self.large_allocs + self.guard_live_count

    @property
    def free_count(self) -> int:
        """Since the start."""
        return max(0, self.malloc_count - self.live_count)

    @property
    def mapped_bytes(self) -> int:
        """Addresses that are, or may become, memory of the heap."""
        return (self.arena_bytes - self.cache_clean_bytes + self.map_live_bytes
                + self.map_cached_bytes + self.guard_held_bytes + self.metadata_bytes)  # fmt: skip


class Reader:
    """Reads the census of one process; reads the layout once."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.layout: Layout = find(memory)
        with contradictions(memory.pid):
            self.prepare()

    def prepare(self) -> None:
        """Reads the constants, and the fields that are read together."""
        memory = self.memory
        self.map = Map(memory, self.layout)
        layout = self.layout
        self.granule = 1 << self.map.granule_shift
        self.slot_bytes = 1 << self.map.slot_shift
        self.kinds = layout.constants("kind")
        self.kind_at = layout.offset("run.kind")
        self.slabs = Slabs(layout, [])
        self.plain_count = 0
        self.fronts = Fronts(memory, layout)
        self.run = layout.record("run.base", "run.granules", "run.flags", "run.back")
        self.dirty = layout.offset("run.dirty")
        self.marks = layout.field("medium.marks")
        self.region = layout.record("medium.free_pages", "medium.dirty_free")
        self.page_bytes = 1 << layout.offset("medium.page_shift")
        self.waits = layout.offset("medium.waits")

    def census(self) -> Census:
        """Now. What moves away meanwhile is read again, a few times."""
        with contradictions(self.memory.pid):
            for _ in range(TRIES - 1):
                try:
                    return self.read()
                except Unreadable:
                    if find(self.memory).places != self.layout.places:
                        raise Failed(
                            f"process {self.memory.pid} runs another program now"
                        ) from None
            return self.read()

    def read(self) -> Census:
        """Once."""
        census = Census()
        self.read_classes(census)
        if not census.classes:  # no allocation yet
            return census
        self.read_counts(census)
        self.read_arenas(census)
        for leaf in self.map.leaves():
            census.leaves.append(leaf)
            self.read_leaf(census, leaf)
        self.fronts.count(census)
        census.heaps = heaps.read(self.memory, self.layout)
        if not any(one.slabs for one in census.classes[self.plain_count :]):
            del census.classes[self.plain_count :]
        for one in census.classes:
            one.taken_blocks = max(0, one.taken_blocks)
            one.live_blocks = max(0, one.live_blocks)
        return census

    def read_classes(self, census: Census) -> None:
        """The table in force."""
        sizes = read_sizes(self.memory, self.layout)
        self.plain_count = self.memory.number(self.layout.place("class_count"), 4)
        self.slabs = Slabs(self.layout, sizes)
        census.classes += [SizeClass(size.block_bytes) for size in sizes]

    def group(self, place: str, *names: str) -> tuple[int, ...]:
        """Fields of a variable."""
        record = self.layout.record(*(f"{place}.{name}" for name in names))
        return self.memory.values(record, self.layout.place(place))

    def read_counts(self, census: Census) -> None:
        """What the library counts in single words."""
        (census.map_live_count, census.map_live_bytes, census.map_cached_count,
         census.map_cached_bytes) = self.group(
            "mappings", "live_count", "live_bytes", "cached_count", "cached_bytes")  # fmt: skip
        for name in WORDS:
            setattr(census, name, self.memory.number(self.layout.place(name)))
        source = self.memory.number(self.layout.place("limit_source"))
        census.limit_source = self.memory.text(source)
        census.sample_count, medium_count, medium_bytes = self.group(
            "profile", "sample_count", "medium_count", "medium_bytes"
        )
        census.run_live_count += medium_count
        census.run_live_bytes += medium_bytes
        census.large_allocs = self.memory.number(self.layout.place("large_allocs"))
        dirty, clean, reserved = self.group("extents", "dirty", "clean", "reserved")
        census.cache_dirty_bytes += dirty * self.granule
        census.cache_clean_bytes += (clean + reserved) * self.granule
        census.arena_bytes += reserved * self.granule
        level = self.memory.number(self.layout.place("hard_level"), 4)
        census.has_calls = level < self.layout.offset("harden.check_blocks")

    def read_arenas(self, census: Census) -> None:
        """Their lengths."""
        step = self.layout.offset("arena")
        census.arena_count = self.memory.number(self.layout.place("arena_count"))
        record = self.layout.record("arena.base", "arena.granules", "arena.rest_granules")
        if census.arena_count > ARENAS_MAX:
            raise Failed(f"process {self.memory.pid}: {census.arena_count} arenas are no table")
        data = self.memory.read(self.layout.place("arenas"), step * census.arena_count)
        for at in range(0, len(data), step):
            base, granules, rest = record.of(data, at)
            census.arenas.append((base, granules * self.granule))
            census.arena_bytes += (granules + rest) * self.granule
            census.cache_clean_bytes += rest * self.granule

    def read_leaf(self, census: Census, leaf: Leaf) -> None:
        """The runs that begin in it."""
        kinds, step, known = leaf.data[self.kind_at :: self.slot_bytes], self.slot_bytes, self.kinds
        others = {known[name] for name in ("free", "busy", "block", "mapping", "pages")}
        for count, found in enumerate(USED.finditer(kinds)):
            if count % CHECKED_SLOTS == 0:
                self.memory.check()
            index = found.start()
            kind = kinds[index]
            if kind == known["slab"]:
                self.read_slab(census, leaf, index * step)
            elif kind == known["medium"]:
                self.read_medium(census, leaf.data, index * step)
            elif kind in others:
                self.read_run(census, kind, leaf.data, index * step)

    def read_slab(self, census: Census, leaf: Leaf, at: int) -> None:
        """Counts a slab, as count_slab of census.c does, and its bitmap."""
        account = self.slabs.of(leaf.data, at)
        if account.class_index >= len(census.classes):
            return
        one = census.classes[account.class_index]
        one.slabs += 1
        one.slab_bytes += account.granules * self.granule
        one.live_blocks += account.live
        census.metadata_pages.update(pages_of(*self.slabs.bitmap(leaf, at)))

    def read_medium(self, census: Census, data: bytes, at: int) -> None:
        """Counts a medium region as ps_medium_add_use does, and the free pages of a head."""
        census.region_bytes += self.granule
        start = at + self.marks.offset
        for mark in data[start : start + self.marks.length]:
            if mark == 0 or mark == self.waits:
                continue
            if mark < self.waits:
                census.run_live_count += 1
                census.run_live_bytes += mark * self.page_bytes
            else:
                census.run_cached_bytes += (mark - self.waits) * self.page_bytes
        _base, _granules, _flags, back = self.run.of(data, at)
        if back == 0:
            free, dirty = self.region.of(data, at)
            census.cache_dirty_bytes += dirty * self.page_bytes
            census.cache_clean_bytes += max(0, free - dirty) * self.page_bytes

    def read_run(self, census: Census, kind: int, data: bytes, at: int) -> None:
        """A run without blocks inside, if it begins there."""
        base, granules, flags, back = self.run.of(data, at)
        nbytes = granules * self.granule
        if kind == self.kinds["pages"]:
            census.pages_bytes += self.granule
        elif back != 0:
            return
        elif kind == self.kinds["block"]:
            census.run_live_count += 1
            census.run_live_bytes += nbytes
            census.blocks.append((base, nbytes))
        elif kind == self.kinds["mapping"]:
            census.blocks.append((base, nbytes))
        elif kind == self.kinds["busy"]:
            census.busy.append((base, nbytes))
        else:
            census.run_free_bytes += nbytes
            is_dirty = bool(flags & self.dirty)
            census.cache_dirty_bytes += nbytes * is_dirty
            census.cache_clean_bytes += nbytes * (not is_dirty)
