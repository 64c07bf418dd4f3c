# SPDX-License-Identifier: MIT
"""The pools' benchmark: the contestants, and the ratio of each pool to the best original.

A program of bench/pools names its contests itself (--list); one process measures one of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from poolshim_cli.allocators import Allocator
from poolshim_cli.errors import BadRequest, RunFailed

from .report import NOTHING, Section, milliseconds, ratio
from .runner import Case, Runner
from .verdict import geometric_mean

OURS = "ps_"
# Contestants that no target is set against: what the work costs without an allocator.
FLOORS = {"floor"}
# (group, contestant) that does not do what the group is about: an upper limit, and no target.
REFERENCES = {("shared", "malloc")}  # serves one process
# Groups with a table of their own: families that no original's benchmark was made for.
FAMILIES = ("slots", "fixed", "bounded", "retire", "shared")
CELL_GOAL, MEAN_GOAL = 1.0, 0.90
# Threads that wait for each other: how many instructions they take is chance.
THREADED = {("list", "contended"), ("bounded", None), ("retire", None), ("shared", None)}


@dataclass(frozen=True)
class Contest:
    """One contestant in one case; both named by the program."""

    program: str
    group: str
    case: str
    pool: str

    @property
    def is_ours(self) -> bool:
        return self.pool.startswith(OURS)

    @property
    def is_target(self) -> bool:
        return not (
            self.is_ours or self.pool in FLOORS or (self.group, self.pool) in REFERENCES
        )

    @property
    def is_countable(self) -> bool:
        return not {(self.group, self.case), (self.group, None)} & THREADED

    def as_case(self, scale: float) -> Case:
        """How the runner starts it."""
        return Case(
            name=f"{self.group}/{self.case}",
            program=f"pools/{self.program}",
            arguments=("--case", self.case, "--pool", self.pool, "--scale", str(scale)),
            expected=(("group", self.group), ("case", self.case), ("pool", self.pool)),
            rounds=None,
        )


@dataclass
class Result:
    """What all processes of one contest measured; failure: why there is nothing."""

    contest: Contest
    cold_ms: list[float] = field(default_factory=list)
    warm_ms: list[float] = field(default_factory=list)
    rss_kib: list[int] = field(default_factory=list)
    failure: str = ""


def discover(build: Path) -> list[Contest]:
    """Every contest of every program that is built."""
    folder = build / "bench" / "pools"
    programs = sorted(path for path in folder.glob("*") if path.is_file())
    if not programs:
        raise BadRequest(f"{folder}: nothing is built there (cmake --build --preset release)")
    found = []
    for program in programs:
        done = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            group, case, pool = line.split()
            found.append(Contest(program.name, group, case, pool))
    return found


def measure(
    runner: Runner, contests: list[Contest], passes: int, scale: float
) -> Iterator[tuple[Result, int]]:
    """Runs all contests, then all of them again: a slow moment affects all. Yields each result
    after each of its processes."""
    results = [Result(contest) for contest in contests]
    for number in range(passes):
        for result in results:
            if result.failure:
                continue
            try:
                run = runner.run(
                    result.contest.as_case(scale), Allocator(name=result.contest.pool)
                )
            except RunFailed as error:
                result.failure = str(error)
            else:
                result.cold_ms.append(float(run.report["cold_ms"]))
                result.warm_ms.append(float(run.report["warm_ms"]))
                result.rss_kib.append(run.peak_rss_kib)
            yield result, number


def count(build: Path, contest: Contest, scale: float, timeout: float) -> Result:
    """Instructions of each pass, by callgrind, in place of milliseconds: the first pass is cold,
    the cheapest of the others warm. RSS would be valgrind's."""
    case = contest.as_case(scale)
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--collect-atstart=no",
                   f"--callgrind-out-file={folder}/counts",
                   str(build / "bench" / case.program), *case.arguments]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout,
            env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        passes = [pass_count(path) for path in sorted(Path(folder).glob("counts.*"), key=number_of)]
    if done.returncode != 0 or len(passes) < 2:
        return Result(contest, failure=f"status {done.returncode}: {done.stderr[-200:].strip()}")
    return Result(contest, [passes[0]], [min(passes[1:])])


def number_of(dump: Path) -> int:
    """callgrind appends .1, .2, ... to the name of each dump."""
    return int(dump.suffix[1:])


