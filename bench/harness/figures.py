# SPDX-License-Identifier: MIT
"""What of a measured process is compared: one number per round, or one per process. Less is better.

A figure that a process cannot give ends its row: RunFailed, never a silent zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from poolshim_cli.errors import RunFailed

from .runner import Run


# The prefix of a report's fields: wall clock, CPU time.
WALL, CPU = "", "cpu_"


@dataclass(frozen=True)
class Figure:
    """How to get the numbers out of a process, and their unit."""

    unit: str
    values: Callable[[Run], list[float]]
    what: str


def round_ns(entry: dict[str, Any], blocks: int, clock: str) -> float:
    """Nanoseconds per operation of one round; for the lists, of malloc and free together."""
    if "ms" in entry:
        return float(entry[clock + "ms"]) * 1e6 / float(entry["operations"])
    return float(entry[f"alloc_{clock}ms"] + entry[f"free_{clock}ms"]) * 1e6 / blocks


def all_rounds_ns(run: Run, clock: str) -> list[float]:
    """Every round of the process."""
    blocks = run.report.get("nodes_per_round", run.report.get("count", 1))
    return [round_ns(entry, blocks, clock) for entry in run.report["rounds"]]


def steady_ns(clock: str) -> Callable[[Run], list[float]]:
    """The rounds after the first, which pays for fresh pages; that one if there is no other."""

    def values(run: Run) -> list[float]:
        found = all_rounds_ns(run, clock)
        return found[1:] or found

    return values


def steps_ratio(run: Run) -> list[float]:
    """For growth: the most expensive step against the cheapest."""
    values = all_rounds_ns(run, CPU)
    return [max(values) / min(values)]


def note(name: str) -> Callable[[Run], list[float]]:
    """A figure that the program itself put into its last round."""

    def values(run: Run) -> list[float]:
        found = run.report["rounds"][-1].get(name)
        if found is None:
            raise RunFailed(f"its report has no {name}")
        return [float(found)]

    return values


def seen_by_launcher(*names: str) -> Callable[[Run], list[float]]:
    """The sum of these fields of the launcher's result."""

    def values(run: Run) -> list[float]:
        fields = [run.launcher[name] for name in names]
        if None in fields:
            raise RunFailed(f"the launcher could not read {' and '.join(names)}")
        return [float(sum(fields))]

    return values


FIGURES = {
    "round": Figure("ns", steady_ns(WALL), "wall clock per operation, the best round"),
    "cpu_round": Figure("ns", steady_ns(CPU), "CPU time per operation, the best round"),
    "first": Figure("ms", lambda run: [float(run.report["rounds"][0]["alloc_cpu_ms"])],
                    "CPU time of the first round's allocations, fresh pages included"),
    "total": Figure("ms", lambda run: [float(run.report["total_ms"])], "all rounds of a process"),
    "steps": Figure("x", steps_ratio, "a process's most expensive step against its cheapest"),
    "dirty_per_thread": Figure("KiB", note("dirty_kib_per_thread"), "private dirty memory"),
    "kept_rss": Figure("MiB", note("rss_mib"), "RSS when the work is done"),
    "last_rss": Figure("KiB", seen_by_launcher("last_rss_kib"), "RSS at exit"),
    "last_dirty": Figure("KiB", seen_by_launcher("last_dirty_kib"), "private dirty at exit"),
    "cpu": Figure("s", seen_by_launcher("user_s", "sys_s"), "CPU time"),
}  # fmt: skip
