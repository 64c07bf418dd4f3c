# SPDX-License-Identifier: MIT
"""`poolshim set`: a setting of a running process changes, or one line says why it does not.

    scripts/test tests/cli/test_cli_set.py
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import ROOT, run_captured
from running import MIB, POOLSHIM, RISES, SILENT, Start, run_as_nobody, spawn, start
from running import complaint as complaint_of
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli import control  # noqa: E402

__all__ = ["spawn", "start"]

# Rises and falls at each line of input, and works on for as long as purging needs, which takes a
# share of the time only.
RISES_AGAIN = RISES + """
import time
print(1, flush=True)
for line in sys.stdin:
    rise()
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        small = [bytes(i * 100) for i in range(100)]
        large = bytes(600000)
    print(2, flush=True)
"""
MAPS = """
import sys
print(1, flush=True)
for line in sys.stdin:
    large = bytearray(40 << 20)
    del large
    print(2, flush=True)
"""


def change(pid: int, *words: str) -> subprocess.CompletedProcess[str]:
    return run_captured([POOLSHIM, "set", str(pid), *words])


def complaint(done: subprocess.CompletedProcess[str], status: int) -> str:
    return complaint_of(done, "set", status)


def work(process: subprocess.Popen[str]) -> int:
    """A line of input; the resident memory after it."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("x\n")
    process.stdin.flush()
    assert process.stdout.readline() == "2\n"
    return control.Process(process.pid).resident_bytes()


@pytest.mark.preload
@each_row("delay_ms", [0, 1])
def test_the_purge_delay_becomes_short(start: Start, delay_ms: int) -> None:
    process = start(RISES_AGAIN)
    kept = work(process)
    done = change(process.pid, f"purge-delay-ms={delay_ms}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"purge-delay-ms: 100000000 before, {delay_ms} now\n"
    assert kept - work(process) > 50 * MIB


@pytest.mark.preload
def test_the_purge_delay_becomes_long(start: Start) -> None:
    process = start(RISES_AGAIN, POOLSHIM_PURGE_DELAY_MS="0")
    kept = work(process)
    assert change(process.pid, "POOLSHIM_PURGE_DELAY_MS=100000000").returncode == 0
    assert work(process) - kept > 50 * MIB


@pytest.mark.preload
def test_the_cache_of_mappings_becomes_small(start: Start) -> None:
    process = start(MAPS)
    kept = work(process)
    done = change(process.pid, "cache-max=1MiB", "--json")
    assert json.loads(done.stdout) == {
        "pid": process.pid, "settings": {"cache-max": {"before": 64 * MIB, "after": MIB}}
    }  # fmt: skip
    assert kept - work(process) > 30 * MIB


@pytest.mark.preload
def test_a_limit_is_set_and_ended(start: Start) -> None:
    process = start(RISES_AGAIN)
    kept = work(process)
    done = change(process.pid, "limit=20MiB")
    assert (done.returncode, done.stdout) == (0, f"limit: off before, {20 * MIB} now\n")
    assert kept - work(process) > 50 * MIB, "near the limit free memory goes back at once"
    assert change(process.pid, "limit=80%").stdout == f"limit: {20 * MIB} before, 80% now\n"
    done = change(process.pid, "POOLSHIM_LIMIT=off", "--json")
    settings = {"limit": {"before": "80%", "after": "off"}}
    assert json.loads(done.stdout) == {"pid": process.pid, "settings": settings}
    assert work(process) > kept - 20 * MIB, "it is retained again"


@pytest.mark.preload
def test_a_limit_of_the_start_is_shown(start: Start) -> None:
    process = start(SILENT, POOLSHIM_LIMIT="80%")
    assert change(process.pid, "limit=2GiB").stdout == f"limit: 80% before, {2 << 30} now\n"


@pytest.mark.preload
def test_all_or_nothing(start: Start) -> None:
    process = start(SILENT)
    line = complaint(change(process.pid, "purge-delay-ms=7", "cache-max=x"), 2)
    assert line == "cache-max: 'x' is not a size such as 65536, 64K or 64KiB\n"
    hard = start(SILENT, POOLSHIM_HARDEN="1")
    line = complaint(change(hard.pid, "purge-delay-ms=7", "cache-max=0"), 1)
    assert line == f"process {hard.pid} is hardened: cache-max is fixed there\n"
    for one in (process, hard):
        done = change(one.pid, "purge-delay-ms=8")
        assert done.stdout == "purge-delay-ms: 100000000 before, 8 now\n"


def test_a_process_without_poolshim(start: Start) -> None:
    pid = start(SILENT, preload=False).pid
    line = complaint(change(pid, "purge-delay-ms=0"), 1)
    assert line == f"process {pid} does not run on poolshim\n"


@pytest.mark.preload
@pytest.mark.root
def test_not_permitted(start: Start) -> None:
    pid = start(SILENT).pid
    line = complaint(run_as_nobody("set", str(pid), "purge-delay-ms=0"), 126)
    assert "not permitted" in line
    assert change(pid, "purge-delay-ms=8").stdout.startswith("purge-delay-ms: 100000000 before")


FIXED = (
    "no setting that may change in a running process; there are cache-max, limit, "
    "purge-delay-ms, thread-bytes"
)


@each_row(
    ("words", "status", "line"),
    [
        ([], 2, "which process? poolshim set PID NAME=VALUE"),
        (["1"], 2, "which setting? poolshim set PID NAME=VALUE"),
        (["x", "purge-delay-ms=0"], 2, "PID: x is no number"),
        (["purge-delay-ms=0", "1"], 2, "PID: purge-delay-ms=0 is no number"),
        (["1", "purge-delay-ms"], 2, "purge-delay-ms: NAME=VALUE is expected"),
        (["1", "purge-delay-ms="], 2, "purge-delay-ms: '' is not a number"),
        (["1", "purge-delay-ms=-1"], 2, "purge-delay-ms: '-1' is not a number"),
        (["1", "purge-delay-ms=4294967296"], 2, "purge-delay-ms: '4294967296' is too large"),
        (["1", "cache-max=99999999999G"], 2, "cache-max: '99999999999G' is too large"),
        (["1", "limit=x"], 2,
         "limit: 'x' is neither a percentage such as 80% nor a size such as 2GiB"),
        (["1", "limit=0%"], 2, "limit: '0%' is not a percentage from 1% to 100%"),
        (["1", "limit=101%"], 2, "limit: '101%' is not a percentage from 1% to 100%"),
        (["1", "limit=-5%"], 2, "limit: '-5%' is not a percentage from 1% to 100%"),
        (["1", "limit=1023K"], 2, "limit: '1023K' is too small"),
        (["1", "limit=99999999999G"], 2, "limit: '99999999999G' is too large"),
        (["1", "harden=3"], 2, f"harden: {FIXED}"),
        (["1", "hardne=3"], 2, f"hardne: {FIXED}"),
        (["--all"], 2, "no option --all"),
        (["2147483647", "cache-max=0"], 127, "no process 2147483647"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], status: int, line: str) -> None:
    assert complaint(run_captured([POOLSHIM, "set", *words]), status) == line + "\n"
