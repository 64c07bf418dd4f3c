# SPDX-License-Identifier: MIT
"""The heap of glibc's malloc, chunk by chunk, read from outside: live, free, and what could return.

    heap = Walker(memory, mappings, program).walk()
    heap.system, heap.free, heap.returnable

Nothing is stopped, so a heap may change while it is read: a chunk that contradicts its neighbours
begins the walk again, and after a few attempts the heap counts as unknown. Chunks in fastbins and
tcaches look used; the former are followed list by list, the latter counted in each thread's table.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from .. import control
from ..explain.mappings import Mapping
from ..live.memory import PAGE_BYTES, Memory, Unreadable
from . import arenas
from .arenas import Arena, Unknown
from .pieces import Pieces

SECONDS = 20.0  # of one walk; some million chunks take 3 s
ATTEMPTS = 4
CHUNK_LEAST, HEADER_BYTES = 32, 16
IN_USE, MAPPED = 1, 2  # flags of a size: the chunk before is used; the chunk is a mapping
SIZE = ~7
MARKS_MAX = 128 << 20  # bytes of marks: heaps of 2 GiB
LINK_AT = 16  # of the next chunk of a fastbin
TCACHE_CHUNK, TCACHE_BINS = 0x290, 64
TCACHES_MAX, TCACHE_COUNT_MAX = 65536, 1 << 16
MISSES_MAX = 256  # pages of a mapping that are no chunk
LARGE_LEAST = 64 << 10


@dataclass
class Heap:
    """All arenas at one moment. Bytes."""

    arena_count: int = 0
    system: int = 0  # that the arenas have taken from the kernel
    free: int = 0
    fast: int = 0  # of it in fastbins
    tcache: int = 0  # of it in the tables of threads
    top: int = 0  # of it at the ends of the heaps
    resident: int = 0  # of the heaps
    returnable: int = 0  # of it whole pages of free memory
    partial: int = 0  # free, in pages with live chunks
    ranges: list[tuple[int, int]] = field(default_factory=list)  # of the heaps

    @property
    def retained(self) -> int:
        """Resident and free."""
        return min(self.resident, self.returnable + self.partial + self.tcache)


class Walker:
    """Reads the malloc of one process again and again."""

    def __init__(self, memory: Memory, mappings: list[Mapping], program: str) -> None:
        self.memory = memory
        with memory.reading(SECONDS):
            self.main = arenas.find(memory, mappings, program)

    def walk(self) -> Heap:
        """All chunks. Unknown where they contradict themselves again and again."""
        if self.main is None:
            raise Unknown("no malloc of glibc has served a call")
        reason = ""
        for _ in range(ATTEMPTS):
            try:
                with self.memory.reading(SECONDS):
                    return Walk(self.memory, self.main.address).heap
            except (Unknown, Unreadable) as error:
                reason = str(error)
        raise Unknown(f"its chunks contradict themselves ({reason})")


Live = Callable[[int, int], None]  # address of the block, bytes


class Walk:
    """One attempt."""

    def __init__(self, memory: Memory, main: int, live: Live | None = None) -> None:
        """live: is called with each chunk that is not known to be free."""
        self.memory, self.heap, self.live = memory, Heap(), live
        self.tcaches: list[int] = []
        self.parts: list[Pieces] = []
        found = arenas.all_of(memory, main)
        self.heap.arena_count = len(found)
        regions = [self.main_region(found[0])]
        for arena in found[1:]:
            for base, first, end in arenas.heaps_of(memory, arena):
                stop = arena.top if base <= arena.top < end else end
                regions.append((base, first, stop, end))
        if len({base for base, *_ in regions}) < len(regions):
            raise Unknown("two arenas claim one heap")
        for base, _, _, end in regions:
            self.parts.append(Pieces(memory, base, end))
            self.heap.ranges.append((base, end))
        for arena in found:
            self.heap.system += arena.system_bytes
        self.marks: dict[int, bytearray] = {}  # by heap: a byte per 16 bytes, 1 at a fast chunk
        for arena in found:
            for number, chunk in enumerate(arena.fastbins):
                self.heap.fast += self.follow(chunk, CHUNK_LEAST + 16 * number)
        for pieces, (_, first, stop, end) in zip(self.parts, regions, strict=True):
            self.heap.resident += pieces.resident(pieces.start, pieces.stop)
            self.region(pieces, first, stop, end)
        self.heap.tcache = sum(map(self.tcache_bytes, self.tcaches))
        self.heap.free += self.heap.tcache

    def main_region(self, main: Arena) -> tuple[int, int, int, int]:
        """The heap that brk extends."""
        start, limit = self.memory.brk(main.top)
        if not start <= main.top < limit:
            raise Unknown("the heap of brk was left for mappings")
        length = self.memory.number(main.top + 8) & SIZE
        end = main.top + length
        if not 0 < length or end > limit or end % PAGE_BYTES:
            raise Unknown("the end of the heap is not its top")
        first = end - main.system_bytes  # it has taken nothing else: brk was its own from there on
        if not start <= first < limit:
            raise Unknown("the heap of brk is not malloc's alone")
        first += (-first) % 16
        return start, first, main.top, end

    def marks_of(self, pieces: Pieces) -> bytearray:
        """The marks of one heap."""
        found = self.marks.get(pieces.start)
        if found is None:
            nbytes = (pieces.stop - pieces.start) // 16
            if nbytes + sum(map(len, self.marks.values())) > MARKS_MAX:
                raise Unknown("it is too large for its small free chunks to be marked")
            found = self.marks[pieces.start] = bytearray(nbytes)
        return found

    def follow(self, first: int, length: int) -> int:
        """Marks the chunks of one list of fastbins; returns their bytes. Its links are masked by
        their places since 2.32."""
        at, base, end, is_masked, count = first, 0, 0, None, 0
        words, marks, start = memoryview(b""), bytearray(), 0
        while at:
            if not base <= at < end:
                pieces = self.pieces_of(at)
                words, base, end = pieces.piece(at)
                marks, start = self.marks_of(pieces), pieces.start
            index, mark = (at - base) // 8, (at - start) // 16
            if at % 16 or marks[mark] or words[index + 1] & SIZE != length:
                raise Unknown("a list of small free chunks is broken")
            marks[mark], count = 1, count + 1
            is_last = at + LINK_AT >= end  # of the piece
            link = pieces.word(at + LINK_AT) if is_last else words[index + 2]
            mask = at + LINK_AT >> 12
            if is_masked is None and link:
                is_masked = link == mask or any(one.has(link ^ mask) for one in self.parts)
            at = link ^ mask if is_masked else link
        return count * length

    def pieces_of(self, address: int) -> Pieces:
        """The heap that has an address."""
        for one in self.parts:
            if one.start <= address < one.stop:
                return one
        raise Unknown("a chunk lies outside of the heaps")

    def region(self, pieces: Pieces, first: int, stop: int, end: int) -> None:
        """Adds the chunks of one heap: from the first one to the top, or to the fence at the end
        of a heap that was filled up."""
        at, before, run = first, first, 0
        size, least = SIZE, CHUNK_LEAST  # a loop over each chunk: local names
        marks, origin, live = self.marks.get(pieces.start), pieces.start, self.live
        while at < stop:
            words, base, limit = pieces.piece(at)
            limit = min(limit, stop)
            while at < limit:
                head = words[(at - base >> 3) + 1]
                if at == first or head & 1 and not (marks and marks[before - origin >> 4]):
                    if live is not None and at != first:
                        live(before + HEADER_BYTES, at - before - 8)
                    if run:
                        self.add_free(pieces, run, before)
                        run = 0
                elif not run:
                    run = before
                length = head & size
                if length < least or length & 15:
                    if self.is_fence(length, at, end) and stop == end:
                        self.add_free(pieces, run, at)
                        return
                    raise Unknown(f"a chunk of {length} bytes")
                if length == TCACHE_CHUNK and len(self.tcaches) < TCACHES_MAX:
                    self.tcaches.append(at)
                before, at = at, at + length
        if at != stop:
            raise Unknown("the last chunk does not end at the top")
        head = pieces.word(at + 8)
        is_marked = bool(marks and marks[before - origin >> 4])
        is_free = before < stop and (not head & IN_USE or is_marked)
        if live is not None and before < stop and not is_free:
            live(before + HEADER_BYTES, stop - before - 8)
        if is_free:
            run = run or before
        elif run:
            self.add_free(pieces, run, before)
            run = 0
        self.heap.top += end - stop
        self.add_free(pieces, run or stop, end)

    @staticmethod
    def is_fence(length: int, at: int, end: int) -> bool:
        """The two headers at the end of a heap that another one continues."""
        return length in (0, HEADER_BYTES) and end - at <= 4 * HEADER_BYTES

    def add_free(self, pieces: Pieces, start: int, stop: int) -> None:
        """Adds adjacent free chunks. The header at the start remains."""
        if not start or stop <= start:
            return
        first = start + HEADER_BYTES
        whole = max(0, stop // PAGE_BYTES * PAGE_BYTES - -(-first // PAGE_BYTES) * PAGE_BYTES)
        self.heap.free += stop - start
        self.heap.partial += stop - start - whole
        self.heap.returnable += pieces.resident(first, stop)

    def tcache_bytes(self, chunk: int) -> int:
        """Free bytes of a thread's table: 64 counts and 64 lists. 0 for another chunk that is as
        long."""
        try:
            data = self.memory.read(chunk + HEADER_BYTES, TCACHE_CHUNK - HEADER_BYTES)
        except Unreadable:
            return 0
        counts = struct.unpack_from(f"<{TCACHE_BINS}H", data)
        lists = struct.unpack_from(f"<{TCACHE_BINS}Q", data, 2 * TCACHE_BINS)
        for count, first in zip(counts, lists, strict=True):
            if (count == 0) != (first == 0) or first % 16:
                return 0
            if first and not any(one.has(first) for one in self.parts):
                return 0
        return sum(count * (CHUNK_LEAST + 16 * at) for at, count in enumerate(counts))


def large_chunks(memory: Memory, one: Mapping) -> list[tuple[int, int]]:
    """Chunks that malloc has mapped one by one, as far as they lie in a mapping. The kernel merges
    adjacent ones to one mapping."""
    found: list[tuple[int, int]] = []
    at, misses = one.start, 0
    pieces = Pieces(memory, one.start, one.end)
    while (at := pieces.next(at)) < one.end and misses < MISSES_MAX:
        before, head = struct.unpack("<2Q", memory.read(at, HEADER_BYTES))
        length = head & SIZE if head & ~SIZE == MAPPED and before == 0 else 0
        if length >= LARGE_LEAST and length % PAGE_BYTES == 0 and at + length <= one.end:
            found.append((at, at + length))
            at += length
        else:
            at, misses = at + PAGE_BYTES, misses + 1
    return found
