# SPDX-License-Identifier: MIT
"""The files that a process writes at its exit, POOLSHIM_RECORD and POOLSHIM_PROFILE: when they are
not written, and what stderr says then. test_stats.py has the same for POOLSHIM_STATS.

    scripts/test tests/shim/test_exit_files.py
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import RunShim
from table import each_row

pytestmark = pytest.mark.preload

PROGRAMS = {"POOLSHIM_RECORD": "recorded_mix", "POOLSHIM_PROFILE": "profiled_sites"}


@pytest.fixture(params=PROGRAMS)
def option(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def program(build_dir: Path, option: str) -> Path:
    return build_dir / "tests" / "scenarios" / PROGRAMS[option]


def test_exit_without_destructors_writes_nothing(
    run_shim: RunShim, tmp_path: Path, program: Path, option: str
) -> None:
    result = run_shim([program, "leave"], env={option: str(tmp_path / "file")})
    assert (result.returncode, result.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


@each_row(
    ("name", "error"), [("no/such/file", "No such file"), ("", "Is a directory")]
)
def test_unwritable_file_is_one_line(
    run_shim: RunShim, tmp_path: Path, program: Path, option: str, name: str, error: str
) -> None:
    result = run_shim([program], env={option: f"{tmp_path}/{name}"})
    assert result.returncode == 0
    shown = re.escape(f"{tmp_path}/{name}"[:64])
    line = rf'poolshim: {option}: cannot write "{shown}(\.\.\.)?": {error}[^\n]*\n'
    assert re.fullmatch(line, result.stderr)
    assert not list(tmp_path.iterdir())


def test_full_disk_is_one_line(run_shim: RunShim, program: Path, option: str) -> None:
    result = run_shim([program], env={option: "/dev/full"})
    assert result.returncode == 0
    assert result.stderr == (
        f'poolshim: {option}: cannot write "/dev/full": No space left on device\n'
    )
