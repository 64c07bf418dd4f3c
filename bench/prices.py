#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What each level of POOLSHIM_HARDEN costs: ratios to level 0, from a run of the suite.

    scripts/bench --suite --table bench/hardened.toml --results build/prices
    .venv/bin/python bench/prices.py build/prices/suite-*.json

Prints a table in Markdown: per group and over all cases the geometric mean of time and of peak
memory, and the most expensive case of each level.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean
from typing import Any

BASE = "poolshim"
LEVELS = ("level-1", "level-2", "level-3")

Ratios = dict[str, list[tuple[float, str]]]  # by level: ratio and case


def read(path: Path) -> list[dict[str, Any]]:
    try:
        groups = json.loads(path.read_text())["groups"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"prices: {path}: no results of the suite: {error}")
    if not any(BASE in case["cells"] for group in groups for case in group["cases"]):
        sys.exit(f"prices: {path}: nothing of {BASE} in it")
    return list(groups)


def ratios(cases: list[dict[str, Any]], key: str) -> Ratios:
    """Of the cases that both level 0 and the level have a figure for."""
    found: Ratios = defaultdict(list)
    for case in cases:
        base = case["cells"].get(BASE, {}).get(key)
        for level in LEVELS:
            value = case["cells"].get(level, {}).get(key)
            if base and value:
                found[level].append((value / base, case["case"]))
    return found


def row(title: str, cases: list[dict[str, Any]], time_key: str, memory_key: str) -> str:
    times, memory = ratios(cases, time_key), ratios(cases, memory_key)
    cells = [
        f"{geometric_mean(r for r, _ in times[level]):.2f}"
        + (f" / {geometric_mean(r for r, _ in memory[level]):.2f}" if memory[level] else "")
        if times[level]
        else "–"
        for level in LEVELS
    ]
    return f"| {title} | " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, help="JSON that the suite wrote")
    path = parser.parse_args().results
    groups = read(path)
    keys = ("value", "rss_mib")
    everything = [case for group in groups for case in group["cases"]]
    print("| Group | level 1: time / memory | level 2 | level 3 |\n|---|---:|---:|---:|")
    for group in groups:
        print(row(group["group"], group["cases"], *keys))
    print(row("all", everything, *keys))
    times = ratios(everything, keys[0])
    print("| most expensive case | " + " | ".join(
        f"{max(times[level])[1]} {max(times[level])[0]:.2f}" for level in LEVELS
    ) + " |")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
