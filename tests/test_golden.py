# SPDX-License-Identifier: MIT
"""Instructions per call of the hit paths, exactly as written in golden/hit_paths.json.

A new branch on the way of every malloc or free shows here, however small. The numbers hold for one
compiler and include the caller's loop and the call through the PLT. After a change that is meant:

    scripts/test tests/test_golden.py       says what changed
    python tests/test_golden.py             prints the table for the file
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
from pathlib import Path

import pytest
from conftest import BUILD_DIR, ROOT, run_captured

GOLDEN = ROOT / "tests" / "golden" / "hit_paths.json"
CASES = [
    "malloc_virgin",
    "malloc_freed",
    "free_scattered",
    "free_in_order",
    "free_null",
    "pair_64",
    "pair_2000",
]
FEW, MANY = 150, 200  # calls; as many digits, so that all else is equal


def count_instructions(program: Path, library: Path, case: str, calls: int) -> int:
    """All instructions of the process, start-up included."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(library)}
    result = run_captured([*command, program, case, str(calls)], env=environment)
    assert result.returncode == 0, result.stderr
    found = re.search(r"I\s+refs:\s+([\d,]+)", result.stderr)
    assert found, result.stderr
    return int(found[1].replace(",", ""))


def instructions_per_call(build: Path, case: str) -> float:
    program = build / "tests" / "scenarios" / "hit_paths"
    library = build / "libpoolshim.so"
    few = count_instructions(program, library, case, FEW)
    many = count_instructions(program, library, case, MANY)
    return (many - few) / (MANY - FEW)


def toolchain(build: Path) -> str:
    """As the golden file names it: processor, compiler with its major version, optimisation."""
    comment = run_captured(["readelf", "-p", ".comment", build / "libpoolshim.so"]).stdout
    compiler = re.search(r"(GCC|clang)[^\n]*?(\d+)\.\d+\.\d+", comment)
    cache = (build / "CMakeCache.txt").read_text()
    kind = re.search(r"^CMAKE_BUILD_TYPE:\w+=(\w*)", cache, re.MULTILINE)
    flags = re.search(r"^CMAKE_C_FLAGS_RELEASE:\w+=(.*)", cache, re.MULTILINE)
    options = flags[1] if flags and kind and kind[1] == "Release" else "other"
    name = f"{compiler[1]} {compiler[2]}" if compiler else "unknown"
    return f"{platform.machine()} {name} {options}"


@pytest.mark.parametrize("case", CASES)
def test_hit_path_takes_as_many_instructions_as_written(build_dir: Path, case: str) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    golden = json.loads(GOLDEN.read_text())
    key = toolchain(build_dir)
    if key not in golden:
        pytest.skip(f"no golden numbers for {key}")
    assert instructions_per_call(build_dir, case) == golden[key][case]


if __name__ == "__main__":
    table = {case: instructions_per_call(BUILD_DIR, case) for case in CASES}
    json.dump({toolchain(BUILD_DIR): table}, sys.stdout, indent=2)
