# SPDX-License-Identifier: MIT
"""The bounds of instructions that tlsf.h states, in the states that take longest.

    scripts/test tests/pools/test_pools_tlsf.py       checks the bounds
    PYTHONPATH=tests python tests/pools/test_pools_tlsf.py             prints what each state takes
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import BUILD_DIR, ROOT
from instructions import count_instructions, require_valgrind, toolchain

MANUAL = ROOT / "pools" / "include" / "poolshim" / "tlsf.h"
CALLS = 64
# The case of tests/pools/tlsf_bound_test.c, and the function as the manual's table has it.
CASES = {
    "free-between-two": "ps_tlsf_free",
    "free-between-listed": "ps_tlsf_free",
    "free-alone": "ps_tlsf_free",
    "alloc-far": "ps_tlsf_alloc",
    "alloc-other-class": "ps_tlsf_alloc",
    "alloc-near": "ps_tlsf_alloc",
    "aligned-far": "ps_tlsf_alloc_aligned",
    "aligned-near": "ps_tlsf_alloc_aligned",
    "realloc-grow": "ps_tlsf_realloc, in place",
    "realloc-shrink": "ps_tlsf_realloc, in place",
}


def instructions_of(build: Path, case: str) -> float:
    """Instructions of one call in the case's state, with the call and the store of its result."""
    program = build / "tests" / "pools" / "tlsf_bound_test-c"
    with_call = count_instructions(program, case, str(CALLS), "call")
    without = count_instructions(program, case, str(CALLS), "rest")
    return (with_call - without) / CALLS


def stated_bounds() -> dict[str, int]:
    rows = re.findall(r"(ps_tlsf_\w+(?:, in place)?) +at most (\d+)", MANUAL.read_text())
    return {name: int(bound) for name, bound in rows}


def test_manual_states_a_bound_for_each_function() -> None:
    assert set(stated_bounds()) == set(CASES.values())


@pytest.mark.parametrize("case", CASES)
def test_call_stays_below_its_bound(build_dir: Path, case: str) -> None:
    require_valgrind()
    if toolchain(build_dir) != "x86_64 GCC 12 -O2 -g":
        pytest.skip(f"bounds are stated for another compiler than {toolchain(build_dir)}")
    assert 0 < instructions_of(build_dir, case) <= stated_bounds()[CASES[case]]


if __name__ == "__main__":
    for name in CASES:
        print(f"{name:24}{instructions_of(BUILD_DIR, name):8.1f}")
