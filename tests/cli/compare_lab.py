# SPDX-License-Identifier: MIT
"""What the tests of `poolshim compare` share: the columns, made-up results, the command itself.

    results = made_up({"glibc": 1.0, "poolshim": 0.9})
"""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import BUILD_DIR, ROOT, run_captured

sys.path.insert(0, str(ROOT / "scripts"))
from poolshim_cli.compare import plan as planning  # noqa: E402
from poolshim_cli.compare.results import Measured, Results, Run  # noqa: E402

POOLSHIM = ROOT / "scripts" / "poolshim"
ABOUT: dict[str, Any] = {
    "mode": "command",
    "command": ["jq", ".[] | select(.size > 10)", "big file.json"],
    "stdin": None,
    "prepare": None,
    "cwd": "/home/user/data",
    "seed": 20140513,
    "warmup": 1,
    "curve_ms": 10,
    "made": "2026-01-02T03:04:05+00:00",
    "took_s": 61.5,
    "foreign_cpu_share": 0.02,
    "linked_to": [],
    "machine": {
        "cpu": "Some CPU 9000", "cores": 2, "is_virtual": True, "memory_gib": 7.8,
        "kernel": "6.1.0", "system": "Debian GNU/Linux 12 (bookworm)", "huge_pages": "madvise",
        "load_average": [0.1, 0.2, 0.3], "tuning": {},
    },
    "versions": {"poolshim": "0.1.0", "hyperfine": "1.15.0", "python": "3.11.2"},
}  # fmt: skip


@functools.cache
def columns(*names: str) -> tuple[planning.Column, ...]:
    """Columns of this machine by name."""
    found, _ = planning.find_columns(BUILD_DIR, only=names)
    return tuple(found)


def made_up(
    ratios: dict[str, float], rounds: int = 12, noise: float = 0.01, memory: float = 1.0
) -> Results:
    """Results with these true ratios of time; memory: of all columns but the first."""
    generator = random.Random(11)
    made = []
    for place, (name, ratio) in enumerate(ratios.items()):
        runs = []
        for number in range(1, rounds + 1):
            wall_s = round(0.5 * ratio * (1 + abs(generator.gauss(0, noise))), 6)
            peak_kib = int(40960 * (memory if place else 1)) + generator.randrange(0, 40, 4)
            curve = tuple((20.0 * at, peak_kib * at // 25) for at in range(1, 26))
            runs.append(
                Run(number, place, wall_s, round(wall_s + 0.001, 6), round(wall_s * 0.98, 6),
                    peak_kib, 0, "ab" * 32, 1234, None, curve)
            )  # fmt: skip
        library = f"/usr/lib/lib{name}.so" if place else None
        made.append(Measured(name, library, f"lib{name} 1.0", "", {}, {}, name.endswith("again"),
                             None, runs))  # fmt: skip
    return Results(dict(ABOUT), next(iter(ratios)), made)


def compare(
    *words: str | Path, timeout: float = 120, width: int = 100, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """scripts/poolshim compare, on the build under test, without a terminal."""
    env = {**os.environ, "POOLSHIM_BUILD_DIR": str(BUILD_DIR), "COLUMNS": str(width)}
    env["TERM"] = "dumb"
    return run_captured([POOLSHIM, "compare", *words], timeout, env=env, **options)
