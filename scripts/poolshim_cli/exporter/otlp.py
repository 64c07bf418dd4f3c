# SPDX-License-Identifier: MIT
"""A profile as a request of the OpenTelemetry protocol: opentelemetry.proto.profiles.v1development.

    body = otlp.encode(found.profile, found.names, {"service.name": "redis-server"})

Stacks, functions and texts are in tables that all profiles of a request share; the first row of
each table is empty. A type of values is a profile of its own: a sample has values of one type.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Hashable, Mapping

from .. import places
from ..pprof import Location, Profile, Sample
from ..pprof import Mapping as Code
from ..pprof_write import chunk, numeral, varint
from ..symbols import Symbols

SCOPE = b"poolshim"
BUILD_ID = "process.executable.build_id.gnu"
PROFILE_ID_BYTES = 16


def packed(field: int, values: list[int]) -> bytes:
    """Numbers in one field; nothing for none."""
    return chunk(field, b"".join(varint(value) for value in values)) if values else b""


def fixed(field: int, value: int) -> bytes:
    """A number of 64 bits."""
    return varint(field << 3 | 1) + struct.pack("<Q", value)


def any_value(value: str | int) -> bytes:
    """An AnyValue."""
    if isinstance(value, int):
        return varint(3 << 3) + varint(value)
    return chunk(1, value.encode(errors="replace"))


class Table:
    """Rows of one kind, each once; row 0 is empty."""

    def __init__(self) -> None:
        self.rows: list[bytes] = [b""]
        self.places: dict[Hashable, int] = {}

    def place(self, key: Hashable, row: bytes) -> int:
        """The index of a row."""
        if key not in self.places:
            self.places[key] = len(self.rows)
            self.rows.append(row)
        return self.places[key]


class Dictionary:
    """The tables of a request."""

    def __init__(self, names: Symbols) -> None:
        self.names = names
        self.mappings, self.locations, self.functions = Table(), Table(), Table()
        self.texts, self.attributes, self.stacks = Table(), Table(), Table()
        self.texts.places[""] = 0

    def text(self, value: str) -> int:
        """A row of the table of texts."""
        return self.texts.place(value, value.encode(errors="replace"))

    def attribute(self, name: str, value: str) -> int:
        """A row of the table of attributes."""
        row = numeral(1, self.text(name)) + chunk(2, any_value(value))
        return self.attributes.place((name, value), row)

    def mapping(self, code: Code | None) -> int:
        """A row of the table of mappings; 0 for code of no file."""
        if code is None:
            return 0
        ids = [self.attribute(BUILD_ID, code.build_id)] if code.build_id else []
        row = (numeral(1, code.start) + numeral(2, code.limit) + numeral(3, code.offset)
               + numeral(4, self.text(code.path)) + packed(5, ids))  # fmt: skip
        return self.mappings.place(code, row)

    def function(self, name: str) -> int:
        """A row of the table of functions."""
        text = self.text(name)
        return self.functions.place(name, numeral(1, text) + numeral(2, text))

    def location(self, one: Location) -> int:
        """A row of the table of locations, with its functions, innermost first."""
        known = list(one.names) or self.names.names.get(one, [])
        lines = b"".join(chunk(3, numeral(1, self.function(name))) for name in known)
        row = numeral(1, self.mapping(one.mapping)) + numeral(2, one.address) + lines
        return self.locations.place(one, row)

    def stack(self, sample: Sample) -> int:
        """A row of the table of stacks."""
        row = packed(1, [self.location(one) for one in sample.locations])
        return self.stacks.place(sample.locations, row)

    def kind(self, name: str, unit: str) -> bytes:
        """A ValueType."""
        return numeral(1, self.text(name)) + numeral(2, self.text(unit))

    def encode(self) -> bytes:
        """A ProfilesDictionary."""
        tables = ((1, self.mappings), (2, self.locations), (3, self.functions), (5, self.texts),
                  (6, self.attributes), (7, self.stacks))  # fmt: skip
        rows = b"".join(chunk(field, row) for field, table in tables for row in table.rows)
        return rows + chunk(4, b"")


def profile_of(profile: Profile, index: int, tables: Dictionary) -> bytes:
    """The Profile of one type of values, with the samples that have any."""
    samples = b"".join(
        chunk(2, numeral(1, tables.stack(one)) + packed(4, [one.values[index]]))
        for one in profile.samples if one.values[index]
    )  # fmt: skip
    start = max(0, profile.time_nanos - profile.duration_nanos)
    return (
        chunk(1, tables.kind(*profile.types[index])) + samples + fixed(3, start)
        + numeral(4, profile.duration_nanos) + chunk(5, tables.kind("space", "bytes"))
        + numeral(6, profile.period) + chunk(7, os.urandom(PROFILE_ID_BYTES))
    )  # fmt: skip


def encode(profile: Profile, names: Symbols, resource: Mapping[str, str | int]) -> bytes:
    """An ExportProfilesServiceRequest. resource: the attributes of the process."""
    tables = Dictionary(names)
    profiles = b"".join(
        chunk(2, profile_of(profile, index, tables)) for index in range(len(profile.types))
        if any(one.values[index] for one in profile.samples)
    )  # fmt: skip
    attributes = b"".join(
        chunk(1, chunk(1, name.encode()) + chunk(2, any_value(value)))
        for name, value in resource.items() if value
    )  # fmt: skip
    scope = chunk(1, chunk(1, SCOPE) + chunk(2, places.find().version.encode()))
    return chunk(1, chunk(1, attributes) + chunk(2, scope + profiles)) + chunk(2, tables.encode())
