# SPDX-License-Identifier: MIT
"""Free blocks that wait for requests, and count as used in their spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .census import Census, Reader

HEAP_BYTES = 8192  # of a heap that has few cached blocks


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


def read_class_caches(reader: Reader, census: Census, heap: int, data: bytes) -> None:
    """In the class caches of a heap; only those that have been used, whose pages are there."""
    layout = reader.layout
    if "heap.cached" not in layout.numbers:
        return  # a library without them
    step, entry = layout.offset("class_cache"), layout.offset("class_cache_entry")
    shift, state_of = layout.offset("class_cache.takes_shift"), layout.record("class_cache.state")
    start = heap + layout.offset("heap.class_caches")
    for index in used_caches(reader, data):
        if index < len(census.classes):
            (state,) = state_of.of(reader.memory.read(start + index * step, step))
            census.classes[index].taken_blocks += state >> shift
            census.classes[index].live_blocks -= state % (1 << shift) // entry


def used_caches(reader: Reader, data: bytes) -> list[int]:
    """Classes whose caches a heap has used; data: of the heap."""
    (bits,) = reader.layout.record("heap.cached").of(data)
    return [index for index in range(64) if bits >> index & 1]


def heap_bytes(reader: Reader, data: bytes) -> int:
    """Of a heap with the class caches that it has used; data: of the heap."""
    layout = reader.layout
    if "heap.cached" not in layout.numbers:
        return HEAP_BYTES
    end = layout.offset("class_cache") * (max(used_caches(reader, data), default=0) + 1)
    return max(HEAP_BYTES, layout.offset("heap.class_caches") + end)
