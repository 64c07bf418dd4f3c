# SPDX-License-Identifier: MIT
"""The tables of bench/servers.py in Markdown, from stored runs: the means, every program."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from .report import Section
from .server_cases import KeptGoal, Server, Table
from .server_figures import METRICS, ServerRun, means, medians, ratios

BASE, SUBJECT = "glibc", "poolshim"
LEGEND = """\
Memory is sampled every 20 ms: RSS of one process, of several the sum of their PSS. *mean* and
*peak* are of the load, *at rest* is three seconds after it, *CPU* is of the whole run. *to the best
other*: poolshim's figure divided by the least of the others. tcmalloc is that of gperftools,
tcmalloc-percpu Google's, with caches per processor.
"""
HEADS = {"cpu": "CPU", "mean": "mean", "peak": "peak", "rest": "at rest"}
MIB = 1024.0
KEPT = "kept"


@dataclass(frozen=True)
class Stored:
    """The file of one program, or of all cases of the group "kept"."""

    content: dict[str, Any]

    @property
    def allocators(self) -> list[str]:
        return [entry["name"] for entry in self.content["allocators"]]

    @property
    def runs(self) -> list[ServerRun]:
        return [ServerRun(**run) for run in self.content["runs"]]


def read_stored(folder: Path, names: Iterable[str]) -> dict[str, Stored]:
    """The measured ones."""
    paths = {name: folder / f"{name}.json" for name in names}
    return {name: Stored(json.loads(path.read_text())) for name, path in paths.items()
            if path.exists()}  # fmt: skip


def order(stored: Iterable[Stored]) -> list[str]:
    """All allocators of them, the base and poolshim first."""
    found = list(dict.fromkeys(name for one in stored for name in one.allocators))
    first = [name for name in (BASE, SUBJECT) if name in found]
    return first + [name for name in found if name not in first]


def markdown(head: list[str], rows: list[list[str]], texts: int = 1) -> str:
    """A table whose first columns are text."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * texts + "---:|" * (len(head) - texts)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows]) + "\n"


def means_section(table: Table, stored: dict[str, Stored]) -> Section:
    """Geometric means to glibc over the programs that count."""
    counted = [server.name for server in table.servers if server.is_in_means]
    found = [ratios(stored[name].runs, BASE) for name in counted if name in stored]
    rows = []
    for name in order(stored[name] for name in counted if name in stored):
        own = means(found, name)
        cells = [f"{own[metric]:.3f}" for metric in METRICS] if own else ["–"] * len(METRICS)
        rows.append([name, *cells])
    goals = [f"{table.goals[metric]:.2f}" if metric in table.goals else "" for metric in METRICS]
    rows.append(["goal", *goals])
    return Section("Threaded programs: geometric means to glibc",
                   ["allocator", *HEADS.values()], rows)  # fmt: skip


def means_table(table: Table, stored: dict[str, Stored]) -> str:
    section = means_section(table, stored)
    return markdown(section.headers, section.rows)


def figure_text(metric: str, value: float) -> str:
    return f"{value:.2f} s" if metric == "cpu" else f"{value / MIB:.1f}"


def to_best_peer(values: dict[str, dict[str, float]], metric: str) -> str:
    """poolshim against the least of the others, and which that is."""
    others = {name: own[metric] for name, own in values.items() if name != SUBJECT}
    if SUBJECT not in values or not others:
        return "–"
    best = min(others, key=lambda name: others[name])
    return f"{values[SUBJECT][metric] / others[best]:.2f} {best}"


def programs_table(servers: Iterable[Server], stored: dict[str, Stored]) -> str:
    """Medians: MiB, and CPU seconds."""
    known = [server for server in servers if server.name in stored]
    names = order(stored[server.name] for server in known)
    rows = []
    for server in known:
        values = medians(stored[server.name].runs)
        for metric in METRICS:
            cells = [figure_text(metric, values[name][metric]) if name in values else "–"
                     for name in names]  # fmt: skip
            rows.append([server.name, HEADS[metric], *cells, to_best_peer(values, metric)])
    return markdown(["program", "", *names, "to the best other"], rows, 2)


def kept_values(stored: Stored, case: str, key: str) -> dict[str, float]:
    """Allocator -> median of this figure of the case, in MiB."""
    found: dict[str, list[float]] = {}
    for run in stored.content["runs"]:
        if run["case"] == case:
            found.setdefault(run["allocator"], []).append(run[key] / MIB)
    return {name: median(values) for name, values in found.items()}


def is_reached(goal: KeptGoal, value: float, base: float | None, peak: float) -> bool:
    if goal.mib is not None:
        return value <= goal.mib
    if goal.glibc is not None:
        return base is not None and value <= goal.glibc * base
    return value <= (goal.peak or 0) * peak


def kept_row(
    goal: KeptGoal, names: list[str], values: dict[str, float], peaks: dict[str, float]
) -> list[str]:
    """MiB of each; poolshim's says whether the goal is reached."""
    cells = [f"{values[name]:.0f}" if name in values else "–" for name in names]
    reached = "–"
    if SUBJECT in values:
        met = is_reached(goal, values[SUBJECT], values.get(BASE), peaks[SUBJECT])
        reached = "yes" if met else "no"
    return [goal.title, *cells, goal.text, reached]


def kept_table(table: Table, stored: dict[str, Stored]) -> str:
    """The named rows: workloads of the suite, and programs of the group "kept"."""
    own = [server for server in table.servers if server.is_kept and server.name in stored]
    names = order([stored[name] for name in (KEPT, *(s.name for s in own)) if name in stored])
    rows = []
    for goal in table.kept if KEPT in stored else ():
        values = kept_values(stored[KEPT], goal.case, "rss")
        if values:
            peaks = kept_values(stored[KEPT], goal.case, "peak")
            rows.append(kept_row(goal, names, values, peaks))
    for server in own:
        found = medians(stored[server.name].runs)
        values, peaks = ({name: one[metric] / MIB for name, one in found.items()}
                         for metric in ("rest", "peak"))  # fmt: skip
        goal = KeptGoal(server.name, server.title, peak=server.goal)
        rows.append(kept_row(goal, names, values, peaks))
    return markdown(["MiB retained", *names, "goal", "reached"], rows)


def versions_line(stored: dict[str, Stored]) -> str:
    """Which programs and libraries, and how often."""
    programs = [f"{name} ({one.content['version']})" for name, one in stored.items()
                if one.content.get("version")]  # fmt: skip
    seen = {entry["name"]: entry["version"] for one in stored.values()
            for entry in one.content["allocators"] if entry["version"]}  # fmt: skip
    rounds = sorted({one.content["rounds"] for one in stored.values()})
    many = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    libraries = ", ".join(f"{name}: {version}" for name, version in seen.items())
    return f"{many} rounds. {libraries}. {', '.join(programs)}.\n"


def summary_text(table: Table, stored: dict[str, Stored]) -> str:
    """All tables; empty where nothing was measured."""
    shown = [server for server in table.servers if not server.is_kept and server.name in stored]
    parts = []
    if any(server.is_in_means for server in shown):
        parts += ["Geometric means to glibc:\n", means_table(table, stored)]
    if shown:
        parts += ["MiB, medians of the rounds:\n", programs_table(shown, stored), LEGEND]
    if set(stored) - {server.name for server in shown}:
        parts.append(kept_table(table, stored))
    first = next(iter(stored.values()), None)
    if first is not None:
        busy = max(one.content["busy_cores"] for one in stored.values())
        parts.append(
            f"{first.content['machine']}; others used up to {busy:.1f} cores. "
            f"{versions_line(stored)}"
        )
    return "\n".join(parts)
