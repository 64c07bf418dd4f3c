# SPDX-License-Identifier: MIT
"""POOLSHIM_HUGE=hugetlb with pages that this machine sets aside, for the time of a test.

    scripts/test tests/shim/test_hugetlb.py

Takes the pages from the machine's free memory, as root; without them the tests are skipped.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, RunShim
from huge_pages import SetAside, number, set_aside

__all__ = ["set_aside"]

pytestmark = [pytest.mark.preload, pytest.mark.root]

MIB = 1 << 20
PAGE_BYTES = 2 * MIB
POOLSHIM = ROOT / "scripts" / "poolshim"

# Counts pages by the system's own account, and has blocks with contents that it verifies.
PRELUDE = """
import os, re, subprocess, sys, time
def held():
    text = open("/proc/self/smaps_rollup").read()
    return sum(int(kib) for kib in re.findall(r"_Hugetlb: +(\\d+)", text)) >> 11
def make(mib, salt=0):
    return [bytes([(i + salt) % 251]) * 1000 for i in range(mib * 1000)]
def verify(blocks, salt=0):
    assert all(b == bytes([(i + salt) % 251]) * 1000 for i, b in enumerate(blocks))
"""


def run(run_shim: RunShim, text: str, report: Path, **env: str) -> tuple[list[str], Any]:
    """The lines of a program, which must end well, and its statistics."""
    report.unlink(missing_ok=True)
    env = {"POOLSHIM_HUGE": "hugetlb", "PYTHONMALLOC": "malloc", "POOLSHIM_STATS": str(report),
           **env}  # fmt: skip
    done = run_shim([sys.executable, "-S", "-c", PRELUDE + text], env=env)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split("\n"), json.loads(report.read_text())["memory"]


def test_memory_lies_in_the_pages_and_free_ones_return(
    run_shim: RunShim, set_aside: SetAside, tmp_path: Path
) -> None:
    set_aside(60)
    lines, memory = run(run_shim, """
blocks = make(40)
print(held())
verify(blocks)
large = bytearray(b"x") * (33 << 20)
print(held())
del large, blocks
end = time.monotonic() + 20
while held() > 12 and time.monotonic() < end:
    make(1)
print(held())
blocks = make(40, 7)
print(held())
verify(blocks, 7)
""", tmp_path / "a.json")  # fmt: skip
    full, larger, freed, again = (int(line) for line in lines[:4])
    assert full >= 20
    assert larger >= full + 16
    assert freed <= 12
    assert again >= 20
    assert memory["hugetlb_refused_count"] == 0
    assert number("free_hugepages") == number("nr_hugepages")


def test_ordinary_pages_serve_when_they_are_used_up(
    run_shim: RunShim, set_aside: SetAside, tmp_path: Path
) -> None:
    set_aside(15)
    lines, memory = run(run_shim, """
blocks = make(50)
others = [bytearray(b"y") * (34 << 20) for _ in range(2)]
verify(blocks)
print(held())
""", tmp_path / "b.json")  # fmt: skip
    assert int(lines[0]) == 15
    assert memory["hugetlb_refused_count"] >= 2
    assert memory["hugetlb_bytes"] <= 15 * PAGE_BYTES


def test_the_commands_leave_the_pages_out_of_resident_memory(
    run_shim: RunShim, set_aside: SetAside, tmp_path: Path
) -> None:
    set_aside(60)
    lines, _ = run(run_shim, f"""
blocks = make(40)
for name in ("top", "stats"):
    words = [{str(POOLSHIM)!r}, name, "--json", str(os.getpid())]
    done = subprocess.run(words, env={{"PATH": os.environ["PATH"]}}, capture_output=True, text=True)
    print(" ".join(done.stdout.split()), done.stderr)
print(held())
""", tmp_path / "e.json")  # fmt: skip
    row, report = json.loads(lines[0])[0], json.loads(lines[1])
    assert row["rss_bytes"] < 20 * MIB
    assert row["live_bytes"] < 8 * MIB
    assert report["memory"]["hugetlb_bytes"] == int(lines[2]) * PAGE_BYTES >= 40 * MIB
    assert report["memory"]["live_bytes"] >= 40 * MIB


def test_the_children_of_a_fork_need_pages_of_their_own(
    run_shim: RunShim, set_aside: SetAside, tmp_path: Path
) -> None:
    """As the guide says: without one the system ends a child that writes, and nobody else."""
    text = """
blocks = make(30)
child = os.fork()
if child == 0:
    verify(blocks)
    more = make(1)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
verify(blocks)
"""
    set_aside(60)
    assert run(run_shim, text, tmp_path / "c.json")[0][0] == "0"
    set_aside(8)
    assert run(run_shim, text, tmp_path / "c.json")[0][0] == str(-signal.SIGBUS)


def test_sixteen_threads_share_the_pages(
    run_shim: RunShim, set_aside: SetAside, build_dir: Path, tmp_path: Path
) -> None:
    """The checker, which verifies the contents of all blocks; pages run out in the middle."""
    set_aside(24)
    report = tmp_path / "d.json"
    env = {"POOLSHIM_HUGE": "hugetlb", "POOLSHIM_STATS": str(report),
           "POOLSHIM_PURGE_DELAY_MS": "3"}  # fmt: skip
    words = ["--ops=2000000", "--seed=5", "--threads=16", "--fork=0",
             f"--max-live-bytes={64 * MIB}"]  # fmt: skip
    done = run_shim([build_dir / "tests" / "stress" / "checker", *words], env=env, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    memory = json.loads(report.read_text())["memory"]
    assert memory["hugetlb_refused_count"] > 0
    assert number("free_hugepages") == number("nr_hugepages")


@pytest.mark.parametrize("value", ["hugetlb", "hugetlb:2MiB"])
def test_a_machine_that_sets_none_aside_is_told_once(
    value: str, run_shim: RunShim, set_aside: SetAside
) -> None:
    if number("nr_hugepages") != 0:
        pytest.skip("other programs' pages")
    set_aside(0)
    done = run_shim(["/bin/echo", "hello"], env={"POOLSHIM_HUGE": value})
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert done.stderr == (
        "poolshim: POOLSHIM_HUGE: no huge page of 2MiB is set aside, so ordinary ones are used; "
        "poolshim doctor has more\n"
    )
