# SPDX-License-Identifier: MIT
"""POOLSHIM_FLIGHT: the record is there and whole, however and whenever the process ends.

    scripts/test tests/shim/test_flight.py

tests/faults/load_flight.c leaks from one function and ends in the way that it is told.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import RunShim
from memory_cgroup import entering, limited_group
from poolshim_cli import pprof, symbols

pytestmark = pytest.mark.preload

ENDS = {"exit": 0, "_exit": 0, "term": -signal.SIGTERM, "abort": -signal.SIGABRT,
        "segv": -signal.SIGSEGV, "kill": -signal.SIGKILL}
LEAK_MIB, BLOCK = 30, 1000
GROUP_MIB = 100
FILES = 32  # PS_FLIGHT_FILES


@pytest.fixture
def program(build_dir: Path) -> Path:
    return build_dir / "tests" / "faults" / "load_flight"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    folder = tmp_path / "records"
    folder.mkdir()
    return folder


def first_site(record: Path) -> tuple[str, float]:
    """The innermost function of the heaviest stack, and its share of the live bytes."""
    profile = pprof.read(record)
    index = [name for name, _ in profile.types].index("inuse_space")
    total = sum(sample.values[index] for sample in profile.samples)
    heaviest = max(profile.samples, key=lambda sample: sample.values[index])
    names = symbols.names_of(profile)
    return names.of(heaviest.locations[0])[0], heaviest.values[index] / total


def only(folder: Path) -> Path:
    """The single file of a folder."""
    (found,) = folder.iterdir()
    return found


@pytest.mark.parametrize("end", ENDS)
def test_the_leak_is_first_however_the_process_ends(
    end: str, run_shim: RunShim, program: Path, records: Path
) -> None:
    result = run_shim([program, str(LEAK_MIB), str(BLOCK), end],
                      env={"POOLSHIM_FLIGHT": str(records)})
    assert (result.returncode, result.stderr) == (ENDS[end], "")
    record = only(records)
    assert record.name.endswith("-exit.pb") == (end == "exit")
    name, share = first_site(record)
    assert name == "leak_here" and share > 0.9


@pytest.mark.root
def test_a_container_at_its_limit_names_the_leak(
    run_shim: RunShim, program: Path, records: Path
) -> None:
    with limited_group(GROUP_MIB << 20) as group:
        result = run_shim([program, str(2 * GROUP_MIB), str(BLOCK), "exit"],
                          env={"POOLSHIM_FLIGHT": str(records)}, preexec_fn=entering(group))
    assert result.returncode == -signal.SIGKILL
    (line,) = result.stderr.splitlines()
    assert "most from leak_here < descend" in line and only(records).name in line
    assert f"in use of the {GROUP_MIB}.0 MiB of " in line
    assert first_site(only(records))[0] == "leak_here"
    comments = pprof.read(only(records)).comments
    assert any(comment.startswith("resident memory grew by ") for comment in comments), comments
    assert any(" in use of the " in comment for comment in comments), comments


def test_the_soft_limit_is_a_mark_too(run_shim: RunShim, program: Path, records: Path) -> None:
    env = {"POOLSHIM_FLIGHT": str(records), "POOLSHIM_LIMIT": "40MiB"}
    result = run_shim([program, "60", str(BLOCK), "_exit"], env=env)
    (line,) = result.stderr.splitlines()
    assert "in use of the 40.0 MiB of POOLSHIM_LIMIT" in line and "leak_here" in line


def test_a_python_program_has_its_lines(
    run_shim: RunShim, records: Path, tmp_path: Path
) -> None:
    """In the record and in the line at the mark."""
    script = tmp_path / "leak.py"
    script.write_text(
        "import os\nkept = []\ndef leak_here():\n    kept.append(bytearray(1000000))\n"
        "for _ in range(90):\n    leak_here()\nos.kill(os.getpid(), 9)\n"
    )
    env = {"POOLSHIM_FLIGHT": str(records), "POOLSHIM_LIMIT": "60MiB"}
    result = run_shim([sys.executable, script], env=env)
    assert result.returncode == -signal.SIGKILL
    (line,) = result.stderr.splitlines()
    assert "most from leak.py:4 leak_here < leak.py:6 <module> " in line
    profile = pprof.read(only(records))
    index = profile.index_of("inuse_space")
    heaviest = max(profile.samples, key=lambda sample: sample.values[index])
    lines = [(one.line.file, one.line.number) for one in heaviest.locations if one.line]
    assert lines == [(str(script), 4), (str(script), 6)]


def test_children_have_records_of_their_own(
    run_shim: RunShim, program: Path, records: Path
) -> None:
    result = run_shim([program, str(LEAK_MIB), str(BLOCK), "fork"],
                      env={"POOLSHIM_FLIGHT": str(records), "POOLSHIM_PROFILE_INTERVAL": "64KiB"})
    child = int(result.stdout)
    of_child = next(records.glob(f"*-{child}.pb"))
    (of_parent,) = records.glob("*-exit.pb")
    index = 3
    live = {record: sum(one.values[index] for one in pprof.read(record).samples)
            for record in (of_child, of_parent)}
    assert live[of_child] > 1.6 * live[of_parent]  # what it inherited, and as much again
    assert pprof.read(of_child).pid == child


def test_a_child_within_its_parents_memory_writes_nothing(
    run_shim: RunShim, program: Path, records: Path
) -> None:
    result = run_shim([program, str(LEAK_MIB), str(BLOCK), "vfork"],
                      env={"POOLSHIM_FLIGHT": str(records)})
    assert result.returncode == 0
    assert first_site(only(records))[0] == "leak_here"


def test_the_record_is_whole_at_any_moment(shim: Path, program: Path, records: Path) -> None:
    """Killed at random moments, while stacks are entered as fast as can be."""
    draw = random.Random(7)
    seen = 0
    for _ in range(60):
        env = {"LD_PRELOAD": str(shim), "POOLSHIM_FLIGHT": str(records),
               "POOLSHIM_PROFILE_INTERVAL": "256"}
        process = subprocess.Popen([program, "1", "100", "forever", "60"], env=env)
        until = time.monotonic() + 10
        while not any(records.glob("poolshim-*")) and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(draw.random() * 0.02)
        process.kill()
        process.wait()
        record = only(records)
        profile = pprof.read(record)
        seen = max(seen, len(profile.samples))
        assert all(sample.locations for sample in profile.samples)
        record.unlink()
    assert seen > 50


def test_old_records_go_and_other_files_remain(
    run_shim: RunShim, program: Path, records: Path
) -> None:
    for number in range(FILES + 3):
        for kind in ("", "-exit"):
            path = records / f"poolshim-20200101T000000-{number}{kind}.pb"
            path.touch()
            os.utime(path, (number, number))
    others = ["poolshim-notes.txt", "a.pb", "poolshim-folder.pb"]
    for name in others[:2]:
        (records / name).touch()
    (records / others[2]).mkdir()
    result = run_shim([program, str(LEAK_MIB), str(BLOCK), "kill"],
                      env={"POOLSHIM_FLIGHT": str(records)})
    assert result.returncode == -signal.SIGKILL
    names = {path.name for path in records.iterdir()}
    assert names >= set(others)
    exits = {name for name in names if name.endswith("-exit.pb")}
    assert len(exits) == FILES - 1 and len(names - exits - set(others)) == FILES
    assert "poolshim-20200101T000000-3.pb" not in names
    assert "poolshim-20200101T000000-4.pb" in names


@pytest.mark.parametrize(("folder", "error"),
                         [("absent", "No such file or directory"), ("file", "Not a directory")])
def test_a_wrong_directory_is_one_line(
    folder: str, error: str, run_shim: RunShim, program: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    result = run_shim([program, str(LEAK_MIB), str(BLOCK), "exit"],
                      env={"POOLSHIM_FLIGHT": folder}, cwd=tmp_path)
    assert result.returncode == 0
    assert result.stderr == f'poolshim: POOLSHIM_FLIGHT: cannot write "{folder}": {error}\n'


def test_no_room_for_the_file_is_one_line(
    run_shim: RunShim, program: Path, records: Path
) -> None:
    def forbid() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    result = run_shim([program, str(LEAK_MIB), str(BLOCK), "exit"],
                      env={"POOLSHIM_FLIGHT": str(records)}, preexec_fn=forbid)
    assert result.returncode == 0
    assert result.stderr.endswith(": File too large\n") and result.stderr.count("\n") == 1
    assert list(records.iterdir()) == []


def test_it_excludes_what_bypasses_samples(
    run_shim: RunShim, program: Path, records: Path
) -> None:
    result = run_shim([program, "1", str(BLOCK), "exit"],
                      env={"POOLSHIM_FLIGHT": str(records), "POOLSHIM_HARDEN": "1"})
    assert "there is no flight record while POOLSHIM_HARDEN is on" in result.stderr
    assert list(records.iterdir()) == []


# ---- the hard limit ----


@pytest.mark.root
@pytest.mark.parametrize("block", [16, 100, 1000, 9000, 40000, 200000, 600000, 10000000])
def test_requests_fail_before_the_container_is_killed(
    block: int, run_shim: RunShim, program: Path
) -> None:
    with limited_group(GROUP_MIB << 20) as group:
        result = run_shim([program, str(4 * GROUP_MIB), str(block), "exit"],
                          env={"POOLSHIM_LIMIT_HARD": "95%"}, preexec_fn=entering(group))
    assert result.returncode == 9


def test_a_size_as_hard_limit_counts_the_process(run_shim: RunShim, program: Path) -> None:
    words = [str(program), "60", str(BLOCK), "exit"]
    assert run_shim(words, env={"POOLSHIM_LIMIT_HARD": "50MiB"}).returncode == 9
    assert run_shim(words, env={"POOLSHIM_LIMIT_HARD": "90MiB"}).returncode == 0
