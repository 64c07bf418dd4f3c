# SPDX-License-Identifier: MIT
"""Runs every unit test of every build: release, and debug, asan, tsan where they are built.

    scripts/test tests/unit/test_unit.py
"""

from __future__ import annotations

import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from buildable import skip_left_out
from conftest import BUILD_DIR, EMULATOR, ROOT, run_captured

UNIT = ROOT / "tests" / "unit"
NAMES = sorted(
    path.relative_to(UNIT).with_suffix("").as_posix() for path in UNIT.rglob("*_test.c")
)


def builds() -> list[Path]:
    """The build under test, then the configured ones of the presets that check more. Who names
    the build means that one only."""
    if "POOLSHIM_BUILD_DIR" in os.environ:
        return [BUILD_DIR]
    others = [ROOT / "build" / preset for preset in ("debug", "asan", "tsan")]
    return [BUILD_DIR] + [
        path for path in others if path != BUILD_DIR and (path / "build.ninja").exists()
    ]


def run_program(build: Path, program: Path, **options: Any) -> None:
    """Runs a test program, under the emulator if one is set, and holds it to status 0 or 77."""
    assert program.exists(), f"{program} is not built"
    prefix = without_aslr() if build.name == "tsan" else EMULATOR
    result = run_captured([*prefix, program], timeout=300, **options)
    if result.returncode == 77:
        pytest.skip(result.stdout.strip().splitlines()[-1])
    assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout}{result.stderr}"


@lru_cache(maxsize=1)
def without_aslr() -> list[str]:
    """TSan of gcc 12 refuses address spaces with much randomness; a container may forbid this."""
    command = ["setarch", platform.machine(), "-R"]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return []
    return command


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("build", builds(), ids=lambda path: path.name)
def test_unit(build: Path, name: str) -> None:
    skip_left_out(build, UNIT / f"{name}.c")
    run_program(build, build / "tests" / "unit" / name)


def test_there_are_unit_tests() -> None:
    assert NAMES
