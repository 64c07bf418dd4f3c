# SPDX-License-Identifier: MIT
"""From the processes of a session to the rows of its tables.

Times are the best over all rounds of all processes: noise only adds. Peak RSS is the median over
the processes. Ratios compare alloc + free, best against best; the interval beside a ratio comes
from the rounds after the first of each process (see intervals.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from .runner import Run
from .session import Session
from poolshim_cli.intervals import Clusters, best, ratio_interval

BASELINE = "glibc"
FLOOR = "floor"


@dataclass(frozen=True)
class Summary:
    """One case under one allocator. Ratios are None where there is nothing to divide by."""

    case: str
    allocator: str
    processes: int
    alloc_ms: float
    free_ms: float
    first_alloc_ms: float
    later_alloc_ms: float
    total_s: float
    peak_rss_mib: float
    alloc_mops: float
    free_mops: float
    to_floor: float | None = None
    to_baseline: float | None = None
    to_baseline_interval: tuple[float, float] | None = None


def steady_rounds(run: Run) -> list[dict[str, float]]:
    """The rounds after the first, which pays for fresh pages; all of them if there is only one."""
    rounds: list[dict[str, float]] = run.report["rounds"]
    return rounds[1:] or rounds


def pair_clusters(runs: list[Run]) -> Clusters:
    """alloc + free of each steady round, one cluster per process."""
    return [[r["alloc_ms"] + r["free_ms"] for r in steady_rounds(run)] for run in runs]


def pair_ms(runs: list[Run]) -> float:
    """Best alloc plus best free."""
    return best([r["alloc_ms"] for run in runs for r in run.report["rounds"]]) + best(
        [r["free_ms"] for run in runs for r in run.report["rounds"]]
    )


def ratio_to(session: Session, case: str, runs: list[Run], other: str) -> float | None:
    """alloc + free against another allocator's; None if that one was not measured."""
    others = session.runs.get((case, other))
    return pair_ms(runs) / pair_ms(others) if others else None


def summarise_one(session: Session, case: str, allocator: str) -> Summary:
    """The row of one case under one allocator, which must have runs."""
    runs = session.runs[case, allocator]
    rounds = [r for run in runs for r in run.report["rounds"]]
    blocks = runs[0].report.get("nodes_per_round", runs[0].report["count"])
    alloc_ms = best([r["alloc_ms"] for r in rounds])
    free_ms = best([r["free_ms"] for r in rounds])
    baseline = session.runs.get((case, BASELINE))
    return Summary(
        case=case,
        allocator=allocator,
        processes=len(runs),
        alloc_ms=alloc_ms,
        free_ms=free_ms,
        first_alloc_ms=best([run.report["rounds"][0]["alloc_ms"] for run in runs]),
        later_alloc_ms=best([r["alloc_ms"] for run in runs for r in steady_rounds(run)]),
        total_s=best([run.report["total_ms"] for run in runs]) / 1e3,
        peak_rss_mib=median(run.peak_rss_kib for run in runs) / 1024,
        alloc_mops=blocks / alloc_ms / 1e3,
        free_mops=blocks / free_ms / 1e3,
        to_floor=ratio_to(session, case, runs, FLOOR),
        to_baseline=ratio_to(session, case, runs, BASELINE),
        to_baseline_interval=ratio_interval(pair_clusters(runs), pair_clusters(baseline))
        if baseline and allocator != BASELINE
        else None,
    )


def summarise(session: Session) -> dict[tuple[str, str], Summary]:
    """All rows, by case and allocator, in running order. A failed row has none."""
    return {
        (case.name, allocator.name): summarise_one(session, case.name, allocator.name)
        for case in session.cases
        for allocator in session.allocators
        if (case.name, allocator.name) in session.runs
        and (case.name, allocator.name) not in session.failures
    }
