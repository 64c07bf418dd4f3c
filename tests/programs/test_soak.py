# SPDX-License-Identifier: MIT
"""The soak in seconds instead of an hour, and that its verdict tells level memory from a leak.

    scripts/test tests/programs/test_soak.py           (the hour itself: scripts/dev/soak)
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT, load_script, run_captured
from table import each_row

SCRIPT = ROOT / "scripts" / "dev" / "soak"
LINE = (
    r"soak: {name}, \d\.\d min, (\d+) requests, {notes}; RSS [\d.]+ MiB at [\d.]+ min, "
    r"([\d.]+) at the end, ([\d.]+) highest; own use ([\d.]+); "
    r"(?:slope [-+][\d.]+ % \([-+][\d.]+ to [-+][\d.]+\): |)"
    r"(flat|not flat|not shown to be flat|too short for a verdict)"
)
ROUND = 160.0


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    return load_script("soak")


def hour(soak: ModuleType, percent: float, use_percent: float = 0.0, noise: float = 2.0) -> object:
    """Samples whose resident memory swings by a tenth with the phases and grows by percent in 50
    minutes beside what the program itself takes more."""
    generator = random.Random(1)
    samples = []
    for number in range(360):
        seconds = number * 10.0 + 10
        phase = int(seconds / 20) % 8
        used = 80e6 * (1 + use_percent / 100 * (seconds - 600) / 3000)
        above = 20e6 + 100e6 * percent / 100 * (seconds - 600) / 3000
        swing = 2e6 * (phase - 3.5) + generator.gauss(0, noise * 1e6)
        samples.append(soak.Sample(seconds, str(phase), int(used + above + swing), int(used), 0))
    return soak.judge(samples, ROUND)


@each_row("use_percent", [0.0, 10.0, -5.0])
def test_level_memory_is_flat(soak: ModuleType, use_percent: float) -> None:
    verdict = hour(soak, 0.0, use_percent)
    assert verdict.is_flat and abs(verdict.percent) < 1, verdict
    assert str(verdict).endswith(": flat")


@each_row("use_percent", [0.0, 10.0])
def test_a_leak_is_not_flat(soak: ModuleType, use_percent: float) -> None:
    verdict = hour(soak, 3.0, use_percent)
    assert not verdict.is_flat and 2 < verdict.percent < 4, verdict
    assert str(verdict).endswith(": not flat")


def test_what_is_too_noisy_is_not_called_flat(soak: ModuleType) -> None:
    verdict = hour(soak, 0.0, noise=40.0)
    assert not verdict.is_flat
    assert str(verdict).endswith(": not shown to be flat")


def test_the_interval_covers_the_slope(soak: ModuleType) -> None:
    for percent in (-3.0, 0.0, 1.0, 3.0):
        verdict = hour(soak, percent)
        assert verdict.low < percent < verdict.high
        assert verdict.high - verdict.low < 3


def test_few_samples_are_no_verdict(soak: ModuleType) -> None:
    samples = [soak.Sample(number * 10.0, "small", 10**8, 0, 0) for number in range(1, 60)]
    assert soak.judge(samples, ROUND) is None


def test_student(soak: ModuleType) -> None:
    for freedom, point in ((4, 2.776), (10, 2.228), (16, 2.120), (30, 2.042)):
        assert soak.student(freedom) == pytest.approx(point, rel=0.02)


class PhasesOnly:
    """A load of no work. Its steps take made-up time."""

    phases = ("a", "b", "c", "d")

    def __init__(self, clock: list[float], step_seconds: dict[str, float]) -> None:
        self.clock, self.step_seconds = clock, step_seconds

    def fill(self) -> None:
        self.clock[0] += 1

    def step(self, phase: str) -> None:
        self.clock[0] += self.step_seconds.get(phase, 0.05)

    def used_bytes(self) -> int:
        return 0

    def pids(self, server: int) -> list[int]:
        return []


@each_row(
    "step_seconds",
    [{}, {"b": 100.0}, {"b": 11.9}, {"a": 11.9}, dict.fromkeys("abcd", 100.0)],
)
def test_every_phase_has_a_row(
    soak: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    step_seconds: dict[str, float],
) -> None:  # fmt: skip
    """However long a step takes beside the run."""
    clock = [0.0]

    class Clock:
        monotonic = staticmethod(lambda: clock[0])

        @staticmethod
        def sleep(seconds: float) -> None:
            clock[0] += seconds

    class Server:
        pid = 0
        poll = staticmethod(lambda: None)

    monkeypatch.setattr(soak, "time", Clock)
    table = tmp_path / "soak.csv"
    options = argparse.Namespace(minutes=0.2, share=0.5, csv=table)
    soak.soak(PhasesOnly(clock, step_seconds), Server(), options)
    with table.open() as file:
        assert {row["phase"] for row in csv.DictReader(file)} == set(PhasesOnly.phases)


@pytest.mark.nightly
@pytest.mark.preload
@pytest.mark.parametrize(
    ("name", "program", "notes", "used", "phases"),
    [
        ("redis", "redis-server", r"\d+ compared, \d+ saves, \d+ connections, \d+ bursts", 40, 8),
        ("nginx", "nginx", r"\d+ connections, \d+ reloads", 0, 6),
    ],
)
def test_soak_of_seconds(
    shim: Path, tmp_path: Path, name: str, program: str, notes: str, used: int, phases: int
) -> None:
    if not (shutil.which(program) or Path("/usr/sbin", program).exists()):
        pytest.skip(f"{program} is not installed: scripts/setup test")
    table = tmp_path / "soak.csv"
    command = [SCRIPT, "--minutes=0.2", f"--program={name}", "--share=0.6"]
    result = run_captured([*command, f"--csv={table}", f"--library={shim}"], timeout=600)
    last = result.stdout.splitlines()[-1] if result.stdout else ""
    found = re.fullmatch(LINE.format(name=name, notes=notes), last)
    assert found, result.stdout + result.stderr
    assert result.returncode == (0 if found[5] == "flat" else 1)
    assert int(found[1]) > 1000 and float(found[4]) >= used
    assert float(found[2]) <= float(found[3])
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert len({row["phase"] for row in rows}) == phases
    assert all(int(row["rss_bytes"]) > 1 << 20 for row in rows)
    assert all(int(row["used_bytes"]) >= used << 20 for row in rows)


def test_a_library_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = run_captured([SCRIPT, f"--library={tmp_path / 'none.so'}"])
    assert result.returncode == 1
    assert f"no {tmp_path / 'none.so'}: run scripts/build release" in result.stderr
