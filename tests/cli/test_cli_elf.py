# SPDX-License-Identifier: MIT
"""The reader of ELF files: damaged files, files without section headers.

    scripts/test tests/cli/test_cli_elf.py
"""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from programs import PRINT_MAPS, compile_program, patched
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))
from poolshim_cli import elf  # noqa: E402


@pytest.fixture
def mapper(tmp_path: Path) -> Path:
    """Some program."""
    return compile_program(tmp_path, "mapper", PRINT_MAPS)


def read_everything(path: Path) -> None:
    """All that the reader can say about a file."""
    file = elf.read(path)
    assert isinstance(file.needed, list) and isinstance(file.interpreter, str)
    assert isinstance(file.is_symbolic, bool) and isinstance(file.symbols, dict)
    assert isinstance(file.private_symbols, dict) and isinstance(file.build_id, str)
    file.has_section(".gopclntab")
    assert isinstance(file.probes, set)
    if elf.GNU_HASH in file.dynamic:
        file.count_by_hash(file.offset_of(file.dynamic[elf.GNU_HASH][0]))


def test_reader_survives_damage_anywhere(tmp_path: Path, mapper: Path) -> None:
    """Every word of the headers wrong, then 1000 copies with some wrong bytes anywhere."""
    data = mapper.read_bytes()
    sections = int.from_bytes(data[0x28:0x30], "little")
    dynamic = next(s.offset for s in elf.read(mapper).segments if s.kind == elf.PT_DYNAMIC)
    words = [*range(16, 1000, 8), *range(dynamic, dynamic + 480, 8)]
    wrong = (bytes(8), b"\xff" * 8)
    cases = [data[:at] + word + data[at + 8 :] for at in words for word in wrong]
    places = [range(64), range(64, 1200), range(sections, len(data)), range(len(data))]
    generator = random.Random(20140513)
    for number in range(1000):
        damaged = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            damaged[generator.choice(places[number % 4])] = generator.choice((0, 1, 127, 255))
        cases.append(bytes(damaged[: generator.choice((len(data), sections + 100))]))
    copy, refused = tmp_path / "damaged", 0
    read_everything(mapper)
    for case in cases:
        copy.unlink(missing_ok=True)
        copy.write_bytes(case)
        try:
            read_everything(copy)
        except elf.Malformed:
            refused += 1
    assert refused > 300  # the damage was seen, and by nothing but Malformed


@each_row("option", ["sha1", "0xfeedfacecafebeef", "none"])
def test_build_id_is_what_the_linker_wrote(tmp_path: Path, option: str) -> None:
    whole = compile_program(tmp_path, "built", PRINT_MAPS, f"-Wl,--build-id={option}")
    notes = run_captured(["readelf", "-n", whole]).stdout
    listed = re.search(r"Build ID: (\w+)", notes)
    assert elf.read(whole).build_id == (listed[1] if listed else "")
    assert (listed is None) == (option == "none")


def test_an_address_leads_to_its_offset_and_back(mapper: Path) -> None:
    file = elf.read(mapper)
    loads = [segment for segment in file.segments if segment.kind == elf.PT_LOAD]
    assert any(segment.address != segment.offset for segment in loads)
    for segment in loads:
        for inside in (0, segment.file_bytes - 1):
            assert file.address_at(segment.offset + inside) == segment.address + inside
            assert file.offset_of(segment.address + inside) == segment.offset + inside
    with pytest.raises(elf.Malformed):
        file.address_at(len(file.data))


def test_symbols_are_counted_without_section_headers(tmp_path: Path, mapper: Path) -> None:
    """Either hash table suffices: sstrip and some packers leave nothing else."""
    for style in ("gnu", "sysv"):
        whole = compile_program(tmp_path, f"hash-{style}", PRINT_MAPS, f"-Wl,--hash-style={style}")
        bare = patched(whole, f"bare-{style}", 0x28, bytes(8))
        expected = {name for name, is_own in elf.read(whole).symbols.items() if not is_own}
        found = elf.read(bare)
        assert not found.sections and {"fopen", "strstr"} <= expected
        if style == "sysv":  # the other table lists only the file's own definitions
            assert found.symbols == elf.read(whole).symbols
        else:
            assert set(found.symbols) <= set(elf.read(whole).symbols)


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    """It was mapped before, which ends the reader by SIGBUS."""
    copy = tmp_path / "program"
    copy.write_bytes(Path("/bin/true").read_bytes() + bytes(1 << 20))
    found = elf.read(copy)
    os.truncate(copy, 64)
    with pytest.raises(elf.Malformed):
        found.unpack("Q", 1 << 20)


@each_row("kind", ["fifo", "device", "directory"])
def test_what_is_no_file_is_not_opened(tmp_path: Path, kind: str) -> None:
    path = {"device": Path("/dev/zero"), "directory": tmp_path}.get(kind, tmp_path / "fifo")
    if kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        elf.read(path)
