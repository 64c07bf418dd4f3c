# SPDX-License-Identifier: MIT
"""What the planted programs share: `run(step)` plants once, or, live, at each x of the input.

    python3 in_function.py
    python3 in_function.py live

A program has one line that allocates, ended by `# PLANTED`, in the function that follows the word,
as Python qualifies it. Runs on Python 3.9 and later.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

BLOCK_BYTES = 100_000
BLOCKS = 150  # of a step
kept: list[object] = []


def churn() -> None:
    """Makes the library read the clock."""
    for _ in range(100):
        bytearray(BLOCK_BYTES)


def run(step: Callable[[], object]) -> None:
    """The steps of a program."""
    if sys.argv[1:] != ["live"]:
        step()
        return
    print(1, flush=True)
    while word := sys.stdin.read(1):
        (step if word == "x" else churn)()
        print(2, flush=True)
