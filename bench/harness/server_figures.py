# SPDX-License-Identifier: MIT
"""Figures of a server's memory over time: its mean under load, peak, and the retained part.

A course is a list of (ms since the start, KiB), as the launcher samples it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from poolshim_cli.errors import RunFailed

from .verdict import geometric_mean

Course = list[tuple[float, float]]
# At rest: the median from REST_MS - REST_WINDOW_MS to REST_MS after the load's end.
REST_MS, REST_WINDOW_MS = 3000.0, 400.0
SAMPLES_MIN = 3
CURVE_POINTS = 120
METRICS = ("cpu", "mean", "peak", "rest")


@dataclass(frozen=True)
class ServerRun:
    """One run of one program under one allocator."""

    allocator: str
    round: int
    cpu: float  # seconds, from start to end
    mean: float  # KiB, as the next two
    peak: float
    rest: float
    load_ms: float
    begin_ms: float  # of the load, after the start
    ended_ms: float

    def as_json(self) -> dict[str, Any]:
        return {key: round(value, 3) if isinstance(value, float) else value
                for key, value in asdict(self).items()}  # fmt: skip


def mean_between(course: Course, begin_ms: float, end_ms: float) -> float:
    """Over time, whatever the distances of the samples; RunFailed if there are too few."""
    inside = [(at, kib) for at, kib in course if begin_ms <= at <= end_ms]
    if len(inside) < SAMPLES_MIN:
        raise RunFailed(f"only {len(inside)} samples under load; use a larger --scale")
    area = sum(
        (later - at) * (kib + next_kib) / 2
        for (at, kib), (later, next_kib) in zip(inside, inside[1:])
    )
    return area / (inside[-1][0] - inside[0][0])


def at_rest(course: Course, ended_ms: float, rest_ms: float = REST_MS) -> float:
    """The median of the last samples of the rest; RunFailed if it was not seen."""
    begin = ended_ms + rest_ms - min(REST_WINDOW_MS, rest_ms / 2)
    found = [kib for at, kib in course if begin <= at <= ended_ms + rest_ms]
    if not found:
        raise RunFailed("no sample at rest: it ended too soon")
    return float(median(found))


def thin(course: Course, points: int = CURVE_POINTS) -> Course:
    """At most so many points; the highest of points that fall together, so that no peak is lost."""
    if len(course) <= points:
        return list(course)
    step = (course[-1][0] - course[0][0]) / points
    best: dict[int, tuple[float, float]] = {}
    for at, kib in course:
        place = min(int((at - course[0][0]) / step), points - 1)
        if place not in best or kib > best[place][1]:
            best[place] = (at, kib)
    return [best[place] for place in sorted(best)]


def typical(runs: list[ServerRun]) -> ServerRun:
    """The run whose mean is the median, the lower one of two."""
    ranked = sorted(runs, key=lambda run: run.mean)
    return ranked[(len(ranked) - 1) // 2]


def medians(runs: list[ServerRun]) -> dict[str, dict[str, float]]:
    """Allocator -> metric -> median over its runs."""
    names = list(dict.fromkeys(run.allocator for run in runs))
    return {
        name: {
            metric: median(getattr(run, metric) for run in runs if run.allocator == name)
            for metric in METRICS
        }
        for name in names
    }


def ratios(runs: list[ServerRun], base: str) -> dict[str, dict[str, float]]:
    """Allocator -> metric -> ratio to the base. CPU: the median of the ratios round by round, since
    a busy machine hits the runs of a round alike; memory: the ratio of the medians."""
    values = medians(runs)
    if base not in values:
        return {}
    known = {(run.allocator, run.round): run.cpu for run in runs}
    found = {}
    for name, own in values.items():
        found[name] = {metric: own[metric] / values[base][metric] for metric in METRICS}
        pairs = [cpu / known[base, number] for (allocator, number), cpu in known.items()
                 if allocator == name and (base, number) in known]  # fmt: skip
        if pairs:
            found[name]["cpu"] = median(pairs)
    return found


def means(programs: list[dict[str, dict[str, float]]], name: str) -> dict[str, float] | None:
    """Geometric means of an allocator's ratios; None if one of the programs lacks it."""
    if not programs or any(name not in program for program in programs):
        return None
    return {metric: geometric_mean([p[name][metric] for p in programs]) for metric in METRICS}
