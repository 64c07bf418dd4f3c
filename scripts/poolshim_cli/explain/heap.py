# SPDX-License-Identifier: MIT
"""The heap of a running process, page by page: what each resident page of it is for.

    heap = Heap(pid); view = heap.read()

The slots of all granules and the table of the profile are read from the process's memory by the
layout that its library describes (pools/engine/record/layout.h); which pages are resident says
/proc/PID/pagemap. The process takes no part in it. A slot that changes while it is read gives a
wrong figure for that one granule until the next reading.

Live blocks pin the free memory of their slab. A sampled block is not in the slab that would have
served it, but the sample names that slab: each of the sample's blocks pins its share of the free
memory there. The samples' sum for a size class is scaled to that of its slabs, which is exact,
except for the blocks of free streaks: live/fronts.py.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from .. import control
from ..errors import Failed
from ..live import layout as layouts
from ..live.fronts import Fronts, page_ranges, pages_of
from ..live.memory import PAGE_BYTES, Memory, contradictions
from ..live.samples import Sample, Samples, Snapshot, Stack
from ..live.slots import Account, Leaf, Map, Size, Slabs, read_sizes
from ..pprof import Line

SCALED_SAMPLES = 8  # of a class; with fewer its slabs say little of them
SIZE_STEP = 16  # of sizes in a table of classes
LENGTH_MAX = 1 << 24  # granules of a run: 1 TiB
NUMBER_LIMIT = 1 << 32  # of samples


@dataclass
class Site:
    """Memory that one stack allocated, in bytes; estimates by its samples."""

    live: float = 0.0  # resident, of its blocks
    rounding: float = 0.0  # of that, beyond the requested sizes
    pinned: float = 0.0  # free memory that its blocks pin
    blocks: float = 0.0
    largest: int = 0  # its largest live block
    made: int = 0  # allocated since the start
    counted: float = 0.0  # live as the profile has it: whole blocks, of samples alone
    samples: int = 0  # live

    def add(self, other: Site) -> None:
        """Adds the figures of another process's same site."""
        for name in ("live", "rounding", "pinned", "blocks", "made", "counted", "samples"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.largest = max(self.largest, other.largest)


@dataclass
class View:
    """The resident memory of the heap at one moment, in bytes."""

    live: float = 0.0  # in live blocks
    rounding: float = 0.0  # of that, beyond the requests
    pinned: float = 0.0  # free, in slabs with live blocks
    room: float = 0.0  # in slabs with live blocks, not used since the slab was made
    cache: float = 0.0  # cached free pages
    unused: float = 0.0  # in pages that were never used, or given back: parts of huge pages
    pools: float = 0.0  # pages of the pools library
    samples: float = 0.0  # pages of samples beyond their blocks, and the table
    metadata: float = 0.0
    ranges: list[tuple[int, int]] = field(default_factory=list)  # all of it, in order
    sites: dict[tuple[int, ...], Site] = field(default_factory=dict)  # by stack
    lines: dict[int, Line] = field(default_factory=dict)  # of sites that are no addresses
    pinned_by_class: dict[int, float] = field(default_factory=dict)  # by block size
    blocks_by_class: dict[int, int] = field(default_factory=dict)  # live, in slabs
    rounding_by_size: dict[int, float] = field(default_factory=dict)  # by request, to 16 bytes
    interval: int = 0  # of the profile; 0: there is none
    is_recent: bool = False  # its sites cover only allocations during the watch
    large_live: list[tuple[int, int]] = field(default_factory=list)  # ranges of large live blocks

    @property
    def total(self) -> float:
        """All of the heap."""
        return (self.live + self.pinned + self.room + self.cache + self.unused + self.pools
                + self.samples + self.metadata)  # fmt: skip


@dataclass
class Slab:
    """Slabs blocks of one slab."""

    block_bytes: int
    nbytes: int
    live: int  # blocks
    pinned: int  # bytes


class Heap:
    """Reads the heap of one process on poolshim."""

    def __init__(self, pid: int) -> None:
        self.memory = Memory(pid)
        self.layout = layouts.find(self.memory)
        layout = self.layout
        self.map = Map(self.memory, layout)
        self.granule = 1 << layout.offset("granule.shift")
        self.slot = 1 << layout.offset("slot.shift")
        self.kinds = {name: layout.offset(f"kind.{name}") for name in (
            "free", "busy", "slab", "block", "mapping", "medium", "pages")}  # fmt: skip
        self.headed = {self.kinds[name] for name in (
            "free", "busy", "slab", "block", "mapping")}  # fmt: skip
        self.known = set(self.kinds.values())
        self.window = self.map.window()
        self.run = layout.record("run.kind", "run.granules", "run.flags", "run.back")
        self.dirty = layout.offset("run.dirty")
        self.sizes: list[Size] = []
        self.slabs = Slabs(layout, self.sizes)
        self.fronts = Fronts(self.memory, layout)
        self.cached: Counter[int] = Counter()  # blocks in fronts and windows, by granule
        self.bitmaps: set[int] = set()  # numbers of pages
        self.free = layout.field("medium.free")  # a bit for each page of a region
        self.region_granules = (self.free.length * 8 << layout.offset("medium.page_shift")) // (
            self.granule)  # fmt: skip
        self.samples = Samples(self.memory, layout)
        self.classes: list[int] = []
        self.before: Snapshot | None = None  # a reader's samples before the watch

    # ---- tables ----

    def arenas(self) -> list[tuple[int, int]]:
        """Start and end of each, as reserved."""
        layout, size = self.layout, self.layout.offset("arena")
        count = min(self.memory.number(layout.place("arena_count")), 1 << 16)
        data = self.memory.read(layout.place("arenas"), count * size)
        arena = layout.record("arena.base", "arena.granules", "arena.rest_granules")
        found = []
        for index in range(count):
            base, granules, rest = arena.of(data, index * size)
            found.append((base, base + (granules + rest) * self.granule))
        return sorted(found)

    def limit(self) -> int:
        """Bytes of resident memory from which on free memory goes back; 0: none."""
        return self.memory.number(self.layout.place("limit_bytes"))

    def swings(self) -> int:
        """Bytes that are retained because the program frees and uses them again and again."""
        return self.memory.number(self.layout.place("swing_bytes"))

    def settings(self) -> tuple[int, bool]:
        """The purge delay in ms, and whether there is a background thread."""
        layout = self.layout
        delay = self.memory.number(layout.place("set.purge-delay-ms"), 4)
        state = layout.place("control") + layout.offset("control.background")
        return delay, self.memory.number(state, 4) != control.OFF

    # ---- one reading ----

    def read(self) -> View:
        """The heap at this moment. One that the library has not made yet is empty."""
        with self.memory.reading(), contradictions(self.memory.pid):
            return self.read_all()

    def read_all(self) -> View:
        """One reading."""
        view, slabs = View(), {}
        self.sizes = read_sizes(self.memory, self.layout)  # anew: it may just have been made
        plain = read_sizes(self.memory, self.layout, "class_count")
        self.classes = [size.block_bytes for size in plain]
        if not self.classes:
            return view
        self.slabs, self.bitmaps = Slabs(self.layout, self.sizes), set()
        self.cached = self.fronts.by_granule(self.granule)
        arenas = self.arenas()
        view.ranges += arenas
        for leaf in self.map.leaves():
            self.read_leaf(view, slabs, leaf, arenas)
            self.add_metadata(view, leaf.slots, len(leaf.data))
        self.read_table(view, slabs)
        self.add_fronts(view)
        view.ranges = merged(view.ranges)
        return view

    def add_metadata(self, view: View, start: int, nbytes: int) -> None:
        """A range of it."""
        first, end = start // PAGE_BYTES, -(-(start + nbytes) // PAGE_BYTES)
        count = self.memory.resident(first * PAGE_BYTES, end - first).count(1)
        view.metadata += count * PAGE_BYTES
        view.ranges.append((first * PAGE_BYTES, end * PAGE_BYTES))

    def add_fronts(self, view: View) -> None:
        """Fronts, windows, and the bitmaps of slabs."""
        pages = self.bitmaps
        nbytes = self.fronts.front_bytes(self.fronts.places())
        for front, _ in self.fronts.fronts():
            self.add_metadata(view, front, nbytes)
        for record, _ in self.fronts.windows():
            pages.update(pages_of(record, self.fronts.record_bytes))
        for start, nbytes in page_ranges(pages):
            self.add_metadata(view, start, nbytes)

    def read_leaf(
        self, view: View, slabs: dict[int, Slab], leaf: Leaf, arenas: list[tuple[int, int]]
    ) -> None:
        """Run by run."""
        kinds, pages = self.kinds, self.granule // PAGE_BYTES
        granules, at, region_end = len(leaf.data) // self.slot, 0, 0
        all_resident = self.memory.resident(leaf.first, granules * pages)
        while at < granules:
            kind, length, flags, back = self.run.of(leaf.data, at * self.slot)
            start = leaf.first + at * self.granule
            if kind == kinds["medium"] and back == 0:
                length = min(self.region_granules, granules - at)
            elif kind not in self.headed:
                length = 1
            length = max(1, min(length, LENGTH_MAX))
            at += length
            if kind not in self.known:
                continue
            resident = all_resident[(at - length) * pages : at * pages]
            if at > granules:
                resident = self.memory.resident(start, length * pages)
            count = resident.count(1) * PAGE_BYTES
            if kind == kinds["slab"]:
                slabs[start] = self.read_slab(view, leaf, at - length, length, resident)
            elif kind == kinds["medium"] and back == 0:
                self.read_region(view, leaf.data, at - length, resident)
                region_end, at = at, at - length + 1  # slabs may have borrowed some of it
            elif kind == kinds["medium"]:
                # Beyond: of a region whose head is in another leaf.
                view.live += count if at > region_end else 0
            elif kind in (kinds["block"], kinds["mapping"]):
                view.live += count
                view.large_live.append((start, start + length * self.granule))
            elif kind == kinds["pages"]:
                view.pools += count
            elif kind == kinds["busy"] or flags & self.dirty:
                view.cache += count
            else:
                view.unused += count
            if kind in (kinds["mapping"], kinds["busy"]) and not is_inside(arenas, start):
                view.ranges.append((start, start + length * self.granule))

    def account_of(self, leaf: Leaf, at: int, length: int) -> Account:
        """The account of the slab of a slot, without blocks in fronts and windows."""
        account = self.slabs.of(leaf.data, at * self.slot)
        start = leaf.first + at * self.granule
        held = sum(self.cached[start + i * self.granule] for i in range(length))
        self.bitmaps.update(pages_of(*self.slabs.bitmap(leaf, at * self.slot)))
        return account._replace(live=max(0, account.live - held))

    def read_slab(self, view: View, leaf: Leaf, at: int, length: int, part: bytes) -> Slab:
        """Live blocks, the free memory that they pin, and the part not used yet."""
        account = self.account_of(leaf, at, length)
        index = account.class_index
        block = self.sizes[index].block_bytes if index < len(self.sizes) else self.granule
        live = min(account.live, length * self.granule // block)
        touched = -(-account.fresh * block // PAGE_BYTES)
        below = part[:touched].count(1) * PAGE_BYTES
        above = part[touched:].count(1) * PAGE_BYTES
        if live == 0:
            view.cache += below + above
            return Slab(block, length * self.granule, 0, 0)
        held = min(live * block, below)
        pinned = below - held
        view.live += held
        view.pinned += pinned
        view.room += above
        view.pinned_by_class[block] = view.pinned_by_class.get(block, 0.0) + pinned
        view.blocks_by_class[block] = view.blocks_by_class.get(block, 0) + live
        return Slab(block, length * self.granule, live, pinned)

    def read_region(self, view: View, slots: bytes, at: int, part: bytes) -> None:
        """Pages of medium blocks: live, free, or waiting in a front; not those of
        granules that slabs have borrowed."""
        layout = self.layout
        start = at * self.slot + self.free.offset
        free = int.from_bytes(slots[start : start + self.free.length], "little")
        page_shift, waits = layout.offset("medium.page_shift"), layout.offset("medium.waits")
        marks_at, per_granule = layout.offset("medium.marks"), self.granule >> page_shift
        waiting = lent = 0
        for granule in range(len(part) * PAGE_BYTES // self.granule):
            if self.run.of(slots, (at + granule) * self.slot)[0] != self.kinds["medium"]:
                lent |= ((1 << per_granule) - 1) << granule * per_granule
                continue
            first = (at + granule) * self.slot + marks_at
            for page, mark in enumerate(slots[first : first + per_granule]):
                if mark > waits:
                    number = granule * per_granule + page
                    waiting |= ((1 << (mark - waits)) - 1) << number
        ratio = PAGE_BYTES >> page_shift
        bits = int("".join("1" if one else "0" for one in reversed(part)) or "0", 2)
        if ratio != 1:  # pages of the system are longer than those of a region
            bits = sum(((1 << ratio) - 1) << i * ratio for i, one in enumerate(part) if one)
        bits &= ~lent
        unit = 1 << page_shift
        idle = (bits & (free | waiting)).bit_count() * unit
        view.cache += idle
        view.live += bits.bit_count() * unit - idle

    # ---- the profile ----

    def read_table(self, view: View, slabs: dict[int, Slab]) -> None:
        """The live samples, by stack; unless they are of a part of the time only."""
        layout, memory = self.layout, self.memory
        is_whole = memory.number(layout.place("demand"), 4) & layout.offset("demand.file") != 0
        settings = layout.place("profile_settings") + layout.offset("profile.interval")
        view.interval = memory.number(settings) if is_whole else 0
        table = self.samples.read()
        if table.nbytes == 0:
            return
        view.lines = table.lines
        count = -(-table.nbytes // PAGE_BYTES)
        view.samples += self.memory.resident(table.base, count).count(1) * PAGE_BYTES
        view.ranges.append((table.base, table.base + count * PAGE_BYTES))
        if is_whole:
            self.add_samples(view, slabs, table)
        elif self.before is not None:
            view.is_recent = True
            view.interval = memory.number(layout.place("demand_interval"))
            self.add_recent(view, self.before, table)

    def add_recent(self, view: View, before: Snapshot, table: Snapshot) -> None:
        """Adds the sites of blocks allocated since and still live. Most blocks are unknown, so that
        nothing is scaled to the slabs, and no free memory is charged."""
        one = self.layout.offset("weight.one")
        for address, stack in table.stacks.items():
            made = stack.made_bytes - before.stacks.get(address, Stack()).made_bytes
            if made > 0:
                view.sites.setdefault(stack.sites, Site()).made += made
        for sample in table.live:
            if (sample.number - before.sample_count - 1) % NUMBER_LIMIT >= NUMBER_LIMIT // 2:
                continue  # of an earlier time
            stack = table.stacks.get(sample.stack, Stack())
            site, blocks = view.sites.setdefault(stack.sites, Site()), sample.weight / one
            site.counted += blocks * sample.nbytes
            site.live += blocks * self.held(sample.block, sample.nbytes)
            site.blocks += blocks
            site.samples += 1
            site.largest = max(site.largest, sample.nbytes)

    def add_samples(self, view: View, slabs: dict[int, Slab], table: Snapshot) -> None:
        """Sites with their live blocks, and those that pin free memory."""
        one, self.window = self.layout.offset("weight.one"), self.map.window()
        for stack in table.stacks.values():
            if stack.made_bytes:
                view.sites.setdefault(stack.sites, Site()).made += stack.made_bytes
        pins: list[tuple[Site, int, float]] = []
        claimed: defaultdict[int, float] = defaultdict(float)
        scales = self.scales(view, table.live)
        for sample in table.live:
            nbytes = sample.nbytes
            stack = table.stacks.get(sample.stack, Stack())
            site = view.sites.setdefault(stack.sites, Site())
            site.counted += sample.weight / one * nbytes
            blocks = sample.weight / one * scales.get(nbytes, 1.0)
            held = self.held(sample.block, nbytes)
            site.live += blocks * held
            site.blocks += blocks
            site.samples += 1
            site.largest = max(site.largest, nbytes)
            rounding = blocks * min(max(0, nbytes - sample.requested), held)
            site.rounding += rounding
            view.rounding += rounding
            if nbytes <= self.classes[-1]:
                size = sample.requested + -sample.requested % SIZE_STEP
                view.rounding_by_size[size] = view.rounding_by_size.get(size, 0.0) + rounding
            if sample.is_medium and nbytes <= self.classes[-1]:
                extra = -nbytes % PAGE_BYTES
                view.samples += extra
                view.live -= extra
            if sample.slab != 0:
                share = pin_of(slabs.get(self.granule_of(sample.slab)), nbytes, self.granule)
                pins.append((site, nbytes, blocks * share))
                claimed[nbytes] += blocks * share
        view.live = max(0.0, view.live)
        view.rounding = min(view.rounding, view.live)
        for site, nbytes, nominal in pins:
            if claimed[nbytes] > 0:
                actual = view.pinned_by_class.get(nbytes, 0.0)
                site.pinned += nominal * actual / claimed[nbytes]

    def scales(self, view: View, samples: list[Sample]) -> dict[int, float]:
        """Block size -> what its samples have to be multiplied by to agree with its slabs."""
        sampled: Counter[int] = Counter()
        weights: Counter[int] = Counter()
        for sample in samples:
            sampled[sample.nbytes] += 1
            weights[sample.nbytes] += sample.weight
        one = self.layout.offset("weight.one")
        return {
            size: (view.blocks_by_class.get(size, 0) + count) * one / weights[size]
            for size, count in sampled.items()
            if size <= self.classes[-1] and count >= SCALED_SAMPLES and weights[size]
        }

    def granule_of(self, slot: int) -> int:
        """The address that a slot of the window describes."""
        window = self.window
        return window.end - (window.slots_end - slot) // self.slot * self.granule

    def held(self, block: int, nbytes: int) -> int:
        """Resident bytes of a sampled block."""
        if nbytes <= PAGE_BYTES:
            return nbytes
        first, end = block // PAGE_BYTES, -(-(block + nbytes) // PAGE_BYTES)
        if end - first > 1 << 20:
            return nbytes  # 4 GiB: not page by page
        try:
            count = self.memory.resident(first * PAGE_BYTES, end - first).count(1)
        except Failed:
            return nbytes
        return min(nbytes, count * PAGE_BYTES)


def is_inside(ranges: list[tuple[int, int]], address: int) -> bool:
    """Whether a range has it."""
    return any(start <= address < end for start, end in ranges)


def merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same addresses, each once, in order."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def pin_of(slab: Slab | None, block_bytes: int, granule: int) -> float:
    """Free memory for each live block of the slab that would have had the sampled one; where that
    is gone, the block would have been alone in it."""
    if slab is not None and slab.block_bytes == block_bytes and slab.live > 0:
        return slab.pinned / (slab.live + 1)
    return max(0, granule - block_bytes)
