# SPDX-License-Identifier: MIT
"""The pools library under valgrind's memcheck: all of its tests and examples, in each mode of
PS_DEBUG. A correct program must look correct: the marks that the library makes (common/poison.h)
may neither hide its own records from it nor make what a program has written undefined.

    scripts/test tests/pools/test_pools_memcheck.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from buildable import skip_left_out
from conftest import run_captured
from instructions import require_valgrind
from test_pools import SOURCES

# Empty, not unset: then no test starts itself again in another mode, outside memcheck.
# Under memcheck the default is PS_DEBUG=check.
MODES = {"default": "", "malloc": "malloc"}
FOUND = 99  # the exit status of valgrind when memcheck has found something

# These sync the disk at every step of a commit, and kill children there: hours under memcheck.
# What they call is called by the arena's other tests.
LEFT_OUT = {"arena_kill_test", "arena_test"}
LEFT_OUT |= {"source_reserve_test"}  # sets a limit, which valgrind does not apply


def cases() -> list[object]:
    """Arenas and shared heaps do not know PS_DEBUG."""
    return [
        pytest.param(source, mode, id=f"{source.name}-{mode}")
        for source in SOURCES
        for mode in MODES
        if source.stem not in LEFT_OUT
        and (mode == "default" or not source.stem.startswith(("arena", "shared")))
    ]


@pytest.mark.nightly  # AddressSanitizer has the same programs by day
@pytest.mark.parametrize(("source", "mode"), cases())
def test_memcheck_finds_nothing(build_dir: Path, source: Path, mode: str, tmp_path: Path) -> None:
    require_valgrind()
    skip_left_out(build_dir, source)
    program = build_dir / "tests" / "pools" / f"{source.stem}-{source.suffix[1:]}"
    # Threads take turns: otherwise one that spins for another may run again and again.
    # A search for leaks reads every page of a mapping, and takes a signal for each past the
    # file's end: 10 s for a shared heap.
    options = ["--quiet", "--leak-check=no", "--fair-sched=yes", f"--error-exitcode={FOUND}"]
    command = ["valgrind", *options, program]
    env = {**os.environ, "PS_DEBUG": MODES[mode]}
    result = run_captured(command, timeout=300, env=env, cwd=tmp_path)
    assert result.returncode != FOUND, f"memcheck found\n{result.stderr[:4000]}"
    assert result.returncode in (0, 77), f"exit {result.returncode}\n{result.stdout}{result.stderr}"


# Each fault of memcheck_faults_test.c, and what memcheck must say of it: of objects of a pool also
# where they were freed.
AFTER_FREE = ("Invalid write", "block of size 24 free'd", "free_node", "Block was alloc'd")
FAULTS = {
    "pool_after_free": AFTER_FREE,
    "pool_after_move": AFTER_FREE,
    "pool_behind_object": ("Invalid write",),
    "pool_uninitialised": ("Conditional jump or move depends on uninitialised",),
    "region_after_free": ("Invalid write", "use_region"),
    "region_after_reset": ("Invalid write", "use_region"),
    "stack_after_pop": ("Invalid write", "use_stack"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_memcheck_finds_a_misuse(build_dir: Path, fault: str, tmp_path: Path) -> None:
    require_valgrind()
    program = build_dir / "tests" / "pools" / "memcheck_faults_test-c"
    command = ["valgrind", f"--error-exitcode={FOUND}", program, fault]
    env = {**os.environ, "PS_DEBUG": ""}
    result = run_captured(command, timeout=120, env=env, cwd=tmp_path)
    assert result.returncode == FOUND, result.stderr
    missing = [text for text in FAULTS[fault] if text not in result.stderr]
    assert not missing, f"memcheck says nothing of {missing}\n{result.stderr}"
