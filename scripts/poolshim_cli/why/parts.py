# SPDX-License-Identifier: MIT
"""The resident memory of any process by what it is for.

    reader = Reader(1234); look = reader.look(); look.parts, look.rss

The mappings are divided as by `poolshim explain`: stacks, files, shared memory, and the heap of
a process on poolshim. Other mappings are divided further: glibc's heap by its chunks, large blocks
of malloc, Python's pools, the heap of a runtime, and mappings that the program makes itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import Counter
from dataclasses import dataclass, field

from .. import control
from ..errors import Failed, OwnFailure
from ..explain.account import HUGE_LEAST, Account, Book
from ..explain.mappings import Mapping
from ..explain.zeroes import zero_bytes
from ..foreign import files
from ..live.memory import PAGE_BYTES, Memory, contradictions
from . import pools, runtimes
from .glibc import Heap, Walker, large_chunks

# In the order of the report, in words; {} is the allocator or the runtime.
PARTS = {
    "live": "live malloc blocks", "retained": "free memory retained by malloc",
    "heap": "heap of {allocator}, live and free", "python": "live Python objects",
    "python_free": "free memory in Python's pools", "runtime": "heap of {runtime}",
    "mappings": "other anonymous mappings", "huge": "unused parts of huge pages",
    "stacks": "thread stacks", "shared": "shared memory", "files": "mapped files",
    "code": "program and libraries", "metadata": "metadata of poolshim",
}  # fmt: skip
LEAST = 64 << 10  # of a mapping that is looked into
SECONDS = 10.0  # of the reading of pools and pages
ROLLUP = re.compile(r"^(Rss|Pss|Swap):\s+(\d+) kB$", re.M)
GLIBC, OTHER_POOLSHIM = "glibc", "another version of poolshim"


@dataclass
class Look:
    """One process at one moment. Bytes."""

    pid: int
    at_s: float = 0.0
    rss: int = 0
    pss: int = 0
    swap: int = 0
    huge: int = 0  # in huge pages
    anonymous: int = 0  # what its group is charged with as anonymous
    parts: Counter[str] = field(default_factory=Counter)
    names: dict[str, Counter[str]] = field(default_factory=dict)
    glibc: Heap | None = None
    allocator: str = ""
    runtime: str = ""
    is_python: bool = False
    pool_count: int = 0
    thread_count: int = 0
    large: int = 0  # live blocks that malloc has mapped one by one
    largest: int = 0  # mapping of its own
    mapping_count: int = 0
    limit: int = 0  # POOLSHIM_LIMIT
    cost_s: float = 0.0
    notes: list[str] = field(default_factory=list)


def rollup_of(pid: int) -> dict[str, int]:
    """Rss, Pss and Swap of a process in bytes, by smaps_rollup, or smaps on older kernels."""
    for name in ("smaps_rollup", "smaps"):
        try:
            text = files.read_proc(pid, name).decode(errors="replace")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise control.explain(pid, error.errno or 0, "its mappings") from None
        found: Counter[str] = Counter()
        for key, value in ROLLUP.findall(text):
            found[key.lower()] += int(value) * 1024
        return dict(found)
    raise control.gone(pid)


class MappedBook(Book):
    """Stacks of threads, without those of goroutines, which lie in Go's heap."""

    def note_stacks(self, account: Account) -> None:
        """Those of Go count as its heap."""
        super().note_stacks(account)
        self.stacks = {one for one in self.stacks if not runtimes.is_of_go(one[0])}


