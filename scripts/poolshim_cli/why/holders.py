# SPDX-License-Identifier: MIT
"""The live blocks in the memory of a process, by size, and what a sample of them begins with.

    sizes = of_poolshim(memory, reader); rows = described(core, sizes)

The first word of a C++ object with virtual functions is the address of its class's table; that of
a node of a list or tree is a link; text is text. So blocks without a known call site have a kind.
"""

from __future__ import annotations

import random
import re
import struct
import subprocess
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .. import elf
from ..foreign.text import printable
from ..live.census import Reader
from ..live.core import Core
from ..live.memory import Memory, Unreadable, contradictions
from ..live.slots import read_sizes

SAMPLE = 64  # blocks of a size
HEAD_BYTES = 64
SIZES_MAX = 1 << 20
SEED = 20140513
TEXT_LEAST = 12  # printable characters
TEXT_SHOWN = 16
VTABLE = "_ZTV"
PRINTABLE = re.compile(rb"[\t\n\r\x20-\x7e]*")
KINDS = {"link": "begin with a link to another block", "zero": "begin with zeroes",
         "number": "begin with a small number", "other": "begin with other data"}  # fmt: skip


@dataclass
class Size:
    """Live blocks of one size."""

    nbytes: int
    count: int = 0
    sample: list[int] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Bytes of all."""
        return self.nbytes * self.count


class Sizes:
    """Counts live blocks, and draws a sample of each size."""

    def __init__(self) -> None:
        self.rows: dict[int, Size] = {}
        self.random = random.Random(SEED)

    def add(self, address: int, nbytes: int) -> None:
        """One block."""
        row = self.rows.get(nbytes)
        if row is None:
            if len(self.rows) >= SIZES_MAX:
                return
            row = self.rows[nbytes] = Size(nbytes)
        row.count += 1
        if len(row.sample) < SAMPLE:
            row.sample.append(address)
        else:
            at = int(self.random.random() * row.count)
            if at < SAMPLE:
                row.sample[at] = address

    def largest(self) -> list[Size]:
        """Most bytes first."""
        return sorted(self.rows.values(), key=lambda row: -row.total)


# ---- poolshim ----


def add_slab(sizes: Sizes, memory: Memory, slab: tuple[int, int], size: tuple[int, int, int],
             free: set[int]) -> None:  # fmt: skip
    """The blocks of one slab: a bit that is set is a free one."""
    base, bits = slab
    nbytes, first, limit = size
    words = memory.read(bits, -(-limit // 64) * 8)
    for index in range(first, limit):
        address = base + index * nbytes
        if not words[index >> 3] >> (index & 7) & 1 and address not in free:
            sizes.add(address, nbytes)


def of_poolshim(memory: Memory, reader: Reader) -> Sizes:
    """All live blocks, apart from those that fronts and windows have ready."""
    sizes, layout = Sizes(), reader.layout
    classes = read_sizes(memory, layout)
    slab = layout.record("run.base", "slab.bits", "slab.class")
    large = layout.record("run.base", "large.bytes")
    ready = set(reader.fronts.blocks())
    kinds, step = reader.kinds, reader.slot_bytes
    with contradictions(memory.pid):
        for leaf in reader.map.leaves():
            marks = leaf.data[reader.kind_at :: step]
            for at, kind in enumerate(marks):
                if kind == kinds["slab"]:
                    base, bits, index = slab.of(leaf.data, at * step)
                    if base == leaf.first + at * reader.granule:
                        row = classes[index]
                        add_slab(sizes, memory, (base, bits),
                                 (row.block_bytes, row.first, row.limit), ready)  # fmt: skip
                elif kind in (kinds["block"], kinds["mapping"]):
                    base, nbytes = large.of(leaf.data, at * step)
                    if base == leaf.first + at * reader.granule:
                        sizes.add(base, nbytes)
                elif kind == kinds["medium"]:
                    add_medium(sizes, reader, leaf.data[at * step : (at + 1) * step],
                               leaf.first + at * reader.granule)  # fmt: skip
    return sizes


def add_medium(sizes: Sizes, reader: Reader, slot: bytes, base: int) -> None:
    """The medium blocks that begin in one granule."""
    marks = slot[reader.marks.offset : reader.marks.offset + reader.marks.length]
    for page, mark in enumerate(marks):
        if 0 < mark < reader.waits:
            sizes.add(base + page * reader.page_bytes, mark * reader.page_bytes)


# ---- contents ----


class Tables:
    """Names of C++ classes by the addresses of their tables of virtual functions."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.known: dict[str, list[tuple[int, int, str]]] = {}

    def of(self, address: int) -> str:
        """The class whose table an address lies in; ""."""
        for one in self.core.backed:
            if one.start <= address < one.end:
                break
        else:
            return ""
        if one.path not in self.known:
            self.known[one.path] = self.read(one.path)
        rows = self.known[one.path]
        inside = self.inside(one.path, address - one.start + one.offset)
        at = bisect_right(rows, (inside, 1 << 64, "")) - 1
        found = rows[at] if at >= 0 and rows[at][0] <= inside < rows[at][1] else None
        return demangled(found[2]) if found else ""

    def inside(self, path: str, offset: int) -> int:
        """The address that the file gives to a place in it."""
        try:
            return elf.read(Path(path)).address_at(offset)
        except (OSError, elf.Malformed):
            return -1

    def read(self, path: str) -> list[tuple[int, int, str]]:
        """The tables in one file."""
        try:
            return sorted(elf.read(Path(path)).data_symbols(VTABLE))
        except (OSError, elf.Malformed):
            return []


def demangled(name: str) -> str:
    """The class of a table."""
    try:
        done = subprocess.run(["c++filt", name], capture_output=True, text=True, timeout=10,
                              check=False)  # fmt: skip
        text = done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        text = name
    return printable(text.removeprefix("vtable for "))


def kind_of(head: bytes, has: Callable[[int], bool], tables: Tables) -> str:
    """What a block begins with."""
    (word,) = struct.unpack_from("<Q", head)
    name = tables.of(word) if word else ""
    if name:
        return f"are {name}"
    text = PRINTABLE.match(head)
    if text is not None and text.end() >= min(TEXT_LEAST, len(head)):
        shown = printable(text[0][:TEXT_SHOWN].decode(errors="replace"))
        return f'are text such as "{shown}"'
    if word and has(word):
        return KINDS["link"]
    if not any(head):
        return KINDS["zero"]
    return KINDS["number" if word < 1 << 20 else "other"]


def described(core: Core, size: Size, tables: Tables) -> tuple[str, int, int]:
    """The commonest kind of the sampled blocks of a size, how many of them, and of how many."""
    kinds: Counter[str] = Counter()
    text = ""
    for address in size.sample:
        try:
            head = core.read(address, min(HEAD_BYTES, max(8, size.nbytes // 8 * 8)))
        except Unreadable:
            continue
        kind = kind_of(head, lambda word: core.segment_of(word) is not None, tables)
        if kind.startswith("are text"):
            text, kind = text or kind, "are text"
        kinds[kind] += 1
    if not kinds:
        return "", 0, 0
    (kind, count), total = kinds.most_common(1)[0], kinds.total()
    return (text if kind == "are text" else kind), count, total
