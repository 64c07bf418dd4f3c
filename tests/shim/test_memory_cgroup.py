# SPDX-License-Identifier: MIT
"""In a memory cgroup that holds what a program uses and half as much again, it is not killed.

    scripts/test tests/shim/test_memory_cgroup.py

There malloc never fails: who takes too much is killed. What counts is that memory freed in one
phase of a program serves the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import RunShim

LIMIT_BYTES = 64 << 20
FOLDER = "poolshim-test"
PHASES = ["200", "20000", "8388608", "1000", "300000", "100"]
MAPPINGS = ["200", "38000000", "20000", "39000000", "200"]


def memory_cgroup() -> tuple[Path, str]:
    """This process's own memory cgroup and the name of its limit, in either version."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
        if controllers == "" and Path("/sys/fs/cgroup/cgroup.controllers").exists():
            return Path("/sys/fs/cgroup" + path), "memory.max"
    pytest.skip("no memory cgroup here")


@pytest.fixture
def cgroup() -> Iterator[Path]:
    parent, limit = memory_cgroup()
    folder = parent / f"{FOLDER}-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made: {error}")
    try:
        (folder / limit).write_text(str(LIMIT_BYTES))
        yield folder
    except OSError as error:
        pytest.skip(f"the cgroup cannot be limited: {error}")
    finally:
        folder.rmdir()


@pytest.mark.preload
@pytest.mark.root
@pytest.mark.parametrize(
    ("env", "phases"),
    [({}, PHASES), ({"POOLSHIM_PURGE_DELAY_MS": "0"}, MAPPINGS)],
    ids=["usual", "no-delay"],
)
def test_freed_memory_serves_the_next_phase(
    cgroup: Path, env: dict[str, str], phases: list[str], run_shim: RunShim, build_dir: Path
) -> None:
    program = build_dir / "tests" / "faults" / "load_phases"

    def enter() -> None:
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))

    result = run_shim([program, *phases], env=env, preexec_fn=enter)
    assert result.returncode == 0, result.stdout + result.stderr
