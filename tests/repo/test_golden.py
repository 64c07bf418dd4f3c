# SPDX-License-Identifier: MIT
"""Instructions per call of the hit paths, as written in golden/hit_paths.json.

A new branch on the way of every malloc or free shows here, however small: a call takes a whole
number of instructions, and counts are compared to a RESOLUTION. The numbers hold for one
compiler and include the caller's loop and the call through the PLT. After a change that is meant:

    scripts/test tests/repo/test_golden.py       says what changed
    PYTHONPATH=tests python tests/repo/test_golden.py             prints the table for the file
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import BUILD_DIR, ROOT
from instructions import count_instructions, require_valgrind, toolchain

GOLDEN = ROOT / "tests" / "repo" / "golden" / "hit_paths.json"
CASES = [
    "malloc_virgin",
    "malloc_freed",
    "free_scattered",
    "free_in_order",
    "free_null",
    "pair_64",
    "pair_2000",
    "pair_6000",
    "pair_10k",
    "pair_100k",
]
CACHED = ["pair_2000", "pair_6000", "pair_10k", "pair_100k"]  # but not while requests are counted
FEW, MANY = 150, 200  # calls; as many digits, so that all else is equal
BEFORE_LOOK = 10, 30  # the same, where every 32nd pair reads the clock
NO_PURGES = {"POOLSHIM_PURGE_DELAY_MS": "4294967295"}  # where a busy machine takes a second for it
ROUNDS = 5  # on a busy machine the clock makes maintenance due in some; it only adds
# Least difference of a call that is seen. The start of the process, which should cancel out, takes
# some instructions more in one run than in another, now and then: 0.1 of a call has been seen.
RESOLUTION = 0.25


def instructions_per_call(
    build: Path, case: str, expected: float | None = None, **settings: str
) -> float:
    program = build / "tests" / "scenarios" / "hit_paths"
    env = {"LD_PRELOAD": str(build / "libpoolshim.so"), **NO_PURGES, **settings}
    few, many = BEFORE_LOOK if case in ("pair_10k", "pair_100k") else (FEW, MANY)
    least, most, each = sys.maxsize, sys.maxsize, 0.0
    for _ in range(ROUNDS):
        least = min(least, count_instructions(program, case, str(few), **env))
        most = min(most, count_instructions(program, case, str(many), **env))
        each = (most - least) / (many - few)
        if expected is not None and is_level(each, expected):
            break
    return each


def is_level(each: float, expected: float) -> bool:
    return abs(each - expected) < RESOLUTION


def test_one_instruction_more_in_a_fourth_of_the_calls_is_seen() -> None:
    assert is_level(63.1, 63) and is_level(62.9, 63)
    assert not is_level(63.25, 63) and not is_level(62, 63)


@pytest.mark.parametrize("case", CASES)
def test_hit_path_takes_as_many_instructions_as_written(build_dir: Path, case: str) -> None:
    require_valgrind()
    golden = json.loads(GOLDEN.read_text())
    key = toolchain(build_dir)
    if key not in golden:
        pytest.skip(f"no golden numbers for {key}")
    expected = golden[key][case]
    each = instructions_per_call(build_dir, case, expected)
    assert is_level(each, expected), each


@pytest.mark.parametrize("case", [case for case in CASES if case not in CACHED])
def test_hit_path_of_small_blocks_is_the_same_with_a_profile(
    build_dir: Path, tmp_path: Path, case: str
) -> None:
    require_valgrind()
    golden = json.loads(GOLDEN.read_text())
    key = toolchain(build_dir)
    if key not in golden:
        pytest.skip(f"no golden numbers for {key}")
    settings = {
        "POOLSHIM_PROFILE": str(tmp_path / "none" / "p"),  # no file at exit: it would have the time
        "POOLSHIM_PROFILE_INTERVAL": "1024GiB",  # no sample, which would be on a slow path
        "POOLSHIM_PROFILE_SEED": "1",  # a logarithm takes more of some numbers than of others
    }
    expected = golden[key][case]
    each = instructions_per_call(build_dir, case, expected, **settings)
    assert is_level(each, expected), each


if __name__ == "__main__":
    table = {case: round(instructions_per_call(BUILD_DIR, case), 1) for case in CASES}
    json.dump({toolchain(BUILD_DIR): table}, sys.stdout, indent=2)
