# SPDX-License-Identifier: MIT
"""POOLSHIM_PROFILE: what the profile says that each call site has, against what the program knows.

    scripts/test tests/shim/test_profile.py
"""

from __future__ import annotations

import bisect
import functools
import gzip
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import elf, pprof, symbols  # noqa: E402

pytestmark = pytest.mark.preload

INTERVAL = 64 << 10
SEEDS = 100
TYPES = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "pinned_space"]
SAMPLED_TYPES = 4  # the first of them are sums over allocations
TWO_SIDED_95 = 1.96  # standard deviations
Exact = dict[str, list[tuple[int, int, int]]]  # of each site: bytes of a block, made, live


@pytest.fixture
def program(build_dir: Path) -> Path:
    return build_dir / "tests" / "scenarios" / "profiled_sites"


def settings(path: Path, seed: int = 0, interval: int = INTERVAL) -> dict[str, str]:
    return {
        "POOLSHIM_PROFILE": str(path),
        "POOLSHIM_PROFILE_INTERVAL": str(interval),
        "POOLSHIM_PROFILE_SEED": str(seed),
    }


def read(path: Path) -> pprof.Profile:
    """A profile, after checks of all that is true of any."""
    profile = pprof.read(path)
    assert [name for name, _ in profile.types] == TYPES
    assert [unit for _, unit in profile.types] == ["count", "bytes"] * 2 + ["bytes"]
    assert profile.default_type == "inuse_space" and profile.time_nanos > 0
    for sample in profile.samples:
        made, made_bytes, live, live_bytes, pinned = sample.values
        assert pinned == 0 or live > 0
        assert 0 <= live <= made and 0 <= live_bytes <= made_bytes and sample.locations
    stacks = [sample.locations for sample in profile.samples]
    assert len(stacks) == len(set(stacks))
    return profile


def exact_of(stdout: str) -> Exact:
    """What the program printed."""
    exact: Exact = defaultdict(list)
    for line in stdout.splitlines():
        name, size, made, live = line.split()
        exact[name].append((int(size), int(made), int(live)))
    return exact


@functools.cache
def functions_of(path: str) -> list[tuple[int, str]]:
    """Addresses and names of the functions of a file, ascending."""
    lines = run_captured(["nm", "-n", "--defined-only", path]).stdout.splitlines()
    rows = [line.split() for line in lines]
    return [(int(row[0], 16), row[2]) for row in rows if len(row) == 3 and row[1] in "tT"]


def function_at(location: pprof.Location, program: str) -> str:
    """The program's function at a place; elsewhere the name in the profile, or "". One process per
    test, where symbols.py has one a run."""
    if location.mapping is None or location.mapping.path != program:
        return location.names[0] if location.names else ""
    offset = symbols.offset_of(location, location.mapping)
    address = elf.read(Path(program)).address_at(offset)
    functions = functions_of(program)
    index = bisect.bisect_right(functions, (address, "\x7f")) - 1
    return functions[index][1]


def by_site(profile: pprof.Profile) -> dict[str, list[int]]:
    """The sums of all stacks in which a function is."""
    program = profile.mappings[0].path
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * len(TYPES))
    for sample in profile.samples:
        for name in {function_at(one, program) for one in sample.locations}:
            sums[name] = [a + b for a, b in zip(sums[name], sample.values, strict=True)]
    return sums


def deviations(sampled: list[int], rows: list[tuple[int, int, int]], interval: int) -> list[float]:
    """How many standard deviations the four figures of a site are off; 0 where both are exact."""
    found = []
    for live in (False, True):
        for in_bytes in (False, True):
            true = variance = 0.0
            for size, made, live_count in rows:
                count, unit = (live_count if live else made), (size if in_bytes else 1)
                hit = -math.expm1(-size / interval)
                true += count * unit
                variance += count * unit**2 * (1 - hit) / hit
            off = sampled[2 * live + in_bytes] - true
            slack = 0.5 + true * 1e-5  # of rounding
            found.append(math.copysign(max(abs(off) - slack, 0), off) / math.sqrt(variance + 1e-9))
    return found


