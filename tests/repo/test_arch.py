# SPDX-License-Identifier: MIT
"""The folders of processors, pools/engine/arch/: each has all parts, and none is asked elsewhere.

    scripts/test tests/repo/test_arch.py
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

ARCH = ROOT / "pools" / "engine" / "arch"
CHOICE = re.compile(r"^#(?:el)?if .*\n#define PS_ARCH (\w+)$", re.MULTILINE)
ROW = re.compile(r"^ \*   (\w+\.h) +of ([\w/]+\.[ch]):", re.MULTILINE)
USE = re.compile(r"^ *#include PS_ARCH_PART\((\w+\.h)\)", re.MULTILINE)
NAME = re.compile(
    r"^#define ((?:PS|TEST|ps)_\w+)|^struct (\w+) \{|^(?:static|PS_INLINE) [^({]*?\b(\w+)\(",
    re.MULTILINE,
)
GENERIC = re.compile(r'^#include "pools/engine/arch/generic/(\w+\.h)"', re.MULTILINE)
FOLDERS = {path.name for path in ARCH.iterdir() if path.is_dir()}
PROCESSORS = sorted(FOLDERS - {"generic"})
FIRST = "x86_64"

# What one part needs for itself.
OWN = {"PS_RSEQ_BEGIN", "PS_RSEQ_ABORT", "PS_SIGNAL_HAS_RESTORER", "PS_FRONT_BEGIN",
       "PS_FRONT_ABORT", "PS_FRONT_ENTRY", "PS_FRONT_OPERANDS"}  # fmt: skip


def names_of(path: Path) -> set[str]:
    """What a part offers, with what it takes from generic/."""
    text = path.read_text()
    for generic in GENERIC.findall(text):
        text += (ARCH / "generic" / generic).read_text()
    return {name for names in NAME.findall(text) for name in names if name} - OWN


def test_arch_h_chooses_among_all_folders_and_lists_all_parts() -> None:
    text = (ARCH / "arch.h").read_text()
    assert sorted(CHOICE.findall(text)) == PROCESSORS
    rows = dict(ROW.findall(text))
    uses = {
        part: path.relative_to(ARCH.parent).as_posix()
        for path in ARCH.parent.rglob("*.[ch]")
        for part in USE.findall(path.read_text())
    }
    assert rows == uses


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_processor_has_all_parts_and_their_names(processor: str) -> None:
    parts = {path.name for path in (ARCH / processor).iterdir()}
    assert parts == set(dict(ROW.findall((ARCH / "arch.h").read_text())))
    for part in sorted(parts):
        names = names_of(ARCH / FIRST / part)
        assert names
        assert names_of(ARCH / processor / part) == names, part


@pytest.mark.parametrize("processor", PROCESSORS)
def test_tests_have_a_file_for_the_processor(processor: str) -> None:
    folder = ROOT / "tests" / "arch"
    names = {name for name in names_of(folder / f"{FIRST}.h") if "_CODE_" not in name}
    assert {name for name in names_of(folder / f"{processor}.h") if "_CODE_" not in name} == names


def errors_of(root: Path, text: str, *options: str) -> list[str]:
    """What the compiler says of a source."""
    (root / "source.c").write_text(f'#include "pools/engine/arch/arch.h"\n{text}')
    result = run_captured(["gcc", "-fsyntax-only", f"-I{root}", *options, root / "source.c"])
    return re.findall(r"error: (.*)", result.stderr)


def test_a_build_for_an_unknown_processor_ends_with_one_line(tmp_path: Path) -> None:
    asked = {word for word in re.findall(r"defined\((\w+)\)", (ARCH / "arch.h").read_text())}
    options = [f"-U{word}" for word in sorted(asked)]
    (tmp_path / "pools").symlink_to(ROOT / "pools")
    (error,) = errors_of(tmp_path, "", *options)
    assert "nothing of this processor: add its folder to pools/engine/arch/" in error


def test_a_build_without_a_part_ends_with_one_line(tmp_path: Path) -> None:
    shutil.copytree(ARCH, tmp_path / ARCH.relative_to(ROOT))
    for path in tmp_path.rglob("syscall.h"):
        path.unlink()
    (error,) = errors_of(tmp_path, "#include PS_ARCH_PART(syscall.h)\nint x;\n")
    assert re.fullmatch(r"pools/engine/arch/\w+/syscall\.h: No such file or directory", error)
