# SPDX-License-Identifier: MIT
"""The readers of processes on the memory of one, recorded and then changed at random.

    scripts/test tests/cli/test_hostile_fuzz.py
    FUZZ_SEED=17 FUZZ_TURNS=1 python -m pytest tests/cli/test_hostile_fuzz.py

Whatever the memory has, the readers end in figures or in one line, having read a bounded number of
bytes. A failure names its seed.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from running import Start, program, spawn

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import control  # noqa: E402
from poolshim_cli.errors import GIVING_UP  # noqa: E402
from poolshim_cli.explain.heap import Heap  # noqa: E402
from poolshim_cli.foreign import perf_map  # noqa: E402
from poolshim_cli.live import layout, residence, samples  # noqa: E402
from poolshim_cli.live import memory as memories  # noqa: E402
from poolshim_cli.live.blocks import Blocks  # noqa: E402
from poolshim_cli.live.census import Reader  # noqa: E402
from poolshim_cli.profile import live  # noqa: E402

__all__ = ["program", "spawn"]

SEED = int(os.environ.get("FUZZ_SEED", 1))
TURNS = int(os.environ.get("FUZZ_TURNS", 200))
PAGE = memories.PAGE_BYTES
BLOCKS = 16  # that are looked at in an arena
READ_BYTES_MAX = 1 << 30  # of one turn, five readings
WORDS = (0, 1, 2, 0x7F, 0xFF, 0xFFFF, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32,
         1 << 40, 1 << 47, (1 << 63) - 1, 1 << 63, (1 << 64) - 4096, (1 << 64) - 1)  # fmt: skip


class Image:
    """Pages of a process as they were, in place of the process."""

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}
        self.entries: dict[int, bytes] = {}
        self.reads: list[tuple[int, int]] = []  # address and length
        self.read_bytes = 0

    def record(self, monkeypatch: pytest.MonkeyPatch, pid: int) -> None:
        """All that the readers read of a process."""
        read, entries = control.read, memories.Memory.entries

        def note(pid: int, address: int, count: int) -> bytes:
            self.reads.append((address, count))
            for page in range(address // PAGE, (address + count - 1) // PAGE + 1):
                self.pages[page] = read(pid, page * PAGE, PAGE)
            return read(pid, address, count)

        def note_entries(memory: memories.Memory, page: int, count: int) -> bytes:
            data = entries(memory, page, count)
            for index in range(count):
                if entry := data[index * 8 : index * 8 + 8].strip(b"\0"):
                    self.entries[page + index] = data[index * 8 : index * 8 + 8]
                    assert entry
            return data

        monkeypatch.setattr(control, "read", note)
        monkeypatch.setattr(memories.Memory, "entries", note_entries)
        use_all_readers(pid)

    def replay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Makes both readers read this recording from now on."""
        monkeypatch.setattr(control, "read", self.read)
        monkeypatch.setattr(memories.Memory, "entries", lambda _, *what: self.read_entries(*what))

    def read(self, pid: int, address: int, count: int) -> bytes:
        """Replaces control.read."""
        self.read_bytes += count
        address &= (1 << 64) - 1
        parts = []
        for page in range(address // PAGE, (address + count - 1) // PAGE + 1):
            if page not in self.pages:
                raise control.BadAddress(f"process {pid}: nothing is there")
            parts.append(self.pages[page])
        start = address % PAGE
        return b"".join(parts)[start : start + count]

    def read_entries(self, page: int, count: int) -> bytes:
        """Replaces Memory.entries."""
        self.read_bytes += count * 8
        data, span = bytearray(count * 8), range(page, page + count)
        for one in self.entries if count > len(self.entries) else span:
            if one not in self.entries or one not in span:
                continue
            data[(one - page) * 8 : (one - page) * 8 + 8] = self.entries[one]
        return bytes(data)

    def change(self, rng: random.Random) -> None:
        """Changes a word somewhere in the bytes read; small pieces are as likely as large ones."""
        address, count = rng.choice(self.reads)
        address += rng.randrange(count) & rng.choice((~0, ~7))
        size = rng.choice((1, 2, 4, 8, 8, 8))
        value = rng.choice((rng.choice(WORDS), rng.choice(self.reads)[0], rng.getrandbits(64)))
        page, at = divmod(address, PAGE)
        data = bytearray(self.pages[page])
        data[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        self.pages[page] = bytes(data[:PAGE])

    def changed(self, rng: random.Random) -> Image:
        """A copy with some words, and some pages that are said to be resident, changed."""
        copy = Image()
        copy.pages, copy.entries, copy.reads = dict(self.pages), dict(self.entries), self.reads
        for _ in range(rng.randint(1, 6)):
            copy.change(rng)
        for _ in range(rng.randint(0, 3)):
            page = rng.choice(list(copy.pages)) + rng.randint(-2, 2)
            copy.entries[page] = rng.choice((bytes(8), bytes(7) + b"\x80"))
        return copy


def use_all_readers(pid: int) -> None:
    """Each gives up by itself."""
    with memories.Memory(pid) as memory:
        for read in (read_census, read_samples, read_words, read_blocks):
            try:
                with memory.reading():
                    read(memory)
            except GIVING_UP:
                pass
    try:
        heap = Heap(pid)
        heap.read()
        heap.memory.close()
    except GIVING_UP:
        pass


def read_census(memory: memories.Memory) -> None:
    reader = Reader(memory)
    residence.split(memory, reader, reader.census(), 100 << 20)


def read_blocks(memory: memories.Memory) -> None:
    """What the first granules of the arenas have in them."""
    reader = Reader(memory)
    found = Blocks(reader)
    for base, nbytes in reader.census().arenas[:2]:
        for address in range(base, base + min(nbytes, BLOCKS * reader.granule), reader.granule):
            found.describe(address + 200)


def read_samples(memory: memories.Memory) -> None:
    target = live.Target.__new__(live.Target)  # without a right to write
    target.memory, target.pid, target.layout = memory, memory.pid, layout.find(memory)
    found = samples.Samples(memory, target.layout).read()
    live.values_of(target, samples.Snapshot(), found)


def read_words(memory: memories.Memory) -> None:
    control.Page(*control.LAYOUT.unpack(memory.read(control.find_page(memory.pid),
                                                    control.LAYOUT.size)))  # fmt: skip


@pytest.mark.preload
def test_memory(spawn: Start, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = spawn([program, "known"], POOLSHIM_PROFILE="none/p",
                    POOLSHIM_PROFILE_INTERVAL="64KiB")  # fmt: skip
    monkeypatch.setattr(samples, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(samples, "ATTEMPTS", 2)
    monkeypatch.setattr(memories, "PAGES_MAX", 1 << 23)
    recorded = Image()
    with monkeypatch.context() as recording:
        recorded.record(recording, process.pid)
    assert len(recorded.reads) > 50 and len(recorded.entries) > 10
    for seed in range(SEED, SEED + TURNS):
        image = recorded.changed(random.Random(seed))
        with monkeypatch.context() as replaying:
            image.replay(replaying)
            try:
                use_all_readers(process.pid)
            except Exception as error:
                raise AssertionError(f"FUZZ_SEED={seed}: {error!r}") from error
        assert image.read_bytes < READ_BYTES_MAX, f"FUZZ_SEED={seed}: {image.read_bytes} bytes"


def test_perf_maps() -> None:
    for seed in range(SEED, SEED + TURNS):
        rng = random.Random(seed)
        words = [b"1000", b"-1", b"", b"zz", b"\xff\x00", b"f" * 40, b"10", b"name\033[1m", b" "]
        lines = (b" ".join(rng.choices(words, k=rng.randint(0, 4))) for _ in range(30))
        for start, length, name in perf_map.parse(b"\n".join(lines)):
            assert isinstance(start, int) and isinstance(length, int) and name.isprintable()