@pytest.mark.parametrize("mode", ["known", "threads"])
def test_figures_are_within_their_intervals(
    run_shim: RunShim, tmp_path: Path, program: Path, mode: str
) -> None:
    def run(seed: int) -> dict[str, list[float]]:
        path = tmp_path / f"{seed}.pb.gz"
        result = run_shim([program, mode], env=settings(path, seed), timeout=120)
        assert (result.returncode, result.stderr) == (0, "")
        exact, sums = exact_of(result.stdout), by_site(read(path))
        assert len(exact) == 6
        return {name: deviations(sums[name], rows, INTERVAL) for name, rows in exact.items()}

    seeds = range(1, SEEDS + 1)
    with ThreadPoolExecutor(2) as executor:
        runs = list(executor.map(run, seeds))
    all_of_them = []
    for name in runs[0]:
        for kind in range(SAMPLED_TYPES):
            off = [run[name][kind] for run in runs]
            within = sum(abs(one) <= TWO_SIDED_95 for one in off)
            mean = sum(off) / SEEDS
            print(f"{name:13} {TYPES[kind]:13} {within} of {SEEDS} within, mean {mean:+.2f}")
            # Of a hundred, 95 are expected; fewer than 85 would be one chance in 27,000, and
            # there are some sixty figures.
            assert within >= 85, (name, TYPES[kind])
            assert abs(mean) * math.sqrt(SEEDS) < 4, (name, TYPES[kind], "biased")
            all_of_them += off
    assert sum(abs(one) <= TWO_SIDED_95 for one in all_of_them) >= 0.94 * len(all_of_them)


def test_without_sampling_figures_are_exact(
    run_shim: RunShim, tmp_path: Path, program: Path
) -> None:
    path = tmp_path / "h.pb.gz"
    env = {**settings(path, interval=1), "POOLSHIM_PROFILE_MAX": "1GiB"}
    result = run_shim([program], env=env)
    assert (result.returncode, result.stderr) == (0, "")
    sums = by_site(read(path))
    for name, rows in exact_of(result.stdout).items():
        made = sum(count for _, count, _ in rows)
        live = sum(count for _, _, count in rows)
        made_bytes = sum(size * count for size, count, _ in rows)
        live_bytes = sum(size * count for size, _, count in rows)
        assert sums[name][:SAMPLED_TYPES] == [made, made_bytes, live, live_bytes]


def test_pinned_memory_is_that_of_the_survivors(
    run_shim: RunShim, tmp_path: Path, build_dir: Path
) -> None:
    path = tmp_path / "h.pb.gz"
    program = build_dir / "tests" / "causes" / "survivors"
    result = run_shim([program, "1", "0"], env=settings(path, seed=1), timeout=120)
    assert (result.returncode, result.stderr) == (0, "")
    sums = by_site(read(path))
    pinned = {name: values[TYPES.index("pinned_space")] for name, values in sums.items()}
    assert pinned["remember_user"] > 40 << 20
    assert pinned["receive_message"] == 0


def test_totals_agree_with_exact_recording(
    run_shim: RunShim, tmp_path: Path, program: Path
) -> None:
    assert run_shim([program], env={"POOLSHIM_RECORD": str(tmp_path / "r.json")}).returncode == 0
    recording = json.loads((tmp_path / "r.json").read_text())
    totals = []
    for seed in range(1, 21):
        path = tmp_path / f"{seed}.pb.gz"
        assert run_shim([program], env=settings(path, seed)).returncode == 0
        totals.append(read(path).total("alloc_objects"))
    # The program has 20,000 blocks of 112 bytes at each of two sites, fewer of larger ones.
    mean = sum(totals) / len(totals)
    deviation = math.sqrt(40000 * INTERVAL / 112 / len(totals))
    assert abs(mean - recording["allocations"]) < 4 * deviation


def test_live_bytes_agree_with_exact_recording(
    run_shim: RunShim, tmp_path: Path, phases: Path
) -> None:
    """At the peak, which the profile's file is at most 5 % below."""
    assert run_shim([phases], env={"POOLSHIM_RECORD": str(tmp_path / "r.json")}).returncode == 0
    recording = json.loads((tmp_path / "r.json").read_text())
    env = {**settings(tmp_path / "h.pb.gz", 1), "POOLSHIM_PROFILE_PEAK": "1"}
    assert run_shim([phases], env=env).returncode == 0
    live = read(tmp_path / "h.pb.gz").total("inuse_space")
    assert recording["peak_live_bytes"] / 1.06 < live < recording["peak_live_bytes"] * 1.01


