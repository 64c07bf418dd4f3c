# SPDX-License-Identifier: MIT
"""/tmp/perf-PID.map: names of functions that a virtual machine has made.

    PerfMap(Path("/tmp/perf-1234.map")).read()

Every user may put a file of that name there. It is read if it belongs to the user of the process,
to root or to the user of the command, and if no other user may write to it.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ..errors import Failed
from . import files, text

BYTES_MAX = 256 << 20
LINES_MAX = 4 << 20
NAME_MAX = 4096


@dataclass(frozen=True)
class PerfMap:
    """Where it is; and the user and the group of the process, where they are known."""

    path: Path
    uid: int | None = None
    gid: int | None = None

    def check(self, found: os.stat_result) -> None:
        """Failed: why it is not read."""
        what = f"{text.printable(str(self.path))} is not read: it"
        if found.st_uid not in (0, os.geteuid(), self.uid):
            raise Failed(f"{what} belongs to another user")
        by_group = found.st_mode & stat.S_IWGRP and found.st_gid not in (0, os.getegid(), self.gid)
        if by_group or found.st_mode & stat.S_IWOTH:
            raise Failed(f"{what} may be written by other users")
        if found.st_size > BYTES_MAX:
            raise Failed(f"{what} is larger than {BYTES_MAX >> 20} MiB")

    def read(self) -> list[tuple[int, int, str]]:
        """Start, length and name of each function, in order; [] without such a file."""
        try:
            descriptor = files.open_regular(self.path, os.O_NOFOLLOW)
        except OSError:
            return []
        try:
            self.check(os.fstat(descriptor))
            data = files.read_up_to(descriptor, BYTES_MAX)
        finally:
            os.close(descriptor)
        return parse(data)


def owned_by(pid: int, path: Path) -> PerfMap:
    """The perf map of a process, or of one that has ended."""
    try:
        found = os.stat(f"/proc/{pid}")
    except OSError:
        return PerfMap(path)
    return PerfMap(path, found.st_uid, found.st_gid)


def parse(data: bytes) -> list[tuple[int, int, str]]:
    """Lines of "START LENGTH NAME", in hexadecimal; others are left out."""
    found = []
    for line in data.split(b"\n", LINES_MAX)[:LINES_MAX]:
        start, _, rest = line.partition(b" ")
        length, _, name = rest.partition(b" ")
        if len(start) > 18 or len(length) > 18:
            continue
        try:
            numbers = int(start, 16), int(length, 16)
        except ValueError:
            continue
        found.append((*numbers, text.printable(name[:NAME_MAX].decode(errors="replace"))))
    return sorted(found)