def pass_count(dump: Path) -> float:
    found = re.search(r"^(?:totals|summary): (\d+)", dump.read_text(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def best(result: Result, figure: str) -> float | None:
    """The best of all processes; None without one."""
    values: list[float] = getattr(result, figure)
    return min(values) if values else None


def stand(results: list[Result], figure: str) -> tuple[float, str, str] | None:
    """The ratio of our best pool to the best original in one case, and the names of the two."""
    timed = [(value, one) for one in results if (value := best(one, figure)) is not None]
    ours = [pair for pair in timed if pair[1].contest.is_ours]
    others = [pair for pair in timed if pair[1].contest.is_target]
    if not ours or not others:
        return None
    mine, other = min(ours, key=lambda p: p[0]), min(others, key=lambda p: p[0])
    return mine[0] / other[0], mine[1].contest.pool, other[1].contest.pool


def by_case(results: list[Result]) -> dict[tuple[str, str], list[Result]]:
    """Results of each (group, case), in the order the programs name them."""
    table: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        table.setdefault((result.contest.group, result.contest.case), []).append(result)
    return table


def count_section(key: tuple[str, str], results: list[Result]) -> Section:
    """The instructions of all contestants in one case, fewest first."""
    section = Section(f"{key[0]}: {key[1]}, instructions", ["pool", "cold", "warm"])
    for result in sorted(results, key=lambda one: best(one, "warm_ms") or 0):
        if result.failure:
            section.failures.append((result.contest.pool, result.failure))
        else:
            counts = [f"{values[0]:.0f}" for values in (result.cold_ms, result.warm_ms)]
            section.rows.append([result.contest.pool, *counts])
    return section


def case_section(key: tuple[str, str], results: list[Result]) -> Section:
    """The figures of all contestants in one case, fastest first."""
    section = Section(f"{key[0]}: {key[1]}", ["pool", "cold\nms", "warm\nms", "peak RSS\nMiB"])
    for result in sorted(results, key=lambda one: best(one, "warm_ms") or 0):
        if result.failure:
            section.failures.append((result.contest.pool, result.failure))
            continue
        section.rows.append(
            [
                result.contest.pool,
                milliseconds(min(result.cold_ms)),
                milliseconds(min(result.warm_ms)),
                f"{median(result.rss_kib) / 1024:.0f}",
            ]
        )
    return section


def stand_cells(stood: tuple[float, str, str] | None) -> list[str]:
    return [NOTHING] * 3 if stood is None else [stood[1], stood[2], ratio(stood[0])]


def sums_section(results: list[Result]) -> Section:
    """Our best pool against the best original, case by case, and the geometric means."""
    headers = ["case", "ours\nwarm", "best original\nwarm", "ratio\nwarm"]
    headers += ["ours\ncold", "best original\ncold", "ratio\ncold"]
    section = Section("The pools against the originals", headers)
    for (group, case), ones in by_case(results).items():
        cells = [stand_cells(stand(ones, figure)) for figure in ("warm_ms", "cold_ms")]
        if any(cell != NOTHING for row in cells for cell in row):
            section.rows.append([f"{group}/{case}", *cells[0], *cells[1]])
    means = [mean_of(results, figure) for figure in ("warm_ms", "cold_ms")]
    section.rows.append(
        [f"geometric mean (goal {MEAN_GOAL})", "", "", ratio(means[0]), "", "", ratio(means[1])]
    )
    return section


def document_tables(results: list[Result]) -> dict[str, Section]:
    """By their names in docs/figures.json: the originals' benchmarks, and the other families'."""
    tables = {}
    for name, is_family in (("pools.cases", False), ("pools.families", True)):
        ones = [one for one in results if (one.contest.group in FAMILIES) == is_family]
        if ones:
            tables[name] = sums_section(ones)
    return tables


def mean_of(results: list[Result], figure: str) -> float | None:
    """The geometric mean of the ratios of all cases that have one."""
    ratios = [
        stood[0] for ones in by_case(results).values() if (stood := stand(ones, figure)) is not None
    ]
    return geometric_mean(ratios)


def as_json(results: list[Result]) -> list[dict[str, Any]]:
    """Every figure of every process."""
    return [
        {
            "group": one.contest.group,
            "case": one.contest.case,
            "pool": one.contest.pool,
            "cold_ms": one.cold_ms,
            "warm_ms": one.warm_ms,
            "peak_rss_kib": one.rss_kib,
            "failure": one.failure,
        }
        for one in results
    ]
