# SPDX-License-Identifier: MIT
"""The memory of another process: reads of what it has touched, and which pages that is.

    Memory(1234).read(address, 128)

A page that was never touched reads as zero and is not touched by the read: its bit in
/proc/PID/pagemap says so. Anything that fails is one line (control.explain).
"""

from __future__ import annotations

import errno
import os
import struct

from .. import control
from ..errors import Failed

PAGE_BYTES = os.sysconf("SC_PAGESIZE")
ENTRY_BYTES = 8  # of pagemap
PRESENT, SWAPPED = 0x80, 0x40  # of the highest byte of an entry
IS_RESIDENT = bytes(int(bool(value & PRESENT)) for value in range(256))
IS_TOUCHED = bytes(int(bool(value & (PRESENT | SWAPPED))) for value in range(256))
READ_BYTES_MAX = 64 << 20  # at once


class Unreadable(Failed):
    """Memory that the process has no more, or never had."""


class Memory:
    """Of one process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.pagemap = -1

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """The descriptor; it is opened again when it is needed."""
        if self.pagemap >= 0:
            os.close(self.pagemap)
            self.pagemap = -1

    def read(self, address: int, count: int) -> bytes:
        """The bytes."""
        parts = []
        for start in range(0, count, READ_BYTES_MAX):
            length = min(READ_BYTES_MAX, count - start)
            try:
                parts.append(control.read(self.pid, address + start, length))
            except (OverflowError, control.BadAddress):
                raise self.unreadable(address) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def unreadable(self, address: int) -> Unreadable:
        """Nothing is there."""
        return Unreadable(f"process {self.pid}: there is no memory at {address:#x}")

    def number(self, address: int, count: int = 8) -> int:
        """An unsigned number."""
        return int.from_bytes(self.read(address, count), "little")

    def text(self, address: int, count: int = 64) -> str:
        """A string with its terminator, of constants, up to so many bytes."""
        return self.read(address, count).partition(b"\0")[0].decode("ascii", "replace")

    def pages(self, address: int, count: int, table: bytes) -> bytes:
        """A byte for each page from an address on: 1 if it is resident, or touched, else 0."""
        try:
            if self.pagemap < 0:
                self.pagemap = os.open(f"/proc/{self.pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            offset = address // PAGE_BYTES * ENTRY_BYTES
            data = os.pread(self.pagemap, count * ENTRY_BYTES, offset)
        except (OSError, OverflowError) as error:
            number = (error.errno or 0) if isinstance(error, OSError) else errno.EFAULT
            raise control.explain(self.pid, number, "its pages") from None
        if len(data) != count * ENTRY_BYTES:  # the process has ended, and so have its tables
            raise control.gone(self.pid)
        return data[ENTRY_BYTES - 1 :: ENTRY_BYTES].translate(table)

    def resident(self, address: int, count: int) -> bytes:
        """Which pages are in memory."""
        return self.pages(address, count, IS_RESIDENT)

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
        self.unpack = struct.Struct(layout).unpack_from
        self.order = [order.index(i) for i in range(len(fields))]
        self.is_sorted = self.order == list(range(len(fields)))

    def of(self, data: bytes, offset: int = 0) -> tuple[int, ...]:
        """The values, in the order of the constructor."""
        found = self.unpack(data, offset)
        return found if self.is_sorted else tuple(found[i] for i in self.order)
