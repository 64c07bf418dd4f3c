# SPDX-License-Identifier: MIT
"""Free blocks that wait for requests, and count as used in their spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .census import Census, Reader


HEAP_BYTES = 8192  # of what a heap has besides its class caches


def read_cpu_caches(reader: Reader, census: Census) -> None:
    """In the caches of the processors."""
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


def read_class_caches(reader: Reader, census: Census, heap: int) -> None:
    """In the class caches of a heap."""
    layout = reader.layout
    if "heap.class_caches" not in layout.numbers:
        return  # a library without them
    step, entry = layout.offset("class_cache"), layout.offset("class_cache_entry")
    shift = layout.offset("class_cache.takes_shift")
    record = layout.record("class_cache.state")
    address = heap + layout.offset("heap.class_caches")
    data = reader.memory.read(address, step * len(census.classes))
    for index, one in enumerate(census.classes):
        (state,) = record.of(data, index * step)
        one.taken_blocks += state >> shift
        one.live_blocks -= state % (1 << shift) // entry


def heap_bytes(reader: Reader, census: Census) -> int:
    """Of a heap with its class caches."""
    layout = reader.layout
    if "heap.class_caches" not in layout.numbers:
        return HEAP_BYTES
    step = layout.offset("class_cache")
    return layout.offset("heap.class_caches") + step * len(census.classes)