# Each allocation is sampled: in handlers of signals, in children of forks, in threads that are
# cancelled, while libraries are opened and closed.
HOSTILE = [
    "signals_in_malloc", "fork_in_signal_handlers_of_threads", "fork_by_many_threads",
    "cancelled_threads", "unwind_through_reopened_libraries", "heap_after_dlclose",
    "exit_while_threads_allocate", "key_destructors_rearm", "main_thread_ends_first",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_programs_that_do_much_at_once(
    run_shim: RunShim, tmp_path: Path, build_dir: Path, name: str
) -> None:
    env = settings(tmp_path / "%p.pb.gz", interval=1)
    result = run_shim([build_dir / "tests" / "scenarios" / name], env=env, timeout=300)
    assert (result.returncode, result.stderr) == (0, "")
    profiles = [read(path) for path in tmp_path.iterdir()]
    assert sum(profile.total("alloc_objects") for profile in profiles) > 0


def test_the_same_seed_gives_the_same_samples(
    run_shim: RunShim, tmp_path: Path, program: Path
) -> None:
    found = []
    for number, seed in enumerate((7, 7, 8)):
        path = tmp_path / f"{number}.pb.gz"
        assert run_shim([program], env=settings(path, seed)).returncode == 0
        found.append(sorted(sample.values for sample in read(path).samples))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("name", ["h.pb.gz", "%p.pb.gz"])
def test_child_of_a_fork_writes_only_a_file_of_its_own(
    run_shim: RunShim, tmp_path: Path, program: Path, name: str
) -> None:
    result = run_shim([program, "fork"], env=settings(tmp_path / name, 1))
    assert (result.returncode, result.stderr) == (0, "")
    profiles = [by_site(read(path)) for path in tmp_path.iterdir()]
    children = [sums for sums in profiles if sums["keep_in_child"][3] >= 8000000]
    assert len(profiles) == (2 if "%p" in name else 1)
    assert len(children) == len(profiles) - 1
    for sums in profiles:  # the child has its parent's blocks
        assert sums["keep_large"][3] > 0


def test_the_program_writes_a_profile_itself(
    run_shim: RunShim, tmp_path: Path, program: Path
) -> None:
    env = settings(tmp_path / "exit.pb.gz")
    result = run_shim([program, "write", tmp_path / "now.pb.gz"], env=env)
    assert (result.returncode, result.stderr) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exit.pb.gz", "now.pb.gz"]
    assert by_site(read(tmp_path / "now.pb.gz"))["keep_large"][3] > 0
    result = run_shim([program, "write", tmp_path / "now.pb.gz"])
    assert "poolshim_profile_write: Operation not supported" in result.stderr


@pytest.fixture
def phases(build_dir: Path) -> Path:
    return build_dir / "tests" / "scenarios" / "profiled_phases"


PEAK_BYTES = 40 << 20


@pytest.mark.parametrize("mode", ["peak", "fork"])
def test_the_file_is_the_last_peaks(
    run_shim: RunShim, tmp_path: Path, phases: Path, mode: str
) -> None:
    env = {**settings(tmp_path / "%p.pb.gz", 1), "POOLSHIM_PROFILE_PEAK": "1"}
    result = run_shim([phases, mode], env=env)
    assert (result.returncode, result.stderr) == (0, "")
    files = [by_site(read(path)) for path in tmp_path.iterdir()]
    assert len(files) == (2 if mode == "fork" else 1)
    peak = max(files, key=lambda sums: sums["hold_at_peak"][3])
    assert 0.9 * PEAK_BYTES < peak["hold_at_peak"][3] < 1.1 * PEAK_BYTES
    assert not any(peak["hold_at_end"])


def test_each_peak_has_a_file_of_its_own(run_shim: RunShim, tmp_path: Path, phases: Path) -> None:
    env = {**settings(tmp_path / "%n.pb.gz", 1), "POOLSHIM_PROFILE_PEAK": "1"}
    assert run_shim([phases], env=env).returncode == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"{number:04}.pb.gz" for number in range(1, len(names) + 1)]
    live = [by_site(read(tmp_path / name))["hold_at_peak"][3] for name in names]
    *peaks, end = live
    assert 10 < len(peaks) < 80  # 1.05**80 is the whole growth, from 8 samples
    assert all(after > 1.05 * before for before, after in zip(peaks, peaks[1:], strict=False))
    assert peaks[-1] > 0.9 * PEAK_BYTES and end == 0


def test_small_programs_have_the_profile_of_their_exit(
    run_shim: RunShim, tmp_path: Path, phases: Path
) -> None:
    env = {**settings(tmp_path / "h.pb.gz", 1, 64 << 20), "POOLSHIM_PROFILE_PEAK": "1"}
    assert run_shim([phases], env=env).returncode == 0
    assert by_site(read(tmp_path / "h.pb.gz"))["hold_at_peak"][3] == 0


@pytest.mark.parametrize("mode", ["busy", "silent"])
def test_files_every_so_often(
    run_shim: RunShim, tmp_path: Path, phases: Path, mode: str
) -> None:
    """The program ends when it sees the second."""
    env = {**settings(tmp_path / "h.%n", 1), "POOLSHIM_PROFILE_EVERY": "1s"}
    result = run_shim([phases, mode, tmp_path / "h.0002"], env=env, timeout=100)
    assert (result.returncode, result.stderr) == (0, "")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:3] == ["h.0001", "h.0002", "h.0003"]
    site = "hold_at_peak" if mode == "busy" else "hold_at_end"
    assert by_site(read(tmp_path / "h.0001"))[site][1] > 0


