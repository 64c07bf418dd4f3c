# SPDX-License-Identifier: MIT
"""Limits of memory as options have them: a size, a percentage, or off.

    word = word_of("80%"); shown(word)
"""

from __future__ import annotations

import re

from .sizes import size_of

OFF = ("off", "0", "false")
PERCENT = 1 << 63
LEAST = 1 << 20
NUMBER = re.compile(r"[0-9]+(\.[0-9]{1,9})?")


def word_of(text: str) -> int:
    """Bytes, or per cent, as pools/engine/heap/limit.h has them."""
    if text in OFF:
        return 0
    percent = NUMBER.fullmatch(text.removesuffix("%").rstrip())
    is_percentage = percent is not None and 1 <= float(percent[0]) <= 100
    if text.endswith("%"):
        if not is_percentage:
            raise ValueError("is not a percentage from 1% to 100%")
        return PERCENT | int(float(text[:-1]))
    try:
        found = size_of(text)
    except ValueError:
        raise ValueError("is neither a percentage such as 80% nor a size such as 2GiB") from None
    if not LEAST <= found < PERCENT:
        meant = f" (a percentage is written {text}%)" if is_percentage else ""
        raise ValueError(f"is too small{meant}" if found < LEAST else "is too large")
    return found


def shown(value: int) -> int | str:
    """The reverse."""
    if value & PERCENT:
        return f"{value - PERCENT}%"
    return value or "off"
