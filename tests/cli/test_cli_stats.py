# SPDX-License-Identifier: MIT
"""`poolshim stats`: what it reads from outside is what the process itself reports.

    scripts/test tests/cli/test_cli_stats.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured
from running import (
    MIB,
    POOLSHIM,
    SILENT,
    Start,
    program,
    run_as_nobody,
    spawn,
    start,
)
from running import complaint as complaint_of
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import control  # noqa: E402
from poolshim_cli.live import layout, report  # noqa: E402
from poolshim_cli.live.memory import Memory  # noqa: E402

__all__ = ["program", "spawn", "start"]

PAGES = {"resident_bytes", "resident_peak_bytes", "huge_page_bytes"}  # of another moment


def stats(pid: int, *options: str) -> subprocess.CompletedProcess[str]:
    return run_captured([POOLSHIM, "stats", *options, str(pid)])


def figures(pid: int) -> dict[str, Any]:
    done = stats(pid, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def complaint(done: subprocess.CompletedProcess[str], status: int) -> str:
    return complaint_of(done, "stats", status)


def without_pages(found: dict[str, Any]) -> dict[str, Any]:
    memory = {key: value for key, value in found["memory"].items() if key not in PAGES}
    calls = {key: value for key, value in found["calls"].items() if not key.endswith("_rate")}
    return {**found, "memory": memory, "calls": calls}


@pytest.mark.preload
@each_row(
    "settings",
    [
        {},
        {"POOLSHIM_GUARD_SAMPLE": "100"},
        {"POOLSHIM_HARDEN": "1"},
        {"POOLSHIM_HARDEN": "3"},
        {"POOLSHIM_LIMIT": "1GiB"},
        {"POOLSHIM_SIZE_CLASSES": "16,96,2048"},
        {"POOLSHIM_PROFILE": "none/p", "POOLSHIM_PROFILE_INTERVAL": "64KiB"},
        {"POOLSHIM_RECORD": "none/r"},
    ],
)
def test_the_figures_are_the_librarys_own(
    spawn: Start, program: Path, tmp_path: Path, settings: dict[str, str]
) -> None:
    """The process writes its report by poolshim_stats_write and blocks: nothing changes since."""
    process = spawn([program, "known", tmp_path / "own.json"], **settings)
    own = json.loads((tmp_path / "own.json").read_text())
    found = figures(process.pid)
    assert list(found) == list(own)
    for section, values in own.items():
        if isinstance(values, dict):
            assert list(found[section]) == list(values)
    assert without_pages(found) == without_pages(own)
    for key in PAGES:
        assert abs(found["memory"][key] - own["memory"][key]) <= MIB


@pytest.mark.preload
def test_the_table_is_the_librarys_own(spawn: Start, program: Path, tmp_path: Path) -> None:
    process = spawn([program, "known", tmp_path / "own.txt"])
    own, found = (tmp_path / "own.txt").read_text(), stats(process.pid).stdout
    varies = re.compile(r"  (resident|.*a second).*\n")
    assert varies.sub("", found) == varies.sub("", own)
    assert len(varies.findall(found)) == len(varies.findall(own)) == 5


@pytest.mark.preload
def test_known_amounts(spawn: Start, program: Path) -> None:
    found = figures(spawn([program, "known"]).pid)
    classes = {one["block_bytes"]: one for one in found["size_classes"]}
    assert 6666 <= classes[96]["live_count"] <= 6690
    assert 5000 <= classes[1536]["live_count"] <= 5005
    assert 4900 <= classes[3072]["live_count"] <= 4905
    assert found["page_runs"]["live_count"] == 100  # 99 of 20000 bytes, one of 3 MiB
    assert found["large_blocks"] == {
        "live_count": 1, "live_bytes": 50 * MIB, "cached_count": 1, "cached_bytes": 40 * MIB
    }  # fmt: skip
    calls = found["calls"]
    assert 20003 <= calls["malloc_count"] <= 20100
    live = found["small_blocks"]["live_count"] + 100 + 1
    assert calls["malloc_count"] - calls["free_count"] == live
    wanted = 6666 * 6 + 5000 * 36 + 4900 * 72
    assert wanted * 0.9 < found["small_blocks"]["rounding_bytes"] < wanted * 1.1


@pytest.mark.preload
@each_row("threads", [1, 8])
def test_figures_hold_while_threads_work(spawn: Start, program: Path, threads: int) -> None:
    process = spawn([program, "load", str(threads)])
    before = -1
    with Memory(process.pid) as memory:
        for _ in range(100):
            census = report.read(memory).census
            live = sum(one.live_blocks for one in census.classes if one.block_bytes == 1024)
            assert 100 * threads - 64 <= live <= 200 * threads + 64
            assert census.malloc_count > before - 300 * threads
            before = max(before, census.malloc_count)
    assert before > 1000, "the threads did not run"


@pytest.mark.preload
def test_calls_of_threads_that_have_ended_are_counted(spawn: Start, program: Path) -> None:
    process = spawn([program, "load", "4", "50000"])
    assert process.stdout is not None
    made = int(process.stdout.readline())
    found = figures(process.pid)
    assert made <= found["calls"]["malloc_count"] <= made + 100  # libc's own
    assert found["calls"]["free_count"] >= made


@pytest.mark.preload
def test_a_fork_is_read_as_itself(start: Start) -> None:
    """The child has its parent's heap, and a background thread of neither."""
    process = start(
        "import os, sys\n"
        "blocks = [bytes(5000) for _ in range(2000)]\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    more = [bytes(5000) for _ in range(3000)]\n"
        "    print(1, flush=True)\n"
        "    print(os.getpid(), flush=True)\n"
        "sys.stdin.read(1)\n"
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    parent_live, child_live = (figures(pid)["memory"]["live_bytes"] for pid in (process.pid, child))
    assert child_live - parent_live >= 3000 * 5000 * 0.99


@pytest.mark.preload
def test_a_read_leaves_no_memory_behind(spawn: Start, program: Path) -> None:
    """The reader does not touch pages that were never touched."""
    process = spawn([program, "known"])
    figures(process.pid)
    before = control.Process(process.pid).resident_bytes()
    for _ in range(3):
        figures(process.pid)
    assert control.Process(process.pid).resident_bytes() - before <= 16 << 10


# ---- other processes ----


def test_a_process_without_poolshim(start: Start) -> None:
    process = start(SILENT, preload=False)
    assert complaint(stats(process.pid), 1) == f"process {process.pid} does not run on poolshim\n"


def test_no_such_process(start: Start) -> None:
    process = start(SILENT, preload=False)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert complaint(stats(process.pid), 127) == f"no process {process.pid}\n"


@pytest.mark.preload
@pytest.mark.root
def test_not_permitted(start: Start) -> None:
    assert "not permitted" in complaint(run_as_nobody("stats", str(start(SILENT).pid)), 126)


@pytest.mark.preload
@each_row("what", ["version", "magic"])
def test_another_version_is_named(start: Start, what: str) -> None:
    """The layout is constant, so that a debugger's right is needed to change it."""
    process = start(SILENT)
    place = control.find_symbol(process.pid, layout.SYMBOL).address
    with open(f"/proc/{process.pid}/mem", "r+b", buffering=0) as file:
        file.seek(place + {"magic": 0, "version": 16}[what])
        file.write(b"\7\0\0\0")
    assert f"of the layout, this command reads {layout.VERSION}" in complaint(stats(process.pid), 1)


@pytest.mark.preload
def test_a_library_that_is_not_relocated_yet(start: Start) -> None:
    """Before the dynamic loader has done it, addresses are offsets in the library."""
    process = start(SILENT)
    place = control.find_symbol(process.pid, layout.SYMBOL).address
    with open(f"/proc/{process.pid}/mem", "r+b", buffering=0) as file:
        file.seek(place + layout.HEADER.size + 24)
        file.write((0x1234).to_bytes(8, "little"))
    assert "is still being started" in complaint(stats(process.pid), 1)


@pytest.mark.preload
def test_a_process_that_ends_meanwhile(spawn: Start, program: Path) -> None:
    """At any moment: one line, or the figures."""
    for _ in range(20):
        process = spawn([program, "load", "2", "20000"])
        assert process.stdout is not None and process.stdin is not None
        process.stdin.write("x")
        process.stdin.flush()
        while process.poll() is None:
            done = stats(process.pid)
            assert done.returncode in (0, 1, 127), done
            if done.returncode != 0:
                assert done.stdout == "" and done.stderr.count("\n") == 1
                assert "Traceback" not in done.stderr


@pytest.mark.preload
def test_standard_output_that_is_full(start: Start) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([POOLSHIM, "stats", str(start(SILENT).pid)], stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)  # fmt: skip
    assert done.returncode == 125
    assert done.stderr == "poolshim stats: standard output: No space left on device\n"


@each_row(
    ("words", "line"),
    [
        ([], "which process? poolshim stats PID"),
        (["container:"], "PID: the id of a container is missing"),
        (["--container", "a", "1"], "one process at a time"),
        (["-1"], "no option -1"),
        (["0"], "PID: 0 is out of range"),
        (["99999999999"], "PID: 99999999999 is out of range"),
        (["1", "2"], "one process at a time"),
        (["--all"], "no option --all"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], line: str) -> None:
    assert complaint(run_captured([POOLSHIM, "stats", *words]), 2) == line + "\n"


# ---- a server ----


FILL = (
    "for i = 1, tonumber(ARGV[1]) do redis.call('set', 'key' .. i, string.rep('x', 1000)) end "
    "return 'OK'"
)


def redis(port: int, *words: str) -> str:
    done = run_captured(["redis-cli", "-p", str(port), *words])
    assert done.returncode == 0, done.stderr
    return done.stdout


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@pytest.fixture
def server(shim: Path, tmp_path: Path) -> Iterator[tuple[int, int]]:
    """redis-server on the shim: process id and port."""
    if not shutil.which("redis-server") or not shutil.which("redis-cli"):
        pytest.skip("needs redis")
    port = free_port()
    process = subprocess.Popen(
        ["redis-server", "--port", str(port), "--save", "", "--dir", tmp_path],
        env={**os.environ, "LD_PRELOAD": str(shim)}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while run_captured(["redis-cli", "-p", str(port), "ping"]).stdout != "PONG\n":
            assert time.monotonic() < end and process.poll() is None
        yield process.pid, port
    finally:
        process.kill()
        process.wait()


@pytest.mark.preload
def test_live_bytes_are_what_a_server_says_it_holds(server: tuple[int, int]) -> None:
    """redis sums up malloc_usable_size of its blocks; blocks of libc and Lua come on top."""
    pid, port = server
    held = []
    for count in (10000, 50000):
        assert redis(port, "eval", FILL, "0", str(count)) == "OK\n"
        line = re.search(r"used_memory:(\d+)", redis(port, "info", "memory"))
        live = figures(pid)["memory"]["live_bytes"]
        assert line is not None
        used = int(line.group(1))
        assert abs(live - used) < 0.01 * used + 600_000
        held.append(live)
    assert held[1] - held[0] > 40000 * 1000
    redis(port, "flushall", "sync")
    assert figures(pid)["memory"]["live_bytes"] < held[0]
