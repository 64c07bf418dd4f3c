# SPDX-License-Identifier: MIT
"""The census of a running process: the figures of pools/engine/record/census.h, from outside.

    with Memory(1234) as memory: Reader(memory).census()

Each word that is read was right at some moment during the reading. A span's words share one cache
line, so a span that a thread is settling at that moment may be off by its frees since the last
time, at most 256 blocks; each running thread has at most one such span. The blocks that a thread
has not yet returned, its free streak and its batches for other threads, are read with its heap and
count as free.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import Failed
from .caches import HEAP_BYTES, heap_bytes, read_class_caches, read_cpu_caches, read_hard_blocks
from .layout import Layout, find
from .memory import Memory, Record, Unreadable, contradictions
from .slots import MASK, Kinds, Leaf, Map, signed

HEAPS_MAX = 1 << 20
ARENAS_MAX = 1 << 16  # the library has at most 4096
CHECKED_SLOTS = 1 << 14  # between two looks at the clock
REMOTE_FIELDS = ((14, 14), (42, 14))  # of the remote word: blocks on the list, and in gaps
TRIES = 3
WEIGHT_LIMIT = 1 << 40  # of blocks that one heap's mean counts for


@dataclass
class SizeClass:
    """Sums over its spans, and over what the heaps have counted."""

    block_bytes: int
    live_blocks: int = 0
    spans: int = 0
    span_bytes: int = 0
    taken_blocks: int = 0
    rounding: int = 0  # share of a block beyond its request, of 65536
    weight: int = 0

    @property
    def live_bytes(self) -> int:
        """At full block size."""
        return self.live_blocks * self.block_bytes

    @property
    def waste_bytes(self) -> int:
        """Bytes of the spans without a live block."""
        return max(0, self.span_bytes - self.live_bytes)


@dataclass
class Census:
    """Names as in census.h."""

    classes: list[SizeClass] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    heaps: list[tuple[int, int]] = field(default_factory=list)  # addresses, and bytes
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
    medium_count: int = 0
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
    purge_count: int = 0
    purged_bytes: int = 0
    limit_bytes: int = 0
    limit_near_count: int = 0
    limit_purged_bytes: int = 0
    remote_free_count: int = 0
    remote_batch_count: int = 0
    heap_live_count: int = 0
    heap_total_count: int = 0
    orphan_span_count: int = 0
    medium_frees: int = 0
    cache_takes: int = 0  # small blocks from caches of processors
    large_allocs: int = 0
    sample_count: int = 0

    @property
    def small_live_count(self) -> int:
        """Blocks of size classes."""
        return sum(one.live_blocks for one in self.classes)

    @property
    def small_live_bytes(self) -> int:
        """At full block size."""
        return sum(one.live_bytes for one in self.classes)

    @property
    def small_span_count(self) -> int:
        """Spans of all classes."""
        return sum(one.spans for one in self.classes)

    @property
    def small_span_bytes(self) -> int:
        """Their addresses."""
        return sum(one.span_bytes for one in self.classes)

    @property
    def small_waste_bytes(self) -> int:
        """Bytes of all spans without a live block."""
        return sum(one.waste_bytes for one in self.classes)

    @property
    def rounding_bytes(self) -> int:
        """The part of small_live_bytes that is rounding, an estimate."""
        return sum((one.live_bytes >> 8) * one.rounding >> 8 for one in self.classes)

    @property
    def live_count(self) -> int:
        """Blocks of all kinds."""
        return (self.small_live_count + self.run_live_count + self.map_live_count
                + self.guard_live_count)  # fmt: skip

    @property
    def live_bytes(self) -> int:
        """Live bytes of all kinds."""
        return (self.small_live_bytes + self.run_live_bytes + self.map_live_bytes
                + self.guard_live_bytes)  # fmt: skip

    @property
    def malloc_count(self) -> int:
        """Since the start."""
        taken = sum(one.taken_blocks for one in self.classes) + self.cache_takes
        medium = self.medium_frees + self.medium_count
        return taken + medium + self.large_allocs + self.sample_count + self.guard_live_count

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
        names = ("free", "busy", "span", "inside", "block", "mapping", "medium", "pages")
        self.kinds = Kinds(*(layout.offset(f"kind.{name}") for name in names))
        self.kind_at, self.class_at = layout.offset("run.kind"), layout.offset("span.class")
        self.span: Record = layout.record(
            "span.owner", "span.free_countdown", "span.countdown_start", "span.used",
            "span.carved", "span.handed", "span.popped", "span.remote", "span.class",
            "run.granules",
        )  # fmt: skip
        self.run: Record = layout.record("run.base", "run.granules", "run.flags", "run.back")
        self.handed_shift = layout.offset("span.handed_shift")
        self.orphan, self.dropped = layout.offset("owner.orphan"), layout.offset("remote.dropped")
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
        self.read_heaps(census)
        read_cpu_caches(self, census)
        for one in census.classes:
            one.taken_blocks = max(0, one.taken_blocks)
            one.live_blocks = max(0, one.live_blocks)
            one.rounding = one.rounding // one.weight if one.weight else 0
        return census

    def read_classes(self, census: Census) -> None:
        """The table in force."""
        count = self.memory.number(self.layout.place("class_count"), 4)
        step, size = self.layout.offset("class"), self.layout.field("class.block_bytes")
        if count > 255:
            raise Failed(f"process {self.memory.pid}: {count} size classes are no table")
        data = self.memory.read(self.layout.place("classes"), step * count) if count else b""
        for at in range(size.offset, step * count, step):
            nbytes = int.from_bytes(data[at : at + size.length], "little")
            census.classes.append(SizeClass(nbytes))

    def group(self, place: str, *names: str) -> tuple[int, ...]:
        """Fields of a variable."""
        _, nbytes = self.layout.places[place]
        record = self.layout.record(*(f"{place}.{name}" for name in names))
        return record.of(self.memory.read(self.layout.place(place), nbytes))

    def read_counts(self, census: Census) -> None:
        """What the library counts in single words."""
        (census.map_live_count, census.map_live_bytes, census.map_cached_count,
         census.map_cached_bytes) = self.group(
            "mappings", "live_count", "live_bytes", "cached_count", "cached_bytes")  # fmt: skip
        census.purge_count, census.purged_bytes, census.limit_purged_bytes = self.group(
            "purges", "calls", "bytes", "pressed_bytes"
        )
        census.guard_live_count, census.guard_live_bytes, census.guard_held_bytes = self.group(
            "guards", "live_count", "live_bytes", "held_bytes"
        )
        census.limit_bytes, source, census.limit_near_count = self.group(
            "limit", "bytes", "source", "near_count"
        )
        census.limit_source = self.memory.text(source)
        census.sample_count, medium_count, medium_bytes = self.group(
            "profile", "sample_count", "medium_count", "medium_bytes"
        )
        census.run_live_count += medium_count
        census.run_live_bytes += medium_bytes
        census.metadata_bytes = self.memory.number(self.layout.place("metadata_bytes"))
        census.large_allocs = self.memory.number(self.layout.place("large_allocs"))
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
        others = (known.free, known.busy, known.block, known.mapping, known.pages)
        for index, kind in enumerate(kinds):
            if index % CHECKED_SLOTS == 0:
                self.memory.check()
            if kind == 0:
                continue
            if kind == known.span:
                self.read_span(census, leaf.data, index * step)
            elif kind == known.medium:
                self.read_medium(census, leaf.data, index * step)
            elif kind in others:
                self.read_run(census, kind, leaf.data, index * step)

    def read_span(self, census: Census, data: bytes, at: int) -> None:
        """Counts a span, as count_span of census.c does."""
        (owner, countdown, start, used, carved, handed, popped, remote, index,
         granules) = self.span.of(data, at)  # fmt: skip
        if index >= len(census.classes):
            return
        one = census.classes[index]
        window = max(0, carved - (handed >> self.handed_shift))
        back = sum(remote >> shift & (1 << bits) - 1 for shift, bits in REMOTE_FIELDS)
        one.spans += 1
        one.span_bytes += granules * self.granule
        one.taken_blocks += popped - window
        if not remote & self.dropped:
            one.live_blocks += max(0, used + countdown + popped - start - back - window)
        if owner == self.orphan:
            census.orphan_span_count += 1

    def read_medium(self, census: Census, data: bytes, at: int) -> None:
        """Counts a medium region as ps_medium_add_use does, and the free pages of a head."""
        start = at + self.marks.offset
        for mark in data[start : start + self.marks.length]:
            if mark == 0 or mark == self.waits:
                continue
            if mark < self.waits:
                census.run_live_count += 1
                census.medium_count += 1
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
        if kind == self.kinds.pages:
            census.pages_bytes += self.granule
        elif back != 0:
            return
        elif kind == self.kinds.block:
            census.run_live_count += 1
            census.run_live_bytes += nbytes
            census.blocks.append((base, nbytes))
        elif kind == self.kinds.mapping:
            census.blocks.append((base, nbytes))
        elif kind == self.kinds.busy:
            census.busy.append((base, nbytes))
        elif flags & 1:
            census.cache_dirty_bytes += nbytes
        else:
            census.cache_clean_bytes += nbytes

    # ---- heaps ----

    def read_heaps(self, census: Census) -> None:
        """Adds the counts of the heaps, and the blocks that they have not yet returned."""
        layout = self.layout
        record = layout.record(
            "heap.next", "heap.state", "heap.remote_frees", "heap.remote_batches",
            "heap.medium_sums", "heap.medium_frees", "heap.hard")  # fmt: skip
        shift, live = layout.offset("medium_sums.frees_shift"), layout.offset("heap.live")
        address = self.memory.number(layout.place("heaps"))
        known: set[int] = set()
        while address:
            if address in known or len(known) == HEAPS_MAX:
                raise Failed(f"process {self.memory.pid}: its list of heaps has no end")
            known.add(address)
            data = self.memory.read(address, HEAP_BYTES)
            following, state, frees, batches, sums, medium_frees, hard = record.of(data)
            census.heaps.append((address, heap_bytes(layout)))
            census.heap_total_count += 1
            census.heap_live_count += state == live
            census.remote_free_count += frees
            census.remote_batch_count += batches
            census.medium_frees += medium_frees + (sums >> shift & 0xFFFF)
            self.read_bins(census, data)
            read_class_caches(self, census, address, data)
            if not census.has_calls:
                read_hard_blocks(self, census, hard)
            self.read_streak(census, data)
            self.read_batches(census, data)
            address = following

    def read_bins(self, census: Census, data: bytes) -> None:
        """Counts of malloc, and the mean of the rounding."""
        start, step = self.layout.offset("heap.bins"), self.layout.offset("bin")
        record = self.layout.record("bin.rounding", "bin.taken")
        for index, one in enumerate(census.classes):
            rounding, taken = record.of(data, start + index * step)
            one.taken_blocks += taken
            one.rounding += min(taken, WEIGHT_LIMIT) * rounding
            one.weight += min(taken, WEIGHT_LIMIT)

    def class_of(self, census: Census, slot: int) -> SizeClass | None:
        """The class of a span, by the address of its slot."""
        self.memory.check()
        for leaf in census.leaves:
            at = slot - leaf.slots
            if 0 <= at < len(leaf.data) and leaf.data[at + self.kind_at] == self.kinds.span:
                index = leaf.data[at + self.class_at]
                return census.classes[index] if index < len(census.classes) else None
        return None

    def read_streak(self, census: Census, data: bytes) -> None:
        """The blocks of a free streak: used, as far as their span knows."""
        span, first, thread = self.layout.record(
            "heap.streak_span", "heap.streak_first", "heap.thread"
        ).of(data)
        one = self.class_of(census, span) if span and thread else None
        if one is None:
            return
        record = self.layout.record("thread.streak_next", "thread.streak_step")
        try:
            following, step = map(signed, record.of(self.memory.read(thread, 64)))
        except Unreadable:
            return  # the thread has ended, and its words with it
        if step and following and (following - first) % step == 0:
            blocks = (following - first) // step
            if abs(step) == one.block_bytes and 0 < blocks * one.block_bytes <= self.granule:
                one.live_blocks -= blocks

    def read_batches(self, census: Census, data: bytes) -> None:
        """Blocks that another thread freed, on their way to their spans."""
        layout = self.layout
        entries, step = layout.field("heap.remote"), layout.offset("entry")
        record = layout.record("entry.span", "entry.count")
        for at in range(entries.offset, entries.offset + entries.length, step):
            span, count = record.of(data, at)
            one = self.class_of(census, span) if span and count else None
            if one is not None:
                one.live_blocks -= count
        singles, counted = layout.field("heap.singles"), layout.field("heap.singles_count")
        at = counted.offset
        count = int.from_bytes(data[at : at + counted.length], "little")
        for i in range(min(count, singles.length // 8)):
            at = singles.offset + 8 * i
            self.read_single(census, int.from_bytes(data[at : at + 8], "little"))

    def read_single(self, census: Census, block: int) -> None:
        """One block, by its address."""
        self.memory.check()
        for leaf in census.leaves:
            index = (block - leaf.first) >> self.map.granule_shift
            if 0 <= index < len(leaf.data) // self.slot_bytes:
                one = self.class_of(census, leaf.slots + index * self.slot_bytes & MASK)
                if one is not None:
                    one.live_blocks -= 1
                return
