# SPDX-License-Identifier: MIT
"""Colours and style of the pictures that are drawn without matplotlib, on a light and a dark page.

For server_plots.py beside this file and for scripts/dev/gen-overview.
"""

from __future__ import annotations

from collections.abc import Iterator

COLOURS = {"poolshim": "#0969da", "glibc": "#57606a", "jemalloc": "#c4631d", "tcmalloc": "#8250df",
           "mimalloc": "#1a7f37", "tcmalloc-percpu": "#bf3989", "mimalloc3": "#7d8b00",
           "snmalloc": "#a40e26"}  # fmt: skip
DARK = {"#c4631d": "#f0883e", "#8250df": "#bc8cff", "#1a7f37": "#3fb950", "#0969da": "#58a6ff",
        "#57606a": "#9aa4ae", "#bf3989": "#f778ba", "#7d8b00": "#d4d72a", "#a40e26": "#ff7b72",
        "#d0d7de": "#3d444d"}  # fmt: skip


def style() -> Iterator[str]:
    """The element <style>, in lines."""
    yield "<style>text{fill:#1f2328;font:11px sans-serif}"
    yield "@media (prefers-color-scheme:dark){text{fill:#e6edf3}"
    for light, dark in DARK.items():
        yield f'[fill="{light}"]{{fill:{dark}}} [stroke="{light}"]{{stroke:{dark}}}'
    yield "}</style>"
