# SPDX-License-Identifier: MIT
"""What the runs say: ratios to the base with their intervals, differences, the verdict in words.

    summary = summarise(results)
    summary.row("poolshim").time.ratio        # Figure: median, ratio, low, high, difference

A difference is called when the interval leaves 1 out, the ratio is at least half a percent away
from 1, and further than the base was from itself, should the noise column disagree with it. "No
difference" is said where the interval leaves no room for one of WORTHWHILE; between the two,
nothing can be told. The intervals of a report are simultaneous: without any difference, 95 of 100
reports call none. Speed is judged by the time, or by CPU time where others used the machine
meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from .paired import Ratio, error_of, ratio_of
from .results import Measured, Results, Run

SMALLEST = 0.005  # nearer to 1 than this is no useful difference
OVERHEAD_SHARE_MAX = 0.01  # of the base's time: above it the launcher's own clock is used
WORTHWHILE = 0.05  # a smaller difference is no reason to change anything
FOREIGN_MAX = 0.25  # cores that others use meanwhile
CPU_LEAST_S = 1e-6  # the clock of rusage

METRICS = ("time", "cpu", "rss")
METRICS_OF_TRACE = ("cpu", "rss")  # the replay's own time is none of the program's
NAMES = {"time": "time", "cpu": "CPU time", "rss": "memory"}


@dataclass(frozen=True)
class Figure:
    """One metric of one column. is_different None: too few rounds, or too noisy, to say."""

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
        """The figure of a metric."""
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
    noise: Figure | None  # the base against itself, in what decides about speed
    warnings: tuple[str, ...]
    verdict: str
    speed: str = "time"  # the metric that decides about speed: time or cpu
    metrics: tuple[str, ...] = METRICS  # that are shown

    def row(self, name: str) -> Row:
        """The row of a column."""
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
    """The values of a column, in the order of the rounds."""
    read = reader(metric, clock)
    return [read(run) for run in column.runs]


def matched(
    column: Measured, base: Measured, metric: str, clock: str
) -> tuple[list[float], list[float]]:
    """The values of the rounds that both have."""
    read = reader(metric, clock)
    mine, theirs = ({run.round: read(run) for run in c.runs} for c in (column, base))
    rounds = sorted(mine.keys() & theirs.keys())
    return [mine[one] for one in rounds], [theirs[one] for one in rounds]


def paired(
    column: Measured, base: Measured, metric: str, clock: str, cells: int = 1, error: float = 0.0
) -> Ratio:
    """The ratio over the rounds that both have. cells, error: as ratio_of takes them."""
    return ratio_of(*matched(column, base, metric, clock), cells, error)


def is_different(ratio: Ratio, doubt: float) -> bool | None:
    """None when nothing follows: too few rounds, or room for a difference that matters."""
    if ratio.low is None or ratio.high is None:
        return None
    if not ratio.low <= 1 <= ratio.high and abs(ratio.ratio - 1) >= max(SMALLEST, doubt):
        return True
    is_narrow = 1 / (1 + WORTHWHILE) <= ratio.low and ratio.high <= 1 + WORTHWHILE
    return False if is_narrow else None


@dataclass(frozen=True)
class Noise:
    """What the base's second column says of one metric."""

    error: float = 0.0  # of the logarithm of its ratio: no column counts as steadier
    doubt: float = 0.0  # how far it was from the base, where its interval leaves 1 out


def figure(
    column: Measured, base: Measured, metric: str, clock: str, cells: int, noise: Noise
) -> Figure:
    """One cell, with all that can be said of it."""
    values = values_of(column, metric, clock)
    ratio = paired(column, base, metric, clock, cells, noise.error)
    different = False if column is base else is_different(ratio, noise.doubt)
    return Figure(
        median(values), ratio.ratio, ratio.low, ratio.high, different, min(values), max(values)
    )


