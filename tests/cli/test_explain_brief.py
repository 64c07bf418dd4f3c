# SPDX-License-Identifier: MIT
"""`poolshim explain` of commands that end at once, and of processes that another allocator serves.

    scripts/test tests/cli/test_explain_brief.py
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, run_captured
from explaining import (  # noqa: F401
    MIB,
    PID,
    POOLSHIM,
    account_of,
    explain,
    history_of,
    server,
)
from programs import OTHER_ALLOCATOR, compile_library, compile_program
from running import Start, spawn  # noqa: F401
from table import each_row

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.errors import OwnFailure  # noqa: E402
from poolshim_cli.explain import account, command, verdict  # noqa: E402
from poolshim_cli.explain.history import History  # noqa: E402
from poolshim_cli.explain.watch import Moment, Watch  # noqa: E402

pytestmark = pytest.mark.preload

# Touches memory as fast as it can, and ends.
BRIEF = r"""
#include <stdlib.h>
#include <string.h>
int main(int count, char **words) {
    for (int i = 0; i < 115 * 256; i++) {
        memset(malloc(4000), 1, 4000);
    }
    return count > 1 ? atoi(words[1]) : 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("brief")


@pytest.fixture(scope="module")
def other(folder: Path) -> Path:
    """An allocator to preload."""
    return compile_library(folder, "other.so", OTHER_ALLOCATOR, "-fno-builtin")


# ---- a process that another allocator serves ----


def test_a_process_without_a_call_gets_no_verdict(
    spawn: Start, shim: Path, other: Path, server: Path
) -> None:
    before = f"LD_PRELOAD={other}:{shim}"
    process = spawn(["env", before, str(server)])
    words = ["--pid", str(process.pid), "--seconds", "500ms"]
    told = explain(*words, status=1)["verdict"]
    assert told["cause"] == "unknown" and told["bytes"] == 0
    assert told["text"].startswith("server made no call of poolshim: it allocates nothing, or ")
    done = run_captured([POOLSHIM, "explain", *words])
    assert done.returncode == 1 and "\nno verdict: server made no call" in done.stderr
    assert "\nverdict: " not in done.stderr


def test_a_command_is_explained_in_spite_of_another_preload(other: Path, folder: Path) -> None:
    program = compile_program(folder, "brief-other", BRIEF, "-fno-builtin")
    done = run_captured([POOLSHIM, "explain", "--json", "--", program],
                        env={**os.environ, "LD_PRELOAD": str(other)})  # fmt: skip
    assert done.returncode == 0
    assert done.stderr.startswith("poolshim explain: LD_PRELOAD names another allocator (other.so)")
    assert "made no call" not in json.loads(done.stdout)["verdict"]["text"]


# ---- a command that ends at once ----


@each_row("status", [0, 1, 7])
def test_a_brief_command_has_the_kernel_s_peak(folder: Path, status: int) -> None:
    """However seldom its memory was read; and no part of it is more than the resident memory."""
    program = compile_program(folder, "brief", BRIEF, "-fno-builtin")
    found = explain("--", program, str(status), status=status)
    assert 115 * MIB < found["peak_bytes"] < 135 * MIB
    for sample in found["samples"]:
        assert sum(sample["parts"].values()) <= 1.001 * sample["resident_bytes"]
    if len(found["samples"]) < verdict.LOOKS_LEAST:
        assert found["verdict"]["cause"] == "unknown"
        assert found["verdict"]["text"].startswith("too short: ")


@each_row("is_json", [False, True])
def test_a_command_that_leaves_no_sample(monkeypatch: Any, capsys: Any, is_json: bool) -> None:
    watch = Watch(starter=PID)
    watch.kernel_peak = 3 * MIB
    monkeypatch.setattr(command, "observe", lambda _: (watch, 128 + 9))
    assert command.main([*(["--json"] if is_json else []), "--", "/bin/killed"]) == 128 + 9
    out, errors = capsys.readouterr()
    text = "too short: it ended before its memory was read; at the peak 3.0 MiB were resident"
    assert errors == f"poolshim explain: {text}\n"
    if is_json:
        found = json.loads(out)
        assert found["verdict"]["text"] == text and found["program"] == "killed"
        assert found["peak_bytes"] == 3 * MIB and found["samples"] == []


def test_few_looks_at_a_command_are_too_short() -> None:
    def cause(count: int, peak: int = 0, surplus: float = 0.0) -> str:
        accounts = [account_of(50.0 * MIB) for _ in range(count)]
        for one in accounts:
            one.surplus = surplus
        accounts[-1].peak = peak
        return verdict.judge(history_of(accounts, starter=1)).cause

    assert cause(verdict.LOOKS_LEAST - 1) == "unknown" and cause(verdict.LOOKS_LEAST) == "nothing"
    assert cause(verdict.LOOKS_LEAST, peak=115 * MIB) == "unknown"
    assert cause(verdict.LOOKS_USUAL, peak=115 * MIB) == "nothing"
    assert cause(verdict.LOOKS_USUAL, surplus=16.0 * MIB) == "unknown"


def test_few_looks_before_the_first_call_are_too_short() -> None:
    accounts = [account_of(50.0 * MIB) for _ in range(verdict.LOOKS_LEAST)]
    for one in accounts:
        one.has_heap = one.has_calls = False
    assert verdict.judge(history_of(accounts[1:], starter=1)).text.startswith("too short: ")
    assert "made no call" in verdict.judge(history_of(accounts, starter=1)).text


def test_a_reading_during_which_the_process_ended_does_not_count(monkeypatch: Any) -> None:
    """The kernel ends the list of mappings where the memory is given back."""
    book = account.Book(os.getpid())
    assert book.take().rss > MIB
    monkeypatch.setattr(account, "resident_of", lambda _: 0)
    with pytest.raises(OwnFailure, match="no process"):
        book.take()
    book.close()


def test_the_parts_are_never_more_than_what_is_resident() -> None:
    grown = account_of(132.0, rss=100)
    grown.settle(rss_after=120)
    assert grown.rss == 120 and grown.accounted == pytest.approx(120)
    assert grown.surplus == 32
    shrunk = account_of(80.0, rss=100)
    shrunk.settle(rss_after=60)
    assert shrunk.rss == 100 and shrunk.accounted == 80


def test_the_kernel_s_peak_is_that_of_the_largest_process() -> None:
    moments = [Moment(0.0, {1: account.Account(1, 5, peak=9), 2: account.Account(2, 7, peak=7)})]
    watch = Watch(1, starter=1)
    watch.moments, watch.kernel_peak = moments, 30
    assert History(watch).peak == 7  # of process 2, which has most memory at the end
    moments[0].accounts[1].peak = 6
    assert History(watch).peak == 30
