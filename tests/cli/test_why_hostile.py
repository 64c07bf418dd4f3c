# SPDX-License-Identifier: MIT
"""The readers of `poolshim why` on the memory of a process, recorded and then changed at random:
they end in figures or in one line, having read a bounded number of bytes.

    scripts/test tests/cli/test_why_hostile.py
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from planting import MIB, Plant, plant, planted  # noqa: F401
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import control  # noqa: E402
from poolshim_cli.errors import GIVING_UP  # noqa: E402
from poolshim_cli.explain import mappings  # noqa: E402
from poolshim_cli.explain.mappings import Mapping  # noqa: E402
from poolshim_cli.live.memory import PAGE_BYTES, Memory  # noqa: E402
from poolshim_cli.why import glibc, jvm, pools, steps  # noqa: E402

pytestmark = pytest.mark.preload

SEED, TURNS = 20140513, 60
READ_BYTES_MAX = 1 << 30  # of one turn
WORDS = (0, 1, 2, 3, 0x21, 0x291, 1 << 12, (1 << 26) + 48, 1 << 31, 1 << 47, (1 << 64) - 1)


class Recorded(Memory):
    """Pages as they were."""

    def __init__(self, pid: int, areas: list[Mapping]) -> None:
        super().__init__(pid)
        self.maps = control.maps_of(pid)
        self.pages_of: dict[int, bytearray] = {}
        self.read_bytes, true = 0, Memory(pid)
        for one in areas:
            states = true.touched(one.start, (one.end - one.start) // PAGE_BYTES)
            for at, state in enumerate(states):
                if state:
                    address = one.start + at * PAGE_BYTES
                    data = true.fetch(address, PAGE_BYTES)
                    self.pages_of[address // PAGE_BYTES] = bytearray(data)

    def fetch(self, address: int, count: int) -> bytes:
        self.read_bytes += count
        first, last = address // PAGE_BYTES, (address + count - 1) // PAGE_BYTES
        try:
            data = b"".join(self.pages_of[page] for page in range(first, last + 1))
        except KeyError:
            raise control.BadAddress("none") from None
        return data[address % PAGE_BYTES :][:count]

    def entries(self, page: int, count: int) -> bytes:
        return b"".join((b"\0" * 7 + b"\x80") if one in self.pages_of else b"\0" * 8
                        for one in range(page, page + count))  # fmt: skip

    def change(self, generator: random.Random, count: int) -> dict[int, bytearray]:
        """Some words, by others that a heap may have; the pages as they were before."""
        before = {page: bytearray(data) for page, data in self.pages_of.items()}
        chosen = generator.choices(sorted(self.pages_of), k=count)
        for page in chosen:
            at = generator.randrange(PAGE_BYTES // 8) * 8
            word = generator.choice((*WORDS, generator.choice(chosen) * PAGE_BYTES + at))
            self.pages_of[page][at : at + 8] = (word % (1 << 64)).to_bytes(8, "little")
        return before


@pytest.fixture(params=["arenas", "small"])
def recorded(
    request: pytest.FixtureRequest, plant: Plant, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> Iterator[tuple[Recorded, list[Mapping]]]:
    """The heap of glibc in a process."""
    pid = plant(request.param, "2")
    areas = [one for one in mappings.read(pid)
             if "w" in one.permissions and not one.path.startswith("[v")]  # fmt: skip
    memory = Recorded(pid, areas)
    monkeypatch.setattr(control, "maps_of", lambda _: memory.maps)
    yield memory, areas


def test_a_changed_heap_ends_in_figures_or_a_line(
    recorded: tuple[Recorded, list[Mapping]]
) -> None:
    memory, areas = recorded
    true = glibc.Walker(memory, areas, "").walk()
    assert true.returnable > MIB
    generator, outcomes = random.Random(SEED), set()
    for turn in range(TURNS):
        before = memory.change(generator, 1 + turn % 8)
        memory.read_bytes = 0
        try:
            walker = glibc.Walker(memory, areas, "")
            heap = walker.walk()
            assert 0 <= heap.retained <= heap.resident
            outcomes.add("figures")
        except GIVING_UP as error:
            assert "\n" not in str(error)
            outcomes.add("line")
        assert memory.read_bytes < READ_BYTES_MAX
        memory.pages_of = before
    assert outcomes == {"figures", "line"}


def test_a_ring_of_arenas_that_never_ends(recorded: tuple[Recorded, list[Mapping]]) -> None:
    memory, areas = recorded
    walker = glibc.Walker(memory, areas, "")
    assert walker.main is not None
    place = walker.main.address + glibc.arenas.NEXT_AT
    page = memory.pages_of[place // PAGE_BYTES]
    page[place % PAGE_BYTES : place % PAGE_BYTES + 8] = (0x7F0000000030).to_bytes(8, "little")
    with pytest.raises(GIVING_UP):
        walker.walk()


@each_row("header, used", [
    (pools.HEADER.pack(3, 0, 0, 0, 0, 1, 64, 16384 - 32), 96),
    (pools.HEADER.pack(3, 0, 0, 0, 0, 1, 64, 16384 - 48), None),
    (pools.HEADER.pack(3, 0, 0, 0, 0, 32, 64, 16384 - 33 * 16), None),
    (pools.HEADER.pack(100000, 0, 0, 0, 0, 1, 64, 16384 - 32), None),
    (pools.HEADER.pack(3, 0, 0, 0, 0, 1, 20000, 16384 - 32), None),
    (bytes(48), None), (b"\xff" * 48, None),
])  # fmt: skip
def test_headers_of_pools(header: bytes, used: int | None) -> None:
    assert pools.used_bytes(header, 16384) == used


def test_files_of_a_virtual_machine_that_are_none() -> None:
    generator = random.Random(SEED)
    assert jvm.entries(b"") == {} == jvm.entries(bytes(64))
    head = bytes.fromhex("cafec0c001020000") + bytes(16)
    entry = (b"\x28\0\0\0\x14\0\0\0\0\0\0\0J\0\0\0\x20\0\0\0" + b"name\0" + bytes(7)
             + (4711).to_bytes(8, "little"))  # fmt: skip
    whole = head + (32).to_bytes(4, "little") + (1).to_bytes(4, "little") + entry
    assert jvm.entries(whole) == {"name": 4711}
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(generator.randrange(1, 5)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        jvm.entries(bytes(data[: generator.randrange(len(data) + 1)]))


@each_row(
    ("words", "variables", "limit"),
    [
        (["-Xmx1g", "-Xmx300m", "Main"], {}, "300m"),
        (["-Xmx1g"], {"JAVA_TOOL_OPTIONS": "-Da=b -Xmx2g"}, "1g"),
        ([], {"JAVA_TOOL_OPTIONS": "-Da=b -Xmx2g"}, "2g"),
        (["-Xmx", "-Xmx1x", "-Xmx\033[2J"], {}, ""),
        ([], {}, ""),
    ],
)
def test_the_limit_of_a_heap(words: list[str], variables: dict[str, str], limit: str) -> None:
    command = ["/bin/sh", "-c", "read line", *words]
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE) as process:
        try:
            while b"read line" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                time.sleep(0.01)
            assert jvm.limit_of(process.pid) == limit
        finally:
            process.kill()


def test_files_in_memory_are_counted_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "shm").mkdir()
    (tmp_path / "shm" / "large").write_bytes(b"x" * (1 << 20))
    (tmp_path / "shm" / "link").symlink_to("large")
    (tmp_path / "shm" / "up").symlink_to("/")
    found: dict[str, int] = {}
    steps.add_files(tmp_path, "/shm", found, [100])
    assert {name: size >= 1 << 20 for name, size in found.items()} == {"/shm/large": True}
    steps.add_files(tmp_path, "/shm", found, [0])
