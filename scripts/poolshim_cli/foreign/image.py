# SPDX-License-Identifier: MIT
"""Symbols of a library, from its image in the memory of a process.

    address_of(read, base, "poolshim_layout"); noted_in(read, base, "poolshim_layout")

A program that libpoolshim.a is linked into has no such symbols, but a note with their places.

The dynamic section, the hash table and the symbols are what the loader itself uses, and lie in
memory. The library's file is not opened: the process may have other mounts or another root, the
file may have been replaced by a newer one, or be something else than it seems.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from ..elf import (
    GNU_HASH, HASH, MAGIC, PT_DYNAMIC, PT_LOAD, PT_NOTE, STRTAB, SYMTAB, Malformed, notes_in,
)  # fmt: skip

Read = Callable[[int, int], bytes]

HEADER_BYTES, SEGMENT_BYTES, SYMBOL_BYTES, ENTRY_BYTES = 64, 56, 24, 16
SEGMENTS_MAX, ENTRIES_MAX, BUCKETS_MAX, CHAIN_MAX, SYMBOLS_MAX = 64, 256, 1 << 20, 1024, 1 << 16
MASK = (1 << 64) - 1
NOTES_BYTES_MAX = 1 << 16  # of one segment
NOTE_OWNER, NOTED = b"poolshim", ("poolshim_control", "poolshim_layout")  # shim/linked/note.c


class Image:
    """One library, as it is mapped."""

    def __init__(self, read: Read, base: int) -> None:
        self.read = read
        head = read(base, HEADER_BYTES)
        if head[:4] != MAGIC or head[4:6] != b"\2\1":
            raise Malformed("no ELF image of 64 bits")
        (start,), (size, count) = struct.unpack_from("<Q", head, 0x20), struct.unpack_from(
            "<HH", head, 0x36
        )  # fmt: skip
        if size != SEGMENT_BYTES or not 0 < count <= SEGMENTS_MAX:
            raise Malformed(f"{count} program headers of {size} bytes")
        table = read(base + start & MASK, SEGMENT_BYTES * count)
        segments = list(struct.iter_unpack("<IIQQQQQQ", table))
        first = next((one[3] for one in segments if one[0] == PT_LOAD and one[2] == 0), 0)
        self.bias = base - first & MASK
        self.dynamic: dict[int, int] = {}
        self.notes = [(self.bias + one[3] & MASK, min(one[6], NOTES_BYTES_MAX))
                      for one in segments if one[0] == PT_NOTE]  # fmt: skip
        for kind, _flags, _offset, address, _physical, _in_file, nbytes, _align in segments:
            if kind == PT_DYNAMIC:
                entries = min(nbytes // ENTRY_BYTES, ENTRIES_MAX)
                data = read(self.bias + address & MASK, entries * ENTRY_BYTES)
                for tag, value in struct.iter_unpack("<QQ", data):
                    self.dynamic.setdefault(tag, value)

    def place(self, tag: int) -> int:
        """An address of the dynamic section: relocated in place by glibc, not so by others."""
        value = self.dynamic.get(tag)
        if value is None:
            raise Malformed(f"no entry {tag:#x} in the dynamic section")
        return value if value >= self.bias else self.bias + value

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Words of 32 bits."""
        return struct.unpack(f"<{count}I", self.read(address & MASK, 4 * count))

    def candidates(self, name: str) -> range:
        """Indices of symbols that may have that name."""
        if GNU_HASH not in self.dynamic:
            _buckets, count = self.words(self.place(HASH), 2)
            return range(min(count, SYMBOLS_MAX))
        value = 5381
        for letter in name.encode():
            value = value * 33 + letter & 0xFFFFFFFF
        table = self.place(GNU_HASH)
        bucket_count, first, bloom_words, _shift = self.words(table, 4)
        if not 0 < bucket_count <= BUCKETS_MAX:
            raise Malformed(f"{bucket_count} buckets of symbols")
        buckets = table + 16 + 8 * bloom_words
        (index,) = self.words(buckets + 4 * (value % bucket_count), 1)
        if index < first:
            return range(0)
        chains = buckets + 4 * bucket_count
        for at in range(index, index + CHAIN_MAX):
            (found,) = self.words(chains + 4 * (at - first), 1)
            if found | 1 == value | 1:
                return range(at, at + 1)
            if found & 1:
                break
        return range(0)

    def address_of(self, name: str) -> int | None:
        """The address of an exported symbol."""
        wanted = name.encode() + b"\0"
        for index in self.candidates(name):
            data = self.read(self.place(SYMTAB) + SYMBOL_BYTES * index & MASK, SYMBOL_BYTES)
            name_at, _info, _other, section, value, _size = struct.unpack("<IBBHQQ", data)
            if section and self.read(self.place(STRTAB) + name_at & MASK, len(wanted)) == wanted:
                return self.bias + value & MASK
        return None


    def noted(self, name: str) -> int | None:
        """The address that the program's note has for a symbol."""
        for start, nbytes in self.notes:
            for owner, at, value in notes_in(self.read(start, nbytes)):
                if owner == NOTE_OWNER and len(value) == 8 * len(NOTED):
                    index = NOTED.index(name)
                    (distance,) = struct.unpack_from("<q", value, 8 * index)
                    return start + at + 8 * index + distance & MASK
        return None


def address_of(read: Read, base: int, name: str) -> int | None:
    """The address of a symbol of the library at `base`, or None. Malformed: there is no library."""
    return Image(read, base).address_of(name)


def noted_in(read: Read, base: int, name: str) -> int | None:
    """The address of a symbol in the program at `base`; None where the library is no part of it."""
    return Image(read, base).noted(name)
