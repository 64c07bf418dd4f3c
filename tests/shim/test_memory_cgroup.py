# SPDX-License-Identifier: MIT
"""In a memory cgroup of one and a half times its memory, a program is not killed.

    scripts/test tests/shim/test_memory_cgroup.py

There malloc never fails: who takes too much is killed. What counts is that memory freed in one
phase of a program serves the next.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import RunShim
from memory_cgroup import entering, limited_group

LIMIT_BYTES = 64 << 20
PHASES = ["200", "20000", "8388608", "1000", "300000", "100"]
MAPPINGS = ["200", "38000000", "20000", "39000000", "200"]


@pytest.mark.preload
@pytest.mark.root
@pytest.mark.parametrize(
    ("env", "phases"),
    [({}, PHASES), ({"POOLSHIM_PURGE_DELAY_MS": "0"}, MAPPINGS)],
    ids=["usual", "no-delay"],
)
def test_freed_memory_serves_the_next_phase(
    env: dict[str, str], phases: list[str], run_shim: RunShim, build_dir: Path
) -> None:
    program = build_dir / "tests" / "faults" / "load_phases"
    with limited_group(LIMIT_BYTES) as group:
        result = run_shim([program, *phases], env=env, preexec_fn=entering(group))
    assert result.returncode == 0, result.stdout + result.stderr
