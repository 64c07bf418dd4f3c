# SPDX-License-Identifier: MIT
"""`poolshim trim`: a running process releases its memory, or one line says why it does not.

    scripts/test tests/cli/test_cli_trim.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, run_captured

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import control  # noqa: E402
from poolshim_cli.errors import Failed  # noqa: E402

POOLSHIM = ROOT / "scripts" / "poolshim"
MIB = 1 << 20
KEEPS = {"POOLSHIM_PURGE_DELAY_MS": "100000000", "PYTHONMALLOC": "malloc"}
RISES = """
import sys, threading, time
def rise():
    blocks = [b'x' * (3000 + i * 7919 % 50000) for i in range(4000)]
    return len(blocks)
def wait():
    sys.stdin.read(1)
"""
# Makes a few calls, as an idle server does.
TICKS = RISES + """
import select
rise()
print(1, flush=True)
while not select.select([sys.stdin], [], [], 0.002)[0]:
    blocks = [bytes(i * 100) for i in range(200)]
"""
SILENT = RISES + "rise(); print(1, flush=True); wait()"
THREADS = RISES + """
thread = threading.Thread(target=wait)
thread.start()
rise()
print(1, flush=True)
time.sleep(1000)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(shim: Path) -> Iterator[Start]:
    """Starts a Python program on the shim that says when it is ready; it ends with the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(program: str, preload: bool = True, **settings: str) -> subprocess.Popen[str]:
        env = {**os.environ, **KEEPS, **settings, **({"LD_PRELOAD": str(shim)} if preload else {})}
        command = [sys.executable, "-S", "-c", program]
        process = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)  # fmt: skip
        running.append(process)
        assert process.stdout is not None and process.stdout.readline() == "1\n"
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def trim(pid: int, *options: str) -> subprocess.CompletedProcess[str]:
    return run_captured([POOLSHIM, "trim", *options, str(pid)])


def complaint(done: subprocess.CompletedProcess[str], status: int) -> str:
    assert done.returncode == status and done.stdout == "", done
    assert done.stderr.startswith("poolshim trim: ") and done.stderr.count("\n") == 1
    return done.stderr.removeprefix("poolshim trim: ")


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
    assert done.returncode == 0 and "has released what was free" in done.stdout
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
def test_an_unknown_request_is_refused(start: Start) -> None:
    process = control.Process(start(TICKS).pid)
    with pytest.raises(Failed, match="does not know this request"):
        process.ask(77, 20)
    process.ask(control.TRIM, 20)


@pytest.mark.preload
@pytest.mark.parametrize("what", ["version", "magic"])
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
    copy = tmp_path / "libpoolshim.so"
    copy.write_bytes(shim.read_bytes())
    process = start(SILENT, LD_PRELOAD=str(copy), preload=False)
    copy.unlink()
    assert "it was replaced since, or removed" in complaint(trim(process.pid), 1)
    copy.write_bytes(shim.read_bytes())
    assert "it was replaced since, or removed" in complaint(trim(process.pid), 1)


def test_no_such_process(start: Start) -> None:
    process = start(SILENT, preload=False)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert complaint(trim(process.pid), 127) == f"no process {process.pid}\n"


@pytest.mark.preload
@pytest.mark.root
def test_not_permitted(start: Start) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs two users")
    process = start(SILENT)
    script = (
        "import os, sys; from poolshim_cli import __main__, trim; from poolshim_cli.trim import "
        "command; os.setgid(65534); os.setuid(65534); "
        f"__main__.names = lambda: ['trim']; sys.exit(__main__.attempt(['trim', '{process.pid}']))"
    )
    done = run_captured([sys.executable, "-c", script], cwd=ROOT / "scripts")
    assert "not permitted" in complaint(done, 126)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "which process? poolshim trim PID"),
        (["x"], "PID: x is no number"),
        (["0"], "PID: 0 is out of range"),
        (["1", "2"], "one process at a time"),
        (["--timeout"], "--timeout: how many seconds?"),
        (["--timeout", "-1", "1"], "--timeout: -1 is out of range"),
        (["--all"], "no option --all"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], line: str) -> None:
    assert complaint(run_captured([POOLSHIM, "trim", *words]), 2) == line + "\n"
