# SPDX-License-Identifier: MIT
"""Files that another process chose: opened without waiting, read without mapping them.

    Contents(path)[:4]
    read_proc(1234, "maps")

A file that is mapped and then truncated ends its reader by SIGBUS; an open of a FIFO blocks until a
writer comes. So a file is looked at before it is opened, and only the bytes that are asked for are
read.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import weakref
from pathlib import Path

from . import patience

FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
PROC_BYTES_MAX = 64 << 20  # of one file of /proc: 65,530 mappings have 10 MB
PIECE_BYTES = 1 << 16
SLICE_BYTES_MAX = 256 << 20  # more is in no file that a command reads
KEPT_PIECES = 1024
WINDOW_BYTES, OVERLAP_BYTES = 1 << 20, 1 << 12  # of a search
TEXT_BYTES_MAX = 1 << 20  # of a string in a file


def open_regular(path: Path | str, more_flags: int = 0) -> int:
    """A descriptor of a regular file; OSError for all else, which it does not open."""
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC | more_flags)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return os.open(f"/proc/self/fd/{handle}", FLAGS)  # a lease of its owner: EAGAIN
    finally:
        os.close(handle)


def read_up_to(descriptor: int, limit: int, pid: int = 0) -> bytes:
    """Reads at most so many bytes from the current place; the process may block the reader."""
    parts, left = [], limit
    while left > 0:
        with patience.may_block(pid):
            data = os.read(descriptor, min(left, PIECE_BYTES))
        if not data:
            break
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def read_proc(pid: int, name: str) -> bytes:
    """A file of /proc/PID, as far as PROC_BYTES_MAX; whole lines where it is cut."""
    descriptor = os.open(f"/proc/{pid}/{name}", FLAGS)
    try:
        data = read_up_to(descriptor, PROC_BYTES_MAX, pid)
    finally:
        os.close(descriptor)
    return data if len(data) < PROC_BYTES_MAX else data[: data.rfind(b"\n") + 1]


class Contents:
    """The bytes of a regular file, read piece by piece when they are asked for.

    The length is that of the opening. A part cut off since reads as missing, like bytes
    beyond the end.
    """

    def __init__(self, path: Path | str) -> None:
        descriptor = open_regular(path)
        self.descriptor = descriptor
        self.close = weakref.finalize(self, os.close, descriptor)
        self.nbytes = os.fstat(descriptor).st_size
        self.pieces: dict[int, bytes] = {}

    def __len__(self) -> int:
        return self.nbytes

    def piece(self, index: int) -> bytes:
        """One piece: PIECE_BYTES from a multiple of that on."""
        found = self.pieces.get(index)
        if found is None:
            if len(self.pieces) >= KEPT_PIECES:
                self.pieces.clear()
            found = os.pread(self.descriptor, PIECE_BYTES, index * PIECE_BYTES)
            self.pieces[index] = found
        return found

    def __getitem__(self, part: slice) -> bytes:
        start, end, _ = part.indices(self.nbytes)
        if end - start > SLICE_BYTES_MAX:
            raise ValueError(f"{end - start} bytes at once")
        if end <= start:
            return b""
        first, last = start // PIECE_BYTES, (end - 1) // PIECE_BYTES
        if last - first < 2:
            data = b"".join(self.piece(index) for index in range(first, last + 1))
            start -= first * PIECE_BYTES
            return data[start : start + end - first * PIECE_BYTES - start]
        return os.pread(self.descriptor, end - start, start)

    def text(self, start: int) -> bytes | None:
        """The string that begins there, without its terminator; None where it has none."""
        index, at = divmod(start, PIECE_BYTES)
        piece = self.pieces.get(index) or self.piece(index)
        end = piece.find(b"\0", at)
        if end < 0:
            end = self.find(b"\0", start)
            return self[start:end] if end >= 0 else None
        return piece[at:end]

    def search(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """The first place of a short pattern."""
        for start in range(0, self.nbytes, WINDOW_BYTES - OVERLAP_BYTES):
            found = pattern.search(os.pread(self.descriptor, WINDOW_BYTES, start))
            if found is not None:
                return found
        return None

    def find(self, wanted: bytes, start: int) -> int:
        """Where one byte is, within the length of a string; -1 without."""
        for index in range(start // PIECE_BYTES, (start + TEXT_BYTES_MAX) // PIECE_BYTES + 1):
            piece = self.piece(index)
            at = piece.find(wanted, max(0, start - index * PIECE_BYTES))
            if at >= 0:
                return index * PIECE_BYTES + at
            if len(piece) < PIECE_BYTES:
                break
        return -1
