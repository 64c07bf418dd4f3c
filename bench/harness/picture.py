# SPDX-License-Identifier: MIT
"""What plots.py and pool_plots.py draw with: matplotlib without a display, and the same file for
the same figures.

Needs matplotlib, which nothing else of the harness does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "poolshim"

from matplotlib import pyplot  # noqa: E402

__all__ = ["draw_argument", "pyplot", "save"]


def save(figure: Any, path: Path) -> None:
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)


def draw_argument(draw_all: Callable[[Path], list[Path]]) -> None:
    """For the command line: draws the result that it names, and prints what came of it."""
    for drawn in draw_all(Path(sys.argv[1])):
        print(drawn)