class Reader:
    """Looks at one process again and again."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.book = MappedBook(pid)
        self.memory: Memory = self.book.memory
        self.walker: Walker | None = None
        self.heap: Heap | None = None  # of the last full look
        self.bundled: str | None = None
        self.cache: dict[int, tuple[int, Counter[str]]] = {}  # by mapping: its end, its contents

    def close(self) -> None:
        """Its descriptors."""
        self.book.close()

    def look(self, is_full: bool = True) -> Look:
        """The parts now. Without `is_full` chunks and pools are those of the look before."""
        begin_s = time.process_time()
        with contradictions(self.pid):
            account = self.book.take()
            look = self.of_account(account)
            found = runtimes.recognise(self.book.mappings)
            look.runtime, look.is_python = found.runtime, found.python_minor is not None
            look.allocator = self.allocator_of(found, account)
            self.divide(look, found, account, is_full)
        look.cost_s = time.process_time() - begin_s
        return look

    def of_account(self, account: Account) -> Look:
        """What explain knows of it."""
        parts, mappings = account.parts, self.book.mappings
        look = Look(self.pid, rss=account.rss, pss=account.pss, huge=account.huge_bytes)
        look.swap = sum(one.figures.get("swap", 0) for one in mappings)
        look.anonymous = sum(one.figures.get("anonymous", 0) for one in mappings)
        look.thread_count, look.limit = account.thread_count, account.limit
        look.names = {name: account.names[name] for name in ("files", "shared")}
        look.parts["live"] = round(parts["live"] + parts["rounding"] + parts["pools"])
        look.parts["retained"] = round(parts["pinned"] + parts["room"] + parts["cache"])
        look.parts["metadata"] = round(parts["metadata"] + parts["profile"])
        moved = max(0, sum(account.names["other"].values()) - round(parts["other"]))
        look.parts["huge"] = max(0, round(parts["huge"]) - moved)  # that of the library's heap
        for name in ("stacks", "shared", "files", "code"):
            look.parts[name] = round(parts[name])
        return look

    def allocator_of(self, found: runtimes.Found, account: Account) -> str:
        """The malloc that serves the process; a library that is mapped may be unused."""
        if account.has_heap:
            is_other = not account.has_calls and self.has_arenas()
            return GLIBC if is_other else "poolshim"
        if found.allocator == "poolshim":
            return OTHER_POOLSHIM
        return found.allocator or GLIBC

    def has_arenas(self) -> bool:
        """Whether glibc's malloc serves the process."""
        if self.walker is None:
            self.walker = Walker(self.memory, self.book.mappings, self.program())
        return self.walker.main is not None

    def divide(
        self, look: Look, found: runtimes.Found, account: Account, is_full: bool
    ) -> None:
        """Divides the mappings that are neither stacks nor files nor poolshim's."""
        rests = {int(name.split()[0], 16): amount for name, amount in
                 account.names["other"].items()}  # fmt: skip
        by_start = {one.start: one for one in self.book.mappings}
        heap = self.glibc_heap(look, is_full) if look.allocator == GLIBC else None
        in_glibc = 0
        with self.memory.reading(SECONDS):
            for start, rest in sorted(rests.items()):
                one = by_start.get(start)
                if one is None:
                    look.parts["mappings"] += rest
                elif heap is not None and any(a < one.end and b > start for a, b in heap.ranges):
                    in_glibc += rest
                else:
                    self.add_mapping(look, found, one, rest, is_full)
        if heap is not None:
            retained = min(heap.retained, in_glibc)
            look.parts["retained"] += retained
            look.parts["live"] += in_glibc - retained
        self.name_allocator(look)
        is_unknown = look.is_python and not look.pool_count and is_full
        if is_unknown and look.parts["mappings"] >= look.rss // 4:
            look.notes.append("no pools of Python were recognised: an unknown version of it, or "
                              "PYTHONMALLOC is set")  # fmt: skip

    def glibc_heap(self, look: Look, is_full: bool) -> Heap | None:
        """The chunks; None where they cannot be read, with a note."""
        if not is_full:
            look.glibc = self.heap
            return self.heap
        try:
            if self.walker is None or self.walker.main is None:
                program = self.program()
                self.walker = Walker(self.memory, self.book.mappings, program)
            if self.walker.main is None:
                self.heap = None
            else:
                self.heap = look.glibc = self.walker.walk()
        except OwnFailure:
            raise
        except Failed as error:
            self.walker = None
            if self.heap is None:
                look.notes.append(f"glibc's heap cannot be divided: {error}")
            else:  # it changes too fast now
                look.notes.append(f"glibc's heap was divided at an earlier moment: {error}")
                look.glibc = self.heap
        return self.heap

    def program(self) -> str:
        """The path of its program, as mappings name it."""
        try:
            return os.readlink(f"/proc/{self.pid}/exe").removesuffix(" (deleted)")
        except OSError:
            return ""

    def add_mapping(
        self, look: Look, found: runtimes.Found, one: Mapping, rest: int, is_full: bool
    ) -> None:
        """Adds one mapping."""
        parts: Counter[str] = Counter()
        is_heap = one.path == "[heap]"
        if runtimes.is_heap_of(found)(one) and not is_heap:
            parts["runtime"] += rest
            rest = 0
        elif rest >= LEAST and not is_heap:
            rest -= self.look_into(look, found, one, rest, parts, is_full)
        if one.huge >= HUGE_LEAST and rest > 0:
            with contextlib.suppress(Failed):
                unused = min(zero_bytes(self.memory, [(one.start, one.end)]), one.huge, rest)
                parts["huge"] += unused
                rest -= unused
        is_malloc = is_heap or look.allocator not in (GLIBC, "poolshim")
        parts["heap" if is_malloc else "mappings"] += rest
        if not is_malloc and rest >= LEAST:
            look.mapping_count += 1
            look.largest = max(look.largest, rest)
        look.parts += parts

    def look_into(
        self, look: Look, found: runtimes.Found, one: Mapping, rest: int,
        parts: Counter[str], is_full: bool,
    ) -> int:  # fmt: skip
        """Adds large blocks, pools and pages in a mapping to its parts; their sum."""
        before = self.cache.get(one.start)
        if before is not None and not is_full and before[0] == one.end:
            inside = before[1]
        else:
            try:
                inside = self.contents(look, found, one)
            except Failed as error:
                look.notes.append(f"some mappings cannot be divided: {error}")
                inside = Counter()
            self.cache[one.start] = one.end, inside
        total = sum(inside.values())
        scale = min(1.0, rest / total) if total else 0.0
        for name, amount in inside.items():
            parts[name] += round(amount * scale)
        look.large += round(inside["live"] * scale)
        return min(rest, sum(round(amount * scale) for amount in inside.values()))

    def contents(self, look: Look, found: runtimes.Found, one: Mapping) -> Counter[str]:
        """What a mapping contains that its owner can be told of."""
        inside: Counter[str] = Counter()
        if found.python_minor is not None:
            some = pools.read(self.memory, one, pools.pool_bytes(found.python_minor))
            inside["python"] = min(some.live, some.resident)
            inside["python_free"] = some.free
            look.pool_count += some.count
            if some.count:
                return inside
        if found.runtime == "Ruby":
            inside["runtime"] = runtimes.ruby_pages(self.memory, one, self.book.mappings)
        if look.allocator == GLIBC and self.heap is not None:
            for start, end in large_chunks(self.memory, one):
                pages = self.memory.resident(start, (end - start) // PAGE_BYTES)
                inside["live"] += pages.count(1) * PAGE_BYTES
        return inside

    def name_allocator(self, look: Look) -> None:
        """An allocator inside the program, where much memory is in mappings."""
        unknown = look.parts["mappings"]
        if look.allocator != GLIBC or unknown < max(look.rss // 4, 2 << 20):
            return
        if self.bundled is None:
            self.bundled = runtimes.bundled(self.pid)
        if self.bundled:
            look.allocator = self.bundled
            look.parts["heap"] += unknown
            look.parts["mappings"] = 0
