# SPDX-License-Identifier: MIT
"""The randomised multi-threaded checker under the shim, and proof that it finds broken heaps.

    scripts/test tests/stress/test_stress.py          (the full run: more than 10^8 operations)
    scripts/dev/stress                             (10^9 and more)
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured

QUICK_OPERATIONS = 3_000_000
CHECKED = ROOT / "build" / "debug" / "libpoolshim.so"


def read_settings() -> list[dict[str, str]]:
    rows = []
    for line in (ROOT / "tests/stress/settings.txt").read_text().splitlines():
        if not line.startswith("#"):
            pairs = dict(word.split("=", 1) for word in line.split())
            rows.append({f"POOLSHIM_{name}": value for name, value in pairs.items()})
    return rows


SETTINGS = read_settings()

# operations, threads, forks, MiB live at most; seeds are the position in this list. A share of the
# operations is spread over the settings.
FULL_RUNS = [
    (20_000_000, 4, 0, 256),
    (15_000_000, 2, 10, 512),
    (10_000_000, 16, 20, 128),
    (8_000_000, 64, 10, 256),
    (6_000_000, 1, 10, 64),
    (6_000_000, 4, 60, 32),
]
SETTINGS_OPERATIONS = 36_000_000 // len(SETTINGS)

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


def setting_name(settings: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in settings.items()).replace("POOLSHIM_", "")


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


# With 8 MiB of addresses beside what the checker has at its start.
EXHAUSTED: list[dict[str, str]] = [
    {},
    *({"POOLSHIM_HARDEN": level} for level in "123"),
    {"POOLSHIM_RECORD": "/dev/null"},
    {"POOLSHIM_GUARD_SAMPLE": "100"},
]


@pytest.mark.preload
@pytest.mark.parametrize("settings", EXHAUSTED, ids=setting_name)
def test_exhausted_memory_finds_nothing(
    build_dir: Path, run_shim: RunShim, settings: dict[str, str]
) -> None:
    operations, threads = 100_000, 4 if settings else 12
    command = checker_command(build_dir, operations, 31, threads, forks=2, live_mib=400)
    result = run_shim([*command, f"--spare={8 << 20}"], env=settings, timeout=120)
    assert_clean(result, operations)  # some 10 to 90,000 requests were refused


@pytest.mark.nightly
@pytest.mark.preload
@pytest.mark.parametrize("seed", range(len(FULL_RUNS)))
def test_full_run_finds_nothing(build_dir: Path, run_shim: RunShim, seed: int) -> None:
    operations, threads, forks, live_mib = FULL_RUNS[seed]
    command = checker_command(build_dir, operations, seed, threads, forks, live_mib)
    assert_clean(run_shim(command, timeout=600), operations)


@pytest.mark.nightly
@pytest.mark.preload
@pytest.mark.parametrize("settings", SETTINGS, ids=setting_name)
def test_full_run_of_settings_finds_nothing(
    build_dir: Path, run_shim: RunShim, settings: dict[str, str]
) -> None:
    seed = 100 + SETTINGS.index(settings)
    command = checker_command(build_dir, SETTINGS_OPERATIONS, seed, threads=2, forks=6, live_mib=96)
    assert_clean(run_shim(command, env=settings, timeout=600), SETTINGS_OPERATIONS)


def test_full_run_is_a_hundred_million_operations() -> None:
    in_settings = SETTINGS_OPERATIONS * len(SETTINGS)
    assert sum(operations for operations, *_ in FULL_RUNS) + in_settings >= 10**8


@pytest.mark.preload
@pytest.mark.parametrize("settings", SETTINGS, ids=setting_name)
def test_settings_find_nothing(
    build_dir: Path, run_shim: RunShim, settings: dict[str, str]
) -> None:
    operations = 300_000
    command = checker_command(build_dir, operations, seed=11, threads=3, forks=2, live_mib=64)
    assert_clean(run_shim(command, env=settings, timeout=120), operations)


@pytest.mark.nightly  # scripts/test --all has the build
@pytest.mark.parametrize("settings", [{}, *SETTINGS], ids=setting_name)
def test_settings_find_nothing_in_a_checked_build(
    build_dir: Path, settings: dict[str, str]
) -> None:
    """More threads than processors, whose heaps are taken from each other; assertions are on."""
    if not CHECKED.exists():
        pytest.skip("build/debug is not built")
    operations = 400_000
    command = checker_command(build_dir, operations, seed=12, threads=16, forks=2, live_mib=48)
    environment = {"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(CHECKED), **settings}
    assert_clean(run_captured(command, 120, env=environment), operations)


def test_checker_finds_nothing_in_libc(build_dir: Path, run_shim: RunShim) -> None:
    """What the checker expects is what malloc guarantees, not what poolshim happens to do."""
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


@pytest.mark.preload
def test_the_long_run_sums_up_in_one_line(build_dir: Path) -> None:
    command = [
        ROOT / "scripts" / "dev" / "stress", "--ops=200000", "--seed=7", f"--build={build_dir}"
    ]
    result = run_captured(command, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    last = result.stdout.splitlines()[-1]
    pattern = r"stress: seed 7, (\d+) operations in 1 rounds, \d+ threads, .* 0 findings, \d+ s"
    found = re.fullmatch(pattern, last)
    assert found and int(found[1]) >= 200_000, last


def test_the_long_run_says_how_to_repeat_a_finding(build_dir: Path, tmp_path: Path) -> None:
    """A build whose allocator is the one with planted bugs."""
    (tmp_path / "tests" / "stress").mkdir(parents=True)
    (tmp_path / "tests/stress/checker").symlink_to(build_dir / "tests/stress/checker")
    (tmp_path / "libpoolshim.so").symlink_to(build_dir / "tests/scenarios/libbroken_heap.so")
    command = [ROOT / "scripts" / "dev" / "stress", "--ops=1e6", f"--build={tmp_path}"]
    environment = {"PATH": "/usr/bin:/bin", "BROKEN_HEAP": "overlap"}
    result = run_captured(command, timeout=120, env=environment)
    assert result.returncode == 1, result.stdout + result.stderr
    assert re.search(r"^checker: seed 1 thread \d+ op \d+: overlap: ", result.stdout, re.MULTILINE)
    assert re.search(r"^  repeat: .*LD_PRELOAD=.* --seed=1 ", result.stdout, re.MULTILINE)
    assert " 1 findings, " in result.stdout.splitlines()[-1]
