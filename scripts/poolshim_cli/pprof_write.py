# SPDX-License-Identifier: MIT
"""Writes a profile in pprof's format, with the names of its functions where they are known.

    files.write_whole(path, pprof_write.encode(profile, names))

The counterpart of pprof.py. Files of POOLSHIM_PROFILE are written by the library itself.
"""

from __future__ import annotations

import gzip

from .pprof import Line, Location, Mapping, Profile, Sample
from .symbols import Symbols

LOW_BITS, NUMBER_BITS = 0x7F, 1 << 64


def varint(value: int) -> bytes:
    """A number; a negative one as its two's complement of 64 bits."""
    value %= NUMBER_BITS
    found = bytearray()
    while value > LOW_BITS:
        found.append(value & LOW_BITS | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def numeral(field: int, value: int) -> bytes:
    """A field that is a number, left out where it is 0."""
    return varint(field << 3) + varint(value) if value else b""


def chunk(field: int, content: bytes) -> bytes:
    """A field that is a text, a message, or packed numbers."""
    return varint(field << 3 | 2) + varint(len(content)) + content


class Writer:
    """Collects the tables of one profile."""

    def __init__(self, profile: Profile, names: Symbols) -> None:
        self.profile = profile
        self.names = names
        self.strings: dict[str, int] = {"": 0}
        self.functions: dict[tuple[str, str], int] = {}
        self.mappings = {one: index for index, one in enumerate(profile.mappings, 1)}
        self.locations: dict[Location, int] = {}
        self.named: set[Mapping] = set()

    def text(self, value: str) -> int:
        """Its place in the table of strings."""
        return self.strings.setdefault(value, len(self.strings))

    def function(self, name: str, file: str = "") -> int:
        """Its id."""
        return self.functions.setdefault((name, file), len(self.functions) + 1)

    def line(self, one: Line) -> bytes:
        """The message of a line of an interpreted program."""
        return numeral(1, self.function(one.function, one.file)) + numeral(2, one.number)

    def kind(self, name: str, unit: str) -> bytes:
        """A type of values."""
        return numeral(1, self.text(name)) + numeral(2, self.text(unit))

    def location(self, one: Location) -> bytes:
        """The message of one, with its functions, innermost first."""
        if one.line is not None:
            return numeral(1, self.locations[one]) + chunk(4, self.line(one.line))
        known = list(one.names) or self.names.names.get(one, [])
        if known and one.mapping is not None:
            self.named.add(one.mapping)
        lines = b"".join(chunk(4, numeral(1, self.function(name))) for name in known)
        mapping = self.mappings.get(one.mapping, 0) if one.mapping is not None else 0
        return (numeral(1, self.locations[one]) + numeral(2, mapping) + numeral(3, one.address)
                + lines)  # fmt: skip

    def labels(self, sample: Sample) -> bytes:
        """The labels of a pool's memory, as the library writes them."""
        line = sample.locations[0].line if sample.locations else None
        pool = line.pool if line is not None else None
        if pool is None:
            return b""
        pairs = [("pool family", pool.family), ("pool", pool.name)]
        return b"".join(chunk(3, numeral(1, self.text(key)) + numeral(2, self.text(text)))
                        for key, text in pairs if text)  # fmt: skip

    def mapping(self, one: Mapping) -> bytes:
        """The message; its functions are named, or not, for all of it."""
        return (numeral(1, self.mappings[one]) + numeral(2, one.start) + numeral(3, one.limit)
                + numeral(4, one.offset) + numeral(5, self.text(one.path))
                + numeral(6, self.text(one.build_id)) + numeral(7, one in self.named)
                + numeral(10, one in self.named))  # fmt: skip

    def encode(self) -> bytes:
        """The whole."""
        profile = self.profile
        for sample in profile.samples:
            for one in sample.locations:
                self.locations.setdefault(one, len(self.locations) + 1)
        parts = [chunk(1, self.kind(*one)) for one in profile.types]
        for sample in profile.samples:
            ids = b"".join(varint(self.locations[one]) for one in sample.locations)
            values = b"".join(varint(value) for value in sample.values)
            parts.append(chunk(2, chunk(1, ids) + chunk(2, values) + self.labels(sample)))
        parts += [chunk(4, self.location(one)) for one in self.locations]
        parts += [chunk(3, self.mapping(one)) for one in profile.mappings]
        for (name, file), index in self.functions.items():
            text = self.text(name)
            # pprof takes a system name for one of C++, and leaves "<module>" out.
            system = 0 if file else text
            parts.append(chunk(5, numeral(1, index) + numeral(2, text) + numeral(3, system)
                               + numeral(4, self.text(file))))  # fmt: skip
        parts += [
            numeral(9, profile.time_nanos), numeral(10, profile.duration_nanos),
            chunk(11, self.kind("space", "bytes")), numeral(12, profile.period),
            *(numeral(13, self.text(comment)) for comment in profile.comments),
            numeral(14, self.text(profile.default_type)),
        ]  # fmt: skip
        parts += [chunk(6, text.encode(errors="replace")) for text in self.strings]
        return b"".join(parts)


def encode(profile: Profile, names: Symbols) -> bytes:
    """The contents of the file."""
    return gzip.compress(Writer(profile, names).encode(), mtime=0)
