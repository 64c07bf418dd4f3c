# SPDX-License-Identifier: MIT
"""Four programs of pools/examples/programs, each on malloc, on std::pmr and on the pools.

Instructions and processor time are of the whole process, with its start. malloc's variant runs once
more on the preloaded library, and under callgrind once more to count malloc and free alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from poolshim_cli.errors import BadRequest, RunFailed
from poolshim_cli.launcher import Launch, check_exit, check_mapping, measure
from poolshim_cli.places import of_build

from .report import NOTHING, Section, ratio

# Rounds of a process: about half a second by malloc.
ROUNDS = {"http_requests": 150, "json_document": 150, "entity_store": 100, "order_book": 150}
COUNT_SHARE = 5  # of the rounds, when instructions are counted: callgrind takes 50 times as long
VARIANTS = ("malloc", "malloc, preloaded", "pmr", "pools")
BASE = VARIANTS[0]
PRELOADED = VARIANTS[1]
RUNS = 11


@dataclass
class Program:
    """What all processes of one program measured, by variant."""

    name: str
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    rss_kib: dict[str, list[int]] = field(default_factory=dict)
    instructions: dict[str, int] = field(default_factory=dict)
    in_malloc: int = 0  # of malloc's variant
    results: set[str] = field(default_factory=set)

    def ratios(self, variant: str) -> list[float]:
        """To malloc's processor time, round by round."""
        return [one / base for one, base in zip(self.cpu_s[variant], self.cpu_s[BASE])]

    def rows(self) -> list[list[str]]:
        """A row for each variant."""
        made = []
        for variant in VARIANTS:
            is_base = variant == BASE
            counted = self.instructions.get(variant)
            low, middle, high = quantiles(self.ratios(variant), n=4)
            made.append([
                f"{self.name}: {variant}",
                NOTHING if counted is None else f"{counted / 1e6:.0f}",
                NOTHING if counted is None else ratio(counted / self.instructions[BASE]),
                f"{self.in_malloc / self.instructions[BASE]:.0%}" if is_base else NOTHING,
                ratio(middle), NOTHING if is_base else f"{low:.2f}–{high:.2f}",
                f"{median(self.rss_kib[variant]) / 1024:.1f}",
            ])  # fmt: skip
        return made


def find_programs(build: Path) -> dict[str, Path]:
    """The built programs by name."""
    found = {name: build / "bench" / "programs" / name for name in ROUNDS}
    for path in found.values():
        if not os.access(path, os.X_OK):
            raise BadRequest(f"{path} is missing: build first (scripts/build release -- "
                             "bench-contests)")  # fmt: skip
    return found


def run_once(program: Program, path: Path, variant: str, build: Path, timeout_s: float) -> None:
    """One process: its processor time, its memory, its result."""
    library = build / "libpoolshim.so" if variant == PRELOADED else None
    command = (str(path), variant.split(",")[0], str(ROUNDS[program.name]))
    places = of_build(build)
    done = measure(Launch(command, library), timeout_s, places.launcher)
    check_exit(done.report, done.stderr)
    check_mapping(done.report, library, {build / "libpoolshim.so"}, done.stderr)
    program.results.add(json.loads(done.stdout)["result"])
    program.cpu_s.setdefault(variant, []).append(done.report["user_s"] + done.report["sys_s"])
    program.rss_kib.setdefault(variant, []).append(done.peak_rss_kib)


def count(path: Path, variant: str, functions: tuple[str, ...], timeout_s: float) -> int:
    """Instructions of one process, or of what these functions call and do."""
    rounds = max(1, ROUNDS[path.name] // COUNT_SHARE)
    collect = ["--collect-atstart=no", *(f"--toggle-collect={name}" for name in functions)]
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
               *(collect if functions else []), str(path), variant, str(rounds)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s,
                          env={"PATH": os.environ["PATH"]})  # fmt: skip
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise RunFailed(f"{path.name} {variant}: status {done.returncode}: {done.stderr[-200:]}")
    return int(found[1])


def count_all(program: Program, path: Path, timeout_s: float) -> None:
    """malloc and free by themselves, and each variant that callgrind can start."""
    program.in_malloc = count(path, BASE, ("malloc", "free"), timeout_s)
    for variant in VARIANTS:
        if variant != PRELOADED:
            program.instructions[variant] = count(path, variant, (), timeout_s)


def measure_all(build: Path, runs: int, timeout_s: float) -> list[Program]:
    """Rounds in which the variants take turns; one line of progress for each."""
    done = []
    for name, path in find_programs(build).items():
        program = Program(name)
        count_all(program, path, timeout_s)
        for number in range(runs):
            for variant in VARIANTS[number % 4 :] + VARIANTS[: number % 4]:
                run_once(program, path, variant, build, timeout_s)
        if len(program.results) != 1:
            raise RunFailed(f"{name}: the variants have different results")
        done.append(program)
    return done


def section(programs: list[Program]) -> Section:
    """A table of all of them."""
    headers = ["program", "instructions,\nmillions", "to\nmalloc", "in malloc\nand free",
               "time to\nmalloc", "quartiles", "peak\nMiB"]  # fmt: skip
    return Section("Four programs", headers, [row for one in programs for row in one.rows()])


def as_json(programs: list[Program]) -> list[dict[str, Any]]:
    """Every figure of every process."""
    return [
        {
            "program": one.name, "instructions": one.instructions, "in_malloc": one.in_malloc,
            "cpu_s": one.cpu_s, "peak_rss_kib": one.rss_kib,
        }
        for one in programs
    ]  # fmt: skip