def test_files_that_cannot_be_written_meanwhile_are_told_once(
    run_shim: RunShim, tmp_path: Path, phases: Path
) -> None:
    env = {**settings(tmp_path / "none" / "h.%n", 1), "POOLSHIM_PROFILE_PEAK": "1"}
    result = run_shim([phases], env=env)
    assert result.returncode == 0
    assert result.stderr.count("cannot write") == result.stderr.count("\n") == 1


@pytest.mark.parametrize("other", ["HARDEN", "GUARD_SAMPLE", "RECORD"])
def test_another_mode_wins(
    run_shim: RunShim, tmp_path: Path, program: Path, other: str
) -> None:
    value = str(tmp_path / "r.json") if other == "RECORD" else "1"
    env = {"POOLSHIM_PROFILE": str(tmp_path / "h.pb.gz"), f"POOLSHIM_{other}": value}
    result = run_shim([program], env=env)
    assert result.returncode == 0
    assert result.stderr == (
        f"poolshim: POOLSHIM_PROFILE: there is no profile while POOLSHIM_{other} is on\n"
    )
    assert not (tmp_path / "h.pb.gz").exists()


def test_no_room_is_said(run_shim: RunShim, tmp_path: Path, program: Path) -> None:
    path = tmp_path / "h.pb.gz"
    env = {**settings(path, interval=100), "POOLSHIM_PROFILE_MAX": "64KiB"}
    result = run_shim([program], env=env)
    assert (result.returncode, result.stderr) == (0, "")
    assert any("did not fit POOLSHIM_PROFILE_MAX" in text for text in read(path).comments)


def test_a_program_that_opens_libraries(run_shim: RunShim, tmp_path: Path) -> None:
    script = "import ctypes, decimal, ssl, sqlite3; x = [str(i) for i in range(200000)]"
    env = {**settings(tmp_path / "h.pb.gz"), "PYTHONMALLOC": "malloc"}
    result = run_shim([sys.executable, "-S", "-c", script], env=env)
    assert (result.returncode, result.stderr) == (0, "")
    profile = read(tmp_path / "h.pb.gz")
    sites = {one for sample in profile.samples for one in sample.locations if one.address}
    found = [one for one in sites if one.mapping is not None]
    assert len(found) > 0.95 * len(sites)
    assert all(len(mapping.build_id) % 2 == 0 for mapping in profile.mappings)


def test_it_is_a_gzip_file(run_shim: RunShim, tmp_path: Path, program: Path) -> None:
    path = tmp_path / "h.pb.gz"
    assert run_shim([program], env=settings(path)).returncode == 0
    assert len(gzip.decompress(path.read_bytes())) > 1000  # which checks its sum


def go_pprof() -> list[str]:
    """The original reader of the format; skips where it is not installed."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if go is None:
        pytest.skip("go is not installed")
    return [go, "tool", "pprof"]


def test_pprof_itself_reads_it(run_shim: RunShim, tmp_path: Path, program: Path) -> None:
    command = go_pprof()
    path = tmp_path / "h.pb.gz"
    result = run_shim([program], env=settings(path, 1))
    assert result.returncode == 0
    env = {**os.environ, "PPROF_TMPDIR": str(tmp_path)}
    arguments = ["-symbolize=local", "-top", "-unit=B", "-nodecount=50"]
    try:  # the first call of a new installation compiles it
        done = run_captured([*command, *arguments, path], timeout=500, env=env)
    except subprocess.TimeoutExpired:
        pytest.skip("go tool pprof does not start")
    assert done.returncode == 0, done.stderr
    assert "Type: inuse_space" in done.stdout
    shown = re.search(r"^\s*(\d+)B\s.*\bkeep_large\b", done.stdout, re.MULTILINE)
    cumulative = re.search(r"(\d+)B\s+[\d.]+%\s+keep_large", done.stdout)
    assert shown or cumulative, done.stdout
    assert cumulative and int(cumulative[1]) == by_site(read(path))["keep_large"][3]


def test_pprof_itself_reads_lines(shim: Path, tmp_path: Path) -> None:
    """Of a Python program, with the names of its functions as they are."""
    command = go_pprof()
    path, script = tmp_path / "h.pb.gz", tmp_path / "leak.py"
    script.write_text("def leak_here():\n    return bytearray(10000000)\nleak_here()\n")
    env = {**os.environ, **settings(path, 1), "LD_PRELOAD": str(shim)}
    assert run_captured([sys.executable, script], env=env).returncode == 0
    env = {**os.environ, "PPROF_TMPDIR": str(tmp_path)}
    arguments = ["-symbolize=none", "-traces", "-lines", "-sample_index=alloc_space"]
    try:
        done = run_captured([*command, *arguments, path], timeout=500, env=env)
    except subprocess.TimeoutExpired:
        pytest.skip("go tool pprof does not start")
    lines = [line.split() for line in done.stdout.splitlines()]
    at = lines.index(["leak_here", f"{script}:2"])
    assert lines[at + 1] == ["<module>", f"{script}:3"]
