# SPDX-License-Identifier: MIT
"""`poolshim trim`: a running process releases its memory, or one line says why it does not.

    scripts/test tests/cli/test_cli_trim.py
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, run_captured
from running import MIB, POOLSHIM, RISES, SILENT, Start, run_as_nobody, spawn, start  # noqa: F401
from running import complaint as complaint_of
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import control  # noqa: E402
from poolshim_cli.errors import Failed  # noqa: E402
from poolshim_cli.live.idle import Idle  # noqa: E402

# Makes a few calls, as an idle server does.
TICKS = RISES + """
import select
rise()
print(1, flush=True)
while not select.select([sys.stdin], [], [], 0.002)[0]:
    blocks = [bytes(i * 100) for i in range(200)]
"""
ENDED = RISES + """
threads = [threading.Thread(target=rise) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(1, flush=True)
wait()
"""
THREADS = RISES + """
thread = threading.Thread(target=wait)
thread.start()
rise()
print(1, flush=True)
time.sleep(1000)
"""


def trim(pid: int, *options: str) -> subprocess.CompletedProcess[str]:
    return run_captured([POOLSHIM, "trim", *options, str(pid)])


def complaint(done: subprocess.CompletedProcess[str], status: int) -> str:
    return complaint_of(done, "trim", status)


def released(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    assert found["before_bytes"] - found["after_bytes"] > 50 * MIB
    assert found["released_bytes"] > 50 * MIB and not found["asleep"]
    return found


@pytest.mark.preload
def test_a_process_that_makes_calls_releases_its_memory(start: Start) -> None:
    process = start(TICKS)
    assert released(trim(process.pid, "--json"))["pid"] == process.pid
    again = trim(process.pid)
    assert again.returncode == 0 and " resident before, " in again.stdout


@pytest.mark.preload
def test_a_silent_process_with_threads_releases_its_memory(start: Start) -> None:
    """Its background thread does: four times in the purge delay."""
    process = start(THREADS, POOLSHIM_PURGE_DELAY_MS="6000")
    assert control.Process(process.pid).page().background != control.OFF
    released(trim(process.pid, "--json", "--timeout", "30"))


@pytest.mark.preload
def test_an_idle_process_has_released_all(start: Start) -> None:
    process = start(THREADS, POOLSHIM_PURGE_DELAY_MS="10")
    while control.Process(process.pid).page().background != control.ASLEEP:
        assert process.poll() is None
    done = trim(process.pid)
    assert done.returncode == 0 and "has released its free memory" in done.stdout
    page = control.Process(process.pid).page()
    assert page.request == page.done


@pytest.mark.preload
def test_a_silent_process_of_one_thread_does_not_answer(start: Start) -> None:
    process = start(SILENT)
    line = complaint(trim(process.pid, "--timeout=0.2"), 1)
    assert line.startswith(f"process {process.pid} did not answer within 0.2 s: it makes no call")
    page = control.Process(process.pid).page()
    assert page.request == page.done, "the request was not withdrawn"


@pytest.mark.preload
@each_row("source", [SILENT, ENDED])
def test_an_idle_process_that_cannot_answer_is_told_apart(start: Start, source: str) -> None:
    process = start(source, POOLSHIM_PURGE_DELAY_MS="10")
    end = time.monotonic() + 60
    while control.Process(process.pid).page().background != control.OFF:
        assert process.poll() is None and time.monotonic() < end
    line = complaint(trim(process.pid), 1)
    assert line.startswith(f"process {process.pid} is idle and has no background thread ")
    assert "before its next call of malloc or free. --timeout SECONDS" in line
    page = control.Process(process.pid).page()
    assert page.request == page.done, "the request was not withdrawn"


@pytest.mark.preload
def test_a_stopped_process_is_said_to_be_stopped(start: Start) -> None:
    process = start(TICKS)
    process.send_signal(signal.SIGSTOP)
    end = time.monotonic() + 60
    while (idle := Idle(process.pid, 0)).seen is None or not idle.is_stopped:
        assert time.monotonic() < end
    line = complaint(trim(process.pid), 1)
    assert line.startswith(f"process {process.pid} is stopped: no thread of it can")
    process.send_signal(signal.SIGCONT)
    released(trim(process.pid, "--json", "--timeout", "30"))


@pytest.mark.preload
def test_an_unknown_request_is_refused(start: Start) -> None:
    process = control.Process(start(TICKS).pid)
    with pytest.raises(Failed, match="does not know this request"):
        process.ask(77, 20)
    process.ask(control.TRIM, 20)


@pytest.mark.preload
@each_row("what", ["version", "magic"])
def test_another_version_is_named(start: Start, what: str) -> None:
    process = start(SILENT)
    place = control.find_page(process.pid)
    control.write(process.pid, place + {"magic": 0, "version": 16}[what], b"\7\0\0\0")
    assert "of the control page, this command speaks 1" in complaint(trim(process.pid), 1)


def test_a_process_without_poolshim(start: Start) -> None:
    process = start(SILENT, preload=False)
    assert complaint(trim(process.pid), 1) == f"process {process.pid} does not run on poolshim\n"


@pytest.mark.preload
def test_a_library_that_was_replaced(start: Start, shim: Path, tmp_path: Path) -> None:
    """After an upgrade the process still has the old library in memory."""
    copy = tmp_path / "libpoolshim.so"
    copy.write_bytes(shim.read_bytes())
    process = start(SILENT, LD_PRELOAD=str(copy), preload=False)
    page = control.find_page(process.pid)
    copy.unlink()
    assert control.find_page(process.pid) == page
    copy.write_bytes(b"something else")
    assert control.find_page(process.pid) == page and control.Process(process.pid).page()


def test_no_such_process(start: Start) -> None:
    process = start(SILENT, preload=False)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert complaint(trim(process.pid), 127) == f"no process {process.pid}\n"


@pytest.mark.preload
@pytest.mark.root
def test_not_permitted(start: Start) -> None:
    assert "not permitted" in complaint(run_as_nobody("trim", str(start(SILENT).pid)), 126)


@each_row(
    ("words", "line"),
    [
        ([], "which process? poolshim trim PID"),
        (["container:"], "PID: the id of a container is missing"),
        (["--container", "a", "1"], "one process at a time"),
        (["0"], "PID: 0 is out of range"),
        (["1", "2"], "one process at a time"),
        (["--timeout"], "--timeout needs a value"),
        (["--timeout", "-1", "1"], "--timeout: -1 is out of range"),
        (["--all"], "no option --all"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], line: str) -> None:
    assert complaint(run_captured([POOLSHIM, "trim", *words]), 2) == line + "\n"
