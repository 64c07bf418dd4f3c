# SPDX-License-Identifier: MIT
"""bench/profile_price.py from end to end, in small: a row per program, a cell per interval.

    scripts/test tests/bench/test_bench_profile_price.py
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from instructions import require_valgrind
from under_shim import need

pytestmark = [pytest.mark.bench, pytest.mark.slow]

SCRIPT = ROOT / "bench" / "profile_price.py"


def test_a_program_has_a_row(build_dir: Path) -> None:
    require_valgrind()
    need("perl")
    command = [sys.executable, SCRIPT, "--runs=1", "--scale=0.01", f"--build={build_dir}", "perl"]
    result = run_captured(command, timeout=300)
    assert result.returncode == 0, result.stderr
    head, _, row = result.stdout.splitlines()
    assert head.count("instructions,") == head.count("memory,") == 4
    assert row.split("|")[1].strip() == "perl"
    assert len(re.findall(r"\d\.\d{3}", row)) == 8
    assert float(row.split("|")[3]) < 12, "the memory of the Python that started it"


def test_memory_alone_is_measured_without_valgrind(build_dir: Path, tmp_path: Path) -> None:
    need("perl")
    command = [sys.executable, SCRIPT, "--runs=1", "--scale=0.01", f"--build={build_dir}"]
    (tmp_path / "valgrind").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "valgrind").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    result = run_captured([*command, "--only=memory", "perl"], timeout=100, env=env)
    assert result.returncode == 0, result.stderr
    head, _, row = result.stdout.splitlines()
    assert head.count("memory,") == 4 and "instructions" not in head
    assert head.count("|") == row.count("|") == 7
    result = run_captured([*command, "--only=time", "perl"])
    assert result.returncode == 2 and "time" in result.stderr


def test_a_library_that_fails_is_no_measurement(build_dir: Path, tmp_path: Path) -> None:
    """What ld.so cannot preload would be measured as off at every interval."""
    require_valgrind()
    need("perl")
    (tmp_path / "libpoolshim.so").write_text("none")
    command = [sys.executable, SCRIPT, "--runs=1", "--scale=0.01", f"--build={tmp_path}", "perl"]
    result = run_captured(command, timeout=120)
    assert result.returncode == 1
    assert "profile_price: perl:" in result.stderr and "preload" in result.stderr
