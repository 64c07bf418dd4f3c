# SPDX-License-Identifier: MIT
"""The geometry of the report's pictures: from figures to coordinates. The template draws them.

All are WIDTH units wide with text of 12 units: on a phone a unit is a little less than a pixel, in
a column of a wide screen a little more, so the text is readable on both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from .results import Measured, Results, Run
from .summary import Figure, Row, Summary, reader
from .table import mark, ratio_text, shown_rows, value_text

WIDTH = 400
LEFT, RIGHT = 92, 24  # beside the rows of a picture with names
NAME_MAX = 12  # letters there
ROW, LABEL = 26, 14  # height of a row; least distance of two labels
COLOURS = 8  # in the style sheet; then they begin again
SHAPES = ("circle", "square", "diamond", "triangle")


@dataclass(frozen=True)
class Tick:
    """A place on an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Axis:
    """Values to coordinates, linearly."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Where the value is."""
        share = (value - self.low) / ((self.high - self.low) or 1)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, metric: str, count: int = 4) -> list[Tick]:
        """Round values; metric "ratio" has no unit."""
        values = round_values(self.low, self.high, count, 2 if metric == "rss" else 10)
        return [Tick(self.place(value), tick_text(metric, value)) for value in values]


def tick_text(metric: str, value: float) -> str:
    """The label of a value, without trailing zeros."""
    if metric == "ratio" or value == 0:
        return f"{value:g}"
    number, _, unit = value_text(metric, value).partition(" ")
    return f"{float(number):g} {unit}"


def round_values(low: float, high: float, count: int, base: int) -> list[float]:
    """About so many of 1, 2, 5 times a power of ten, or powers of two for bytes."""
    if high <= low:
        return [low]
    rough = (high - low) / count
    power = base ** math.floor(math.log(rough, base))
    steps = (1, 2) if base == 2 else (1, 2, 5, 10)
    step = min((power * one for one in steps), key=lambda one: abs(math.log(one / rough)))
    first = math.ceil(low / step)
    return [round(step * n, 10) for n in range(first, math.floor(high / step) + 1)]


def around(values: Sequence[float], start: float, end: float, margin: float = 0.08) -> Axis:
    """An axis for all of them, with some air; it does not blow up differences below 2 %."""
    low, high = min(values), max(values)
    air = max((high - low) * margin, (0.02 * high - (high - low)) / 2) or 1
    return Axis(max(0.0, low - air), high + air, start, end)


@dataclass(frozen=True)
class Mark:
    """One allocator in a picture."""

    name: str
    colour: int
    shape: str
    x: float
    y: float
    label_x: float = 0
    label_y: float = 0
    anchor: str = "start"
    low: float = 0
    high: float = 0
    text: str = ""
    dots: tuple[tuple[float, float], ...] = ()
    is_open: bool = False  # no difference is called


@dataclass(frozen=True)
class Picture:
    """What the template needs to draw one."""

    height: float
    marks: list[Mark] = field(default_factory=list)
    x_ticks: list[Tick] = field(default_factory=list)
    y_ticks: list[Tick] = field(default_factory=list)
    one: float | None = None  # where the ratio is 1
    description: str = ""


@dataclass(frozen=True)
class Curve:
    """RSS over time of one allocator, in front of the base's."""

    name: str
    colour: int
    line: str
    base_line: str
    y_ticks: list[Tick]
    x_ticks: list[Tick]
    peak: str
    end: str
    time: str


def look(results: Results, name: str) -> tuple[int, str]:
    """The colour and the shape of a column: the same in every picture."""
    names = [column.name for column in results.columns if not column.is_again]
    place = names.index(name)
    return place % COLOURS, SHAPES[place % len(SHAPES)]


def short(name: str) -> str:
    """What fits beside a row; the tables have the whole name."""
    return name if len(name) <= NAME_MAX else name[: NAME_MAX - 1] + "…"


def column_of(results: Results, row: Row) -> Measured:
    """A row's runs."""
    return next(column for column in results.columns if column.name == row.name)


def measured_rows(summary: Summary) -> list[Row]:
    """The rows that have figures."""
    return [row for row in shown_rows(summary) if row.time is not None]


def spread_labels(wanted: list[float], low: float, high: float) -> list[float]:
    """The places nearest to the wanted ones, in their order, that do not cover one another."""
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    placed = [0.0] * len(wanted)
    last = low - LABEL
    for at in order:
        placed[at] = last = max(wanted[at], last + LABEL)
    last = high + LABEL
    for at in reversed(order):
        placed[at] = last = min(placed[at], last - LABEL)
    return placed


