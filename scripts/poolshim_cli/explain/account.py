# SPDX-License-Identifier: MIT
"""The resident memory of a process by what it is for: every mapping, and the heap page by page.

    book = Book(pid); account = book.take()
    sum(account.parts.values()), account.rss        # the same, within what changed meanwhile
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from .. import control
from ..errors import Failed, OwnFailure
from ..live.census import Reader
from ..live.memory import PAGE_BYTES, Memory
from ..live.report import peak_of, resident_of
from ..pprof import Line
from . import mappings
from .demand import Demand
from .heap import Heap, Site, View
from .mappings import Mapping
from .zeroes import zero_bytes

LIBRARY = "libpoolshim.so"
HUGE_LEAST = 4 << 20  # in huge pages: below it their contents are not examined

# What memory is for, in the order of the picture, and in words.
PARTS = {
    "live": "live blocks",
    "rounding": "rounding of requests",
    "pinned": "free, pinned by live blocks",
    "room": "slabs not used up yet",
    "cache": "free pages kept",
    "huge": "unused parts of huge pages",
    "pools": "pages of pools",
    "stacks": "thread stacks",
    "other": "other mappings",
    "files": "mapped files",
    "shared": "shared memory",
    "code": "program and libraries",
    "metadata": "metadata of poolshim",
    "profile": "the profile itself",
}
HEAP_PARTS = ("live", "rounding", "pinned", "room", "cache", "huge", "pools")


@dataclass
class Account:
    """One process at one moment. Bytes."""

    pid: int
    rss: int = 0
    surplus: float = 0.0  # of the parts, as read, over the mappings, which were read before them
    peak: int = 0  # resident, by the kernel, up to this moment
    pss: int = 0
    parts: dict[str, float] = field(default_factory=dict)
    sites: dict[tuple[int, ...], Site] = field(default_factory=dict)
    lines: dict[int, Line] = field(default_factory=dict)  # of sites that are no addresses
    names: dict[str, Counter[str]] = field(default_factory=dict)  # of files and other mappings
    copied: int = 0  # private copies of pages of its parent
    large_live: int = 0  # bytes of the largest live block's range
    has_heap: bool = False  # runs on poolshim
    has_calls: bool = False  # and has called it
    limit: int = 0  # POOLSHIM_LIMIT, in bytes of resident memory; 0: none
    huge_bytes: int = 0
    pinned_by_class: dict[int, float] = field(default_factory=dict)
    rounding_by_size: dict[int, float] = field(default_factory=dict)
    classes: list[int] = field(default_factory=list)  # block sizes
    thread_count: int = 0
    interval: int = 0  # of its profile; 0: it has none
    is_recent: bool = False  # its sites cover only allocations during the watch
    delay_ms: int = 0  # for which free pages remain cached
    has_background: bool = False  # a thread gives them back
    swing: int = 0  # bytes of free memory that it retains for swings

    @property
    def accounted(self) -> float:
        """The sum."""
        return sum(self.parts.values())

    def settle(self, rss_after: int) -> None:
        """Makes one moment of a reading during which the process grew: the mappings are read first,
        the heap later. The parts are never more than the resident memory."""
        accounted = self.accounted
        self.surplus = accounted - self.rss
        if accounted > self.rss:
            self.rss = max(self.rss, min(round(accounted), rss_after))
            self.parts = {name: one * self.rss / accounted for name, one in self.parts.items()}


class Book:
    """The record of one process: its constants, and earlier findings about its mappings."""

    def __init__(self, pid: int, interval: int = 0) -> None:
        self.pid = pid
        self.interval = interval  # to sample at, in bytes; 0: leave its own sampling as it is
        self.demand: Demand | None = None
        self.has_calls = False
        self.memory = Memory(pid)
        self.heap: Heap | None = None
        self.library: tuple[str, int] = "", 0  # the program that has it, and where it is mapped
        self.stacks: set[tuple[int, int]] = set()
        self.mappings: list[Mapping] = []
        self.view = View()

    def close(self) -> None:
        """Its descriptors."""
        self.memory.close()
        if self.heap is not None:
            self.heap.memory.close()

    def find_heap(self) -> Heap | None:
        """The heap, which another program has after an exec."""
        mapped = next((one.start for one in self.mappings if LIBRARY in one.path), 0)
        base = control.program(self.pid) if control.is_linked(self.pid) else ("", mapped)
        if base != self.library or (base[1] and self.heap is None):
            self.library, self.heap, self.stacks = base, None, set()
            self.demand, self.has_calls = None, False
            with contextlib.suppress(Failed, OwnFailure):
                self.heap = Heap(self.pid) if base[1] else None
            if self.heap is not None and self.interval:
                self.demand = Demand(self.heap.memory, self.interval)
        return self.heap

    def ask(self) -> None:
        """For samples, again and again while they are wanted."""
        if self.demand is not None:
            self.demand.ask()

    def read_calls(self, heap: Heap) -> bool:
        """Whether the process has ever called the library: another allocator may serve it."""
        if not self.has_calls:
            census = Reader(heap.memory).census()
            self.has_calls = census.malloc_count > 0 or census.live_count > 0
        return self.has_calls

    def take(self) -> Account:
        """All of it. Failed and OwnFailure where the process has ended, or is not ours to read."""
        self.mappings = mappings.read(self.pid)
        account = Account(self.pid)
        account.rss = sum(one.rss for one in self.mappings)
        account.pss = sum(one.pss for one in self.mappings)
        account.huge_bytes = sum(one.huge for one in self.mappings)
        heap, self.view = self.find_heap(), View()
        if heap is not None:
            self.ask()
            heap.before = self.demand.before if self.demand is not None else None
            self.view = heap.read()
            account.has_heap, account.has_calls = True, self.read_calls(heap)
            account.interval, account.is_recent = self.view.interval, self.view.is_recent
            account.delay_ms, account.has_background = heap.settings()
            account.swing = heap.swings()
            account.limit = heap.limit()
        self.note_stacks(account)
        parts: Counter[str] = Counter()
        account.names = {"files": Counter(), "other": Counter(), "shared": Counter()}
        code = mappings.code_files(self.mappings)
        for one in self.mappings:
            self.add_mapping(account, parts, one, code)
        self.add_heap(account, parts)
        self.move_zeroes(parts)
        account.parts = {name: parts[name] for name in PARTS}
        rss_after = resident_of(self.pid)
        if not rss_after:
            raise control.gone(self.pid)  # meanwhile: of its mappings only some were read
        account.peak = peak_of(self.pid, rss_after) or rss_after
        account.settle(rss_after)
        account.sites, account.lines = self.view.sites, self.view.lines
        account.pinned_by_class = self.view.pinned_by_class
        account.rounding_by_size = self.view.rounding_by_size
        account.classes = heap.classes if heap is not None else []
        account.large_live = max((end - start for start, end in self.view.large_live), default=0)
        return account

    def note_stacks(self, account: Account) -> None:
        """Notes the mappings that contain a stack pointer, now or at an earlier moment."""
        pointers = mappings.stack_pointers(self.pid)
        account.thread_count = len(pointers)
        anonymous = {(one.start, one.end) for one in self.mappings if one.is_anonymous}
        self.stacks &= anonymous
        for start, end in anonymous:
            if any(start <= pointer < end for pointer in pointers):
                self.stacks.add((start, end))

    def add_mapping(
        self, account: Account, parts: Counter[str], one: Mapping, code: set[str]
    ) -> None:
        """Adds the part of a mapping that is not the heap's."""
        if not one.rss:
            return
        if one.path == "[stack]":
            parts["stacks"] += one.rss
        elif LIBRARY in one.path:
            parts["code" if "x" in one.permissions or "w" not in one.permissions
                  else "metadata"] += one.rss  # fmt: skip
        elif one.is_shared_memory:
            parts["shared"] += one.rss
            account.names["shared"][one.path] += one.rss
        elif one.is_file:
            kind = "code" if one.path in code else "files"
            parts[kind] += one.rss
            if kind == "files":
                account.names["files"][one.path] += one.rss
        elif one.path.startswith("[v"):  # vdso, vvar
            parts["code"] += one.rss
        else:
            self.add_anonymous(account, parts, one)

    def add_anonymous(self, account: Account, parts: Counter[str], one: Mapping) -> None:
        """Memory without a file, less what the heap has of it."""
        overlaps = [(max(a, one.start), min(b, one.end)) for a, b in self.view.ranges
                    if a < one.end and b > one.start]  # fmt: skip
        heap = sum(
            self.memory.resident(a, (b - a) // PAGE_BYTES).count(1) * PAGE_BYTES
            for a, b in overlaps
        )
        rest = max(0, one.rss - heap)
        if rest == 0:
            return
        if (one.start, one.end) in self.stacks:
            parts["stacks"] += rest
            return
        if self.is_data(one):
            parts["code"] += rest
            return
        parts["other"] += rest
        name = one.path or ("code made at run time" if "x" in one.permissions else "")
        account.names["other"][f"0x{one.start:x} {name}".strip()] += rest

    def is_data(self, one: Mapping) -> bool:
        """Zeroed data right after the mapping of a program or library."""
        before = [other for other in self.mappings if other.end == one.start]
        return bool(before) and before[0].is_file and "w" in before[0].permissions

    def add_heap(self, account: Account, parts: Counter[str]) -> None:
        """Adds the figures of the heap, which was read a moment after the mappings."""
        view = self.view
        parts["rounding"] += view.rounding
        parts["live"] += view.live - view.rounding
        for name, amount in (("pinned", view.pinned), ("room", view.room), ("cache", view.cache),
                             ("huge", view.unused), ("pools", view.pools),
                             ("metadata", view.metadata), ("profile", view.samples)):  # fmt: skip
            parts[name] += amount

    def move_zeroes(self, parts: Counter[str]) -> None:
        """Pages of huge pages that nothing was ever written to, where they count as used."""
        for one in self.mappings:
            if one.huge < HUGE_LEAST:
                continue
            in_heap = any(a < one.end and b > one.start for a, b in self.view.ranges)
            ranges = [(max(a, one.start), min(b, one.end)) for a, b in self.view.large_live
                      if a < one.end and b > one.start] if in_heap else [(one.start, one.end)]
            name = "live" if in_heap else "other"
            amount = min(zero_bytes(self.memory, ranges), one.huge, parts[name])
            parts[name] -= amount
            parts["huge"] += amount


EXCLUSIVE = bytes(int(value & 0x81 == 0x81) for value in range(256))  # present, and no one else's


def copied_bytes(child: Book, parent: Book) -> int:
    """Pages that both have, each its own, at the same address of memory that both have: the child
    was forked, and one of them has written there."""
    theirs = [(one.start, one.end) for one in parent.mappings if one.anonymous_memory]
    total = 0
    for one in child.mappings:
        if not one.anonymous_memory:
            continue
        for start, end in theirs:
            first, last = max(start, one.start), min(end, one.end)
            if first < last:
                total += common_pages(child.memory, parent.memory, first, last) * PAGE_BYTES
    return total


def common_pages(one: Memory, other: Memory, start: int, end: int) -> int:
    """Pages that both have to themselves."""
    count = (end - start) // PAGE_BYTES
    read: Callable[[Memory], int] = lambda memory: int.from_bytes(
        memory.pages(start, count, EXCLUSIVE), "little"
    )
    return (read(one) & read(other)).bit_count()

