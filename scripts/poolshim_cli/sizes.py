# SPDX-License-Identifier: MIT
"""Sizes as the subcommands print them, in lines that are all in MiB, and as they read them."""

from __future__ import annotations

import re

MIB = 1 << 20
SIZE = re.compile(r"([0-9]+)(K|M|G|KiB|MiB|GiB|)")
SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30}


def size_of(text: str) -> int:
    """Of an option; ValueError says what is wrong."""
    found = SIZE.fullmatch(text)
    if not found:
        raise ValueError("is not a size such as 65536, 64K or 64KiB")
    return int(found.group(1)) << SHIFTS[found.group(2)[:1]]


def mib(nbytes: int) -> str:
    """In MiB, without the unit: "40.2"; "0.004" of what would else be nothing."""
    return f"{nbytes / MIB:.1f}" if nbytes >= MIB / 10 or nbytes == 0 else f"{nbytes / MIB:.3f}"
