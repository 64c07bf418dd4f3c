# SPDX-License-Identifier: MIT
"""Runs a command with and without a setting in turns, and says what the setting gained.

    gain = verify_command(["program"], {"POOLSHIM_BACKGROUND": "1"}, "late", rounds=8)

Without the profile, since it changes the measured memory. The figure is the mean of the resident
memory of the command and its children over the second half of a run, or the peak of its largest
process (of a server, of all as they were sampled); ratios are taken within rounds
(compare/paired.py).
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from .. import launcher, places
from ..compare.paired import Ratio, ratio_of
from ..errors import Failed
from ..machine import HARNESS_PREFIXES
from .runs import OTHER_MODES, Serving, sample_server

SEED = 20140513
SAMPLE_MS = 20
SAMPLES_LEAST = 4
LATE_SHARE = 0.5
LEAST_S = 1e-6


@dataclass(frozen=True)
class Gain:
    """The setting against none."""

    setting: str
    figure: str
    rounds: int
    before_bytes: float  # medians
    after_bytes: float
    memory: Ratio
    cpu: Ratio

    def to_json(self) -> dict[str, Any]:
        """For --json."""
        return {"setting": self.setting, "figure": self.figure, "rounds": self.rounds,
                "before_bytes": round(self.before_bytes), "after_bytes": round(self.after_bytes),
                "memory": vars(self.memory), "cpu": vars(self.cpu)}  # fmt: skip

    def text(self) -> str:
        """The gain in words."""
        what = "peak" if self.figure == "peak" else "mean of the second half"
        ratio, cpu = self.memory, self.cpu
        change = f"{interval_text(ratio)} times the resident memory ({what})"
        if ratio.high is not None and ratio.high < 1:
            saved = mib(self.before_bytes - self.after_bytes)
            head = f"{self.setting} helps: {saved} less, {change}"
        elif ratio.low is not None and ratio.low > 1:
            head = f"{self.setting} does not help: it takes more, {change}"
        else:
            head = f"{self.setting}: no difference can be told, {change}"
        return f"{head}; {interval_text(cpu)} times the CPU time; {self.rounds} rounds in turns"


def mib(nbytes: float) -> str:
    """For people."""
    return f"{nbytes / 2**20:.1f} MiB"


def interval_text(ratio: Ratio) -> str:
    """A ratio with its 95 % interval."""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.3f}"
    return f"{ratio.ratio:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def late_bytes(samples: Sequence[Sequence[float]]) -> float:
    """The mean of the second half, from pairs of a time and a number of bytes."""
    if len(samples) < SAMPLES_LEAST:
        raise Failed("--verify: the command is too short: its memory was sampled "
                     f"{len(samples)} times")  # fmt: skip
    end = samples[-1][0]
    late = [one[1] for one in samples if one[0] >= end * LATE_SHARE]
    return sum(late) / len(late)


def run_command(command: list[str], env: dict[str, str], figure: str) -> tuple[float, float]:
    """Memory in bytes and CPU seconds of one run."""
    launch = launcher.Launch(
        tuple(command), places.find().library, env, sample_ms=SAMPLE_MS, is_family=True
    )
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    done = launcher.measure(launch, stdin=subprocess.DEVNULL, **options)
    report = done.report
    samples = [(at_ms, kib * 1024.0) for at_ms, kib in report["samples"]]
    memory = done.peak_rss_kib * 1024.0 if figure == "peak" else late_bytes(samples)
    return memory, max(report["user_s"] + report["sys_s"], LEAST_S)


def run_server(serving: Serving, env: dict[str, str], figure: str) -> tuple[float, float]:
    """The same of a server, from its start to the end of its rest."""
    samples, cpu_s = sample_server(serving, env, SAMPLE_MS / 1000)
    memory = late_bytes(samples)
    if figure == "peak":
        memory = max(nbytes for _, nbytes in samples)
    return memory, max(cpu_s, LEAST_S)


def compared(
    run: Callable[[dict[str, str]], tuple[float, float]], settings: dict[str, str], figure: str,
    rounds: int,
) -> Gain:  # fmt: skip
    """Interleaved rounds of both, in a random order within each."""
    own = {name: value for name, value in os.environ.items()
           if name.startswith("POOLSHIM_") and name not in OTHER_MODES
           and not name.startswith(HARNESS_PREFIXES)}  # fmt: skip
    environments = {"before": own, "after": {**own, **settings}}
    memory: dict[str, list[float]] = {"before": [], "after": []}
    cpu: dict[str, list[float]] = {"before": [], "after": []}
    order = random.Random(SEED)
    for _ in range(rounds):
        for name in order.sample(sorted(environments), 2):
            found = run(environments[name])
            memory[name].append(found[0])
            cpu[name].append(found[1])
    setting = " ".join(f"{name}={value}" for name, value in settings.items())
    return Gain(
        setting, figure, rounds, median(memory["before"]), median(memory["after"]),
        ratio_of(memory["after"], memory["before"], 2), ratio_of(cpu["after"], cpu["before"], 2),
    )  # fmt: skip


def verify_command(
    command: list[str], settings: dict[str, str], figure: str, rounds: int
) -> Gain:
    """A command with its settings against itself without."""
    return compared(lambda env: run_command(command, env, figure), settings, figure, rounds)


def verify_server(
    serving: Serving, settings: dict[str, str], figure: str, rounds: int
) -> Gain:
    """A server under its load."""
    return compared(lambda env: run_server(serving, env, figure), settings, figure, rounds)
