# SPDX-License-Identifier: MIT
"""What the runs say: ratios to the base with their intervals, differences, the verdict in words.

    summary = summarise(results)
    summary.row("poolshim").time.ratio        # Figure: median, ratio, low, high, difference

A difference is called when the interval leaves 1 out, the ratio is at least half a percent away
from 1, and further than the base was from itself, should the noise column disagree with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from .paired import Ratio, ratio_of
from .results import Measured, Results, Run

SMALLEST = 0.005  # nearer to 1 than this is no difference that anybody has use for
OVERHEAD_SHARE_MAX = 0.01  # of the base's time: above it the launcher's own clock is used
WIDE = 0.05  # half an interval; a verdict "no difference" says so when it knows no better
FOREIGN_MAX = 0.25  # cores that others use meanwhile
CPU_LEAST_S = 1e-6  # the clock of rusage

METRICS = ("time", "cpu", "rss")


@dataclass(frozen=True)
class Figure:
    """One metric of one column. is_different None: too few rounds to say."""

    median: float
    ratio: float
    low: float | None
    high: float | None
    is_different: bool | None
    least: float
    greatest: float


@dataclass(frozen=True)
class Row:
    """One column of the comparison, a row of the tables."""

    name: str
    note: str
    is_base: bool
    is_again: bool
    failure: str | None
    rounds: int = 0
    time: Figure | None = None
    cpu: Figure | None = None
    rss: Figure | None = None

    def figure(self, metric: str) -> Figure | None:
        """By the metric's name."""
        found: Figure | None = getattr(self, metric)
        return found


@dataclass(frozen=True)
class Summary:
    """All that tables and reports show."""

    base: str
    rows: tuple[Row, ...]
    clock: str  # whose time it is: hyperfine or launcher
    overhead_s: float | None  # what the launcher adds to hyperfine's times; None: no hyperfine
    rounds: int
    noise: Figure | None  # the base's time against itself
    warnings: tuple[str, ...]
    verdict: str

    def row(self, name: str) -> Row:
        """By the column's name."""
        return next(row for row in self.rows if row.name == name)


def overhead_s(results: Results) -> float | None:
    """The median of what hyperfine's times have beyond the launcher's."""
    extra = [
        run.hyperfine_s - run.wall_s
        for column in results.columns
        for run in column.runs
        if run.hyperfine_s is not None
    ]
    complete = len(extra) == sum(len(column.runs) for column in results.columns)
    return median(extra) if extra and complete else None


def choose_clock(results: Results, extra_s: float | None) -> str:
    """hyperfine's, unless what it adds would hide differences."""
    base_s = median(run.wall_s for run in results.base_column.runs)
    is_small = extra_s is not None and extra_s <= OVERHEAD_SHARE_MAX * base_s
    return "hyperfine" if is_small else "launcher"


def reader(metric: str, clock: str) -> Callable[[Run], float]:
    """What a metric takes from a run."""
    if metric == "time":
        return lambda run: (run.hyperfine_s or run.wall_s) if clock == "hyperfine" else run.wall_s
    if metric == "cpu":
        return lambda run: max(run.cpu_s, CPU_LEAST_S)
    return lambda run: max(run.peak_rss_kib, 1) * 1024.0


def values_of(column: Measured, metric: str, clock: str) -> list[float]:
    """In the order of the rounds."""
    read = reader(metric, clock)
    return [read(run) for run in column.runs]


def paired(column: Measured, base: Measured, metric: str, clock: str) -> Ratio:
    """The ratio over the rounds that both have."""
    read = reader(metric, clock)
    mine, theirs = ({run.round: read(run) for run in c.runs} for c in (column, base))
    rounds = sorted(mine.keys() & theirs.keys())
    return ratio_of([mine[one] for one in rounds], [theirs[one] for one in rounds])


def is_different(ratio: Ratio, doubt: float) -> bool | None:
    """None when there are too few rounds for an interval."""
    if ratio.low is None or ratio.high is None:
        return None
    outside = not ratio.low <= 1 <= ratio.high
    return outside and abs(ratio.ratio - 1) >= max(SMALLEST, doubt)


def figure(column: Measured, base: Measured, metric: str, clock: str, doubt: float) -> Figure:
    """One cell, with all that can be said of it."""
    values = values_of(column, metric, clock)
    ratio = paired(column, base, metric, clock)
    different = False if column is base else is_different(ratio, doubt)
    return Figure(
        median(values), ratio.ratio, ratio.low, ratio.high, different, min(values), max(values)
    )


def doubts(results: Results, clock: str) -> dict[str, float]:
    """How far the base was from itself, where its interval leaves 1 out."""
    found = dict.fromkeys(METRICS, 0.0)
    for column in results.columns:
        if column.is_again and column.runs:
            for metric in METRICS:
                ratio = paired(column, results.base_column, metric, clock)
                if is_different(ratio, 0):
                    found[metric] = abs(ratio.ratio - 1)
    return found


