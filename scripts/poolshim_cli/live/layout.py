# SPDX-License-Identifier: MIT
"""Where the library of a process has its counters: the other side of record/layout.h.

    layout = find(1234); layout.place("arenas"), layout.offset("windows.next")

Read once for a process: it is constant. Another version, an older library, and one that the loader
has not relocated yet are one line each.
"""

from __future__ import annotations

import functools
import re
import struct
from dataclasses import dataclass

from .. import control
from ..errors import Failed, OwnFailure
from ..version import VERSION as TEXT_OF_RELEASE
from .memory import Memory, Record, Unreadable, contradictions

SYMBOL, MAGIC, VERSION = "poolshim_layout", b"poolshim layout\0", 3
HEADER = struct.Struct("<16s4IQ")
PLACE = struct.Struct("<24s2Q")
NUMBER = struct.Struct("<28sIQ")
COUNT_MAX = 1024  # of names; more is no layout
FIELD_END_MAX = 64 << 20  # no structure is longer, no variable either
SIZE_MAX = 1 << 20  # of an element of a table
SIZES = frozenset(("arena", "class", "front", "front_table",
                   "front_place", "hard_places", "sample", "store_counts", "windows"))  # fmt: skip
# Lowest and highest: what tables are long by.
SHIFTS = {"granule.shift": (12, 30), "slot.shift": (4, 12), "leaf.shift": (12, 40),
          "branch.shift": (12, 47), "medium.page_shift": (8, 30)}  # fmt: skip
SHIFT_MAX = 63
RECORDS_MAX, BUILDS_MAX = 256, 8  # in memory: of all processes
RELEASE = re.compile(r"\.so\.(\d+(?:\.\d+)+)")
RELEASE_PART, RELEASE_BYTES = 1 << 20, 1 << 23  # of a library's mappings that are searched
BASE_BYTES = 4096  # no variable is in the first page of a library, where its headers are


@dataclass(frozen=True)
class Field:
    """A field of a structure."""

    offset: int
    length: int


class Layout:
    """Names as the library has them."""

    def __init__(self, pid: int, path: str, address: int = 0) -> None:
        self.pid = pid
        self.address = address  # of itself
        self.path = path
        self.text: str | None = None
        self.places: dict[str, tuple[int, int]] = {}
        self.numbers: dict[str, Field] = {}
        self.records: dict[tuple[tuple[str, ...], int], Record] = {}

    @property
    def release(self) -> str:
        """The library's version: of its file's name, as installed from sources; else, as in the
        wheel, of the text in its constants, which is looked up once. "" without."""
        found = RELEASE.search(self.path)
        if found:
            return found.group(1)
        if self.text is None:
            self.text = release_in(self.pid, self.path)
        return self.text

    def lacks(self, name: str) -> Failed:
        """An older library of the same version of the layout."""
        return Failed(f"process {self.pid}: its {control.LIBRARY} is older than this command: "
                      f"it does not describe {name}")  # fmt: skip

    def place(self, name: str) -> int:
        """The address of a variable."""
        if name not in self.places:
            raise self.lacks(name)
        return self.places[name][0]

    def field(self, name: str) -> Field:
        """The field of a structure."""
        if name not in self.numbers:
            raise self.lacks(name)
        return self.numbers[name]

    def offset(self, name: str) -> int:
        """The offset of a field, or the value of a constant."""
        return self.field(name).offset

    def constants(self, prefix: str) -> dict[str, int]:
        """The constants whose names start with a prefix and a dot, by the rest of the name."""
        parts = ((name.partition("."), one) for name, one in self.numbers.items())
        return {name[2]: one.offset for name, one in parts
                if name[0] == prefix and name[2] and one.length == 0}  # fmt: skip

    def name_of(self, prefix: str, value: int) -> str:
        """The name, without its prefix, of the constant with a value."""
        found = (name for name, one in self.constants(prefix).items() if one == value)
        return next(found, "unknown")

    def record(self, *names: str, base: int = 0) -> Record:
        """Fields that are read together, from `base` on."""
        key = names, base
        if key not in self.records:
            fields = [self.field(name) for name in names]
            with contradictions(self.pid):
                self.records[key] = record_of(
                    tuple((field.offset - base, field.length) for field in fields)
                )
        return self.records[key]


