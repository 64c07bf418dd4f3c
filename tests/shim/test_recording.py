# SPDX-License-Identifier: MIT
"""POOLSHIM_RECORD: what the file says was live, against what the program knows that it had.

    scripts/test tests/shim/test_recording.py
"""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import RunShim
from instructions import count_instructions, require_valgrind
from table import each_row
from under_shim import need

pytestmark = pytest.mark.preload

# What tests/scenarios/recorded_mix.c has at its peak, by rounded size.
KNOWN = {32: 1000, 208: 500, 5008: 3, 48: 10, 128: 7, 3008: 1, 30000: 1, 144: 2}
SETTINGS: list[dict[str, str]] = [
    {},
    {"POOLSHIM_SIZE_CLASSES": "16,64,1024,65536"},
    {"POOLSHIM_SIZE_CLASSES": "8,16,48,112,1008,4080", "POOLSHIM_SMALL_MAX": "32K"},
    {"POOLSHIM_PURGE_DELAY_MS": "0", "POOLSHIM_CACHE_MAX": "0", "POOLSHIM_MMAP_MIN": "128K"},
]


@pytest.fixture
def program(build_dir: Path) -> Path:
    return build_dir / "tests" / "scenarios" / "recorded_mix"


def read(path: Path) -> dict[str, Any]:
    """A recording, after checks of all that is true of any."""
    value: dict[str, Any] = json.loads(path.read_text())
    assert value["poolshim_recording"] == 2
    assert len(value["size_classes"]) == len(value["slab_bytes"])
    assert value["limit_bytes"] == value["small_max_bytes"] == value["size_classes"][-1]
    assert value["peaks"] and value["peak_live_bytes"] == value["peaks"][0]["live_bytes"]
    heights = [peak["live_bytes"] for peak in value["peaks"]]
    assert heights == sorted(heights, reverse=True) and len(heights) <= 8
    for peak in value["peaks"]:
        sizes = [size for size, count in peak["sizes"] if count > 0]
        assert sizes == sorted(set(sizes)) and len(sizes) == len(peak["sizes"])
        assert all(size == 8 or size % 16 == 0 for size in sizes)
        small = sum(size * count for size, count in totals(peak).items())
        assert small + peak["larger"]["bytes"] == peak["live_bytes"]
    made = sum(count for _, count in value["requests"]) + value["larger"]["count"]
    assert made == value["allocations"]
    return value


def totals(peak: dict[str, Any]) -> Counter[int]:
    """Blocks of each size."""
    return Counter(dict(peak["sizes"]))


def rounded(size: int) -> int:
    return 8 if size <= 8 else -(-size // 16) * 16


@pytest.mark.parametrize(
    ("mode", "settings"),
    [("hold", {}), *(("known", settings) for settings in SETTINGS)],
    ids=lambda value: value if isinstance(value, str) else " ".join(value.values()) or "default",
)
def test_peak_has_what_the_program_had(
    run_shim: RunShim, tmp_path: Path, program: Path, settings: dict[str, str], mode: str
) -> None:
    env = {"POOLSHIM_RECORD": str(tmp_path / "r.json"), **settings}
    result = run_shim([program, mode], env=env)
    assert (result.returncode, result.stderr) == (0, "")
    recording = read(tmp_path / "r.json")
    assert recording["command"] == [str(program), mode]
    highest = totals(recording["peaks"][0])
    assert {size: highest[size] for size in KNOWN} == KNOWN
    requests = dict(recording["requests"])
    assert requests[16] >= 1 and requests[1008] >= 1 and requests[64] >= 1, "of realloc's chain"
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"], "no temporary file is left"


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: " ".join(settings) or "default")
def test_the_largest_class_without_recording_is_named(
    run_shim: RunShim, tmp_path: Path, program: Path, settings: dict[str, str]
) -> None:
    """It is that of the statistics of a run that is not recorded."""
    stats, recording = tmp_path / "stats.json", tmp_path / "r.json"
    for env in ({"POOLSHIM_STATS": str(stats)}, {"POOLSHIM_RECORD": str(recording)}):
        assert run_shim([program, "known"], env={**env, **settings}).returncode == 0
    classes = json.loads(stats.read_text())["size_classes"]
    assert read(recording)["usual_max_bytes"] == max(one["block_bytes"] for one in classes)


@pytest.mark.parametrize("settings", SETTINGS[:2], ids=["default", "classes"])
def test_blocks_of_many_threads_add_up(
    run_shim: RunShim, tmp_path: Path, program: Path, settings: dict[str, str]
) -> None:
    def run(path: Path) -> Counter[int]:
        """What the program says that it had at its end, by rounded size."""
        env = {"POOLSHIM_RECORD": str(path), **settings}
        result = run_shim([program, "crowd"], env=env, timeout=120)
        assert (result.returncode, result.stderr) == (0, "")
        return Counter(rounded(int(line)) for line in result.stdout.split())

    # Eight at a time: threads are preempted anywhere, also while they take a snapshot or end.
    paths = [tmp_path / f"{i}.json" for i in range(8)]
    with ThreadPoolExecutor(8) as executor:
        wanted = list(executor.map(run, paths))
    for path, blocks in zip(paths, wanted, strict=True):
        peaks = [totals(peak) for peak in read(path)["peaks"]]
        surplus = {size: peaks[0][size] - blocks[size] for size in {*peaks[0], *blocks}}
        assert all(0 <= extra <= 64 for extra in surplus.values()), surplus
        # Beside the program's own there are libc's: the buffer of stdout, a block for each thread.
        assert sum(surplus.values()) <= 3 * 32
        most = 2048 + 2 * 32 + 3 * 32  # its slots, and what threads have in hand
        assert all(peak.total() <= most for peak in peaks), [peak.total() for peak in peaks]


