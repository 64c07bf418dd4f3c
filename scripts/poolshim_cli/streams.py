# SPDX-License-Identifier: MIT
"""Standard input, output and error as the command needs them, whatever it was started with.

Output that cannot be written is one line and exit status 125; a closed reader is 141, as
for any program that SIGPIPE ends. Python alone prints a traceback, ends with 1 or 120, and takes a
closed standard output for one that takes everything.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Any

from .errors import OwnFailure

BROKEN_PIPE = 141  # 128 and the signal's number
REPLACED = "poolshim-replaced"  # how what an encoding lacks is written
LEVELS = dict(zip("▁▂▃▄▅▆▇█", "_.,-~=+#"))  # of a sparkline
PLAIN = {**LEVELS, "▼": "v", "▲": "^", "×": "x", "±": "+-", "µ": "u", "…": "...", "─": "-",
         "–": "-"}  # fmt: skip


class ReaderGone(Exception):
    """The reader of standard output has closed it. No BrokenPipeError: rich ends with 1 by that."""

    status = BROKEN_PIPE


class Output(io.FileIO):
    """Standard output."""

    def write(self, data: Any) -> int:
        """Its failures are the command's."""
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            raise ReaderGone from None
        except OSError as error:
            raise OwnFailure(f"standard output: {error.strerror}") from None


class Errors(io.FileIO):
    """Standard error: what cannot be said there cannot be said at all."""

    def write(self, data: Any) -> int:
        """Never fails."""
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    """What an encoding lacks, by letters; bytes of file names that were no text, as they were."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = b""
    for letter in error.object[error.start : error.end]:
        is_byte = 0xDC80 <= ord(letter) <= 0xDCFF
        found += bytes([ord(letter) - 0xDC00]) if is_byte else PLAIN.get(letter, "?").encode()
    return found, error.end


def open_text(raw: io.FileIO, encoding: str | None) -> io.TextIOWrapper:
    """A stream as Python makes its own, written to line by line on a terminal."""
    is_line = raw.isatty() or raw.fileno() == 2
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, errors=REPLACED, line_buffering=is_line
    )


def prepare() -> None:
    """Once, before anything is opened or printed. A closed descriptor is taken: others would be."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # the lowest that is free; writing there fails
    codecs.register_error(REPLACED, replaced)
    encodings = [getattr(stream, "encoding", None) for stream in (sys.stdout, sys.stderr)]
    sys.stdout = open_text(Output(1, "w", closefd=False), encodings[0])
    sys.stderr = open_text(Errors(2, "w", closefd=False), encodings[1])


def discard() -> None:
    """Lets the flush at exit pass."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.close(devnull)
