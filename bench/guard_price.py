#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What guarded samples cost: CPU time at rates of POOLSHIM_GUARD_SAMPLE, as multiples of off.

    .venv/bin/python bench/guard_price.py [--runs 11] [--scale 0.3] [g++ | python | pair ...]

Programs: a compiler, an interpreter, and bench/pair, which does nothing but malloc and free. The
rates of one program run in turn, in another order each time, so that what else the machine does
meets all alike. Prints a table in Markdown: ratio of the best runs, since noise only ever adds
time, and in parentheses the 95 % interval of that of the medians, by bootstrap.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench")]

from harness import processes  # noqa: E402
from harness.inputs import write_inputs  # noqa: E402
from harness.price import chosen_programs, parse_price_options  # noqa: E402
from poolshim_cli.intervals import best, ratio_interval  # noqa: E402

RATES = (100, 300, 1000, 10_000, 100_000)
SEED = 1


def programs(build: Path, scale: float) -> dict[str, list[str]]:
    pairs = str(max(1, round(100e6 * scale)))
    return {
        "g++": ["g++", "-std=c++17", "-O1", "-c", "templates.cpp", "-o", "/dev/null"],
        "python": [sys.executable, "-S", "work.py"],
        "pair": [str(build / "bench" / "pair"), "--operations", pairs, "--rounds", "1"],
    }


def cpu_seconds(command: list[str], folder: Path, library: Path, rate: int) -> float:
    """Of the program and all that it waited for."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "LD_PRELOAD": str(library)}
    environment |= {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    if rate:
        environment["POOLSHIM_GUARD_SAMPLE"] = str(rate)
    ended = processes.run(command, folder, environment)
    if ended.problem:
        sys.exit(f"guard_price: {command[0]}, rate {rate}: {ended.problem}")
    return ended.usage.ru_utime + ended.usage.ru_stime


def measure(command: list[str], folder: Path, library: Path, runs: int) -> dict[int, list[float]]:
    generator = random.Random(SEED)
    seconds: dict[int, list[float]] = {rate: [] for rate in (0, *RATES)}
    for _ in range(runs):
        for rate in generator.sample(sorted(seconds), len(seconds)):
            seconds[rate].append(cpu_seconds(command, folder, library, rate))
    return seconds


def cell(at_rate: list[float], off: list[float]) -> str:
    ratio = best(at_rate) / best(off)
    interval = ratio_interval([[value] for value in at_rate], [[value] for value in off])
    return f"{ratio:.3f}" + (f" ({interval[0]:.3f}–{interval[1]:.3f})" if interval else "")


def main() -> int:
    options = parse_price_options(__doc__, runs=11)
    commands = programs(options.build, options.scale)
    chosen = chosen_programs(options, commands)
    print("| Program | off, s | " + " | ".join(f"N = {rate:,}" for rate in RATES) + " |")
    print("|---|---:|" + "---:|" * len(RATES))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, options.scale)
        for program in chosen:
            seconds = measure(commands[program], folder, options.library, options.runs)
            off = seconds[0]
            cells = " | ".join(cell(seconds[rate], off) for rate in RATES)
            print(f"| {program} | {best(off):.2f} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
