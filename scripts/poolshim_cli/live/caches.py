# SPDX-License-Identifier: MIT
"""Free blocks in caches of heaps and processors, which their spans count as used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .census import Census, Reader
    from .layout import Layout

HEAP_BYTES = 8192  # read of a heap; in older libraries all of it


def read_cpu_caches(reader: Reader, census: Census) -> None:
    """Subtracts blocks in the caches of the processors."""
    layout = reader.layout
    if "cpu_cache.state" not in layout.numbers:
        return  # a library whose caches are of another kind
    address, nbytes = layout.places["cpu_caches"]
    field = layout.field("cpu_cache.state")
    held, shift = (layout.offset(f"cpu_state.{name}") for name in ("held", "takes_shift"))
    for cache in memoryview(reader.memory.read(address, nbytes)).cast("Q"):
        if cache:
            states = memoryview(reader.memory.read(cache + field.offset, field.length)).cast("Q")
            census.cache_takes += sum(state >> shift for state in states)
            for state, one in zip(states, census.classes, strict=False):
                one.live_blocks -= state % held


def read_class_caches(reader: Reader, census: Census, heap: int, data: bytes) -> None:
    """Subtracts blocks in a heap's class caches, if they have been used and are resident."""
    layout = reader.layout
    if "heap.cached" not in layout.numbers:
        return  # a library without them
    step, entry = layout.offset("class_cache"), layout.offset("class_cache_entry")
    shift, state_of = layout.offset("class_cache.takes_shift"), layout.record("class_cache.state")
    start = heap + layout.offset("heap.class_caches")
    (used,) = layout.record("heap.cached").of(data)
    for index in range(len(census.classes)):
        if used >> index & 1:
            (state,) = state_of.of(reader.memory.read(start + index * step, step))
            census.classes[index].taken_blocks += state >> shift
            census.classes[index].live_blocks -= state % (1 << shift) // entry


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


def heap_bytes(layout: Layout) -> int:
    """The bytes of a heap with its caches, which are last; some pages may not be resident."""
    if "heap.class_caches" not in layout.numbers:
        return HEAP_BYTES  # a library without them
    caches = layout.field("heap.class_caches")
    return max(HEAP_BYTES, caches.offset + caches.length)
