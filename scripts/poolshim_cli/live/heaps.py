# SPDX-License-Identifier: MIT
"""The heaps of a running process: partitions of pools/engine/front/partition.h, from outside.

    read(memory, layout)

The rows are those of shim/stats_heaps.c: the heaps with the most live bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from ..errors import Failed
from .layout import Layout
from .memory import Memory

HEAPS_MAX = 1 << 16  # as many as the library has
ROWS_MAX = 20
COLUMNS = {"live_count": ("live blocks", 14), "live_bytes": ("live bytes", 16),
           "peak_bytes": ("peak bytes", 16), "limit_bytes": ("limit bytes", 16),
           "mapped_bytes": ("mapped bytes", 16), "refused_count": ("refused", 10)}  # fmt: skip
WORDS = ("live_count", "live_bytes", "peak_bytes", "limit_bytes", "used", "refused_count")


@dataclass
class Heaps:
    """How many there are, and some of them."""

    count: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)


def records(memory: Memory, layout: Layout) -> list[int]:
    """Addresses."""
    count = memory.number(layout.place("partition_end"), 4)
    if count > HEAPS_MAX:
        raise Failed(f"process {memory.pid}: {count} heaps are no table")
    step, chunks = layout.offset("partition.chunk"), layout.place("partitions")
    found: list[int] = []
    for first in range(0, count, step):
        taken = min(step, count - first)
        chunk = memory.number(chunks + first // step * 8)
        found += struct.unpack(f"<{taken}Q", memory.read(chunk, taken * 8))
    return found


def read(memory: Memory, layout: Layout) -> Heaps:
    """All of them, or those of an older library: none."""
    heaps = Heaps()
    if "partitions" not in layout.places:
        return heaps
    names = ("partition.state", "partition.name", *(f"partition.{word}" for word in WORDS))
    length = max(layout.offset(name) + layout.field(name).length for name in names)
    none = layout.offset("partition.none")
    granule = 1 << layout.offset("granule.shift")
    for at, address in enumerate(records(memory, layout)):
        if at % 256 == 0:
            memory.check()
        data = memory.read(address, length)
        if number_in(layout, data, "partition.state") == none:
            continue
        heaps.count += 1
        words = {word: number_in(layout, data, f"partition.{word}") for word in WORDS}
        words["mapped_bytes"] = words.pop("used") * granule
        start, size = layout.offset("partition.name"), layout.field("partition.name").length
        name = data[start : start + size].partition(b"\0")[0]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in name)
        heaps.rows.append({"name": shown} | {key: words[key] for key in COLUMNS})
    heaps.rows.sort(key=lambda row: -row["live_bytes"])
    del heaps.rows[ROWS_MAX:]
    return heaps


def number_in(layout: Layout, data: bytes, name: str) -> int:
    """A word of a record."""
    one = layout.field(name)
    return int.from_bytes(data[one.offset : one.offset + one.length], "little")


def lines(heaps: Heaps, quoted: Any) -> str:
    """The table; nothing if there is none."""
    if not heaps.count:
        return ""
    text = f"\nheaps: {heaps.count}\n"
    text += "".join(f"{title:>{width}}" for title, width in COLUMNS.values()) + "  name\n"
    for row in heaps.rows:
        cells = (f"{row[key]:>{width}}" for key, (_, width) in COLUMNS.items())
        text += "".join(cells) + f"  {quoted(row['name'])}\n"
    return text
