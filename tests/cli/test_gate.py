# SPDX-License-Identifier: MIT
"""`poolshim gate`: a planted leak fails with its call site, what only looks like one passes.

    scripts/test tests/cli/test_gate.py
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import ROOT, SLOWNESS, run_captured
from gating import POOLSHIM, REQUESTS, gate, gated, serving  # noqa: F401
from running import complaint
from table import each_row
from under_shim import need

sys.path.insert(0, str(ROOT / "scripts"))

from poolshim_cli.errors import Failed, OwnFailure  # noqa: E402
from poolshim_cli.gate import arguments, judge, report  # noqa: E402
from poolshim_cli.gate.judge import Change, Verdict  # noqa: E402
from poolshim_cli.gate.looks import LARGE, Look, Looks  # noqa: E402
from poolshim_cli.gate.outcome import Outcome, check_seen  # noqa: E402
from poolshim_cli.gate.sites import Row  # noqa: E402
from poolshim_cli.gate.trend import (  # noqa: E402
    LOOKS_MAX,
    SAMPLED_MAX,
    Trend,
    compared,
    pieces_of,
)
from poolshim_cli.live.samples import Snapshot  # noqa: E402

pytestmark = pytest.mark.preload

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 21))]
ROUNDS = 10
ALLOW = arguments.ALLOW_ROUND
NOISE = 30.0  # blocks


# ---- programs ----


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_leak_fails_with_its_size_and_its_site(gated: Path, seed: int) -> None:
    need("addr2line")
    found = gate("--requests", str(REQUESTS), *serving(gated, "leak", seed), status=1)
    assert found["per"] == "round" and found["rounds"] == 2 * ROUNDS
    assert found["sites"][0]["name"] == "forget" and len(found["sites"]) == 1
    assert found["sites"][0]["callers"][:2] == ["serve", "main"]
    (size,) = found["sizes"]
    assert size["block_bytes"] == 64
    assert abs(size["blocks"]["mean"] - REQUESTS) <= max(4 * size["blocks"]["error"], 1)
    assert found["bytes_per_request"]["mean"] == pytest.approx(64, rel=0.01)
    site = found["sites"][0]
    assert abs(site["bytes"] - 64 * REQUESTS) <= 3 * site["error"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["balance", "cache", "table", "warm"])
def test_what_only_looks_like_a_leak_passes(gated: Path, mode: str, seed: int) -> None:
    found = gate(*serving(gated, mode, seed))
    assert found["sites"] == [] and found["sizes"] == []
    assert len(found["live_bytes"]) == found["rounds"] + 1


@pytest.mark.slow
def test_growth_below_what_is_allowed_passes(gated: Path) -> None:
    """64 bytes of every 100th request are counted all the same."""
    found = gate(*serving(gated, "rare"), status=1)
    assert [size["block_bytes"] for size in found["sizes"]] == [64]
    assert found["bytes"]["mean"] == pytest.approx(6400, rel=0.15)
    gate("--allow", "16KiB", *serving(gated, "rare"))


@pytest.mark.slow
def test_a_command_that_loops(gated: Path, tmp_path: Path) -> None:
    need("addr2line")
    junit = tmp_path / "gate.xml"
    words = [str(gated), "leak", "loop", str(min(6 * SLOWNESS, 60)), "1"]
    found = gate("--rounds", "5", "--junit", junit, "--", *words, status=1)
    assert found["per"] == "minute" and found["sites"][0]["name"] == "forget"
    assert [size["block_bytes"] for size in found["sizes"]] == [64]
    case = ElementTree.parse(junit).getroot()[0]
    assert case.get("name") == " ".join(words)
    assert "forget < serve < main" in (case[0].text or "") and case[0].tag == "failure"
    words[1] = "balance"
    gate("--rounds", "5", "--junit", junit, "--", *words)
    assert ElementTree.parse(junit).getroot().get("failures") == "0"


def test_code_of_a_process_that_has_ended_is_known(gated: Path) -> None:
    command = [POOLSHIM, "run", gated, "balance", "loop", "60", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        looks, until_s = Looks(root=child.pid), time.monotonic() + 60
        while not looks.known and time.monotonic() < until_s:
            looks.take()
            time.sleep(0.05)
        (process,) = looks.known.values()
        assert str(gated) in [one.path for one in process.code]
        os.kill(process.memory.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        process.note_code()
        assert str(gated) in [one.path for one in process.code]
        looks.close()


# ---- failures ----


def test_a_command_that_cannot_be_judged_does_not_pass(gated: Path, tmp_path: Path) -> None:
    junit = tmp_path / "gate.xml"
    for words, status, text in (
        ([gated, "balance", "loop", "0.1", "1"], 125, "ended too soon to tell"),
        ([gated, "fail", "loop", "0.1", "1"], 1, "ended with 3"),
        (["/nowhere/program"], 127, "no such command"),
    ):
        done = run_captured([POOLSHIM, "gate", "--junit", junit, "--", *words])
        assert text in complaint(done, "gate", status)
        case = ElementTree.parse(junit).getroot()[0]
        assert case[0].tag == ("failure" if status == 1 else "error")
        assert text in (case[0].get("message") or "")


def test_a_load_that_fails_is_a_failure(gated: Path) -> None:
    server = serving(gated, "balance")[:2]
    done = run_captured([POOLSHIM, "gate", *server, "--load", "false {port}"])
    assert "the load ended with 1" in complaint(done, "gate", 1)


@each_row("words, text", [
    ([], "which command?"),
    (["--rounds", "4", "--", "true"], "--rounds: 4 is no number from 5 on"),
    (["--warmup", "1", "--", "true"], "--warmup goes with --server and --load"),
    (["--every", "1s", "--server", "a {port}", "--load", "b"], "--every is of a command"),
    (["--server", "a {port}"], "--server and --load go together"),
    (["--server", "a {port}", "--load", "b", "--", "c"], "one of them"),
    (["--allow", "much", "--", "true"], "--allow: much is not a size"),
    (["--interval", "0", "--", "true"], "--interval: 0 is no size"),
    (["--gone", "--", "true"], "no option --gone"),
    (["--junit", "/nowhere/x.xml", "--", "true"], "/nowhere"),
])  # fmt: skip
def test_bad_command_lines(words: list[str], text: str) -> None:
    done = run_captured([POOLSHIM, "gate", *words])
    assert text in complaint(done, "gate", done.returncode)
    assert done.returncode == 2


@each_row("error, status", [
    (OwnFailure("the right to trace it is needed", 126), 126), (Failed("another version"), 125),
])  # fmt: skip
def test_memory_that_cannot_be_read_does_not_pass(error: Exception, status: int) -> None:
    looks = Looks()
    looks.refuse(error)
    with pytest.raises(OwnFailure, match=str(error)) as refused:
        check_seen(looks, [Look(0.0)], "server")
    assert refused.value.status == status


# ---- the verdict, on rounds that are made up ----

Series = dict[int, list[float]]


def series(step: Callable[[int, random.Random], float], generator: random.Random) -> list[float]:
    return [10_000 + step(i, generator) + generator.gauss(0, NOISE) for i in range(2 * ROUNDS + 1)]


def looks_of(blocks: Series) -> list[Look]:
    found = []
    for i in range(2 * ROUNDS + 1):
        look = Look(float(i))
        for size, values in blocks.items():
            look.blocks[size] = round(values[i])
            look.nbytes[size] = round(values[i]) * (size or 1)
        found.append(look)
    return found


def made_up(step: Callable[[int, random.Random], float]) -> Iterator[list[Look]]:
    """30 experiments: 40 sizes of noise, and one more."""
    for seed in range(30):
        generator = random.Random(seed)
        noise = {16 * (i + 1): series(lambda *_: 0.0, generator) for i in range(40)}
        yield looks_of({**noise, 1000: series(step, generator)})


@each_row("step", [
    lambda i, _: 0.0,
    lambda i, _: 2000.0 * min(i, 3),  # a warm-up
    lambda i, _: 2000.0 * min(i, 15),  # a cache that fills at a constant rate
    lambda i, _: 40_000 * (1 - 2.718 ** (-i / 5)),  # and more and more slowly
    lambda i, _: 40_000 * (1 - 2.718 ** (-i / 15)),
    lambda i, _: 1000.0 * 2 ** ((i + 2).bit_length()),  # a table that doubles
    lambda i, _: 50_000.0 * (i > 10),
    lambda i, generator: generator.gauss(0, 3000),
    lambda i, generator: -100.0 * i,
])  # fmt: skip
def test_noise_and_bounded_growth_pass(step: Callable[[int, random.Random], float]) -> None:
    assert not any(judge.confirmed(looks, ALLOW).does_grow for looks in made_up(step))


@each_row("blocks", [100.0, 1000.0])
def test_steady_growth_fails(blocks: float) -> None:
    """In the noise of all sizes together it would not be seen."""
    inside = 0
    for looks in made_up(lambda i, _: blocks * i):
        found = judge.confirmed(looks, ALLOW)
        assert found.does_grow and list(found.sizes) == [1000]
        inside += found.nbytes.low <= 1000 * blocks <= found.nbytes.high
    assert inside >= 26


def test_blocks_that_become_larger_are_no_growth() -> None:
    up = [10_000 + 100.0 * i for i in range(2 * ROUNDS + 1)]
    looks = looks_of({1000: [20_000 - one for one in up], 1008: [one * 1000 / 1008 for one in up]})
    assert not judge.confirmed(looks, ALLOW).does_grow


def test_growth_that_stops_is_noted() -> None:
    looks = looks_of({64: [1000.0 * min(i, 10) for i in range(2 * ROUNDS + 1)]})
    found = judge.confirmed(looks, ALLOW)
    assert found.has_stopped and not found.does_grow


# ---- looks at a command ----


def test_looks_at_a_long_command_are_bounded() -> None:
    trend = Trend(Looks(), 0.02)
    for i in range(5000):
        trend.keep(Look(i / 10, Counter({64: 6400 + i}), Counter({64: 100}), {1: Snapshot()}))
        assert len(trend.taken) <= LOOKS_MAX
        assert sum(bool(look.samples) for look in trend.taken) <= SAMPLED_MAX
    assert trend.taken[0].at_s == 0 and trend.pause_s > 0.02
    looks = compared(trend.taken)
    assert looks[0].at_s >= 125 and looks[-1].at_s <= 475 + 1
    assert sum(bool(look.samples) for look in looks) >= 8
    pieces = pieces_of(looks, ROUNDS)
    assert len(pieces) == 2 * ROUNDS + 1
    assert pieces[0].nbytes[64] == looks[0].nbytes[64]  # the least


def test_too_few_looks_are_no_pieces() -> None:
    looks = [Look(float(i), Counter({64: 64})) for i in range(30)]
    assert pieces_of([], ROUNDS) == pieces_of(looks[:10], ROUNDS) == []
    assert len(pieces_of(looks[:11], ROUNDS)) == 11


# ---- the report ----


@each_row("width", [80, 50])
def test_the_report_fits_the_terminal(width: int) -> None:
    long = "some_library::with_a_namespace::function_with_a_long_name"
    verdict = Verdict(True, Change(3e6, 2e5), Change(500.0, 3.0), {64: Change(400.0, 2.0),
                      LARGE: Change(3.0, 0.1)}, 20)  # fmt: skip
    rows = [Row(long[:25], 2.5e6, 1e5, 390.0, ("caller", "another_caller", "main")),
            Row("b", 4e5, 1e4, 10.0, ()), Row("c", 1e5, 1e4, 10.0, ())]  # fmt: skip
    found = Outcome(verdict, [1, 2], span="20 rounds after 2 of warm-up", rows=rows, name="server")
    request = arguments.parse(["--top", "2", "--requests", "1000", "--server", "server {port}",
                               "--load", "load"])  # fmt: skip
    text = report.text_of(request, found, width)
    assert all(len(line) <= width for line in text.splitlines())
    words = " ".join(text.split())
    assert "live memory grows: +2.9 MiB per round ± 0.191" not in words
    assert "+2.9 MiB per round ± 0.2" in words and "per request: +3000.0 bytes ± 200.0" in words
    assert "< caller < another_caller < main" in words and "1 more" in words
    assert "blocks of 64 bytes: +400.0 per round ± 2.0" in words
    assert "blocks above the size classes: +3.0 per round" in words


def test_names_of_others_do_no_harm_in_xml() -> None:
    text = report.junit("a\x1b[2J <b> & c\n", "x\x00y", 1.0, "failure").decode()
    case = ElementTree.fromstring(text)[0]
    assert case.get("name") == "x?y" and case[0].text == "a?[2J <b> & c"


def running(words: str) -> list[str]:
    """Processes with such a command line."""
    lines = run_captured(["ps", "-eo", "args"]).stdout.splitlines()
    return [line for line in lines if re.match(words, line)]


@each_row("number, status, is_server", [
    (signal.SIGINT, 130, True), (signal.SIGTERM, 143, True), (signal.SIGTERM, 143, False),
])  # fmt: skip
def test_a_gate_that_is_ended_leaves_no_process(
    gated: Path, number: int, status: int, is_server: bool
) -> None:
    """Seed 177 is that of no other process."""
    words = ["--", str(gated), "balance", "loop", "600", "177"]
    if is_server:
        words = serving(gated, "balance", 177, requests=100_000)
    pattern = rf"{re.escape(str(gated))} balance (server|loop) \d+ 177"
    with subprocess.Popen(
        [POOLSHIM, "gate", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as gating:
        while not running(pattern):
            assert gating.poll() is None
        gating.send_signal(number)
        _, errors = gating.communicate(timeout=60)
        assert gating.returncode == status and "Traceback" not in errors
        end_s = time.monotonic() + 30
        while running(pattern):  # SIGTERM has been sent, and takes effect soon
            assert time.monotonic() < end_s