def scatter(results: Results, summary: Summary) -> Picture:
    """Time against peak RSS: every round a dot, the medians as shapes with names."""
    rows, height = measured_rows(summary), 300
    speed = summary.metrics[0]
    time_of, rss_of = reader(speed, summary.clock), reader("rss", summary.clock)
    runs = [run for row in rows for run in column_of(results, row).runs]
    across = around([time_of(run) for run in runs], 62, WIDTH - RIGHT)
    upward = around([rss_of(run) for run in runs], height - 34, 12)
    points = [
        (across.place(time.median), upward.place(row.rss.median))
        for row in rows
        if (time := row.figure(speed)) and row.rss
    ]
    labels = spread_labels([y for _, y in points], 16, height - 40)
    marks = []
    for row, (x, y), label_y in zip(rows, points, labels):
        colour, shape = look(results, row.name)
        is_right = x > WIDTH * 0.68
        dots = tuple(
            (across.place(time_of(run)), upward.place(rss_of(run)))
            for run in column_of(results, row).runs
        )
        marks.append(
            Mark(
                short(row.name), colour, shape, x, y, x - 12 if is_right else x + 12, label_y + 4,
                "end" if is_right else "start", dots=dots,
            )  # fmt: skip
        )
    said = "; ".join(
        f"{row.name}: {value_text(speed, time.median)}, {value_text('rss', row.rss.median)}"
        for row in rows
        if (time := row.figure(speed)) and row.rss
    )
    return Picture(height, marks, across.ticks(speed), upward.ticks("rss"), None, said)


def forest(results: Results, summary: Summary, metric: str) -> Picture:
    """The ratios with their intervals, and the line where there is none."""
    rows = [row for row in summary.rows if row.time is not None and not row.is_base]
    figures = [figure for figure in (row.figure(metric) for row in rows) if figure]
    ends = [end for one in figures for end in (one.low, one.high, one.ratio) if end is not None]
    axis = around([*ends, 1.0], LEFT, WIDTH - 62)
    marks = []
    for place, (row, figure) in enumerate(zip(rows, figures)):
        colour, shape = (0, "circle") if row.is_again else look(results, row.name)
        marks.append(
            Mark(
                "noise" if row.is_again else short(row.name), colour, shape,
                axis.place(figure.ratio), ROW * place + 20,
                low=axis.place(bound(figure.low, figure)),
                high=axis.place(bound(figure.high, figure)),
                text=f"{ratio_text(figure.ratio)} {mark(figure)}",
                is_open=not figure.is_different,
            )  # fmt: skip
        )
    said = "; ".join(f"{m.name}: {m.text}" for m in marks)
    height = ROW * len(rows) + 38
    return Picture(height, marks, axis.ticks("ratio"), [], axis.place(1.0), said)


def bound(end: float | None, figure: Figure) -> float:
    """An end of the interval; without an interval, the ratio itself."""
    return figure.ratio if end is None else end


def strips(results: Results, summary: Summary, metric: str) -> Picture:
    """Every round of every column as a dot on its row, the median as a line."""
    rows = [row for row in summary.rows if row.time is not None]
    read = reader(metric, summary.clock)
    axis = around([read(run) for row in rows for run in column_of(results, row).runs], LEFT,
                  WIDTH - RIGHT)  # fmt: skip
    marks = []
    for place, row in enumerate(rows):
        middle, figure = ROW * place + 20, row.figure(metric)
        if figure is None:
            continue
        colour, shape = look(results, summary.base if row.is_again else row.name)
        runs = column_of(results, row).runs
        dots = tuple(
            (axis.place(read(run)), middle + (number % 5 - 2) * 2.6)
            for number, run in enumerate(runs)
        )
        name = "noise" if row.is_again else short(row.name)
        marks.append(Mark(name, colour, shape, axis.place(figure.median), middle, dots=dots))
    said = "; ".join(
        f"{row.name}: {value_text(metric, figure.least)} to {value_text(metric, figure.greatest)}"
        for row in rows
        if (figure := row.figure(metric))
    )
    return Picture(ROW * len(rows) + 38, marks, axis.ticks(metric), [], None, said)


def middle_run(column: Measured) -> Run:
    """The run whose time is the median, or next to it."""
    usual = median(run.wall_s for run in column.runs)
    return min(column.runs, key=lambda run: abs(run.wall_s - usual))


def curves(results: Results, summary: Summary) -> list[Curve]:
    """RSS over time, one panel per column, all on the same axes; none without samples."""
    rows = measured_rows(summary)
    chosen = {row.name: middle_run(column_of(results, row)) for row in rows}
    samples = [sample for run in chosen.values() for sample in run.curve]
    if not samples:
        return []
    across = Axis(0, max(at for at, _ in samples) / 1e3, 62, WIDTH - RIGHT)
    upward = Axis(0, max(kib for _, kib in samples) * 1024 * 1.05, 82, 8)

    def line(run: Run) -> str:
        return " ".join(
            f"{across.place(at / 1e3)},{upward.place(kib * 1024)}" for at, kib in run.curve
        )

    found = []
    for row in rows:
        run = chosen[row.name]
        if not run.curve:
            continue
        colour, _ = look(results, row.name)
        base = "" if row.is_base else line(chosen[summary.base])
        found.append(
            Curve(
                row.name, colour, line(run), base, upward.ticks("rss", 2), across.ticks("time"),
                value_text("rss", max(kib for _, kib in run.curve) * 1024),
                value_text("rss", run.curve[-1][1] * 1024), value_text("time", run.wall_s),
            )  # fmt: skip
        )
    return found