@functools.lru_cache(RECORDS_MAX)
def record_of(fields: tuple[tuple[int, int], ...]) -> Record:
    """Processes on one build of the library share their records."""
    return Record(list(fields))


def text_of(data: bytes) -> str:
    """A name."""
    return data.partition(b"\0")[0].decode("ascii", "replace")


@functools.lru_cache(BUILDS_MAX)
def numbers_in(data: bytes) -> dict[str, Field]:
    """The table of constants; processes on one build of the library share it."""
    return {text_of(name): Field(value, nbytes) for name, nbytes, value in NUMBER.iter_unpack(data)}


def release_in(pid: int, path: str) -> str:
    """The version that a mapped library names."""
    try:
        lines = control.maps_of(pid).splitlines()
    except OwnFailure:
        return ""
    left = RELEASE_BYTES
    for words in (line.split(maxsplit=5) for line in lines):
        if len(words) < 6 or words[5] != path or "r" not in words[1]:
            continue
        start, end = (int(one, 16) for one in words[0].split("-"))
        for at in range(start, min(end, start + left), RELEASE_PART):
            part = min(RELEASE_PART + 64, end - at)  # the text may lie across the end of a part
            try:
                found = TEXT_OF_RELEASE.search(control.read(pid, at, part))
            except OwnFailure:
                break  # it cannot be read, or has gone
            if found:
                return found[1].decode()
        left -= min(end - start, left)
    return ""


def wrong_version(pid: int, version: int) -> Failed:
    """The failure of a layout whose version this command cannot read."""
    return Failed(f"process {pid}: its {control.LIBRARY} has version {version} of the layout, "
                  f"this command reads {VERSION}")  # fmt: skip


def is_possible(name: str, field: Field) -> bool:
    """A number that tables of a real heap may have."""
    if name.endswith("shift"):
        least, most = SHIFTS.get(name, (0, SHIFT_MAX))
        return least <= field.offset <= most
    if name in SIZES:
        return 0 < field.offset <= SIZE_MAX
    return field.length == 0 or field.offset + field.length <= FIELD_END_MAX


def check(layout: Layout) -> None:
    """Failed where a number is none that tables of a real heap have."""
    shifts = [layout.numbers[name].offset for name in ("granule.shift", "leaf.shift",
              "branch.shift") if name in layout.numbers]  # fmt: skip
    is_right = shifts == sorted(shifts) and all(
        nbytes <= FIELD_END_MAX for _, nbytes in layout.places.values()
    )
    if not is_right or not all(is_possible(*one) for one in layout.numbers.items()):
        raise Failed(f"process {layout.pid}: its memory contradicts itself: what describes the "
                     "heap is damaged")  # fmt: skip


def check_writer(writer: control.Writer, layout: Layout) -> None:
    """Failed where the process to write to is not the one that the layout was read of."""
    if not writer.is_there(layout.address, MAGIC):
        raise Failed(f"process {layout.pid} runs another program now")


def find(memory: Memory) -> Layout:
    """Finds the layout of a running process."""
    pid = memory.pid
    found = memory.find_symbol(SYMBOL)
    magic, version, length, place_count, number_count, numbers = HEADER.unpack(
        memory.read(found.address, HEADER.size)
    )
    if magic != MAGIC or version != VERSION:
        raise wrong_version(pid, version)
    if not 0 < place_count <= COUNT_MAX or not 0 < number_count <= COUNT_MAX:
        raise wrong_version(pid, version)
    if length < HEADER.size + place_count * PLACE.size:
        raise wrong_version(pid, version)
    layout = Layout(pid, found.path, found.address)
    starting = Failed(f"process {pid} is still being started: its {control.LIBRARY} is not ready")
    if numbers < found.base + BASE_BYTES:
        raise starting
    data = memory.read(found.address + HEADER.size, place_count * PLACE.size)
    for name, address, nbytes in PLACE.iter_unpack(data):
        if address < found.base + BASE_BYTES:
            raise starting
        layout.places[text_of(name)] = address, nbytes
    try:
        data = memory.read(numbers, number_count * NUMBER.size)
    except Unreadable:
        raise starting from None
    layout.numbers = numbers_in(data)
    check(layout)
    return layout
