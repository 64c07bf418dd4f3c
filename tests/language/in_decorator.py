# SPDX-License-Identifier: MIT
"""A decorator's wrapper."""

from __future__ import annotations

import functools
from typing import Any

from turns import BLOCK_BYTES, BLOCKS, kept, run


def remembered(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*words: Any) -> Any:
        kept.append(bytearray(BLOCK_BYTES))  # PLANTED remembered.<locals>.wrapper
        return function(*words)

    return wrapper


@remembered
def nothing(at: int) -> int:
    return at


def step() -> None:
    for at in range(BLOCKS):
        nothing(at)


if __name__ == "__main__":
    run(step)