def noise_of(results: Results, metric: str, clock: str, cells: int) -> Noise:
    """The base against itself; nothing of it without that column."""
    for column in results.columns:
        if column.is_again and column.runs:
            both = matched(column, results.base_column, metric, clock)
            ratio = ratio_of(*both, cells)
            doubt = abs(ratio.ratio - 1) if is_different(ratio, 0) else 0.0
            return Noise(error_of(*both), doubt)
    return Noise()


def metrics_of(results: Results) -> tuple[str, ...]:
    """The metrics that the work has."""
    return METRICS_OF_TRACE if results.about.get("mode") == "trace" else METRICS


def count_cells(results: Results) -> int:
    """Intervals by which something may be called: every metric of every column but the base's."""
    judged = [c for c in results.columns if c.runs and c.name != results.base and not c.is_again]
    return len(metrics_of(results)) * max(1, len(judged))


def summarise(results: Results) -> Summary:
    """Everything derived from the runs."""
    extra_s = overhead_s(results)
    clock, cells = choose_clock(results, extra_s), count_cells(results)
    noises = {metric: noise_of(results, metric, clock, cells) for metric in METRICS}
    rows = []
    for column in results.columns:
        row = Row(
            column.name, column.note, column.name == results.base, column.is_again, column.failure
        )
        if column.runs and column.failure is None:
            figures = {
                metric: figure(
                    column, results.base_column, metric, clock, cells,
                    Noise() if row.is_base else noises[metric],
                )
                for metric in METRICS
            }  # fmt: skip
            row = Row(
                row.name, row.note, row.is_base, row.is_again, None, len(column.runs), **figures
            )
        rows.append(row)
    again = next((row for row in rows if row.is_again), None)
    metrics = metrics_of(results)
    speed = "cpu" if is_busy(results) or "time" not in metrics else "time"
    noise = again.figure(speed) if again else None
    return Summary(
        results.base, tuple(rows), clock, extra_s, len(results.base_column.runs), noise,
        (
            *results.warnings, *inheritance(results), *disagreements(results),
            *crowding(results),
            *noise_warnings({metric: noises[metric] for metric in metrics}),
        ),
        verdict(rows, results.base, speed), speed, metrics,
    )  # fmt: skip


def inheritance(results: Results) -> list[str]:
    """Settings that columns have from the environment, and not by their names."""
    users: dict[str, list[str]] = {}
    for column in results.columns:
        for name, value in column.inherited.items():
            if not column.is_again:
                users.setdefault(f"{name}={value}", []).append(column.name)
    return [
        f"{listed(names)} {'run' if len(names) > 1 else 'runs'} with {setting}, which is set in "
        "the environment"
        for setting, names in users.items()
    ]


def is_busy(results: Results) -> bool:
    """Others used so much of the machine meanwhile that times say little."""
    return (results.about.get("foreign_cpu_share") or 0) > FOREIGN_MAX


def crowding(results: Results) -> list[str]:
    """Others that used the machine meanwhile."""
    if not is_busy(results):
        return []
    share = results.about["foreign_cpu_share"]
    if "time" not in metrics_of(results):
        return [f"other processes were using {share:.1f} cores, which disturbs CPU times"]
    return [
        f"other processes were using {share:.1f} cores; timings are unreliable, and the verdict "
        "goes by CPU time"
    ]


