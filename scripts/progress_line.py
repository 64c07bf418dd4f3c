# SPDX-License-Identifier: MIT
"""A line of progress of a long command: overwritten on a terminal, repeated now and then elsewhere.

    line = ProgressLine(sys.stderr)
    line.show("step 3 of 9")
    line.clear()
"""

from __future__ import annotations

import time
from typing import Protocol

TERMINAL_SECONDS = 0.2  # between two lines
LINE_SECONDS = 15  # where there is no terminal


class Stream(Protocol):
    """The part of a file that a line needs."""

    def isatty(self) -> bool: ...

    def write(self, text: str, /) -> object: ...

    def flush(self) -> None: ...


class ProgressLine:
    """Progress on a stream, from now on."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.is_terminal = stream.isatty()
        self.every = TERMINAL_SECONDS if self.is_terminal else LINE_SECONDS
        self.started = self.shown = time.monotonic()

    def seconds(self) -> float:
        """Returns the time since the start."""
        return time.monotonic() - self.started

    def left(self, done: float, total: float) -> float:
        """Returns the seconds until `total`, at the rate of the part that is done."""
        return self.seconds() * (total - done) / max(done, 1)

    def is_due(self) -> bool:
        """Returns whether the last line is old enough for the next one."""
        return time.monotonic() - self.shown >= self.every

    def show(self, text: str) -> None:
        """Writes a line, which the next one overwrites on a terminal."""
        self.shown = time.monotonic()
        self.write(text, "" if self.is_terminal else "\n")

    def keep(self, text: str) -> None:
        """Writes a line that remains."""
        self.write(text, "\n")

    def clear(self) -> None:
        """Removes the line from a terminal."""
        if self.is_terminal:
            self.write("", "")

    def write(self, text: str, end: str) -> None:
        """Overwrites the line of a terminal."""
        self.stream.write(f"\r\x1b[K{text}{end}" if self.is_terminal else text + end)
        self.stream.flush()
