# SPDX-License-Identifier: MIT
"""Guarded samples: what a report says line by line, and real programs under them.

    scripts/test tests/shim/test_guard.py
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from conftest import ROOT, RunShim, run_captured
from under_shim import RealProgram, need

pytestmark = pytest.mark.preload

PROGRAMS = ROOT / "tests" / "programs" / "inputs"
SITE = r"    0x[0-9a-f]+ (?P<file>/\S+)\(\+0x(?P<offset>[0-9a-f]+)\)(?: (?P<name>\w+))?"


def report_of(run_shim: RunShim, build_dir: Path, scenario: str, **env: str) -> list[str]:
    """The lines that a scenario leaves on stderr."""
    program = build_dir / "tests" / "scenarios" / f"guard_{scenario}"
    result = run_shim([program], env={"POOLSHIM_GUARD_SAMPLE": "1", **env})
    assert result.returncode < 0
    return result.stderr.splitlines()


def sites_of(lines: list[str], title: str) -> list[re.Match[str]]:
    """The call sites that follow "  <title> by thread T at:"."""
    wanted = rf"  {title} by thread \d+ at:"
    start = [i for i, line in enumerate(lines) if re.fullmatch(wanted, line)]
    assert len(start) == 1, "\n".join(lines)
    sites = []
    for line in lines[start[0] + 1 :]:
        match = re.fullmatch(SITE, line)
        if match is None:
            break
        sites.append(match)
    return sites


def test_report_of_a_use_after_free_is_complete(run_shim: RunShim, build_dir: Path) -> None:
    lines = report_of(run_shim, build_dir, "write_after_free_stops_the_program")
    first = r"poolshim: use after free \(write\) at (0x\w+), 12 bytes into a block of 63 at (0x\w+)"
    match = re.fullmatch(first, lines[0])
    assert match and int(match[1], 16) - int(match[2], 16) == 12
    names = {
        title: [site["name"] for site in sites_of(lines, title)][:2]
        for title in ("allocated", "freed", "touched")
    }
    assert names["allocated"] == ["allocate_here", "main"]
    assert names["freed"] == ["free_here", "main"]
    assert names["touched"][0] == "main"
    assert all(re.match(r"poolshim:|  \w+( \w+)? by thread|    0x", line) for line in lines)


def test_no_frame_of_the_library_is_shown(run_shim: RunShim, build_dir: Path) -> None:
    for scenario in ("write_after_free_stops_the_program", "double_free_is_reported"):
        lines = report_of(run_shim, build_dir, scenario)
        assert not [line for line in lines if "libpoolshim" in line]


def test_addr2line_finds_the_line_of_each_site(run_shim: RunShim, build_dir: Path) -> None:
    if shutil.which("addr2line") is None:
        pytest.skip("addr2line is not installed")
    lines = report_of(run_shim, build_dir, "double_free_is_reported")
    for title, function in [("allocated", "allocate_here"), ("freed", "free_here")]:
        site = sites_of(lines, title)[0]
        command = ["addr2line", "-f", "-e", site["file"], site["offset"]]
        found = run_captured(command).stdout.split()
        assert found[0] == function
        assert "guarded.h:" in found[1]


def test_many_faults_at_once_give_one_report(run_shim: RunShim, build_dir: Path) -> None:
    for _ in range(5):
        lines = report_of(run_shim, build_dir, "faults_of_many_threads_give_one_report")
        assert len([line for line in lines if line.startswith("poolshim:")]) == 1
        assert len([line for line in lines if line.startswith("  ")
                    and not line.startswith("   ")]) == 3  # fmt: skip


def test_off_is_off(run_shim: RunShim, build_dir: Path) -> None:
    """A scenario that needs guarded blocks says so; 0 must be what no variable is."""
    program = build_dir / "tests" / "scenarios" / "guard_blocks_behave_as_others"
    for env in ({}, {"POOLSHIM_GUARD_SAMPLE": "0"}):
        result = run_shim([program], env=env)
        assert result.returncode == 1 and "guarded_is" in result.stderr


def test_mappings_stay_within_two_per_slot(run_shim: RunShim, build_dir: Path) -> None:
    script = """
import os
blocks = [bytearray(200 + i % 3000) for i in range(4000)]
del blocks
print(len(open('/proc/self/maps').readlines()))
"""
    def count(**env: str) -> int:
        result = run_shim(["python3", "-c", script], env={"PYTHONMALLOC": "malloc", **env})
        assert result.returncode == 0, result.stderr
        return int(result.stdout)

    need("python3")
    more = count(POOLSHIM_GUARD_SAMPLE="1", POOLSHIM_GUARD_SLOTS="500") - count()
    assert 500 < more <= 2 * 500 + 8  # the pool


@pytest.fixture
def program(run_shim: RunShim, tmp_path: Path) -> RealProgram:
    return RealProgram(run_shim, tmp_path)


EVERY = {"POOLSHIM_GUARD_SAMPLE": "1"}
OFTEN = {"POOLSHIM_GUARD_SAMPLE": "100", "POOLSHIM_GUARD_SLOTS": "2000"}


def test_python_with_every_block_guarded(program: RealProgram) -> None:
    need("python3")
    files = {"work.py": (PROGRAMS / "work.py").read_text()}
    program.compare(
        ["/usr/bin/env", "python3", "work.py"], ["python3"], files,
        env={"PYTHONMALLOC": "malloc", **EVERY}, timeout=200,
    )  # fmt: skip


def test_git_with_many_blocks_guarded(program: RealProgram) -> None:
    need("git", "bash")
    files = {"git.sh": (PROGRAMS / "git.sh").read_text()}
    program.compare(["bash", "git.sh"], ["git", "bash"], files, env=OFTEN, timeout=200)


def test_cxx_compiler_with_every_block_guarded(program: RealProgram) -> None:
    need("bash", "g++")
    text = "#include <iostream>\nint main() { std::cout << 42; }\n"
    command = ["bash", "-c", "g++ -O1 small.cpp -o small && ./small"]
    output = program.compare(
        command, ["cc1plus", "ld"], {"small.cpp": text}, ["small"], env=EVERY, timeout=200
    )
    assert output == "42"
