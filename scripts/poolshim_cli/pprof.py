# SPDX-License-Identifier: MIT
"""Reads profiles in pprof's format, as POOLSHIM_PROFILE writes them, and gives addresses names.

    profile = pprof.read(Path("heap.pb.gz"))
    names = symbols.names_of(profile)

The format is profile.proto of github.com/google/pprof, a protocol buffer that may be gzipped. Only
what the profile of a heap has is read.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .errors import BadRequest
from .foreign.text import printable

GZIP_MAGIC = b"\x1f\x8b"
PROCESS = re.compile(r"process (\d+)\b")  # how a comment begins, or all of it
HISTORY = 101  # the field of a flight record
POOL_FILE = "[pool]"  # PS_PROFILE_POOL_FILE
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5


class Damaged(ValueError):
    """The bytes are no profile."""


@dataclass(frozen=True)
class Mapping:
    """Code of a file in memory."""

    start: int
    limit: int
    offset: int
    path: str
    build_id: str


@dataclass(frozen=True)
class Pool:
    """A pool of the pools library."""

    family: str
    name: str  # "": it has none


@dataclass(frozen=True)
class Line:
    """A line of a program that an interpreter runs; or a pool, of the file POOL_FILE."""

    file: str
    function: str
    number: int  # 0: not known

    @property
    def pool(self) -> Pool | None:
        """The pool; None: it is a line."""
        if self.file != POOL_FILE:
            return None
        family, _, name = self.function.partition(' "')
        return Pool(printable(family), printable(name.removesuffix('"')))

    @property
    def title(self) -> str:
        """What a report shows: "leak.py:12 leak_here", of a pool 'region "sessions"'."""
        if self.file == POOL_FILE:
            return printable(self.function)
        name = self.file.rpartition("/")[2] or self.file
        return printable(f"{name}:{self.number} {self.function}" if self.number
                         else f"{name} {self.function}")  # fmt: skip


@dataclass(frozen=True)
class Location:
    """A call site; `names` where the profile has them, of inlined functions first. `line` of an
    interpreted program, which has neither address nor mapping."""

    address: int
    mapping: Mapping | None
    names: tuple[str, ...] = ()
    line: Line | None = None


def location_of(line: Line) -> Location:
    """The call site of a line."""
    return Location(0, None, (line.title,), line)


@dataclass(frozen=True)
class Sample:
    """A stack, innermost first, and its values in the order of the profile's types."""

    locations: tuple[Location, ...]
    values: tuple[int, ...]


