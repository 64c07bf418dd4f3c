# SPDX-License-Identifier: MIT
"""Unit tests of the shim's own files: compiled here, with ASan and UBSan, and run.

    python -m pytest tests/test_shim_units.py

The core that other unit tests link with has no shim in it, so each test names the files it needs
in "// sources:" lines; the engine behind them is a fake or the OS layer alone.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

FOLDER = ROOT / "tests" / "unit" / "shim"
TESTS = sorted(path.stem for path in FOLDER.glob("*_test.c"))
OS_LAYER = ["pools/os/os_linux.c", "pools/os/fatal.c"]
FLAGS = [
    "-std=gnu17", "-D_GNU_SOURCE", "-DPS_CHECKED=1", "-O1", "-g", "-Wall", "-Wextra", "-Wshadow",
    "-Werror", "-fno-builtin-malloc", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
]  # fmt: skip


def sources_of(test: Path) -> list[str]:
    prefix = "// sources: "
    lines = [line for line in test.read_text().splitlines()[:8] if line.startswith(prefix)]
    return [name for line in lines for name in line.removeprefix(prefix).split()]


@pytest.mark.parametrize("name", TESTS)
def test_shim_unit(name: str, tmp_path: Path) -> None:
    source = FOLDER / f"{name}.c"
    program = tmp_path / name
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    files = [ROOT / file for file in [*sources_of(source), *OS_LAYER]]
    build = run_captured([*compiler, *FLAGS, f"-I{ROOT}", source, *files, "-o", program], 120)
    assert build.returncode == 0, build.stderr
    result = run_captured([program], timeout=300)
    assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout}{result.stderr}"


def test_there_are_shim_unit_tests() -> None:
    assert len(TESTS) >= 7