def summarise(results: Results) -> Summary:
    """Everything derived from the runs."""
    extra_s = overhead_s(results)
    clock = choose_clock(results, extra_s)
    doubt = doubts(results, clock)
    rows = []
    for column in results.columns:
        row = Row(
            column.name, column.note, column.name == results.base, column.is_again, column.failure
        )
        if column.runs and column.failure is None:
            cells = {
                metric: figure(column, results.base_column, metric, clock, doubt[metric])
                for metric in METRICS
            }
            row = Row(
                row.name, row.note, row.is_base, row.is_again, None, len(column.runs), **cells
            )
        rows.append(row)
    again = next((row for row in rows if row.is_again), None)
    noise = again.time if again else None
    return Summary(
        results.base, tuple(rows), clock, extra_s, len(results.base_column.runs), noise,
        (
            *results.warnings, *disagreements(results), *crowding(results),
            *noise_warnings(doubt),
        ),
        verdict(rows, results.base),
    )  # fmt: skip


def crowding(results: Results) -> list[str]:
    """Others that used the machine meanwhile."""
    share = results.about.get("foreign_cpu_share") or 0
    if share <= FOREIGN_MAX:
        return []
    return [f"other processes used {share:.1f} cores meanwhile: figures of a busy machine"]


def noise_warnings(doubt: dict[str, float]) -> list[str]:
    """When the base is not equal to itself, the machine was not steady."""
    names = {"time": "time", "cpu": "CPU time", "rss": "memory"}
    return [
        f"the base differs from itself by {100 * off:.1f} % in {names[metric]}: "
        "smaller differences are not called"
        for metric, off in doubt.items()
        if off
    ]


def disagreements(results: Results) -> list[str]:
    """Columns whose output or exit status is not the base's."""

    def seen(column: Measured) -> set[tuple[object, object]]:
        return {(run.output_sha256, run.exit_status) for run in column.runs}

    usual = seen(results.base_column)
    again = [seen(c) for c in results.columns if c.is_again and c.runs]
    if len(usual) > 1 or any(one != usual for one in again):
        return [f"the output changes from run to run under {results.base} itself: not compared"]
    found = []
    for column in results.columns:
        if column.runs and seen(column) != usual:
            what = "output" if {o for o, _ in seen(column)} != {o for o, _ in usual} else "status"
            found.append(f"{column.name}: its {what} is not the one under {results.base}")
    return found


def percent(value: float) -> str:
    """Of a difference: "4 %", and one digit more below 10 %."""
    text = f"{100 * value:.1f}".removesuffix(".0") if abs(value) < 0.1 else f"{100 * value:.0f}"
    return f"{text} %"


def spread(found: Figure) -> float:
    """Half the interval, relative to the base."""
    assert found.low is not None and found.high is not None
    return (found.high - found.low) / 2


def time_words(found: Figure, base: str) -> str:
    """The verdict on a time that differs."""
    if found.ratio >= 2 or found.ratio <= 0.5:
        times = found.ratio if found.ratio > 1 else 1 / found.ratio
        return f"{times:.1f} times as {'slow' if found.ratio > 1 else 'fast'} as {base}"
    word = "slower" if found.ratio > 1 else "faster"
    return f"{percent(abs(found.ratio - 1))} ± {percent(spread(found))} {word} than {base}"


def rss_words(found: Figure) -> str:
    """The verdict on memory that differs."""
    if found.ratio >= 2:
        return f"uses {found.ratio:.1f} times the memory"
    return f"uses {percent(abs(found.ratio - 1))} {'more' if found.ratio > 1 else 'less'} memory"


def row_words(row: Row, base: str) -> str:
    """One column's part of the verdict, "" when there is nothing to call."""
    assert row.time and row.rss
    parts = []
    if row.time.is_different:
        parts.append("is " + time_words(row.time, base))
    if row.rss.is_different:
        parts.append(rss_words(row.rss))
    return f"{row.name} " + " and ".join(parts) if parts else ""


def blindness(rows: Sequence[Row]) -> str:
    """How large a difference of time may be and still be hidden by the noise, if that is much."""
    widest = max(
        (spread(row.time) for row in rows if row.time and not row.time.is_different), default=0
    )
    if widest <= WIDE:
        return ""
    return f" The noise hides differences in time of up to {percent(widest)}."


def listed(names: Sequence[str]) -> str:
    """ "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def verdict(rows: Sequence[Row], base: str) -> str:
    """All columns in a sentence or two, the fastest first."""
    judged = [row for row in rows if row.time and not row.is_base and not row.is_again]
    if not judged:
        return f"There is nothing to compare {base} with."
    if any(row.time and row.time.is_different is None for row in judged):
        return "Too few rounds for a verdict: at least five are needed."
    judged.sort(key=lambda row: row.time.ratio if row.time else math.inf)
    called = [words for words in (row_words(row, base) for row in judged) if words]
    level = [row for row in judged if not row_words(row, base)]
    is_memory_alone = called and not any(row.time and row.time.is_different for row in judged)
    start = "No difference in time; " if is_memory_alone else ""
    if not level:
        return f"{start}{'; '.join(called)}.{blindness(judged)}"
    names, blind = listed([row.name for row in level]), blindness(judged)
    if not called:
        return f"No difference between {base} and {names}.{blind}"
    return f"{start}{'; '.join(called)}; no difference: {names}.{blind}"
