# SPDX-License-Identifier: MIT
"""`poolshim top`: the parts are the RSS, the screen fits, and a key ends it.

    scripts/test tests/cli/test_cli_top.py
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured
from running import MIB, POOLSHIM, SILENT, Start, program, run_as_nobody, spawn, start
from running import complaint as complaint_of
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.top import screen  # noqa: E402

__all__ = ["program", "spawn", "start"]

ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9])")


def top(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return run_captured([POOLSHIM, "top", *words], **options)


def rows(*words: str) -> list[dict[str, Any]]:
    done = top("--json", *words)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def complaint(done: subprocess.CompletedProcess[str], status: int) -> str:
    return complaint_of(done, "top", status)


@pytest.mark.preload
def test_the_parts_are_the_resident_memory(spawn: Start, program: Path) -> None:
    """The program touches 10 of 50 MiB, and all of 20,000 small blocks and one of 3 MiB."""
    row = rows(str(spawn([program, "known"], POOLSHIM_HUGE="off").pid))[0]
    parts = ("live", "rounding", "free", "cache", "metadata", "outside")
    assert sum(row[f"{part}_bytes"] for part in parts) == row["rss_bytes"]
    small = 6667 * 96 + 5000 * 1536 + 4900 * 3072 + 99 * 20480
    live = row["live_bytes"] + row["rounding_bytes"]
    assert abs(live - (small + 13 * MIB)) < MIB / 2
    assert row["free_bytes"] < 3 * MIB
    assert row["cache_bytes"] < 2 * MIB
    assert 64 << 10 < row["metadata_bytes"] < MIB
    assert MIB < row["outside_bytes"] < 8 * MIB


@pytest.mark.preload
def test_freed_memory_moves_from_live_to_free_and_to_the_cache(start: Start) -> None:
    """Freed small blocks become free memory in spans; medium ones become free pages."""
    held = "import sys\nblocks = [bytearray(1000) for _ in range(30000)]\n"
    freed = held + "del blocks[::2]\n"
    medium = held + "more = [bytearray(100000) for _ in range(300)]\ndel more\n"
    end = "print(1, flush=True); sys.stdin.read(1)\n"
    plain, part, pages = (rows(str(start(text + end).pid))[0] for text in (held, freed, medium))
    assert plain["live_bytes"] - part["live_bytes"] > 13 * MIB
    assert part["free_bytes"] - plain["free_bytes"] > 13 * MIB
    assert pages["cache_bytes"] - plain["cache_bytes"] > 25 * MIB


@pytest.mark.preload
def test_rates_are_those_of_the_program(spawn: Start, start: Start, program: Path) -> None:
    busy, silent = spawn([program, "load", "2"]), start(SILENT)
    found = {row["pid"]: row for row in rows(str(busy.pid), str(silent.pid))}
    assert found[busy.pid]["malloc_rate"] > 1000 and found[busy.pid]["free_rate"] > 1000
    assert found[silent.pid]["malloc_rate"] == found[silent.pid]["free_rate"] == 0


@pytest.mark.preload
def test_without_a_pid_all_are_shown(start: Start) -> None:
    mine = [start(SILENT).pid for _ in range(2)]
    other = start(SILENT, preload=False).pid
    found = [row["pid"] for row in rows()]
    assert set(mine) <= set(found) and other not in found


@pytest.mark.preload
@each_row("columns", [50, 80, 120])
def test_one_table_where_there_is_no_terminal(start: Start, columns: int) -> None:
    pid = start(SILENT).pid
    done = top(str(pid), env={**os.environ, "COLUMNS": str(columns)})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all(len(line) <= columns for line in lines)
    titles = list(screen.COLUMNS if columns >= 80 else screen.NARROW)
    assert lines[0].split() == titles
    assert lines[1].split()[:2] == [str(pid), Path(sys.executable).name[:8]]
    assert "…" not in done.stdout


class Terminal:
    """`poolshim top` on a terminal of a width."""

    def __init__(self, columns: int, *words: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        env = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
        self.process = subprocess.Popen(
            [POOLSHIM, "top", "--interval", "0.1", *words], stdin=slave, stdout=slave,
            stderr=slave, env={**env, "TERM": "xterm", "LC_ALL": "C.UTF-8"}, close_fds=True,
        )  # fmt: skip
        self.slave = slave
        self.text = ""

    def read_until(self, pattern: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not re.search(pattern, ESCAPES.sub("", self.text) + self.text):
            assert time.monotonic() < end, self.text
            if select.select([self.master], [], [], 0.1)[0]:
                self.text += os.read(self.master, 65536).decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.mark.preload
@each_row("columns", [50, 80])
def test_the_screen_refreshes_and_q_ends_it(start: Start, columns: int) -> None:
    pid = start(SILENT).pid
    terminal = Terminal(columns, str(pid))
    try:
        terminal.read_until(rf"(?s)( {pid} .*){{3}}")
        os.write(terminal.master, b"x")
        os.write(terminal.master, b"q")
        assert terminal.process.wait(60) == 0
        terminal.read_until(re.escape("\x1b[?1049l"))
        assert termios.tcgetattr(terminal.slave) == terminal.before
        frames = terminal.text.replace("\x1b[H", "\n").replace("\r", "")
        lines = ESCAPES.sub("", frames).splitlines()
        assert all(len(line) <= columns for line in lines)
        assert "\x1b[?1049h" in terminal.text and "\x1b[?1049l" in terminal.text
    finally:
        terminal.close()


@pytest.mark.preload
def test_a_process_that_ends_drops_out(start: Start) -> None:
    one, other = start(SILENT), start(SILENT)
    terminal = Terminal(80, str(one.pid), str(other.pid))
    try:
        terminal.read_until("2 processes")
        one.kill()
        one.wait()
        terminal.read_until("1 process;")
        other.kill()
        other.wait()
        terminal.read_until("the processes have ended")
        assert terminal.process.wait(60) == 0
    finally:
        terminal.close()


def test_sizes_take_five_letters() -> None:
    for exponent in range(0, 50):
        for value in (2**exponent - 1, 2**exponent, 2**exponent * 3 // 2):
            assert len(screen.size(value)) <= 5
            assert len(screen.rate(value)) <= 5


def test_a_sparkline_spans_its_levels() -> None:
    assert screen.sparkline([0, 50, 100]) == "▁▄█"
    assert screen.sparkline([100, 100, 100]) == "▁▁▁"
    assert len(screen.sparkline(list(range(100)))) == screen.TREND_COLUMNS


def test_a_process_without_poolshim(start: Start) -> None:
    pid = start(SILENT, preload=False).pid
    assert complaint(top(str(pid)), 1) == f"process {pid} does not run on poolshim\n"


@pytest.mark.preload
@pytest.mark.root
def test_not_permitted(start: Start) -> None:
    assert "not permitted" in complaint(run_as_nobody("top", str(start(SILENT).pid)), 126)


@pytest.mark.preload
def test_standard_output_that_is_full(start: Start) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([POOLSHIM, "top", str(start(SILENT).pid)], stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)  # fmt: skip
    assert done.returncode == 125
    assert done.stderr == "poolshim top: standard output: No space left on device\n"


@each_row(
    ("words", "status", "line"),
    [
        (["no-such-program"], 127, "no process has the name no-such-program"),
        (["--interval", "0"], 2, "--interval: 0 is out of range"),
        (["--interval", "fast"], 2, "--interval: fast is no number"),
        (["--all"], 2, "no option --all"),
        (["2147483647"], 127, "no process 2147483647"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], status: int, line: str) -> None:
    assert complaint(top(*words), status) == line + "\n"
