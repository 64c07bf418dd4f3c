# SPDX-License-Identifier: MIT
"""Statistics while a program runs: by a signal, every so often, at a SIGTERM that ends it.

    python -m pytest tests/shim/test_stats_live.py
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, RunShim
from table import each_row

sys.path.insert(0, str(ROOT / "tests" / "cli"))

from running import PROGRAM  # noqa: E402
from programs import compile_program  # noqa: E402

pytestmark = pytest.mark.preload

SECONDS = 60
SILENT = "import sys; print(1, flush=True); sys.stdin.read(1)"
HANDLES = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); "
IGNORES = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "

Begin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(tmp_path_factory.mktemp("live"), "running", PROGRAM, "-pthread",
                           "-Wno-unused-result", "-ldl")  # fmt: skip


@pytest.fixture
def begin(shim: Path, tmp_path: Path) -> Iterator[Begin]:
    """Starts a command, in a directory of its own, and reads until it says that it is ready."""
    running: list[subprocess.Popen[str]] = []

    def start(command: list[Any] | str, **settings: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-S", "-c", command] if isinstance(command, str) else command
        kept = {name: text for name, text in os.environ.items() if not name.startswith("POOLSHIM_")}
        env = {**kept, "PYTHONMALLOC": "malloc", "LD_PRELOAD": str(shim),
               **{f"POOLSHIM_{name}": value for name, value in settings.items()}}  # fmt: skip
        process = subprocess.Popen(words, env=env, cwd=tmp_path, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        running.append(process)
        assert process.stdout is not None and process.stdout.readline() == "1\n"
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def report_in(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


# ---- DUMP_SIGNAL ----


@pytest.mark.parametrize("name", ["HUP", "QUIT", "USR1", "USR2", "WINCH"])
def test_a_signal_writes_a_report_and_has_no_other_effect(
    begin: Begin, tmp_path: Path, name: str
) -> None:
    """The program has one thread, which is blocked in a system call."""
    process = begin(SILENT, DUMP_SIGNAL=name, STATS="heap.json")
    process.send_signal(getattr(signal, f"SIG{name}"))
    wait_for((tmp_path / "heap.json").exists)
    assert report_in(tmp_path / "heap.json")["pid"] == process.pid
    out, err = process.communicate("x", timeout=SECONDS)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_signal_prints_the_table_where_no_target_is_set(begin: Begin) -> None:
    process = begin(SILENT, DUMP_SIGNAL="USR2")
    process.send_signal(signal.SIGUSR2)
    assert process.stderr is not None
    assert f"statistics of process {process.pid}" in process.stderr.readline()
    while not process.stderr.readline().startswith("         all "):
        pass
    _, err = process.communicate("x", timeout=SECONDS)
    assert (process.returncode, err) == (0, ""), "none at the exit"


def test_signals_while_threads_allocate(begin: Begin, program: Path, tmp_path: Path) -> None:
    """Wherever they are: in the fast path, in a refill, under a lock."""
    process = begin([program, "load", "4"], DUMP_SIGNAL="USR2", STATS="heap.json")
    for _ in range(300):
        process.send_signal(signal.SIGUSR2)
        time.sleep(0.002)
    wait_for((tmp_path / "heap.json").exists)
    calls = report_in(tmp_path / "heap.json")["calls"]
    assert calls["malloc_count"] > calls["free_count"] > 1000 and calls["malloc_rate"] > 0
    _, err = process.communicate("x", timeout=SECONDS)
    assert (process.returncode, err) == (0, "")


def test_a_handler_of_the_program_takes_the_place(begin: Begin, tmp_path: Path) -> None:
    own = "import os, signal; signal.signal(signal.SIGUSR2, lambda *_: os.write(1, b'2\\n')); "
    process = begin(own + SILENT, DUMP_SIGNAL="USR2")
    process.send_signal(signal.SIGUSR2)
    assert process.stdout is not None and process.stdout.readline() == "2\n"
    _, err = process.communicate("x", timeout=SECONDS)
    assert (process.returncode, err) == (0, "")


# ---- STATS_EVERY ----


@pytest.mark.parametrize("threads", [0, 2])
def test_a_report_every_second(
    begin: Begin, program: Path, tmp_path: Path, threads: int
) -> None:
    """The calls of a program of one thread write it, or else the background thread."""
    path = tmp_path / "heap.json"
    busy = "print(1, flush=True)\nwhile True: blocks = [bytes(i) for i in range(1000)]"
    command: Any = [program, "load", str(threads)] if threads else busy
    begin(command, STATS_EVERY="1s", STATS="heap.json")
    wait_for(path.exists)
    first, calls = path.stat().st_ino, report_in(path)["calls"]
    wait_for(lambda: path.stat().st_ino != first)
    later = report_in(path)["calls"]
    assert later["malloc_count"] > calls["malloc_count"]
    assert later["malloc_rate"] > 0 and later["free_rate"] > 0


def test_reports_of_a_silent_program_with_threads(begin: Begin) -> None:
    """The background thread does not sleep then. To stderr: no target is set."""
    waits = "import threading, sys; "
    waits += "threading.Thread(target=sys.stdin.read, args=(1,)).start(); print(1, flush=True)"
    process = begin(waits, STATS_EVERY="2", PURGE_DELAY_MS="50")
    assert process.stderr is not None
    tables: list[str] = []

    def are_two() -> bool:
        if select.select([process.stderr], [], [], 0)[0]:
            tables.append(os.read(process.stderr.fileno(), 65536).decode())
        return "".join(tables).count(f"statistics of process {process.pid}") == 2

    wait_for(are_two)


# ---- SIGTERM ----


def test_a_sigterm_that_ends_the_program_leaves_statistics(begin: Begin, tmp_path: Path) -> None:
    process = begin(SILENT, STATS="heap.json")
    process.terminate()
    _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (-signal.SIGTERM, "")
    assert report_in(tmp_path / "heap.json")["pid"] == process.pid


@pytest.mark.parametrize(("how", "status"), [(HANDLES, 3), (IGNORES, 0)])
def test_a_program_that_handles_it_writes_at_its_exit(begin: Begin, how: str, status: int) -> None:
    process = begin(how + SILENT, STATS="1")
    process.terminate()
    _, err = process.communicate("x", timeout=SECONDS)
    assert process.returncode == status and err.count("statistics of process") == 1


def test_an_ignored_sigterm_stays_ignored(begin: Begin) -> None:
    shell = ["sh", "-c", f"trap '' TERM; exec '{sys.executable}' -S -c '{SILENT}'"]
    process = begin(shell, STATS="1")
    process.terminate()
    process.communicate("x", timeout=SECONDS)
    assert process.returncode == 0


def test_no_statistics_no_handler(begin: Begin, tmp_path: Path) -> None:
    shows = "import signal; assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL; "
    process = begin(shows + SILENT)
    process.terminate()
    _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (-signal.SIGTERM, "") and not list(tmp_path.iterdir())


def test_a_target_that_cannot_be_written_is_one_line(begin: Begin) -> None:
    process = begin(SILENT, STATS="/nonexistent/heap.json")
    process.terminate()
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == -signal.SIGTERM
    assert err.startswith('poolshim: POOLSHIM_STATS: cannot write "/nonexistent/heap.json": ')
    assert err.count("\n") == 1


# ---- values ----


@each_row(
    ("name", "value", "line"),
    [
        ("STATS_EVERY", "soon", '"soon" is not a whole number'),
        ("STATS_EVERY", "-1", '"-1" is not a whole number'),
        ("STATS_EVERY", "99999999s", "is above the maximum, 4294967"),
        ("DUMP_SIGNAL", "KILL", '"KILL" is not one of off, HUP, QUIT, USR1, USR2, WINCH'),
    ],
)
def test_a_wrong_value_is_one_line(run_shim: RunShim, name: str, value: str, line: str) -> None:
    done = run_shim(["/bin/true"], env={f"POOLSHIM_{name}": value})
    assert done.returncode == 0 and line in done.stderr and done.stderr.count("\n") == 1
