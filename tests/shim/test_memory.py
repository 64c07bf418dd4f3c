# SPDX-License-Identifier: MIT
"""What poolshim itself costs: resident memory of small programs, measured by the launcher.

    scripts/test tests/shim/test_memory.py

A launcher in C, because ru_maxrss of a child that Python starts is Python's own.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import median_low

import pytest
from conftest import run_captured
from under_shim import need

pytestmark = pytest.mark.preload

# Half of it is the library's own file, which processes share; 51 KiB of that came with hardening, 8
# with recording, 28 with heaps that are taken from idle threads and purging in steps, 16 with
# medium blocks, 40 with fronts, 96 with allocation tokens and the functions of other allocators.
# How much of a file a fault maps depends on the sizes of folios in the page cache: 332 to 492 KiB
# were measured with copies of the same library.
START_KIB_MAX = 740
ROUNDS = 15


def peak_rss_kib(build_dir: Path, shim: Path | None, command: list[str], result: Path) -> int:
    """Peak RSS of one run, with the proof that the shim was or was not in it."""
    words = [str(build_dir / "scripts" / "launcher"), "-o", str(result)]
    if shim:
        words += ["--env", f"LD_PRELOAD={shim}", "--expect-mapped", str(shim)]
    run = run_captured([*words, "--", *command], 60, env={"PATH": "/usr/bin:/bin"})
    assert run.returncode == 0, run.stderr
    measured = json.loads(result.read_text())
    if not measured["has_maps"]:
        pytest.skip("the launcher may not look into its child here")
    return int(measured["peak_rss_kib"])


def usual_rss_kib(build_dir: Path, shim: Path | None, command: list[str], folder: Path) -> int:
    """The median of several on one processor: the kernel counts pages per processor, in batches."""
    result, allowed = folder / "result.json", os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        return median_low(peak_rss_kib(build_dir, shim, command, result) for _ in range(ROUNDS))
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("command", [["/bin/true"], ["/bin/ls", "/"], ["/bin/sh", "-c", ":"]])
def test_small_programs_stay_small(
    build_dir: Path, shim: Path, tmp_path: Path, command: list[str]
) -> None:
    need(command[0])
    plain = usual_rss_kib(build_dir, None, command, tmp_path)
    shimmed = usual_rss_kib(build_dir, shim, command, tmp_path)
    print(f"{' '.join(command)}: {plain} KiB plain, {shimmed} KiB under the shim")
    assert shimmed - plain <= START_KIB_MAX


def test_launcher_sees_what_a_program_costs(build_dir: Path, shim: Path, tmp_path: Path) -> None:
    """The measurement can fail: a program that touches 64 MiB shows them."""
    command = ["/usr/bin/env", "python3", "-c", "b = b'x' * (64 << 20)"]
    need("python3")
    idle = ["/usr/bin/env", "python3", "-c", "pass"]
    result = tmp_path / "result.json"
    grown = peak_rss_kib(build_dir, shim, command, result)
    assert grown - peak_rss_kib(build_dir, shim, idle, result) >= 60 << 10
