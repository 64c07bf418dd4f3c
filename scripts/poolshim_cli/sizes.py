# SPDX-License-Identifier: MIT
"""Sizes as the subcommands print them, in lines that are all in MiB, and as they read them."""

from __future__ import annotations

import re

MIB = 1 << 20
SIZE = re.compile(r"([0-9]+)(?:\.([0-9]{1,9}))?[ \t]*([KMG]?)(i?B?)", re.IGNORECASE)
SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30}


def size_of(text: str) -> int:
    """The size in an option, as shim/config_number.c reads it; ValueError names the fault."""
    found = SIZE.fullmatch(text)
    if not found or (not found[3] and (found[2] or found[4])):
        raise ValueError("is not a size such as 65536, 64K or 64KiB")
    shift = SHIFTS[found[3].upper()]
    unit = 1000 ** (shift // 10) if found[4].upper() == "B" else 1 << shift
    digits = found[2] or ""
    return int(found[1]) * unit + int(digits or 0) * unit // 10 ** len(digits)


def mib(nbytes: int) -> str:
    """A size in MiB, without the unit: "40.2"; three decimals for sizes below 0.1 MiB."""
    return f"{nbytes / MIB:.1f}" if nbytes >= MIB / 10 or nbytes == 0 else f"{nbytes / MIB:.3f}"
