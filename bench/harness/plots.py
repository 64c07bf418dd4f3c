# SPDX-License-Identifier: MIT
"""Draws what a table hides, from the JSON of a suite: time against memory, and the growth curves.

    PYTHONPATH=bench python3 -m harness.plots bench/results/suite-20260101T000000Z.json

One SVG per group and curve, beside the JSON. Needs matplotlib.
"""

from __future__ import annotations

import json
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

from .picture import draw_argument, pyplot, save

SUBJECT = "poolshim"
Curves = dict[str, list[tuple[float, float]]]


def relative_means(group: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Per allocator: geometric means of its figures and of its RSS, each against the least."""
    sums: dict[str, list[tuple[float, float]]] = {}
    for case in group["cases"]:
        cells = case["cells"]
        if not cells:
            continue
        least = min(cell["value"] for cell in cells.values())
        least_rss = min(cell["rss_mib"] for cell in cells.values())
        for name, cell in cells.items():
            pair = (log(cell["value"] / least), log(cell["rss_mib"] / least_rss))
            sums.setdefault(name, []).append(pair)
    count = max((len(pairs) for pairs in sums.values()), default=0)
    return {
        name: (exp(sum(p[0] for p in pairs) / count), exp(sum(p[1] for p in pairs) / count))
        for name, pairs in sums.items()
        if len(pairs) == count
    }


def draw_scatter(group: dict[str, Any], path: Path) -> None:
    """Time to the right, memory upwards: the lower left corner is the place to be."""
    figure, axes = pyplot.subplots(figsize=(7, 5))
    for name, (time, rss) in relative_means(group).items():
        color = "tab:red" if name == SUBJECT else "tab:blue"
        axes.scatter(time, rss, color=color, zorder=3)
        axes.annotate(name, (time, rss), textcoords="offset points", xytext=(5, 5), color=color)
    axes.set(title=group["title"], xlabel="figure, against the least (geometric mean)",
             ylabel="peak RSS, against the least (geometric mean)")  # fmt: skip
    axes.grid(alpha=0.3)
    save(figure, path)


def growth_curves(content: dict[str, Any]) -> tuple[Curves, Curves]:
    """Per allocator, over live MiB: ns per operation, and RSS per live byte; medians."""
    steps: dict[str, dict[float, list[tuple[float, float]]]] = {}
    for run in content["runs"]:
        if run["report"].get("benchmark") != "growth":
            continue
        for entry in run["report"]["rounds"]:
            point = (entry["cpu_ms"] * 1e6 / entry["operations"],
                     entry["rss_kib"] / entry["live_kib"])  # fmt: skip
            own = steps.setdefault(run["allocator"], {})
            own.setdefault(entry["live_kib"] / 1024, []).append(point)
    times, sizes = (
        {name: [(live, median(p[index] for p in points)) for live, points in own.items()]
         for name, own in steps.items()}
        for index in (0, 1)
    )  # fmt: skip
    return times, sizes


def thread_curves(content: dict[str, Any]) -> Curves:
    """Per allocator, over threads: the figure of the cases that differ in their threads only."""
    curves: Curves = {}
    for group in content["groups"]:
        for case in group["cases"]:
            threads = case["case"].removeprefix("threads/threads-")
            if threads.isdigit():
                for name, cell in case["cells"].items():
                    curves.setdefault(name, []).append((float(threads), cell["value"]))
    return curves


def memory_courses(content: dict[str, Any]) -> dict[str, Curves]:
    """Per case whose RSS was sampled, and allocator: MiB over ms, in its first process."""
    courses: dict[str, Curves] = {}
    for run in content["runs"]:
        points = [(at_ms, kib / 1024) for at_ms, kib in run["launcher"]["samples"]]
        if len(points) > 1:
            courses.setdefault(run["case"], {}).setdefault(run["allocator"], points)
    return courses


def draw_curves(
    curves: Curves, path: Path, title: str, x_label: str, y_label: str, *, is_log: bool = True
) -> None:
    figure, axes = pyplot.subplots(figsize=(7, 5))
    axes.set_prop_cycle(color=pyplot.get_cmap("tab20").colors)
    for name, points in curves.items():
        is_subject = name == SUBJECT
        axes.plot(
            *zip(*sorted(points), strict=True), label=name, marker="o" if is_log else None,
            markersize=3, linewidth=2.5 if is_subject else 1, zorder=3 if is_subject else 2,
        )  # fmt: skip
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    if is_log:
        axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, path)


def draw_all(result: Path) -> list[Path]:
    """All plots that the result has the figures for; returns their paths."""
    content = json.loads(result.read_text())
    made = []
    for group in content["groups"]:
        if relative_means(group):
            made.append(result.with_name(f"{result.stem}-{group['group']}.svg"))
            draw_scatter(group, made[-1])
    times, sizes = growth_curves(content)
    for name, curves, title, x_label, y_label in (
        ("growth-time", times, "Cost of an operation as the heap grows", "live MiB", "ns"),
        ("growth-rss", sizes, "Memory as the heap grows", "live MiB", "RSS / live bytes"),
        ("threads-time", thread_curves(content), "Wall time per operation", "threads", "ns"),
    ):
        if any(len(points) > 1 for points in curves.values()):
            made.append(result.with_name(f"{result.stem}-{name}.svg"))
            draw_curves(curves, made[-1], title, x_label, y_label)
    for case, curves in memory_courses(content).items():
        made.append(result.with_name(f"{result.stem}-rss-{case.replace('/', '-')}.svg"))
        draw_curves(curves, made[-1], f"{case}: RSS over time", "ms", "MiB", is_log=False)
    return made


if __name__ == "__main__":
    draw_argument(draw_all)
