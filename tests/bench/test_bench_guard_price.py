# SPDX-License-Identifier: MIT
"""bench/guard_price.py from end to end, in small: a row per program, a cell per rate.

    scripts/test tests/bench/test_bench_guard_price.py
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

pytestmark = [pytest.mark.bench, pytest.mark.slow]

SCRIPT = ROOT / "bench" / "guard_price.py"
CELL = r"\d+\.\d{3} \(\d+\.\d{3}–\d+\.\d{3}\)"


def test_every_program_has_a_row(build_dir: Path) -> None:
    if shutil.which("g++") is None or not (build_dir / "bench" / "pair").exists():
        pytest.skip("no g++, or the benchmarks are not built")
    command = [sys.executable, SCRIPT, "--runs=2", "--scale=0.002", f"--build={build_dir}"]
    result = run_captured(command, timeout=300)
    assert result.returncode == 0, result.stderr
    head, _, *rows = result.stdout.splitlines()
    assert head.count("N = ") == 5
    assert [row.split("|")[1].strip() for row in rows] == ["g++", "python", "pair"]
    for row in rows:
        assert len(re.findall(CELL, row)) == 5, row


def test_a_library_that_fails_is_no_measurement(build_dir: Path, tmp_path: Path) -> None:
    """What ld.so cannot preload would be measured as off at every rate."""
    (tmp_path / "libpoolshim.so").write_text("none")
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "pair").symlink_to(build_dir / "bench" / "pair")
    result = run_captured([sys.executable, SCRIPT, "--runs=2", f"--build={tmp_path}"], timeout=120)
    assert result.returncode == 1
    assert "guard_price: g++, rate" in result.stderr and "preload" in result.stderr
