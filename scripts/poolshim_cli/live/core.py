# SPDX-License-Identifier: MIT
"""The memory of a process that has ended, in its core file.

    with Core(Path("core.1234")) as core:
        core.read(address, 128), core.mappings, core.pid, core.program

Reads as Memory does. What the kernel leaves out, as the code and constants of files, is read from
the files that the core names, where these are there and have not changed: their length is compared,
and a library's build id where the core has its first page.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .. import control
from ..errors import BadRequest, Failed, OwnFailure
from ..explain.mappings import Mapping
from ..foreign import files, image, text
from .memory import ENTRY_BYTES, PAGE_BYTES, PRESENT, Memory

IDENT = b"\x7fELF\x02\x01"  # 64 bits, little-endian
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
NOTE = struct.Struct("<III")
TYPE_CORE, LOAD, NOTES = 4, 1, 4
NT_PRSTATUS, NT_PRPSINFO, NT_FILE = 1, 3, 0x46494C45
SIGNAL_AT = 12
STACK_POINTER_AT = {62: 264, 183: 360, 243: 128}  # in prstatus, by processor: x86-64, arm64, riscv
PSINFO_PID_AT, PSINFO_NAME_AT, NAME_BYTES = 24, 40, 16
PN_XNUM = 0xFFFF
SEGMENTS_MAX = 1 << 20
NOTES_MAX = 64 << 20
FLAG_R, FLAG_W, FLAG_X = 4, 2, 1
MAGIC = b"\x7fELF"
PAGES_AT_ONCE = 256


@dataclass(frozen=True)
class Segment:
    """Memory of the process; `stored` bytes of it are in the core."""

    start: int
    end: int
    stored: int
    offset: int
    flags: int


@dataclass(frozen=True)
class Backed:
    """A part of a file that was mapped."""

    start: int
    end: int
    offset: int
    path: str


def damaged(path: Path, what: str) -> BadRequest:
    """The core is none, or no whole one."""
    return BadRequest(f"{path}: {what}")


class Core(Memory):
    """Reads the memory in a core file."""

    def __init__(self, path: Path) -> None:
        super().__init__(0)
        self.path = path
        self.program = ""
        self.signal = 0  # that ended it
        self.stack_pointers: list[int] = []  # of its threads
        self.backed: list[Backed] = []
        self.sources: dict[str, int] = {}  # open files, -1: not there, or another one
        try:
            self.descriptor = files.open_regular(path)
        except OSError as error:
            raise damaged(path, error.strerror or "cannot be opened") from None
        try:
            self.segments = self.read_segments()
        except BaseException:
            os.close(self.descriptor)
            raise
        self.starts = [one.start for one in self.segments]

    def close(self) -> None:
        """All files."""
        super().close()
        for descriptor in (self.descriptor, *self.sources.values()):
            if descriptor >= 0:
                os.close(descriptor)
        self.descriptor, self.sources = -1, {}

    # ---- the file ----

    def stored(self, offset: int, count: int) -> bytes:
        """Bytes of the core."""
        data = os.pread(self.descriptor, count, offset)
        if len(data) != count:
            raise damaged(self.path, "the core file is cut off: `ulimit -c`, or a full disk")
        return data

    def read_segments(self) -> list[Segment]:
        """The segments by their addresses; takes the notes."""
        head = os.pread(self.descriptor, HEADER.size, 0)
        if len(head) != HEADER.size or head[:6] != IDENT or HEADER.unpack(head)[1] != TYPE_CORE:
            raise damaged(self.path, "not a core file of a 64-bit process")
        self.stack_at = STACK_POINTER_AT.get(HEADER.unpack(head)[2])
        at, count, length = (HEADER.unpack(head)[i] for i in (5, 10, 9))
        if count == PN_XNUM:  # the first section has the number
            section = HEADER.unpack(head)[6]
            count = struct.unpack_from("<I", self.stored(section + 44, 4))[0]
        if length != SEGMENT.size or count > SEGMENTS_MAX:
            raise damaged(self.path, "its header contradicts itself")
        found = []
        for kind, flags, offset, start, _, stored, nbytes, _ in SEGMENT.iter_unpack(
            self.stored(at, count * SEGMENT.size)
        ):
            if kind == LOAD and nbytes:
                found.append(Segment(start, start + nbytes, min(stored, nbytes), offset, flags))
            elif kind == NOTES:
                self.take_notes(self.stored(offset, min(stored, NOTES_MAX)))
        return sorted(found, key=lambda one: one.start)

    def take_notes(self, data: bytes) -> None:
        """The process, and its files."""
        at = 0
        while at + NOTE.size <= len(data):
            name_bytes, nbytes, kind = NOTE.unpack_from(data, at)
            at += NOTE.size + (name_bytes + 3) // 4 * 4
            note = data[at : at + nbytes]
            at += (nbytes + 3) // 4 * 4
            try:
                if kind == NT_PRSTATUS:
                    self.take_thread(note)
                elif kind == NT_PRPSINFO:
                    self.pid = struct.unpack_from("<i", note, PSINFO_PID_AT)[0]
                    name = note[PSINFO_NAME_AT : PSINFO_NAME_AT + NAME_BYTES]
                    self.program = text.printable(name.partition(b"\0")[0].decode(errors="replace"))
                elif kind == NT_FILE:
                    self.take_files(note)
            except struct.error:
                raise damaged(self.path, "its notes contradict themselves") from None

    def take_thread(self, note: bytes) -> None:
        """A thread; that of the signal comes first."""
        if not self.stack_pointers:
            self.signal = struct.unpack_from("<H", note, SIGNAL_AT)[0]
        if self.stack_at is not None:
            self.stack_pointers += struct.unpack_from("<Q", note, self.stack_at)

    def take_files(self, note: bytes) -> None:
        """The list of mapped files."""
        count, unit = struct.unpack_from("<QQ", note)
        if count * 24 > len(note):
            raise damaged(self.path, "its notes contradict themselves")
        names = note[16 + count * 24 :].split(b"\0")
        for index in range(count):
            start, end, offset = struct.unpack_from("<QQQ", note, 16 + index * 24)
            name = names[index].decode(errors="surrogateescape") if index < len(names) else ""
            self.backed.append(Backed(start, end, offset * unit, name))

    @property
    def mappings(self) -> list[Mapping]:
        """As of /proc/PID/smaps; memory in the core was resident."""
        paths = {one.start: one for one in self.backed}
        found = []
        for one in self.segments:
            backed = paths.get(one.start)
            bits = ((FLAG_R, "r"), (FLAG_W, "w"), (FLAG_X, "x"))
            permissions = "".join(c if one.flags & bit else "-" for bit, c in bits) + "p"
            path, offset = (backed.path, backed.offset) if backed else ("", 0)
            figures = {"rss": one.stored, "pss": one.stored}
            inode = 1 if path else 0
            found.append(
                Mapping(one.start, one.end, permissions, offset, inode, path, figures)
            )
        return found

    def brk(self, top: int) -> tuple[int, int]:
        """The segment of the heap that brk has extended, by an address in it."""
        one = self.segment_of(top)
        is_heap = one is not None and not any(one.start == file.start for file in self.backed)
        return (one.start, one.end) if one is not None and is_heap else (0, 0)

    # ---- the memory ----

    def segment_of(self, address: int) -> Segment | None:
        """The segment that an address lies in."""
        at = bisect.bisect_right(self.starts, address) - 1
        return self.segments[at] if at >= 0 and address < self.segments[at].end else None

    def fetch(self, address: int, count: int) -> bytes:
        """Bytes, across segments."""
        parts = []
        while count:
            one = self.segment_of(address)
            if one is None:
                parts.append(self.from_file(address, count))
                break
            length = min(count, one.end - address)
            at = address - one.start
            if at < one.stored:
                length = min(length, one.stored - at)
                parts.append(self.stored(one.offset + at, length))
            else:
                parts.append(self.from_file(address, length))
            address, count = address + length, count - length
        return b"".join(parts)

    def from_file(self, address: int, count: int) -> bytes:
        """Bytes that the core does not have."""
        for one in self.backed:
            if one.start <= address and address + count <= one.end:
                descriptor = self.source(one)
                data = os.pread(descriptor, count, address - one.start + one.offset) \
                    if descriptor >= 0 else b""  # fmt: skip
                if len(data) == count:
                    return data
        raise control.BadAddress(f"{self.path}: nothing is at {address:#x}")

    def source(self, backed: Backed) -> int:
        """The open file of a mapping; -1 where it is not there or has changed."""
        if backed.path not in self.sources:
            self.sources[backed.path] = self.open_source(backed.path)
        return self.sources[backed.path]

    def open_source(self, path: str) -> int:
        """The file, if its first page is the one in the core."""
        try:
            descriptor = files.open_regular(path)
        except (OSError, OwnFailure):
            return -1
        first = next((one for one in self.backed if one.path == path and not one.offset), None)
        one = self.segment_of(first.start) if first is not None else None
        if one is not None and one.start == first.start and one.stored >= PAGE_BYTES:
            page = self.stored(one.offset, PAGE_BYTES)
            if page[:4] == MAGIC and os.pread(descriptor, PAGE_BYTES, 0) != page:
                os.close(descriptor)
                return -1
        return descriptor

    def find_symbol(self, symbol: str) -> control.Place:
        """An exported symbol of the library, or one that a program's note names."""
        images = {one.path: one.start for one in reversed(self.backed) if not one.offset}
        for path, base in images.items():
            with contextlib.suppress(image.Malformed, control.BadAddress):
                address = image.noted_in(partial(self.fetch), base, symbol)
                if address is not None:
                    return control.Place(address, path, base)
        bases = {one.path: one.start for one in reversed(self.backed)
                 if Path(one.path).name.startswith(control.LIBRARY) and not one.offset}  # fmt: skip
        for path, base in bases.items():
            try:
                address = image.address_of(partial(self.fetch), base, symbol)
            except (image.Malformed, control.BadAddress):
                continue
            if address is not None:
                return control.Place(address, path, base)
        if bases:
            raise Failed(f"{self.path}: {next(iter(bases))} is not the library that the process "
                         "had mapped, or is older than this command")  # fmt: skip
        raise Failed(f"{self.path}: the process did not run on poolshim")

    def entries(self, page: int, count: int) -> bytes:
        """As of pagemap. The core has untouched pages as zeroes, so zero pages count as such."""
        found = bytearray(count * ENTRY_BYTES)
        for first in range(0, count, PAGES_AT_ONCE):
            pages = min(PAGES_AT_ONCE, count - first)
            for index, is_used in enumerate(self.used((page + first) * PAGE_BYTES, pages), first):
                if is_used:
                    found[index * ENTRY_BYTES + ENTRY_BYTES - 1] = PRESENT
        return bytes(found)

    def set_aside(self) -> list[tuple[int, int]]:
        """The core does not tell."""
        return []

    def used(self, address: int, pages: int) -> Iterator[bool]:
        """Whether each page has something in the core."""
        while pages:
            one = self.segment_of(address)
            left = (one.end - address if one is not None else self.gap_at(address)) // PAGE_BYTES
            length = min(pages, max(left, 1))
            at = address - one.start if one is not None else 0
            stored = min(length * PAGE_BYTES, max(one.stored - at, 0)) if one is not None else 0
            data = self.stored(one.offset + at, stored) if one is not None and stored else b""
            for start in range(0, length * PAGE_BYTES, PAGE_BYTES):
                part = data[start : start + PAGE_BYTES]
                yield part.count(0) != len(part)
            address, pages = address + length * PAGE_BYTES, pages - length

    def used_bytes(self, one: Segment) -> Iterator[int]:
        """The bytes of each page of a segment that has something."""
        for first in range(one.start, one.start + one.stored, PAGES_AT_ONCE * PAGE_BYTES):
            pages = min(PAGES_AT_ONCE, (one.start + one.stored - first) // PAGE_BYTES)
            yield PAGE_BYTES * sum(self.used(first, pages))

    def gap_at(self, address: int) -> int:
        """Bytes without a segment from an address on."""
        at = bisect.bisect_right(self.starts, address)
        return self.starts[at] - address if at < len(self.starts) else 1 << 47

    def allow_bytes(self) -> None:
        """As much as the core has, twice."""
        self.bytes_left = 2 * sum(one.stored for one in self.segments) + (64 << 20)

