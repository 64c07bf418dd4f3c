# SPDX-License-Identifier: MIT
"""Draws the pools' benchmark from its JSON: per group, each contestant against the best original.

    PYTHONPATH=bench python3 -m harness.pool_plots bench/results/pools-20260101T000000Z.json

One SVG per group, beside the JSON. Needs matplotlib.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .contests import FLOORS, OURS
from .picture import draw_argument, pyplot, save

OUR_COLOR, ORIGINAL_COLOR, FLOOR_COLOR = "tab:red", "tab:blue", "tab:gray"
LIMIT = 8.0  # longer bars end here, with their number: one slow contestant hides the rest


def ratios_of(rows: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """Contestants with their warm time against the best original's, slowest first; empty without an
    original."""
    best = {row["pool"]: min(row["warm_ms"]) for row in rows if row["warm_ms"]}
    originals = [
        value for pool, value in best.items() if not pool.startswith(OURS) and pool not in FLOORS
    ]
    if not originals:
        return []
    least = min(originals)
    return sorted(((pool, value / least) for pool, value in best.items()), key=lambda p: -p[1])


def color_of(pool: str) -> str:
    if pool in FLOORS:
        return FLOOR_COLOR
    return OUR_COLOR if pool.startswith(OURS) else ORIGINAL_COLOR


def draw_group(title: str, cases: dict[str, list[tuple[str, float]]], path: Path) -> None:
    """Bars to the right: shorter is faster, the line at 1 is the best original."""
    height = sum(len(bars) + 1 for bars in cases.values())
    figure, axes = pyplot.subplots(figsize=(8, 0.22 * height + 1))
    place, ticks, labels = 0, [], []
    for case, bars in cases.items():
        for pool, ratio in bars:
            axes.barh(place, min(ratio, LIMIT), color=color_of(pool), height=0.8)
            axes.annotate(f" {ratio:.2f}", (min(ratio, LIMIT), place), va="center", fontsize=7)
            ticks.append(place)
            labels.append(f"{case}: {pool}")
            place += 1
        place += 1
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(ticks, labels, fontsize=7)
    axes.set(title=title, xlabel="warm time against the best original's", xlim=(0, LIMIT * 1.1))
    save(figure, path)


def draw_all(result: Path) -> list[Path]:
    """A picture for each group that has an original; returns their paths."""
    content = json.loads(result.read_text())
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in content["results"]:
        groups.setdefault(row["group"], {}).setdefault(row["case"], []).append(row)
    made = []
    for group, cases in groups.items():
        bars = {case: ratios for case, rows in cases.items() if (ratios := ratios_of(rows))}
        if bars:
            made.append(result.with_name(f"{result.stem}-{group}.svg"))
            draw_group(group, bars, made[-1])
    return made


if __name__ == "__main__":
    draw_argument(draw_all)
