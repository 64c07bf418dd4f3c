# SPDX-License-Identifier: MIT
"""Where glibc's malloc has its arenas in the memory of a process, found without symbols.

    main = find(memory, mappings); arenas = all_of(memory, main)

main_arena is a local symbol that a stripped libc has not. Its struct malloc_state is recognised:
an empty bin points to itself, and there are 127 bins; every arena is a link of one ring. The layout
is that of glibc 2.27 to 2.41: sums agree with mallinfo of 2.31, 2.35, 2.36, 2.39 and 2.41.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from ..errors import Failed
from ..explain.mappings import Mapping
from ..live.memory import Memory, Unreadable
from .pieces import Pieces

STATE_BYTES = 2200
FASTBINS_AT, FASTBIN_COUNT = 16, 10
TOP_AT, BINS_AT, BIN_COUNT = 96, 112, 127
NEXT_AT, SYSTEM_AT = 2160, 2184
LINKS_AT = 16  # of the two links in a chunk
FLAGS_MAX = 7
ADDRESS_LEAST, SYSTEM_MAX = 1 << 12, 1 << 46
ARENAS_MAX = 8192
DATA_BYTES_MAX = 8 << 20  # of writable data that are searched
HEAP_BYTES = 64 << 20  # HEAP_MAX_SIZE: heaps of other arenas are aligned to it
HEADERS = (32, 48)  # sizes of heap_info: before 2.35, and since
HEAPS_MAX = 65536
LIBC = re.compile(r"libc(-2\.\d+)?\.so(\.6)?$")


class Unknown(Failed):
    """Nothing that malloc could be told from."""


@dataclass(frozen=True)
class Arena:
    """A struct malloc_state, checked."""

    address: int
    top: int
    next: int
    system_bytes: int
    fastbins: tuple[int, ...]


def arena_of(data: bytes, address: int) -> Arena | None:
    """The arena in STATE_BYTES from an address on; None where they contradict each other."""
    words = struct.unpack(f"<{STATE_BYTES // 8}Q", data)
    flags, have_fast = struct.unpack_from("<II", data, 4)
    if flags > FLAGS_MAX or have_fast > 1:
        return None
    for at in range(BIN_COUNT):
        first = BINS_AT // 8 + 2 * at
        own = address + 8 * first - LINKS_AT
        forward, back = words[first : first + 2]
        if not forward or not back or (forward == own) != (back == own):
            return None
    top, system, most = words[TOP_AT // 8], words[SYSTEM_AT // 8], words[SYSTEM_AT // 8 + 1]
    is_unused = top == address + BINS_AT - LINKS_AT  # before its first block
    is_next = words[NEXT_AT // 8] >= ADDRESS_LEAST and words[NEXT_AT // 8] % 8 == 0
    if not is_next or top % 16 or not system <= most < SYSTEM_MAX or (system == 0) != is_unused:
        return None
    fastbins = words[FASTBINS_AT // 8 : FASTBINS_AT // 8 + FASTBIN_COUNT]
    return Arena(address, top, words[NEXT_AT // 8], system, fastbins)


def search(data: bytes, start: int) -> list[Arena]:
    """What may be an arena in some writable data that begins at an address: the place of the first
    empty bin does not tell which one it is."""
    found, words = [], memoryview(data[: len(data) // 8 * 8]).cast("Q")
    at = 0
    while at < len(words) - 1:
        place = start + 8 * at
        if words[at] != place - LINKS_AT or words[at + 1] != words[at]:
            at += 1
            continue
        before = len(found)
        for bin_at in range(BIN_COUNT):
            first = 8 * at - BINS_AT - 16 * bin_at
            if first < 0 or first + STATE_BYTES > len(data):
                continue
            arena = arena_of(data[first : first + STATE_BYTES], start + first)
            if arena is not None:
                found.append(arena)
        at += BIN_COUNT * 2 if len(found) > before else 1
    return found


def data_of(mappings: list[Mapping], program: str) -> list[tuple[int, int]]:
    """Writable data of libc, or of a static program, which has malloc in itself."""
    paths = {one.path for one in mappings if LIBC.search(Path(one.path).name)}
    wanted, found, end = paths or {program}, [], 0
    for one in mappings:
        is_zeroed = one.is_anonymous and one.start == end  # .bss follows .data
        if "w" in one.permissions and (one.path in wanted or is_zeroed):
            found.append((one.start, min(one.end, one.start + DATA_BYTES_MAX)))
            end = one.end
    return found


def find(memory: Memory, mappings: list[Mapping], program: str) -> Arena | None:
    """main_arena; None where no malloc of glibc has served a call."""
    for start, end in data_of(mappings, program):
        try:
            candidates = search(Pieces(memory, start, end).whole(), start)
        except Unreadable:
            continue
        for arena in candidates:
            if arena.system_bytes and ring(memory, arena):
                return arena
    return None


def ring(memory: Memory, main: Arena) -> list[Arena]:
    """All arenas, the main one first; empty where they are no ring."""
    found, at = [main], main.next
    while at != main.address:
        if len(found) >= ARENAS_MAX or at % 8:
            return []
        try:
            arena = arena_of(memory.read(at, STATE_BYTES), at)
        except Unreadable:
            return []
        if arena is None or heap_header(arena) is None:
            return []
        found.append(arena)
        at = arena.next
    return found


def all_of(memory: Memory, address: int) -> list[Arena]:
    """The arenas now."""
    main = arena_of(memory.read(address, STATE_BYTES), address)
    found = ring(memory, main) if main is not None else []
    if not found:
        raise Unknown("its arenas change too fast to be read")
    return found


def heap_header(arena: Arena) -> int | None:
    """The length of heap_info, from the place of an arena in its first heap."""
    offset = arena.address % HEAP_BYTES
    return offset if offset in HEADERS else None


def first_chunk(arena: Arena) -> int:
    """The first chunk of an arena that lies in its own heap, behind its state."""
    at = arena.address + STATE_BYTES
    return at + (-(at + 16)) % 16


def heaps_of(memory: Memory, arena: Arena) -> list[tuple[int, int, int]]:
    """Base, first chunk and end in use of each heap of an arena that is not the main one."""
    header, found = heap_header(arena), []
    first = arena.address - arena.address % HEAP_BYTES
    base = arena.top - arena.top % HEAP_BYTES
    for _ in range(HEAPS_MAX):
        owner, before, nbytes = struct.unpack("<3Q", memory.read(base, 24))
        if owner != arena.address or not 0 < nbytes <= HEAP_BYTES or before % HEAP_BYTES:
            raise Unknown("a heap of an arena contradicts its arena")
        chunk = first_chunk(arena) if base == first else base + (header or 0)
        found.append((base, chunk, base + nbytes))
        if base == first or not before:
            return found
        base = before
    raise Unknown("an arena has too many heaps")
