# SPDX-License-Identifier: MIT
"""How much of some memory is all zeroes: a sample of its resident pages."""

from __future__ import annotations

import random

from ..errors import Failed, OwnFailure
from ..live.memory import PAGE_BYTES, Memory

PAGES = 128  # of the ranges together: half of the 95 % interval is below 9 %
SEED = 20140513
RANGE_BYTES_MAX = 64 << 30


def zero_bytes(memory: Memory, ranges: list[tuple[int, int]]) -> int:
    """An estimate of the bytes in resident pages that are all zero."""
    pages: list[int] = []
    for start, end in ranges:
        if end - start <= RANGE_BYTES_MAX:
            resident = memory.resident(start, (end - start) // PAGE_BYTES)
            pages += [start + i * PAGE_BYTES for i, one in enumerate(resident) if one]
    chosen = pages if len(pages) <= PAGES else random.Random(SEED).sample(pages, PAGES)
    zeroes = read = 0
    for address in chosen:
        try:
            data = memory.read(address, PAGE_BYTES)
        except (Failed, OwnFailure):
            continue
        read += 1
        zeroes += data.count(0) == PAGE_BYTES
    return round(zeroes / read * len(pages)) * PAGE_BYTES if read else 0
