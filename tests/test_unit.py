# SPDX-License-Identifier: MIT
"""Runs every unit test of every build: release, and debug, asan, tsan where they are built.

    scripts/test tests/test_unit.py
"""

from __future__ import annotations

import platform
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest
from conftest import BUILD_DIR, ROOT, run_captured

UNIT = ROOT / "tests" / "unit"
NAMES = sorted(
    path.relative_to(UNIT).with_suffix("").as_posix() for path in UNIT.rglob("*_test.c")
)


def builds() -> list[Path]:
    """The build under test, then the configured ones of the presets that check more."""
    others = [ROOT / "build" / preset for preset in ("debug", "asan", "tsan")]
    return [BUILD_DIR] + [
        path for path in others if path != BUILD_DIR and (path / "build.ninja").exists()
    ]


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
    program = build / "tests" / "unit" / name
    assert program.exists(), f"{program} is not built"
    command = [*without_aslr(), str(program)] if build.name == "tsan" else [str(program)]
    result = run_captured(command, timeout=300)
    if result.returncode == 77:
        pytest.skip(result.stdout.strip().splitlines()[-1])
    assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout}{result.stderr}"


def test_there_are_unit_tests() -> None:
    assert NAMES
