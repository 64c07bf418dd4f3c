# SPDX-License-Identifier: MIT
"""From the processes of a suite to its sums: each case against its best peer, each group as one.

A process counts by one number, its best: noise only adds. A row's value is the best over the
processes; the interval beside a ratio is a bootstrap of the ratio of the medians of the processes'
bests. Peak RSS is the median over the processes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log
from statistics import median

from .figures import FIGURES
from .session import Session
from poolshim_cli.intervals import Clusters, best, is_difference, ratio_interval

from .suite_cases import Group, SuiteCase

SUBJECT = "poolshim"
# Small, but neither fast nor meant to be: memory is set against the others.
NOT_FAST = ("glibc",)


@dataclass(frozen=True)
class Cell:
    """One case under one allocator."""

    value: float
    bests: Clusters
    rss_mib: float
    processes: int


@dataclass(frozen=True)
class Comparison:
    """One case: the subject against its best peer. Ratios below 1: the subject is better."""

    case: SuiteCase
    cells: dict[str, Cell]
    best_peer: str | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    least_peer: str | None = None
    rss_ratio: float | None = None

    @property
    def standing(self) -> str | None:
        """Ahead of every peer; level, not distinguishable from the best; or not. None: alone."""
        if self.ratio is None:
            return None
        if self.ratio <= 1:
            return "ahead"
        return "level" if is_difference(self.interval) is False else "behind"

    @property
    def is_goal_met(self) -> bool | None:
        """None where there is no goal or no comparison."""
        if self.ratio is None or self.case.goal is None:
            return None
        return self.ratio <= self.case.goal


@dataclass(frozen=True)
class GroupVerdict:
    """One group: geometric means of ratios, each over the cases that both sides have."""

    group: Group
    comparisons: list[Comparison]
    mean: float | None = None  # of the ratios to the best peer of each case
    peers: dict[str, float] = field(default_factory=dict)  # of the ratios to one peer each
    rss_peers: dict[str, float] = field(default_factory=dict)

    @property
    def single(self) -> tuple[str, float] | None:
        """The one peer that is best over the whole group, and the ratio to it."""
        return max(self.peers.items(), key=lambda item: item[1], default=None)

    @property
    def least(self) -> tuple[str, float] | None:
        """The fast peer that needs least memory over the whole group, and the ratio to it."""
        fast = [item for item in self.rss_peers.items() if item[0] not in NOT_FAST]
        return max(fast, key=lambda item: item[1], default=None)


def geometric_mean(values: list[float]) -> float | None:
    """None for no values."""
    return exp(sum(map(log, values)) / len(values)) if values else None


def make_cell(session: Session, row: SuiteCase, allocator: str) -> Cell | None:
    """None where nothing was measured, or where a process failed."""
    key = (row.case.name, allocator)
    if key in session.failures or key not in session.runs:
        return None
    runs = session.runs[key]
    bests = [[best(FIGURES[row.figure].values(run))] for run in runs]
    return Cell(
        value=best([value for cluster in bests for value in cluster]),
        bests=bests,
        rss_mib=median(run.peak_rss_kib for run in runs) / 1024,
        processes=len(runs),
    )


def compare(session: Session, row: SuiteCase) -> Comparison:
    """One case over all allocators."""
    cells = {
        allocator.name: cell
        for allocator in session.allocators
        if (cell := make_cell(session, row, allocator.name)) is not None
    }
    peers = {name: cell for name, cell in cells.items() if name != SUBJECT}
    fast = {name: cell for name, cell in peers.items() if name not in NOT_FAST}
    subject = cells.get(SUBJECT)
    if subject is None or not peers:
        return Comparison(row, cells)
    best_peer = min(peers, key=lambda name: peers[name].value)
    least_peer = min(fast, key=lambda name: fast[name].rss_mib, default=None)
    return Comparison(
        row,
        cells,
        best_peer,
        subject.value / peers[best_peer].value,
        ratio_interval(subject.bests, peers[best_peer].bests),
        least_peer,
        None if least_peer is None else subject.rss_mib / fast[least_peer].rss_mib,
    )


def judge(session: Session, group: Group) -> GroupVerdict:
    """All cases of a group, and their means."""
    comparisons = [compare(session, row) for row in group.cases]
    ratios: dict[str, list[float]] = {}
    rss_ratios: dict[str, list[float]] = {}
    for comparison in comparisons:
        subject = comparison.cells.get(SUBJECT)
        for name, cell in comparison.cells.items():
            if subject is None or name == SUBJECT:
                continue
            ratios.setdefault(name, []).append(subject.value / cell.value)
            rss_ratios.setdefault(name, []).append(subject.rss_mib / cell.rss_mib)
    count = max((len(values) for values in ratios.values()), default=0)
    return GroupVerdict(
        group,
        comparisons,
        geometric_mean([c.ratio for c in comparisons if c.ratio is not None]),
        {name: geometric_mean(values) or 0 for name, values in ratios.items()
         if len(values) == count},
        {name: geometric_mean(values) or 0 for name, values in rss_ratios.items()
         if len(values) == count and group.has_rss},
    )  # fmt: skip
