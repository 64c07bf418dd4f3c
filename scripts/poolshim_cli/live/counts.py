# SPDX-License-Identifier: MIT
"""Counters of a process that never fall: not by the noise of a reading, and not by an exec.

    counts = Counts(); counts.add(census); counts["malloc_count"]; counts.begin_program()

A process that becomes another program by exec begins to count anew; its earlier counts are
added, so that the sums are those of the process since its first reading.
"""

from __future__ import annotations

import os

from .. import control
from ..foreign import files
from .census import Census
from .figures import FIGURES

NAMES = [figure.name for figure in FIGURES if figure.is_counter]
AT_RANDOM, RANDOM_BYTES = 25, 16


class Counts:
    """The counts of one process."""

    def __init__(self) -> None:
        self.before = dict.fromkeys(NAMES, 0)  # by the programs that it was
        self.now = dict.fromkeys(NAMES, 0)

    def __getitem__(self, name: str) -> int:
        return self.before[name] + self.now[name]

    def add(self, census: Census) -> None:
        """A count of a moment may be lower than that of one before; a counter must not fall."""
        for name in NAMES:
            self.now[name] = max(self.now[name], getattr(census, name))

    def begin_program(self) -> None:
        """The next census is another program's."""
        for name in NAMES:
            self.before[name] += self.now[name]
            self.now[name] = 0


def program_mark(pid: int) -> bytes:
    """Differs between the programs that a process becomes one after the other: where the kernel
    has put them, and the random bytes that it gives to each, also without random addresses."""
    try:
        found = files.read_proc(pid, "auxv")
    except OSError as error:
        raise control.explain(pid, error.errno or 0, "its start") from None
    words = memoryview(found[: len(found) // 16 * 16]).cast("Q").tolist()
    addresses = [value for key, value in zip(words[::2], words[1::2]) if key == AT_RANDOM]
    return found + (control.read(pid, addresses[0], RANDOM_BYTES) if addresses else b"")


def is_running(pid: int, begun: str) -> bool:
    """Is it the process that began then, and not over? A zombie is."""
    try:
        fields = os.fsdecode(files.read_proc(pid, "stat")).rpartition(")")[2].split()
    except OSError:
        return False
    return len(fields) > 19 and fields[19] == begun and fields[0] not in "ZX"
