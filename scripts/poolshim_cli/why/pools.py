# SPDX-License-Identifier: MIT
"""Python's own allocator for small objects: its pools, recognised by their headers.

    found = read(memory, mapping, POOL_BYTES[minor])

A pool is 16 KiB (since Python 3.10) or 4 KiB, aligned to that, and has one size of blocks. Its
header has the number of used blocks, the index of the size, and an offset that follows from it, by
which a pool differs from other memory. The mappings may be those of any allocator.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

from ..explain.mappings import Mapping
from ..live.memory import PAGE_BYTES, Memory
from .pieces import Pieces

HEADER = struct.Struct("<I4xQQQIIII")  # count, free block, next, previous, arena, size, two offsets
HEADER_BYTES = HEADER.size
NEW_POOL, OLD_POOL = 16 << 10, 4 << 10
NEW_SINCE = 10  # minor version of Python 3
SIZES, STEP = 32, 16  # up to 512 bytes
RUNTIME = re.compile(r"(?:lib)?python3\.(\d+)(?:[a-z]*)(?:\.so[.\d]*)?$")
MINOR_UNKNOWN = -1


@dataclass
class Pools:
    """The pools of some memory. Bytes."""

    count: int = 0
    resident: int = 0
    live: int = 0  # of used blocks
    ranges: list[tuple[int, int]] = field(default_factory=list)

    @property
    def free(self) -> int:
        """Resident, without a used block."""
        return max(0, self.resident - self.live)


def minor_of(mappings: list[Mapping]) -> int | None:
    """The minor version of the Python 3 in a process; None without one."""
    for one in mappings:
        found = RUNTIME.match(Path(one.path).name) if one.is_file else None
        if found:
            return int(found[1])
    return None


def pool_bytes(minor: int) -> int:
    """The length of a pool."""
    return NEW_POOL if minor >= NEW_SINCE else OLD_POOL


def used_bytes(header: bytes, nbytes: int) -> int | None:
    """The used bytes of a pool by its header; None where that is no pool's."""
    count, _, _, _, _, index, offset, last = HEADER.unpack(header)
    size = STEP * (index + 1)
    if index >= SIZES or last != nbytes - size or not HEADER_BYTES <= offset <= nbytes:
        return None
    return count * size if count * size <= nbytes - HEADER_BYTES else None


def aligned(address: int, nbytes: int) -> int:
    """The next multiple from an address on."""
    return address + -address % nbytes


def read(memory: Memory, one: Mapping, nbytes: int) -> Pools:
    """The pools in a mapping."""
    found = Pools()
    pieces = Pieces(memory, one.start, one.end)
    at = one.start - nbytes
    while (at := aligned(pieces.next(at + nbytes), nbytes)) + nbytes <= one.end:
        if not pieces.has(at):
            continue
        words, base, _ = pieces.piece(at)
        first = (at - base) // 8
        used = used_bytes(words[first : first + HEADER_BYTES // 8].tobytes(), nbytes)
        if used is None:
            continue
        found.count += 1
        found.live += used
        found.resident += pieces.resident(at, at + max(nbytes, PAGE_BYTES))
        if found.ranges and found.ranges[-1][1] == at:
            found.ranges[-1] = (found.ranges[-1][0], at + nbytes)
        else:
            found.ranges.append((at, at + nbytes))
    return found
