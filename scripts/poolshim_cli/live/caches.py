# SPDX-License-Identifier: MIT
"""Counts of heaps, and free blocks in caches of heaps and processors, which their spans count as
used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .census import Census, Reader
    from .layout import Layout

WEIGHT_LIMIT = 1 << 40  # of blocks that one heap's mean counts for
WORD = 8


def read_bins(reader: Reader, census: Census, data: bytes) -> None:
    """Counts of malloc, and the mean of the rounding."""
    start, step = reader.layout.offset("heap.bins"), reader.layout.offset("bin")
    record = reader.layout.record("bin.rounding", "bin.taken")
    for index, one in enumerate(census.classes):
        rounding, taken = record.of(data, start + index * step)
        one.taken_blocks += taken
        one.rounding += min(taken, WEIGHT_LIMIT) * rounding
        one.weight += min(taken, WEIGHT_LIMIT)


def read_hard_blocks(reader: Reader, census: Census, address: int) -> None:
    """Hardened blocks of a heap in quarantine or ready for reuse."""
    if address == 0:
        return
    layout = reader.layout
    start, step = layout.offset("hard.classes"), layout.offset("hard_class")
    record = layout.record("hard_class.held", "hard_class.ready")
    data = reader.memory.read(address + start, step * len(census.classes))
    for index, one in enumerate(census.classes):
        one.live_blocks -= sum(record.of(data, index * step))


def read_batches(reader: Reader, census: Census, data: bytes) -> None:
    """Blocks that another thread freed, on their way to their spans."""
    layout = reader.layout
    entries, step = layout.field("heap.remote"), layout.offset("entry")
    record = layout.record("entry.span", "entry.count")
    for at in range(entries.offset, entries.offset + entries.length, step):
        span, count = record.of(data, at)
        one = reader.class_of(census, span) if span and count else None
        if one is not None:
            one.live_blocks -= count
    singles, (count,) = layout.field("heap.singles"), layout.record("heap.singles_count").of(data)
    end = singles.offset + min(count * WORD, singles.length)
    for block in memoryview(data[singles.offset : end]).cast("Q"):
        found = reader.map.find(census.leaves, block)
        one = reader.class_at(census, *found) if found else None
        if one is not None:
            one.live_blocks -= 1


def heap_bytes(layout: Layout) -> int:
    """The bytes of a heap up to its last field."""
    return max(field.offset + field.length for name, field in layout.numbers.items()
               if name.startswith("heap."))  # fmt: skip
