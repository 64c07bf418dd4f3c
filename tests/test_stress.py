# SPDX-License-Identifier: MIT
"""The randomised multi-threaded checker under the shim, and proof that it finds what is broken.

    scripts/test tests/test_stress.py          (the full run: more than 10^8 operations)
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from conftest import RunShim, run_captured

QUICK_OPERATIONS = 3_000_000

# operations, threads, forks, MiB live at most; seeds are the position in this list.
FULL_RUNS = [
    (40_000_000, 4, 0, 256),
    (30_000_000, 2, 10, 512),
    (20_000_000, 16, 20, 128),
    (10_000_000, 64, 10, 256),
    (10_000_000, 1, 10, 64),
    (10_000_000, 4, 60, 32),
]

SETTINGS = [
    {"POOLSHIM_PURGE_DELAY_MS": "0"},
    {"POOLSHIM_CACHE_MAX": "0", "POOLSHIM_MMAP_MIN": "128K"},
    {"POOLSHIM_SIZE_CLASSES": "8,16,48,112,1008,4080", "POOLSHIM_SMALL_MAX": "8K"},
    {"POOLSHIM_SMALL_MAX": "1K"},
    {"POOLSHIM_THP": "always"},
    {"POOLSHIM_THP": "never"},
]

# The bug of lib/broken_heap.c, and how the checker names it.
PLANTED = {
    "overlap": r"overlap: \w+ of \d+ bytes returned 0x\w+ \(\d+ usable\), live already at 0x\w+",
    "race": r"overlap: \w+ of 48 bytes|lost: block|damaged while live",
    "misaligned": r"misaligned: malloc of \d+ bytes returned 0x\w+, not aligned to 16",
    "dirty": r"not zero: calloc of \d+ bytes returned 0x\w+, dirty at offset \d+",
    "lying": r"short: \w+ of \d+ bytes .* 0 usable|usable size of 0x\w+ changed from \d+ to 0",
    "damage": r"damaged while live: block 0x\w+ of \d+ bytes .*, at offset 8",
    "lost": r"damaged by realloc: 0x\w+ of \d+ bytes to 0x\w+ of \d+ bytes, at offset 0",
    "no-memory": r"out of memory: \w+ of \d+ bytes returned NULL",
    "errno": r"free of 0x\w+ \(\d+ bytes\) set errno to 22",
    "child": r"fork child 0 died by signal 6",
}


def checker_command(
    build_dir: Path, operations: int, seed: int, threads: int, forks: int = 0, live_mib: int = 256
) -> list[str]:
    program = build_dir / "tests" / "stress" / "checker"
    return [
        str(program), f"--ops={operations}", f"--seed={seed}", f"--threads={threads}",
        f"--fork={forks}", f"--max-live-bytes={live_mib << 20}",
    ]  # fmt: skip


def assert_clean(result: subprocess.CompletedProcess[str], operations: int) -> None:
    if result.returncode == 77:
        pytest.skip(result.stderr.strip())
    assert result.returncode == 0, result.stderr[-2000:]
    done = re.search(r"^operations: (\d+)$", result.stdout, re.MULTILINE)
    assert done and int(done[1]) >= operations
    assert "poolshim:" not in result.stderr


@pytest.mark.preload
def test_quick_run_finds_nothing(build_dir: Path, run_shim: RunShim) -> None:
    command = checker_command(build_dir, QUICK_OPERATIONS, seed=1, threads=4, forks=8)
    assert_clean(run_shim(command, timeout=120), QUICK_OPERATIONS)


@pytest.mark.preload
@pytest.mark.parametrize("seed", [21, 22])
def test_thousands_of_short_threads_find_nothing(
    build_dir: Path, run_shim: RunShim, seed: int
) -> None:
    operations = 400_000
    command = checker_command(build_dir, operations, seed, threads=6, live_mib=64)
    assert_clean(run_shim([*command, "--short"], timeout=120), operations)


@pytest.mark.slow
@pytest.mark.preload
@pytest.mark.parametrize("seed", range(len(FULL_RUNS)))
def test_full_run_finds_nothing(build_dir: Path, run_shim: RunShim, seed: int) -> None:
    operations, threads, forks, live_mib = FULL_RUNS[seed]
    command = checker_command(build_dir, operations, seed, threads, forks, live_mib)
    assert_clean(run_shim(command, timeout=600), operations)


def test_full_run_is_a_hundred_million_operations() -> None:
    assert sum(operations for operations, *_ in FULL_RUNS) >= 10**8


@pytest.mark.preload
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(s)[len("POOLSHIM_") :])
def test_settings_find_nothing(
    build_dir: Path, run_shim: RunShim, settings: dict[str, str]
) -> None:
    operations = 600_000
    command = checker_command(build_dir, operations, seed=11, threads=3, forks=2, live_mib=64)
    assert_clean(run_shim(command, env=settings, timeout=120), operations)


def test_checker_finds_nothing_in_libc(build_dir: Path, run_shim: RunShim) -> None:
    """What the checker expects is what malloc promises, not what poolshim happens to do."""
    operations = 600_000
    command = checker_command(build_dir, operations, seed=3, threads=4, forks=4)
    assert_clean(run_shim(command, preload=False, timeout=120), operations)


@pytest.mark.compare
@pytest.mark.parametrize("library", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
def test_checker_finds_nothing_in_other_allocators(build_dir: Path, library: str) -> None:
    found = sorted(Path("/usr/lib").glob(f"*/{library}"))
    if not found:
        pytest.skip(f"{library} is not installed")
    operations = 600_000
    command = checker_command(build_dir, operations, seed=4, threads=4)
    environment = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(found[0])}
    assert_clean(run_captured([*command, "--plain"], 120, env=environment), operations)


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bug_is_found(build_dir: Path, bug: str) -> None:
    library = build_dir / "tests" / "scenarios" / "libbroken_heap.so"
    command = checker_command(build_dir, QUICK_OPERATIONS, seed=1, threads=4, forks=2)
    environment = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(library), "BROKEN_HEAP": bug}
    result = run_captured(command, 120, env=environment)
    assert result.returncode == 1, result.stderr[-2000:]
    assert re.search(r"^checker: seed 1 thread \d+ op \d+: ", result.stderr, re.MULTILINE)
    assert re.search(PLANTED[bug], result.stderr), result.stderr
