# SPDX-License-Identifier: MIT
"""A flame graph of a profile, as one HTML file that needs nothing else.

    files.write_whole(path, flame.page(flame.tree_of(samples), "title", "note").encode())

The script in it is flame.js beside this file.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

SCRIPT = Path(__file__).with_name("flame.js")
STYLE = """
body { font: 14px system-ui, sans-serif; margin: 1em; color: #222; background: #fff; }
h1 { font-size: 1.2em; margin: 0 0 .3em; overflow-wrap: anywhere; }
#details { min-height: 1.4em; overflow-wrap: anywhere; font-family: monospace; }
input, button { font: inherit; }
#chart { position: relative; }
.frame { position: absolute; box-sizing: border-box; height: 18px; padding: 0 3px; overflow: hidden;
  border: solid #fff; border-width: 0 1px 1px 0; font: 12px/17px system-ui, sans-serif;
  white-space: nowrap; text-overflow: ellipsis; cursor: pointer; }
.frame:hover, .frame:focus { outline: 1px solid #222; z-index: 1; }
.caller { opacity: .6; }
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
        """What the script draws. Not by recursion: stacks may be deeper than Python's."""
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
    return (
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n"
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head><body>\n"
        f"<h1>{html.escape(title)}</h1>\n<p>{html.escape(note)}</p>\n"
        '<p><input id="search" placeholder="search" aria-label="search"> '
        '<button id="reset">reset zoom</button></p>\n'
        '<p id="details"></p>\n<div id="chart"></div>\n'
        f'<script id="data" type="application/json">{text}</script>\n'
        f"<script>{SCRIPT.read_text()}</script>\n</body></html>\n"
    )
