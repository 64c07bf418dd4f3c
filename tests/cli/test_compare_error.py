# SPDX-License-Identifier: MIT
"""How often a report of `poolshim compare` is wrong, on made-up machines whose truth is known.

    scripts/test tests/cli/test_compare_error.py

The machine is as real ones are: its slowness goes on from one process to the next, comes in bursts
of several processes, and has heavy tails. Peak RSS comes in pages. The same question to a real
machine is asked by the commands in docs/command.md.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from compare_lab import ABOUT
from poolshim_cli.compare.results import Measured, Results, Run
from poolshim_cli.compare.summary import METRICS, Figure, Summary, summarise
from table import each_row

SEED, REPORTS = 20140513, 400


def slowness(generator: random.Random) -> Iterator[float]:
    """Yields how slow one process after another is, as a factor."""
    level, burst = 0.0, 1.0
    while True:
        level = 0.9 * level + generator.gauss(0, 0.03)
        if burst > 1:
            burst = 1.0 if generator.random() < 0.3 else burst
        elif generator.random() < 0.03:
            burst = 1 + generator.expovariate(2)
        tail = abs(generator.gauss(0, 1)) / math.sqrt(generator.gammavariate(1, 1))
        yield math.exp(level) * burst * (1 + 0.01 * tail)


def report(
    generator: random.Random, rounds: int, ratios: list[float], busy_cores: float = 0
) -> Summary:
    """Columns of these true ratios to the base, in time and CPU time; memory is equal."""
    names = ["base", *(f"column {at}" for at in range(len(ratios))), "base again"]
    truth = dict(zip(names, [1.0, *ratios, 1.0]))
    columns = {name: Measured(name, is_again=name == names[-1]) for name in names}
    machine = slowness(generator)
    for number in range(1, rounds + 1):
        order = generator.sample(names, len(names))
        for position, name in enumerate(order):
            slow = next(machine)
            cpu_s = 0.04 * truth[name] * (1 + 0.3 * (slow - 1)) * math.exp(generator.gauss(0, 0.01))
            pages = 2250 + int(abs(generator.gauss(0, 3)))
            columns[name].runs.append(
                Run(number, position, 0.05 * truth[name] * slow, None, cpu_s, 4 * pages)
            )
    about = {**ABOUT, "foreign_cpu_share": busy_cores}
    return summarise(Results(about, "base", list(columns.values())))


def cells(summary: Summary, *metrics: str) -> list[Figure]:
    judged = [row for row in summary.rows if row.name.startswith("column")]
    return [found for row in judged for metric in metrics if (found := row.figure(metric))]


def reports(rounds: int, ratios: list[float]) -> list[Summary]:
    print(f"seed {SEED}")
    generator = random.Random(SEED)
    return [report(generator, rounds, ratios) for _ in range(REPORTS)]


@each_row("count", [1, 4])
@each_row("rounds", [5, 8, 12, 30])
def test_equal_columns_are_called_different_in_5_of_100_reports_at_most(
    rounds: int, count: int
) -> None:
    """Any mark in any cell of a report is its error."""
    wrong = sum(
        any(found.is_different for found in cells(one, *METRICS))
        for one in reports(rounds, [1.0] * count)
    )
    assert wrong <= 0.05 * REPORTS, wrong


@each_row("rounds", [5, 12, 30])
def test_difference_of_a_tenth_is_called_none_in_5_of_100_reports_at_most(rounds: int) -> None:
    wrong = sum(
        any(found.is_different is False for found in cells(one, "time", "cpu"))
        for one in reports(rounds, [1.1, 1.1])
    )
    assert wrong <= 0.05 * REPORTS, wrong


def test_difference_of_a_tenth_is_seen_in_cpu_time() -> None:
    """Thirty rounds, four columns: what the correction costs does not make it blind."""
    seen = sum(bool(cells(one, "cpu")[0].is_different) for one in reports(30, [1.1, 1, 1, 1]))
    assert seen >= 0.95 * REPORTS, seen


def test_no_verdict_of_a_busy_machine_speaks_of_the_clock() -> None:
    generator = random.Random(SEED)
    for _ in range(50):
        said = report(generator, 12, [1.3, 0.7], busy_cores=1.5).verdict
        assert "faster" not in said and "slower" not in said, said