@pytest.mark.parametrize("name", ["r.json", "r.%p.json"])
def test_child_of_a_fork_writes_only_a_file_of_its_own(
    run_shim: RunShim, tmp_path: Path, program: Path, name: str
) -> None:
    result = run_shim([program, "fork"], env={"POOLSHIM_RECORD": str(tmp_path / name)})
    assert (result.returncode, result.stderr) == (0, "")
    recordings = [read(path) for path in tmp_path.iterdir()]
    children = [r for r in recordings if totals(r["peaks"][0])[304] >= 777]
    parents = [r for r in recordings if totals(r["peaks"][0])[304] < 777]
    assert len(parents) == 1 and len(children) == (1 if "%p" in name else 0)
    for recording in recordings:  # the child has its parent's blocks
        highest = totals(recording["peaks"][0])
        assert {size: highest[size] for size in KNOWN} == KNOWN


def test_program_after_exec_has_a_recording_of_its_own(
    run_shim: RunShim, tmp_path: Path, program: Path
) -> None:
    script = 'i=0; while [ $i -lt 100 ]; do i=$((i+1)); done; exec "$0" known'
    env = {"POOLSHIM_RECORD": str(tmp_path / "%p.json")}
    result = run_shim(["/bin/sh", "-c", script, program], env=env)
    assert (result.returncode, result.stderr) == (0, "")
    (path,) = tmp_path.iterdir()
    assert read(path)["command"] == [str(program), "known"]


def test_relative_name_means_the_directory_at_the_start(run_shim: RunShim, tmp_path: Path) -> None:
    script = "import os; os.chdir('/'); os.closerange(0, 5000)"
    command = [sys.executable, "-S", "-c", script]
    result = run_shim(command, env={"POOLSHIM_RECORD": "here.json"}, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert read(tmp_path / "here.json")["command"] == command


@pytest.mark.parametrize(
    ("other", "why"), [("HARDEN", "HARDEN"), ("GUARD_SAMPLE", "GUARD_SAMPLE")]
)
def test_safety_wins_over_recording(
    run_shim: RunShim, tmp_path: Path, program: Path, other: str, why: str
) -> None:
    env = {"POOLSHIM_RECORD": str(tmp_path / "r.json"), f"POOLSHIM_{other}": "1"}
    result = run_shim([program], env=env)
    assert result.returncode == 0
    assert result.stderr == (
        f"poolshim: POOLSHIM_RECORD: nothing is recorded while POOLSHIM_{why} is on\n"
    )
    assert not list(tmp_path.iterdir())


@each_row("value", ["0", "off", "false"])
def test_words_that_mean_off(
    run_shim: RunShim, tmp_path: Path, program: Path, value: str
) -> None:
    result = run_shim([program], env={"POOLSHIM_RECORD": value}, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


def test_a_word_that_means_on_names_no_file(run_shim: RunShim, program: Path) -> None:
    result = run_shim([program], env={"POOLSHIM_RECORD": "1"})
    assert result.stderr == (
        'poolshim: POOLSHIM_RECORD: "1" is not a file name; using off\n'
    )


def test_statistics_and_recording_are_both_written(
    run_shim: RunShim, tmp_path: Path, program: Path
) -> None:
    env = {
        "POOLSHIM_RECORD": str(tmp_path / "r.json"),
        "POOLSHIM_STATS": str(tmp_path / "s.json"),
    }
    assert run_shim([program], env=env).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "s.json"]
    read(tmp_path / "r.json")
    assert json.loads((tmp_path / "s.json").read_text())["program"] == program.name


def test_words_of_the_command_are_told_apart(run_shim: RunShim, tmp_path: Path) -> None:
    command = ["/bin/echo", "a b", 'say "x"\\', "", "\x01\u00e9"]
    env = {"POOLSHIM_RECORD": str(tmp_path / "r.json")}
    assert run_shim(command, env=env).returncode == 0
    assert read(tmp_path / "r.json")["command"] == ["/bin/echo", "a b", 'say "x"\\', "", "???"]


def test_recording_costs_a_tenth_of_a_real_program(shim: Path, tmp_path: Path) -> None:
    """Counts instructions, which do not depend on other load. 64-bit ARM needs more."""
    require_valgrind()
    need("sqlite3")
    query = (
        "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c WHERE x < 20000) "
        "SELECT count(DISTINCT 'name ' || x) FROM c;"
    )
    program = Path("/usr/bin/sqlite3")
    env = {"LD_PRELOAD": str(shim)}
    plain = count_instructions(program, ":memory:", query, **env)
    env["POOLSHIM_RECORD"] = str(tmp_path / "%p.json")
    recorded = count_instructions(program, ":memory:", query, **env)
    made = [read(path)["allocations"] for path in tmp_path.glob("*.json")]
    assert max(made) > 20000
    assert recorded < (1.1 if platform.machine() == "x86_64" else 1.15) * plain
