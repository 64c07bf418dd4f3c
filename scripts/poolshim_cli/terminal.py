# SPDX-License-Identifier: MIT
"""The columns of a terminal, and sentences in lines of it.

    print(terminal.folded(text, sys.stderr), file=sys.stderr)
"""

from __future__ import annotations

import os
import textwrap
from typing import TextIO

WIDTH, WIDTH_LEAST = 80, 40  # of a report
NO_TERMINAL = 1 << 16


def columns_of(stream: TextIO) -> int:
    """Columns; NO_TERMINAL where nothing has to be folded."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        columns = 0
    return columns or NO_TERMINAL


def width_of(stream: TextIO) -> int:
    """Columns of a report with a right margin; 80 without a terminal."""
    return max(WIDTH_LEAST, min(columns_of(stream), WIDTH))


def folded(text: str, stream: TextIO) -> str:
    """A sentence in lines of the terminal."""
    return textwrap.fill(text, columns_of(stream), subsequent_indent="  ", break_on_hyphens=False)
