# SPDX-License-Identifier: MIT
"""Pictures of the site that are no files: of a Graphviz source, and of a result's curves.

For site_pages.py. A document has a link to the source on a line of its own, with the title as its
text; the site shows the picture there. Without dot the document links to its source.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"^\[([^\]\n]+)\]\(([^)\s]+\.(?:dot|json))\)$", re.MULTILINE)
RESULTS = "bench/results/"

# Colours of the Graphviz sources, and their substitutes on a dark page.
DARK = {
    "#ffffff": "#1c2128",
    "#dbe9f8": "#1f3a57",
    "#e3f1e1": "#23402a",
    "#fbeed5": "#4a3a1a",
    "#eceff1": "#2d333b",
    "#5b6b7b": "#8b9bab",
}


class DrawingError(Exception):
    """One line: the source cannot be drawn."""


def is_drawn(place: str) -> bool:
    """Is this file, named from the root, the source of a picture?"""
    suffix = PurePosixPath(place).suffix
    if suffix == ".dot":
        return shutil.which("dot") is not None
    return suffix == ".json" and place.startswith(RESULTS)


def draw(path: Path, title: str) -> str:
    """The picture."""
    return draw_dot(path) if path.suffix == ".dot" else draw_curves(path, title)


def style() -> str:
    rules = ["text{fill:#1f2328}", "@media (prefers-color-scheme:dark){", "text{fill:#e6edf3}"]
    for light, dark in DARK.items():
        rules.append(f'[fill="{light}"]{{fill:{dark}}} [stroke="{light}"]{{stroke:{dark}}}')
    return "<style>\n" + "\n".join([*rules, "}"]) + "\n</style>"


@functools.cache
def draw_dot(path: Path) -> str:
    """By Graphviz, with dark colours too."""
    result = subprocess.run(["dot", "-Tsvg", path], capture_output=True, text=True, check=False)
    if result.returncode != 0 or result.stderr:
        raise DrawingError(f"{path.name}: {result.stderr.strip()}")
    body = re.sub(r"^.*?(?=<svg)|<!-- .*? -->\n", "", result.stdout, flags=re.DOTALL)
    return re.sub(r"(<svg[^>]*>)", rf"\1\n{style()}", body, count=1)


def draw_curves(path: Path, title: str) -> str:
    """Memory over time, as scripts/bench --servers draws it."""
    bench = str(ROOT / "bench")
    if bench not in sys.path:
        sys.path.insert(0, bench)
    from harness import server_plots

    content = json.loads(path.read_text())
    if not content.get("curves"):
        raise DrawingError(f"{path.name} has no curves")
    return server_plots.picture(title, content)
