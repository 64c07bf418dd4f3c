# SPDX-License-Identifier: MIT
"""Text of a terminal as an SVG picture, for gen-answers and gen-demo beside this file.

    picture("title", "scripts/dev/gen-answers", [Line("$ ls"), Line("README.md")])

A line may have a class of its own and a mark of the time at which it appears.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

COLUMN, LINE, EDGE = 7.25, 17, 14  # of 12 px letters
STYLE = """rect{fill:#f6f8fa;stroke:#d0d7de}
text{fill:#1f2328;font:12px ui-monospace,"DejaVu Sans Mono",monospace}
.command{fill:#0969da} .less{fill:#1a7f37} .more{fill:#cf222e}
@media (prefers-color-scheme:dark){
rect{fill:#151b23;stroke:#3d444d} text{fill:#e6edf3} .command{fill:#58a6ff}
.less{fill:#3fb950} .more{fill:#ff7b72}
}
"""


@dataclass(frozen=True)
class Line:
    """A line of the terminal."""

    text: str
    appears: str = ""  # a class of the style sheet

    @property
    def classes(self) -> str:
        """Commands have a colour."""
        return " ".join(filter(None, ["command" if self.text.startswith("$ ") else "",
                                      self.appears]))  # fmt: skip


def picture(
    title: str, made_by: str, lines: Sequence[Line], style: str = "",
    marked: Callable[[str], str] = lambda text: text,
) -> str:  # fmt: skip
    """marked: adds tags to the escaped text of a line."""
    width = round(max(len(line.text) for line in lines) * COLUMN + 2 * EDGE)
    height = len(lines) * LINE + 2 * EDGE
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    rows = [f"<!-- {made_by} -->",
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(title)}</title>", f"<style>\n{STYLE}{style}</style>",
            f'<rect x="1" y="1" width="{width - 2}" height="{height - 2}" rx="6"/>']
    for number, line in enumerate(lines):
        if line.text:
            kind = f' class="{line.classes}"' if line.classes else ""
            place = f'x="{EDGE}" y="{EDGE + number * LINE + 12}"{kind}'
            place += f' textLength="{len(line.text) * COLUMN:g}" xml:space="preserve"'
            rows.append(f"<text {place}>{marked(escape(line.text))}</text>")
    return "\n".join([*rows, "</svg>", ""])