def noise_warnings(noises: dict[str, Noise]) -> list[str]:
    """When the base is not equal to itself, the machine was not steady."""
    return [
        f"the base differs from itself by {100 * one.doubt:.1f} % in {NAMES[metric]}: "
        "smaller differences are not called"
        for metric, one in noises.items()
        if one.doubt
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
    """A difference in percent: "4 %", with one more digit below 10 %."""
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
        return f"is {times:.1f} times as {'slow' if found.ratio > 1 else 'fast'} as {base}"
    word = "slower" if found.ratio > 1 else "faster"
    return f"is {percent(abs(found.ratio - 1))} ± {percent(spread(found))} {word} than {base}"


def cpu_words(found: Figure, base: str) -> str:
    """The same of CPU time."""
    if found.ratio >= 2 or found.ratio <= 0.5:
        return f"uses {found.ratio:.2g} times the CPU time of {base}"
    word = "more" if found.ratio > 1 else "less"
    change = f"{percent(abs(found.ratio - 1))} ± {percent(spread(found))}"
    return f"uses {change} {word} CPU time than {base}"


def rss_words(found: Figure) -> str:
    """The verdict on memory that differs."""
    if found.ratio >= 2:
        return f"uses {found.ratio:.1f} times the memory"
    return f"uses {percent(abs(found.ratio - 1))} {'more' if found.ratio > 1 else 'less'} memory"


def row_words(row: Row, base: str, speed: str) -> str:
    """One column's part of the verdict, "" when there is nothing to call."""
    found, rss = row.figure(speed), row.rss
    assert found and rss
    parts = []
    if found.is_different:
        parts.append((cpu_words if speed == "cpu" else time_words)(found, base))
    if rss.is_different:
        parts.append(rss_words(rss))
    if len(parts) == 2 and speed == "cpu":
        parts[1] = parts[1].removeprefix("uses ")
    return f"{row.name} " + " and ".join(parts) if parts else ""


def is_open(row: Row, *metrics: str) -> bool:
    """Whether one of these is undecided."""
    return any(found.is_different is None for m in metrics if (found := row.figure(m)) is not None)


def blindness(rows: Sequence[Row], metric: str) -> str:
    """How large a difference may remain undetected."""
    figures = [found for row in rows if is_open(row, metric) and (found := row.figure(metric))]
    if not figures:
        return ""
    widest = percent(max(spread(found) for found in figures))
    return f" Too noisy to see differences in {NAMES[metric]} below {widest}."


def listed(names: Sequence[str]) -> str:
    """ "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def opening(judged: Sequence[Row], is_any_called: bool, speed: str) -> str:
    """The words about speed where only memory differs."""
    if not is_any_called or any(f.is_different for r in judged if (f := r.figure(speed))):
        return ""
    if any(is_open(row, speed) for row in judged):
        return f"Cannot tell about {NAMES[speed]}; "
    return f"No difference in {NAMES[speed]}; "


def verdict(rows: Sequence[Row], base: str, speed: str = "time") -> str:
    """All columns in a sentence or two, the fastest first."""
    judged = [row for row in rows if row.time and not row.is_base and not row.is_again]
    if not judged:
        return f"There is nothing to compare {base} with."
    if any(row.time and row.time.low is None for row in judged):
        return "Too few rounds for a verdict: at least five are needed."
    judged.sort(key=lambda row: found.ratio if (found := row.figure(speed)) else math.inf)
    parts = [words for words in (row_words(row, base, speed) for row in judged) if words]
    rest = [row for row in judged if not row_words(row, base, speed)]
    level = [row.name for row in rest if not is_open(row, speed, "rss")]
    unknown = [row.name for row in rest if is_open(row, speed, "rss")]
    start = opening(judged, bool(parts), speed)
    if start:  # says speed of all; only memory remains to say
        level = [row.name for row in rest if not is_open(row, "rss")]
        unknown = [row.name for row in rest if is_open(row, "rss")]
        parts += [f"no difference in memory: {listed(level)}"] if level else []
        level = []
    if level and not parts and not unknown:
        start = f"No difference between {base} and {listed(level)}"
    elif unknown and not parts and not level:
        start = f"Cannot tell {listed(unknown)} from {base}"
    else:
        parts += [f"no difference: {listed(level)}"] if level else []
        parts += [f"cannot tell: {listed(unknown)}"] if unknown else []
    said = f"{start}{'; '.join(parts)}."
    return f"{said[0].upper() if not start and said.startswith('no ') else said[0]}{said[1:]}" + (
        blindness(judged, speed) + blindness(judged, "rss")
    )
