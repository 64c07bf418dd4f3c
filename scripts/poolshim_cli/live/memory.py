# SPDX-License-Identifier: MIT
"""The memory of another process: reads of what it has touched, and which pages that is.

    Memory(1234).read(address, 128)

A page that was never touched reads as zero and is not touched by the read: its bit in
/proc/PID/pagemap says so. Anything that fails is one line (control.explain).

Addresses and lengths come from that memory too, so a process can send its reader anywhere and round
in circles. A reading has a number of bytes and of seconds, and no more; words that contradict each
other end it (contradictions).
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import struct
import time
import weakref
from collections.abc import Iterator

from .. import control
from ..errors import Failed
from ..foreign import files, patience
from ..foreign.text import printable

PAGE_BYTES = os.sysconf("SC_PAGESIZE")
ENTRY_BYTES = 8  # of pagemap
PAGES_AT_ONCE = 1 << 20
PRESENT, SWAPPED = 0x80, 0x40  # of the highest byte of an entry
IS_RESIDENT = bytes(int(bool(value & PRESENT)) for value in range(256))
IS_TOUCHED = bytes(int(bool(value & (PRESENT | SWAPPED))) for value in range(256))
SET_ASIDE = re.compile(rb"^(\w+)-(\w+) .*/anon_hugepage\b", re.M)  # of maps
READ_BYTES_MAX = 4 << 20  # at once: from swap, too, without seeming to be blocked
BYTES_MAX = 8 << 30  # of a reading; the slots of a heap of 4 TiB
SPARE_BYTES = 256 << 20  # beyond twice what the process has in memory, and in swap
RANGE_PAGES_MAX = 1 << 28  # 1 TiB of addresses
PAGES_MAX = 1 << 30  # that are looked up in a reading
READING_SECONDS = 120.0  # half a TiB of small blocks takes about 30


class Unreadable(Failed):
    """Memory that the process has no more, or never had."""


@contextlib.contextmanager
def contradictions(pid: int) -> Iterator[None]:
    """Words of a process that cannot be calculated with are its failure, in one line."""
    try:
        yield
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError, struct.error):
        raise Failed(
            f"process {pid}: its memory contradicts itself: what describes the heap is damaged"
        ) from None


class Memory:
    """Reads the memory of one process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.pagemap = -1
        self.huge: list[tuple[int, int]] | None = None
        self.closing: weakref.finalize[..., Memory] | None = None
        self.end_s = self.bytes_left = self.pages_left = math.inf  # outside of a reading

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """The descriptor; it is opened again when it is needed."""
        if self.closing is not None:
            self.closing()
        self.pagemap = -1

    @contextlib.contextmanager
    def reading(self, seconds: float = READING_SECONDS) -> Iterator[None]:
        """A reading of so many seconds at most; one that begins in another is part of it."""
        if self.end_s < math.inf:
            yield
            return
        self.end_s = time.monotonic() + seconds
        self.huge = None
        try:
            self.allow_bytes()
            self.pages_left = PAGES_MAX
            yield
        finally:
            self.end_s = self.bytes_left = self.pages_left = math.inf

    def allow_bytes(self) -> None:
        """Allows twice the process's bytes in memory and swap: data that moves is read again."""
        kib = 0
        with contextlib.suppress(OSError):
            text = files.read_proc(self.pid, "status").decode(errors="replace")
            kib = sum(map(int, re.findall(r"^Vm(?:RSS|Swap):\s+(\d+) kB$", text, re.M)))
        self.bytes_left = min(BYTES_MAX, SPARE_BYTES + 2048 * kib)

    def check(self, count: int = 0) -> None:
        """Call it in a loop over data read, and before reading so many bytes. Failed: enough."""
        self.bytes_left -= count
        is_larger = self.bytes_left < 0 or self.pages_left < 0
        if is_larger or time.monotonic() > self.end_s:
            what = "is larger than the process" if is_larger else "takes too long to read"
            raise Failed(f"process {self.pid}: its heap {what}: what describes it is damaged, or "
                         f"changes too fast")  # fmt: skip

    def read(self, address: int, count: int) -> bytes:
        """The bytes."""
        if not 0 <= count <= BYTES_MAX:
            raise self.unreadable(address)
        parts = []
        for start in range(0, count, READ_BYTES_MAX):
            length = min(READ_BYTES_MAX, count - start)
            self.check(length)
            try:
                parts.append(self.fetch(address + start, length))
            except (OverflowError, control.BadAddress):
                raise self.unreadable(address) from None
        return b"".join(parts)

    def fetch(self, address: int, count: int) -> bytes:
        """Reads at most READ_BYTES_MAX bytes; BadAddress where there is no memory."""
        return control.read(self.pid, address, count)

    def brk(self, top: int) -> tuple[int, int]:
        """The range of the heap that brk extends, at this moment; (0, 0) without one. top: an
        address that is thought to be there."""
        for line in control.maps_of(self.pid).splitlines():
            if line.endswith("[heap]"):
                start, _, end = line.partition(" ")[0].partition("-")
                found = int(start, 16), int(end, 16)
                return found if found[0] <= top < found[1] else (0, 0)
        return 0, 0

    def find_symbol(self, symbol: str) -> control.Place:
        """Finds an exported symbol of the library."""
        return control.find_symbol(self.pid, symbol)

    def unreadable(self, address: int) -> Unreadable:
        """Nothing is there."""
        return Unreadable(f"process {self.pid}: there is no memory at {address:#x}")

    def number(self, address: int, count: int = 8) -> int:
        """An unsigned number."""
        return int.from_bytes(self.read(address, count), "little")

    def values(self, record: Record, address: int) -> tuple[int, ...]:
        """The fields of the structure at an address."""
        return record.of(self.read(address, record.nbytes))

    def text(self, address: int, count: int = 64) -> str:
        """A string with its terminator, of constants, up to so many bytes."""
        return printable(self.read(address, count).partition(b"\0")[0].decode("ascii", "replace"))

    def pages(self, address: int, count: int, table: bytes) -> bytes:
        """A byte for each page from an address on: 1 if it is resident, or touched, else 0."""
        if not 0 <= count <= RANGE_PAGES_MAX:
            raise self.unreadable(address)
        first, parts = address // PAGE_BYTES, []
        self.pages_left -= count
        for start in range(first, first + count, PAGES_AT_ONCE):
            self.check()
            entries = self.entries(start, min(PAGES_AT_ONCE, first + count - start))
            parts.append(entries[ENTRY_BYTES - 1 :: ENTRY_BYTES].translate(table))
        return b"".join(parts)

    def entries(self, page: int, count: int) -> bytes:
        """Entries of pagemap."""
        try:
            with patience.may_block(self.pid):
                if self.pagemap < 0:
                    self.pagemap = os.open(f"/proc/{self.pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
                    self.closing = weakref.finalize(self, os.close, self.pagemap)
                data = os.pread(self.pagemap, count * ENTRY_BYTES, page * ENTRY_BYTES)
        except (OSError, OverflowError) as error:
            number = (error.errno or 0) if isinstance(error, OSError) else errno.EINVAL
            if number == errno.EINVAL:
                raise self.unreadable(page * PAGE_BYTES) from None
            raise control.explain(self.pid, number, "its pages") from None
        if len(data) == count * ENTRY_BYTES:
            return data
        if os.path.exists(f"/proc/{self.pid}/pagemap") and data:
            raise self.unreadable(page * PAGE_BYTES)  # beyond the last address
        raise control.gone(self.pid)  # it has ended, and so have its tables

    def set_aside(self) -> list[tuple[int, int]]:
        """Pages [first, end) of mappings in huge pages that the system has set aside."""
        if self.huge is None:
            try:
                found = SET_ASIDE.findall(files.read_proc(self.pid, "maps"))
            except OSError as error:
                raise control.explain(self.pid, error.errno or 0, "its mappings") from None
            self.huge = [(int(one, 16) // PAGE_BYTES, int(two, 16) // PAGE_BYTES)
                         for one, two in found]  # fmt: skip
        return self.huge

    def resident(self, address: int, count: int) -> bytes:
        """Which pages are in memory, as the system counts it: not those of hugetlb."""
        found = self.pages(address, count, IS_RESIDENT)
        first = address // PAGE_BYTES
        for start, end in self.set_aside():
            low, high = max(start, first) - first, min(end, first + count) - first
            if low < high:
                found = found[:low] + bytes(high - low) + found[high:]
        return found

    def touched(self, address: int, count: int) -> bytes:
        """Which are, or are in swap."""
        return self.pages(address, count, IS_TOUCHED)


class Record:
    """Some fields of a structure, read in one step: name -> (offset, length, is it signed)."""

    CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}

    def __init__(self, fields: list[tuple[int, int]]) -> None:
        """fields: offset and length, in the order in which they are wanted."""
        order = sorted(range(len(fields)), key=lambda i: fields[i][0])
        layout, at = "<", 0
        for i in order:
            offset, length = fields[i]
            layout += f"{offset - at}x{self.CODES[length]}"
            at = offset + length
        form = struct.Struct(layout)
        self.unpack, self.nbytes = form.unpack_from, form.size
        self.order = [order.index(i) for i in range(len(fields))]
        self.is_sorted = self.order == list(range(len(fields)))

    def of(self, data: bytes, offset: int = 0) -> tuple[int, ...]:
        """The values, in the order of the constructor."""
        found = self.unpack(data, offset)
        return found if self.is_sorted else tuple(found[i] for i in self.order)
