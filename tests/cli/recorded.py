# SPDX-License-Identifier: MIT
"""Flight records with a planted history, as the library writes them: shim/flight_record.c.

    recorded.write(path, recorded.points(60, live=lambda s: ...), parts=[...], marks=[...])
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from poolshim_cli import flight, pprof, symbols
from poolshim_cli.pprof_write import Writer, chunk

BEGIN_MS = 1_795_000_000_000
CAPACITIES = (512, 32, 4)
MIB = 1 << 20
TYPES = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
         ("inuse_space", "bytes")]
Entry = tuple[float | bytes, ...]


def points(
    seconds: float, live: Callable[[float], float], other: Callable[[float], float] = lambda _: 4.0,
    step_s: float = 1.0,
) -> list[Entry]:
    """A point each step; amounts in MiB at a second."""
    count = round(seconds / step_s) + 1
    return [(at * step_s, (live(at * step_s) + other(at * step_s)) * MIB, live(at * step_s) * MIB)
            for at in range(count)]


def ring(shape: struct.Struct, capacity: int, entries: list[Entry]) -> bytes:
    """As the library fills it: an entry at its number modulo the capacity."""
    slots = [bytes(shape.size)] * capacity
    for number, (at_s, *rest) in enumerate(entries):
        words = (one if isinstance(one, bytes) else round(one) for one in rest)
        slots[number % capacity] = shape.pack(BEGIN_MS + round(float(at_s) * 1000), *words)
    return b"".join(slots)


def history(found: list[Entry], parts: list[Entry], marks: list[Entry]) -> bytes:
    """The content of the field."""
    rings = (found, parts, marks)
    shapes = (flight.POINT, flight.PARTS, flight.MARK)
    head = flight.HEAD.pack(flight.VERSION, *CAPACITIES, *map(len, rings))
    return head + b"".join(ring(*one) for one in zip(shapes, CAPACITIES, rings, strict=True))


def write(
    path: Path, found: list[Entry], parts: list[Entry] = [], marks: list[Entry] = [],
    state: str = "running", sites: dict[str, float] | None = None, content: bytes | None = None,
) -> Path:
    """A record; sites: MiB by function, else all of the live memory from leak_here. content: of the
    field, where it is not that of a history."""
    live = float(found[-1][2]) / MIB
    program = pprof.Mapping(0x400000, 0x500000, 0, "/opt/server", "")
    samples = []
    for at, (name, amount) in enumerate((sites or {"leak_here": live}).items()):
        caller = pprof.Location(0x400100, program, ("main",))
        place = pprof.Location(0x400200 + at, program, (name,))
        nbytes = round(amount * MIB)
        samples.append(pprof.Sample((place, caller), (nbytes // 1000, nbytes) * 2))
    profile = pprof.Profile(
        types=TYPES, default_type="inuse_space", samples=samples, mappings=[program],
        comments=["process 4711", f"{state}: {live:.1f} MiB resident at 20261118T110640Z"],
        period=2 * MIB, time_nanos=BEGIN_MS * 10**6,
        duration_nanos=round((float(found[-1][0]) - float(found[0][0])) * 1e9),
    )
    field = history(found, parts, marks) if content is None else content
    path.write_bytes(Writer(profile, symbols.Symbols()).encode() + chunk(pprof.HISTORY, field))
    return path
