# SPDX-License-Identifier: MIT
"""Processes of shared heaps killed hundreds of times at random, and at every instruction.

    scripts/test tests/pools/test_pools_shared.py
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import run_captured

@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "count"),
    [
        (1, 100),
        pytest.param(2, 500, marks=pytest.mark.nightly),
        pytest.param(3, 500, marks=pytest.mark.nightly),
    ],
)
def test_killed_processes_leave_the_heap_whole(
    build_dir: Path, tmp_path: Path, seed: int, count: int
) -> None:
    program = build_dir / "tests" / "pools" / "shared_kill_test-c"
    environment = {"PATH": os.environ["PATH"], "UNIT_SEED": str(seed * 7919)}
    result = run_captured([program, str(count)], timeout=600, env=environment, cwd=tmp_path)
    assert result.returncode in (0, 77), result.stdout + result.stderr
    assert result.returncode == 77 or result.stdout.count(f"{count} kills") == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("shared_kill_test-c", "a_kill_at_any_instruction_of_a_call"),
        ("shared_kill_test-c", "a_kill_at_any_instruction_of_a_repair"),
        (
            "shared_open_test-c",
            "a_kill_at_any_instruction_of_a_creation_leaves_no_heap_or_a_whole_one",
        ),
    ],
)
def test_a_kill_at_any_instruction(
    build_dir: Path, tmp_path: Path, name: str, claim: str
) -> None:
    """At one in 31 of them; KILL_STEP_EVERY=1 kills at each, which takes minutes."""
    every = os.environ.get("KILL_STEP_EVERY", "31")
    environment = {"PATH": os.environ["PATH"], "KILL_STEP_EVERY": every, "TEST_SLOWNESS": "6"}
    command = [build_dir / "tests" / "pools" / name, claim]
    result = run_captured(command, timeout=600, env=environment, cwd=tmp_path)
    if result.returncode == 77:
        pytest.skip(result.stdout)
    assert result.returncode == 0, result.stdout + result.stderr
    kills = re.findall(r"^(\d+) kills", result.stdout, re.MULTILINE)
    assert int(kills[0]) > 500 // int(every)
