# SPDX-License-Identifier: MIT
"""The tables of a suite: each case against its best peer, the figures of all, the sums."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .figures import FIGURES
from .report import NOTHING, Section, interval, ratio
from .session import Session
from .summary import BASELINE
from .verdict import SUBJECT, Comparison, GroupVerdict


def number(value: float) -> str:
    """Three digits that count, up to where a million is meant."""
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def mark(is_met: bool | None) -> str:
    """A goal in one character."""
    return NOTHING if is_met is None else "yes" if is_met else "NO"


def comparison_row(comparison: Comparison) -> list[str]:
    """The cells of one case: the subject, its best peer, their memory."""
    case = comparison.case
    subject = comparison.cells.get(SUBJECT)
    peer = comparison.cells.get(comparison.best_peer or "")
    least = comparison.cells.get(comparison.least_peer or "")
    return [
        case.short_name,
        FIGURES[case.figure].unit,
        NOTHING if subject is None else number(subject.value),
        NOTHING if peer is None else f"{comparison.best_peer} {number(peer.value)}",
        ratio(comparison.ratio),
        interval(comparison.interval),
        NOTHING if case.goal is None else f"{case.goal:.2f}",
        mark(comparison.is_goal_met),
        NOTHING if subject is None else number(subject.rss_mib),
        NOTHING if least is None else f"{comparison.least_peer} {number(least.rss_mib)}",
        ratio(comparison.rss_ratio),
        str(max((cell.processes for cell in comparison.cells.values()), default=0)),
    ]


def comparison_section(verdict: GroupVerdict, session: Session) -> Section:
    """The subject against the best peer of each case."""
    return Section(
        verdict.group.title,
        ["case", "\nunit", f"{SUBJECT}", "best peer", f"{SUBJECT}/\nbest", "\n95 %", "\ngoal",
         "\nmet", "peak RSS\nMiB", "least fast\npeer MiB", "RSS/\nleast", "\nruns"],
        [comparison_row(comparison) for comparison in verdict.comparisons],
        failures_of(verdict, session),
    )  # fmt: skip


def failures_of(verdict: GroupVerdict, session: Session) -> list[tuple[str, str]]:
    """Rows that did not come about, with their reasons."""
    names = {row.case.name for row in verdict.group.cases}
    return [
        (f"{case}, {allocator}", reason)
        for (case, allocator), reason in session.failures.items()
        if case in names
    ]


def matrix_section(verdict: GroupVerdict, session: Session, *, is_rss: bool) -> Section:
    """One column per allocator: the figures, or the peak RSS."""
    names = [allocator.name for allocator in session.allocators]
    rows = []
    for comparison in verdict.comparisons:
        unit = "MiB" if is_rss else FIGURES[comparison.case.figure].unit
        cells = [comparison.cells.get(name) for name in names]
        rows.append(
            [comparison.case.short_name, unit]
            + [
                NOTHING if cell is None else number(cell.rss_mib if is_rss else cell.value)
                for cell in cells
            ]
        )
    what = "peak RSS" if is_rss else "the figures"
    return Section(f"{verdict.group.title}: {what} of all", ["case", "\nunit", *names], rows)


def named(pair: tuple[str, float] | None) -> str:
    """A ratio and the peer that it is against."""
    return NOTHING if pair is None else f"{ratio(pair[1])} {pair[0]}"


def sums_section(verdicts: list[GroupVerdict]) -> Section:
    """One line per group."""
    section = Section(
        f"Sums: geometric means of {SUBJECT}'s ratios",
        ["group", "\nahead", "\nlevel", "\nbehind", "to each\nbest", "\ngoal",
         "to the best\nsingle peer", "\ngoal", f"to\n{BASELINE}",
         "RSS to the\nleast fast peer", f"RSS to\n{BASELINE}"],
    )  # fmt: skip
    for verdict in verdicts:
        goals = verdict.group.goals
        standings = [comparison.standing for comparison in verdict.comparisons]
        section.rows.append(
            [
                verdict.group.name,
                *[str(standings.count(name)) for name in ("ahead", "level", "behind")],
                ratio(verdict.mean), f"{goals['mean']:.2f}" if "mean" in goals else NOTHING,
                named(verdict.single), f"{goals['single']:.2f}" if "single" in goals else NOTHING,
                ratio(verdict.peers.get(BASELINE)), named(verdict.least),
                ratio(verdict.rss_peers.get(BASELINE)),
            ]
        )  # fmt: skip
    return section


def not_ahead(verdicts: list[GroupVerdict]) -> list[str]:
    """The cases in which the best peer's best run is better, in words, the worst first."""
    lines = []
    for standing, words in (("behind", "Behind"), ("level", "Level, the best run behind")):
        found = [c for v in verdicts for c in v.comparisons if c.standing == standing]
        found.sort(key=lambda comparison: -(comparison.ratio or 0))
        lines += [
            f"{words}: {c.case.case.name}: {ratio(c.ratio)} of {c.best_peer} "
            f"({interval(c.interval)})."
            for c in found
        ]
    return lines


def sections(verdicts: list[GroupVerdict], session: Session, *, is_full: bool) -> list[Section]:
    """All tables; the matrices only where they are requested."""
    made = []
    for verdict in verdicts:
        made.append(comparison_section(verdict, session))
        if is_full:
            made.append(matrix_section(verdict, session, is_rss=False))
            made.append(matrix_section(verdict, session, is_rss=True))
    return [*made, sums_section(verdicts)]


def as_json(verdicts: list[GroupVerdict]) -> list[dict[str, Any]]:
    """The sums for programs: one object per group, with its cases."""
    return [
        {
            "group": verdict.group.name,
            "title": verdict.group.title,
            "goals": verdict.group.goals,
            "mean": verdict.mean,
            "single": verdict.single,
            "peers": verdict.peers,
            "rss_peers": verdict.rss_peers,
            "cases": [
                {
                    "case": c.case.case.name,
                    "figure": c.case.figure,
                    "unit": FIGURES[c.case.figure].unit,
                    "goal": c.case.goal,
                    "is_goal_met": c.is_goal_met,
                    "standing": c.standing,
                    "best_peer": c.best_peer,
                    "ratio": c.ratio,
                    "interval": c.interval,
                    "least_peer": c.least_peer,
                    "rss_ratio": c.rss_ratio,
                    "cells": {name: asdict(cell) for name, cell in c.cells.items()},
                }
                for c in verdict.comparisons
            ],
        }
        for verdict in verdicts
    ]
