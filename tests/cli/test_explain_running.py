# SPDX-License-Identifier: MIT
"""`poolshim explain --pid`: a server that leaks is told from one in balance, with nothing that was
set beforehand, and an interrupt ends the watch with a report.

    scripts/test tests/cli/test_explain_running.py
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, SLOWNESS
from explaining import MIB, POOLSHIM, account_of, explain, history_of, server  # noqa: F401
from running import SILENT, Start, spawn, start  # noqa: F401
from sampling import await_looks, target_of
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.explain import growth, verdict  # noqa: E402

pytestmark = pytest.mark.preload

WATCHES = ("5s", "15s", "45s")  # longer where the machine is so busy that little happens


def test_a_running_server_that_leaks(spawn: Start, server: Path) -> None:
    """Nothing was set beforehand."""
    need("addr2line")
    process = spawn([server, "leak"])
    for seconds in WATCHES:
        found = explain("--pid", str(process.pid), "--seconds", seconds, "--every", "50ms")
        told = found["verdict"]
        if (told["cause"], told["sites"][:1]) == ("leak", ["hoard"]):
            break
    assert told["cause"] == "leak" and told["sites"] == ["hoard"], (told, found["notes"])
    assert told["bytes"] >= MIB and "the live memory grew in " in told["text"]


def test_a_running_server_in_balance_does_not_leak(spawn: Start, server: Path) -> None:
    """What it allocates in place of older blocks is live, and nothing grows."""
    process = spawn([server])
    found = explain("--pid", str(process.pid), "--seconds", "4s", "--every", "50ms")
    assert found["verdict"]["cause"] != "leak", found["verdict"]


def test_an_interrupt_ends_the_watch_with_a_report(spawn: Start, server: Path) -> None:
    process = spawn([server, "leak"])
    target = target_of(process)
    words = ["explain", "--json", "--pid", str(process.pid), "--seconds", "600"]
    with subprocess.Popen(
        [POOLSHIM, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as watching:
        await_looks(target)
        watching.send_signal(signal.SIGINT)
        output, errors = watching.communicate(timeout=60 * SLOWNESS)
    assert watching.returncode == 0, errors
    found = json.loads(output)
    assert found["samples"] and found["parts"]["live"] > MIB
    assert any(note.startswith("interrupted after ") for note in found["notes"])


def test_more_than_the_limit_is_said(start: Start) -> None:
    process = start(SILENT, POOLSHIM_LIMIT="8MiB")
    told = explain("--pid", str(process.pid), "--seconds", "500ms")["verdict"]
    assert "above its limit: " in told["text"] and "POOLSHIM_LIMIT is 8.0 MiB" in told["text"]


# ---- parts ----


def test_growth_is_told_from_what_comes_and_goes() -> None:
    def told(amounts: list[float], **parts: float) -> str:
        accounts = [account_of(one * MIB, **parts) for one in amounts]
        return verdict.judge(history_of(accounts, interval=1)).cause

    garbage = [0.0, 9.0, 4.0]
    assert told([50 + i + garbage[i % 3] for i in range(60)]) == "leak"
    assert told([50 + garbage[i % 3] for i in range(60)]) == "nothing"
    assert told([50 + min(i, 20) + garbage[i % 3] for i in range(60)]) == "nothing"
    assert told([50 + i / 100 for i in range(60)]) == "nothing"
    assert told([50.0, 60.0, 70.0]) == "nothing"  # of so few looks nothing is told
    accounts = [account_of(50.0 * MIB, other=one * 1.0 * MIB) for one in range(60)]
    found = verdict.judge(history_of(accounts, interval=1))
    assert found.cause == "growth"
    assert found.text.startswith("growth: other mappings grew in 5 of 5 parts of 5.9 s")
    assert growth.can_be_judged(history_of(accounts, interval=1))


def test_a_limit_is_named_with_any_verdict() -> None:
    accounts = [account_of(50.0 * MIB) for _ in range(12)]
    accounts[-1].limit = 40 * MIB
    assert verdict.judge(history_of(accounts)).cause == "limit"
    accounts[-1].parts |= {"live": 10.0 * MIB, "pinned": 40.0 * MIB}
    found = verdict.judge(history_of(accounts))
    assert found.cause == "fragmentation" and "; it is above its limit: 50.0 MiB" in found.text


def test_memory_that_swings_need_is_named() -> None:
    accounts = [account_of(50.0 * MIB, cache=200.0 * MIB) for _ in range(20)]
    assert "within two seconds" not in verdict.judge(history_of(accounts)).text
    for one in accounts:
        one.swing = 150 * MIB
    found = verdict.judge(history_of(accounts))
    assert found.cause == "cache"
    assert "up to 150.0 MiB are retained as long as the program frees" in found.text