@dataclass
class Profile:
    """All of it."""

    types: list[tuple[str, str]] = field(default_factory=list)  # name and unit
    default_type: str = ""
    samples: list[Sample] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    period: int = 0
    time_nanos: int = 0
    duration_nanos: int = 0
    pid: int | None = None  # None: not known
    history: bytes = b""  # of a flight record: flight.py

    def is_same_process(self, other: Profile) -> bool:
        """Judged by the files: a forked child has its parent's addresses and another id. A later
        run with the same id, or the program after an exec, has other addresses."""
        if None not in (self.pid, other.pid) and self.pid != other.pid:
            return False
        starts = {(one.path, one.offset): one.start for one in reversed(other.mappings)}
        both = [one for one in self.mappings if (one.path, one.offset) in starts]
        return not both or starts[both[0].path, both[0].offset] == both[0].start

    def index_of(self, name: str) -> int:
        """The place of a type in each sample's values."""
        return [one for one, _ in self.types].index(name)

    def total(self, name: str) -> int:
        """The sum over all samples."""
        index = self.index_of(name)
        return sum(sample.values[index] for sample in self.samples)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where the next thing begins."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Damaged("a number does not end")
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields_of(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: number, and value or content."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = varint(data, at)
            yield key >> 3, value
            continue
        length = {FIXED_64: 8, FIXED_32: 4}.get(kind, 0)
        if kind == BYTES:
            length, at = varint(data, at)
        elif not length:
            raise Damaged(f"a field of kind {kind}")
        if at + length > len(data):
            raise Damaged("a field is longer than the file")
        yield key >> 3, data[at : at + length]
        at += length


def numbers_of(value: int | bytes) -> list[int]:
    """A repeated number: packed, or one of them."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def content(value: int | bytes) -> bytes:
    """The bytes of a message."""
    if isinstance(value, int):
        raise Damaged("a number in place of a message")
    return value


def message(value: int | bytes) -> dict[int, int | bytes]:
    """A message in which no field is repeated, or the last of each."""
    return dict(fields_of(content(value)))


def number(fields: dict[int, int | bytes], key: int) -> int:
    """A number of a message, 0 where it has none."""
    value = fields.get(key, 0)
    if not isinstance(value, int):
        raise Damaged("a text in place of a number")
    return value


class Reader:
    """Collects the messages of a file, which may be in any order, and joins them."""

    def __init__(self, data: bytes) -> None:
        self.top: dict[int, list[int | bytes]] = {}
        for key, value in fields_of(data):
            self.top.setdefault(key, []).append(value)
        self.strings = [
            text.decode(errors="replace") for text in self.top.get(6, []) if isinstance(text, bytes)
        ]

    def text(self, index: int) -> str:
        """An entry of the table of strings."""
        if not 0 <= index < len(self.strings):
            raise Damaged("no such string")
        return self.strings[index]

    def one(self, key: int) -> int:
        """A number of the file itself."""
        return numbers_of(self.top.get(key, [0])[-1])[0]

    def mappings(self) -> dict[int, Mapping]:
        """The mappings by id."""
        found = {}
        for value in self.top.get(3, []):
            fields = message(value)
            found[number(fields, 1)] = Mapping(
                number(fields, 2), number(fields, 3), number(fields, 4),
                self.text(number(fields, 5)), self.text(number(fields, 6)),
            )  # fmt: skip
        return found

    def functions(self) -> dict[int, tuple[str, str]]:
        """Names and files by id."""
        messages = [message(value) for value in self.top.get(5, [])]
        return {number(fields, 1): (self.text(number(fields, 2)), self.text(number(fields, 4)))
                for fields in messages}  # fmt: skip

    def locations(self, mappings: dict[int, Mapping]) -> dict[int, Location]:
        """The locations by id."""
        functions = self.functions()
        found = {}
        for value in self.top.get(4, []):
            fields = message(value)
            lines = [message(one) for key, one in fields_of(content(value)) if key == 4]
            names = [functions.get(number(line, 1), ("", "")) for line in lines]
            address, mapping = number(fields, 3), mappings.get(number(fields, 2))
            if not address and mapping is None and len(lines) == 1 and all(names[0]):
                line = Line(names[0][1], names[0][0], number(lines[0], 2))
                found[number(fields, 1)] = location_of(line)
                continue
            found[number(fields, 1)] = Location(
                address, mapping, tuple(name for name, _ in names if name)
            )
        return found

    def samples(self, locations: dict[int, Location]) -> Iterator[Sample]:
        """All of them."""
        for value in self.top.get(2, []):
            ids: list[int] = []
            values: list[int] = []
            for key, content in fields_of(value if isinstance(value, bytes) else b""):
                if key in (1, 2):
                    (ids if key == 1 else values).extend(numbers_of(content))
            try:
                yield Sample(tuple(locations[one] for one in ids), tuple(values))
            except KeyError:
                raise Damaged("no such location") from None

    def profile(self) -> Profile:
        """The whole. The comment that has the process id and nothing else is no remark."""
        # Those of a flight record have a constant length.
        texts = (self.text(numbers_of(value)[0]).rstrip() for value in self.top.get(13, []))
        comments = [text for text in texts if text]
        processes = [found for found in map(PROCESS.match, comments) if found]
        types = [message(value) for value in self.top.get(1, [])]
        mappings = self.mappings()
        profile = Profile(
            types=[(self.text(number(one, 1)), self.text(number(one, 2))) for one in types],
            default_type=self.text(self.one(14)),
            mappings=list(mappings.values()),
            comments=[text for text in comments if not PROCESS.fullmatch(text)],
            period=self.one(12),
            time_nanos=self.one(9),
            duration_nanos=self.one(10),
            pid=int(processes[0][1]) if processes else None,
            history=content(self.top.get(HISTORY, [b""])[-1]),
        )
        profile.samples = list(self.samples(self.locations(mappings)))
        if any(len(sample.values) != len(types) for sample in profile.samples):
            raise Damaged("a sample has not a value of each type")
        return profile


def parse(data: bytes) -> Profile:
    """A profile; Damaged where the bytes are none."""
    if data.startswith(GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise Damaged(str(error)) from None
    if not data:
        raise Damaged("it is empty")
    return Reader(data).profile()


def read(path: Path) -> Profile:
    """The profile in a file; one line where it cannot be read."""
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None
    except Damaged as error:
        raise BadRequest(f"{path}: not a profile in pprof's format: {error}") from None
