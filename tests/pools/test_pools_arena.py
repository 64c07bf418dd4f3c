# SPDX-License-Identifier: MIT
"""Hundreds of writers of persistent arenas, killed at random moments; other seeds each.

    scripts/test tests/pools/test_pools_arena.py
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import run_captured
from table import each_row

KILLS = 400


@pytest.mark.slow
@each_row("seed", [1, 2, 3])
def test_killed_writers_lose_what_was_not_committed(
    build_dir: Path, tmp_path: Path, seed: int
) -> None:
    program = build_dir / "tests" / "pools" / "arena_kill_test-c"
    environment = {"PATH": os.environ["PATH"], "UNIT_SEED": str(seed * 7919)}
    result = run_captured([program, str(KILLS)], timeout=300, env=environment, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    kills = sum(int(count) for count in re.findall(r"^(\d+) kills", result.stdout, re.MULTILINE))
    assert kills == KILLS
