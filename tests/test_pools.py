# SPDX-License-Identifier: MIT
"""Runs the tests and the examples of the pools library in every build.

    scripts/test tests/test_pools.py
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from test_unit import builds, without_aslr

SOURCES = sorted(
    path
    for pattern in ("tests/pools/*_test.c", "tests/pools/*_test.cpp", "pools/examples/*.c*")
    for path in ROOT.glob(pattern)
)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
@pytest.mark.parametrize("build", builds(), ids=lambda path: path.name)
def test_pool_program(build: Path, source: Path, tmp_path: Path) -> None:
    program = build / "tests" / "pools" / f"{source.stem}-{source.suffix[1:]}"
    assert program.exists(), f"{program} is not built"
    command = [*without_aslr(), str(program)] if build.name == "tsan" else [str(program)]
    result = run_captured(command, timeout=300, cwd=tmp_path)
    if result.returncode == 77:
        pytest.skip(result.stdout.strip().splitlines()[-1])
    assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout}{result.stderr}"


def test_there_are_pool_programs() -> None:
    assert SOURCES
