# SPDX-License-Identifier: MIT
"""Instructions per call of the hit paths stay below bounds.

A call takes a whole number of instructions, which includes the caller's loop and the call through
the PLT. A bound is a tenth above what GCC 12 makes at -O2 for x86-64: it lets a compiler or a
branch be, and shows a call, a lock or a walk on the way of every malloc or free.

    scripts/test tests/repo/test_hit_paths.py
    PYTHONPATH=tests python tests/repo/test_hit_paths.py     prints them, for docs/figures.json
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import BUILD_DIR
from instructions import count_instructions, require_valgrind, toolchain

COUNTED_ON = "x86_64 GCC 12 -O2 -g"
BOUNDS = {
    "malloc_virgin": 38,
    "malloc_freed": 75,
    "free_scattered": 140,
    "free_in_order": 14,
    "free_null": 14,
    "pair_64": 82,
    "pair_2000": 120,
    "pair_6000": 145,
    "pair_10k": 176,
    "pair_100k": 176,
}
CACHED = ["pair_2000", "pair_6000", "pair_10k", "pair_100k"]  # but not while requests are counted
FEW, MANY = 150, 200  # calls; as many digits, so that all else is equal
BEFORE_LOOK = 10, 30  # the same, where every 32nd pair reads the clock
NO_PURGES = {"POOLSHIM_PURGE_DELAY_MS": "4294967295"}  # where a busy machine takes a second for it
ROUNDS = 5  # on a busy machine the clock makes maintenance due in some; it only adds


def instructions_per_call(build: Path, case: str, enough: float = 0, **settings: str) -> float:
    """The least of some rounds; the first that is enough ends them."""
    program = build / "tests" / "scenarios" / "hit_paths"
    env = {"LD_PRELOAD": str(build / "libpoolshim.so"), **NO_PURGES, **settings}
    few, many = BEFORE_LOOK if case in ("pair_10k", "pair_100k") else (FEW, MANY)
    least, most, each = sys.maxsize, sys.maxsize, 0.0
    for _ in range(ROUNDS):
        least = min(least, count_instructions(program, case, str(few), **env))
        most = min(most, count_instructions(program, case, str(many), **env))
        each = (most - least) / (many - few)
        if each <= enough:
            break
    return each


def above_their_bounds(build: Path, cases: list[str], **settings: str) -> dict[str, float]:
    require_valgrind()
    if toolchain(build) != COUNTED_ON:
        pytest.skip(f"bounds are stated for another compiler than {toolchain(build)}")
    counts = {case: instructions_per_call(build, case, BOUNDS[case], **settings) for case in cases}
    return {case: each for case, each in counts.items() if each > BOUNDS[case]}


def test_hit_paths_stay_below_their_bounds(build_dir: Path, tmp_path: Path) -> None:
    """Those of small blocks also with a profile."""
    assert above_their_bounds(build_dir, list(BOUNDS)) == {}
    settings = {
        "POOLSHIM_PROFILE": str(tmp_path / "none" / "p"),  # no file at exit: it would have the time
        "POOLSHIM_PROFILE_INTERVAL": "1024GiB",  # no sample, which would be on a slow path
        "POOLSHIM_PROFILE_SEED": "1",  # a logarithm takes more of some numbers than of others
    }
    small = [case for case in BOUNDS if case not in CACHED]
    assert above_their_bounds(build_dir, small, **settings) == {}


def test_call_sites_take_no_lock(build_dir: Path) -> None:
    """At level 3 a pair finds the part of its call site in a table, and a block in a front of the
    part: a fifth more than at level 2. With the lock of a store it took 2.5 times as many."""
    require_valgrind()
    few_samples = {"POOLSHIM_GUARD_SAMPLE": "1000000000"}
    counts = {
        level: instructions_per_call(build_dir, "pair_64", POOLSHIM_HARDEN=level, **few_samples)
        for level in ("2", "3")
    }
    assert counts["3"] <= counts["2"] * 1.4, counts


if __name__ == "__main__":
    for name in BOUNDS:
        print(f"{name}: {instructions_per_call(BUILD_DIR, name):g}")
