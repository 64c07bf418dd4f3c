# SPDX-License-Identifier: MIT
"""A flame graph of a profile, as one HTML file that needs nothing else.

    files.write_whole(path, flame.page(flame.tree_of(samples), "title", "note").encode())

Drawn by d3-flame-graph 4.1.3 (Apache License 2.0) and d3-selection 3.0.1 (ISC), which lie in the
folder flame/ with their licences, unchanged, and are copied into the page.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).with_name("flame")
SCRIPTS = ("d3-selection.min.js", "d3-flamegraph.min.js")
LICENCES = ("d3-selection.LICENSE", "d3-flame-graph.LICENSE")
STYLE = """
body { font: 14px system-ui, sans-serif; margin: 1em; color: #222; background: #fff; }
h1 { font-size: 1.2em; margin: 0 0 .3em; overflow-wrap: anywhere; }
#details { min-height: 1.4em; overflow-wrap: anywhere; font-family: monospace; }
input, button { font: inherit; }
"""
SCRIPT = """
const data = JSON.parse(document.getElementById("data").textContent);
const mib = bytes => (bytes / 1048576).toFixed(Math.abs(bytes) < 104857 ? 3 : 1) + " MiB";
const label = d => d.data.name + ": " + mib(d.data.value)
    + ", " + (100 * d.data.value / (data.value || 1)).toFixed(1) + " %"
    + (data.is_difference ? ", " + (d.data.delta < 0 ? "" : "+") + mib(d.data.delta) : "");
const hue = d => {
    const share = Math.max(-1, Math.min(1, 4 * d.data.delta / (data.value || 1)));
    const rest = Math.round(240 * (1 - Math.abs(share)));
    return share < 0 ? `rgb(${rest},${rest},240)` : `rgb(240,${rest},${rest})`;
};
const chart = flamegraph().width(Math.max(300, document.body.clientWidth)).cellHeight(18)
    .minFrameSize(1).sort(true).inverted(true).setLabelHandler(label)
    .setDetailsElement(document.getElementById("details"));
if (data.is_difference) chart.setColorMapper(d => d.highlight ? "#E600E6" : hue(d));
d3.select("#chart").datum(data).call(chart);
document.getElementById("search").addEventListener("input", e =>
    e.target.value ? chart.search(e.target.value) : chart.clear());
document.getElementById("reset").addEventListener("click", () => chart.resetZoom());
"""


@dataclass
class Node:
    """A function as called from its parents. Bytes are those of its own and its callees."""

    value: int = 0
    delta: int = 0
    children: dict[str, Node] = field(default_factory=dict)

    def add(self, outermost_first: Iterable[str], value: int, delta: int) -> None:
        """Adds a stack."""
        node = self
        node.value += value
        node.delta += delta
        for name in outermost_first:
            node = node.children.setdefault(name, Node())
            node.value += value
            node.delta += delta

    def to_json(self, name: str) -> str:
        """What the library draws. Not by recursion: stacks may be deeper than Python's."""
        parts: list[str] = []
        left: list[tuple[Node, str] | str] = [(self, name)]
        while left:
            step = left.pop()
            if isinstance(step, str):
                parts.append(step)
                continue
            node, label = step
            parts.append(
                f'{{"name":{json.dumps(label)},"value":{node.value},"delta":{node.delta},'
                f'"children":['
            )
            children = [(child, key) for key, child in sorted(node.children.items()) if child.value]
            left.append("]}")
            for index, pair in enumerate(reversed(children), 1):
                left += [pair] if index == len(children) else [pair, ","]
        return "".join(parts)


def page(root: Node, title: str, note: str, is_difference: bool = False) -> str:
    """The whole file."""
    # A name cannot end the element: < is written as JSON may write it.
    text = root.to_json("all").replace("<", "\\u003c")
    text = f'{{"is_difference":{json.dumps(is_difference)},{text[1:]}'
    styles = STYLE + (FOLDER / "d3-flamegraph.css").read_text()
    scripts = "".join(f"<script>{(FOLDER / name).read_text()}</script>\n" for name in SCRIPTS)
    licences = "\n\n".join((FOLDER / name).read_text() for name in LICENCES).replace("--", "- -")
    return (
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n"
        f"<title>{html.escape(title)}</title>\n<style>{styles}</style>\n"
        f"<!-- The scripts are d3-selection and d3-flame-graph.\n\n{licences}\n-->\n</head><body>\n"
        f"<h1>{html.escape(title)}</h1>\n<p>{html.escape(note)}</p>\n"
        '<p><input id="search" placeholder="search" aria-label="search"> '
        '<button id="reset">reset zoom</button></p>\n'
        '<p id="details"></p>\n<div id="chart"></div>\n'
        f'<script id="data" type="application/json">{text}</script>\n'
        f"{scripts}<script>{SCRIPT}</script>\n</body></html>\n"
    )
