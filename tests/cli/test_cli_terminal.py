# SPDX-License-Identifier: MIT
"""Commands on a terminal of few columns: no line is longer, and every figure is there.

    scripts/test tests/cli/test_cli_terminal.py
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from conftest import ROOT
from running import POOLSHIM, Start, spawn, start  # noqa: F401
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.live import report as statistics  # noqa: E402
from poolshim_cli.why.growth import Rate  # noqa: E402
from poolshim_cli.why.report import per_minute  # noqa: E402

pytestmark = pytest.mark.preload

WIDTHS = [50, 80]
ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
SLEEPER = """
import time
kept = [bytes(1000) for i in range(20000)]
print(1, flush=True)
while True:
    kept[:100] = [bytes(1000) for i in range(100)]
    time.sleep(0.01)
"""
WORKER = """
import time
def a_function_with_a_name_that_is_longer_than_a_narrow_terminal(count):
    return [bytes(1000) for i in range(count)]
kept = [a_function_with_a_name_that_is_longer_than_a_narrow_terminal(2000) for i in range(10)]
time.sleep(0.3)
"""


def on_terminal(columns: int, *words: str | os.PathLike[str]) -> list[str]:
    """What a terminal of so many columns shows."""
    own, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    text = b""
    try:
        with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs,
                              env={**env, "NO_COLOR": "1"}) as process:  # fmt: skip
            os.close(theirs)
            while True:
                try:
                    part = os.read(own, 4096)
                except OSError:  # the other end is closed
                    break
                text += part
        assert process.returncode == 0, text.decode()
    finally:
        os.close(own)
    return ESCAPES.sub("", text.decode()).replace("\r\n", "\n").splitlines()


def check(lines: list[str], columns: int, *texts: str) -> None:
    """No line is longer; words that may be folded are there."""
    assert [line for line in lines if len(line) > columns] == []
    joined = "".join("".join(lines).split())
    for text in texts:
        assert "".join(text.split()) in joined, lines


@each_row("columns", WIDTHS)
def test_statistics(start: Start, columns: int) -> None:  # noqa: F811
    process = start(SLEEPER)
    lines = on_terminal(columns, POOLSHIM, "stats", str(process.pid))
    titles = "block bytes   live blocks      live bytes"
    check(lines[lines.index("size classes"):], max(columns, len(titles) + 4), "all", titles)
    check(lines, max(columns, len(titles) + 4), "resident, whole process", "of resident memory")


def test_statistics_without_a_terminal_are_those_of_the_library() -> None:
    assert statistics.class_columns(statistics.NO_TERMINAL) == list(range(7))
    assert statistics.class_columns(80) == [0, 1, 2, 3, 5, 6]
    assert statistics.class_columns(50) == [0, 1, 2]


@each_row("columns", WIDTHS)
def test_reports_about_a_process(start: Start, columns: int) -> None:  # noqa: F811
    process = start(SLEEPER, PYTHONMALLOC="malloc")
    pid = str(process.pid)
    check(on_terminal(columns, POOLSHIM, "why", "--seconds", "1", pid), columns,
          "Ctrl-C ends it early", "live malloc blocks", "verdict:", "next:")  # fmt: skip
    check(on_terminal(columns, POOLSHIM, "profile", "--pid", pid, "--seconds", "1"), columns,
          "Ctrl-C ends it early", "<module>", "blocks allocated before are unknown")  # fmt: skip
    check(on_terminal(columns, POOLSHIM, "explain", "--pid", pid, "--seconds", "1"), columns,
          "Ctrl-C ends it early", "call site", "accounted for", "verdict:")  # fmt: skip


@each_row("columns", WIDTHS)
def test_reports_about_a_command(columns: int) -> None:
    command = ["--", sys.executable, "-S", "-c", WORKER]
    lines = on_terminal(columns, POOLSHIM, "profile", "--alloc", "--interval", "16KiB", *command)
    name = "a_function_with_a_name_that_is_longer_than_a_narrow_terminal"
    check(lines, columns, name)
    text = " ".join(lines)
    assert text.count("MiB allocated") == 1
    lines = on_terminal(columns, POOLSHIM, "explain", *command)
    check(lines, columns, name if columns < 80 else name[:20], "live blocks", "advice:")


def test_growth_that_is_listed_is_no_standstill() -> None:
    slow, fast = Rate(100.0, 50.0, 150.0), Rate(90000.0, 80000.0, 99000.0)
    assert (slow.is_shown, per_minute(slow)) == (False, "")
    assert (fast.is_shown, per_minute(fast)) == (True, "+5.1±0.5")
