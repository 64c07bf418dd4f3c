# SPDX-License-Identifier: MIT
"""The report as one HTML file: pictures are SVG in it; no script, no reference to other files."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .account import PARTS, Account
from .history import Course, History
from .report import head_of
from .verdict import Verdict, mib

# Colours that differ in hue and in lightness; grey for memory outside the heap.
FILLS = {
    "live": "#2f7d4f", "rounding": "#d9a21b", "pinned": "#c23b3b", "room": "#b07cc6",
    "cache": "#3f9fb5", "huge": "#e0763c", "pools": "#83b54e", "stacks": "#3d5a9e",
    "other": "#7a8fc4", "files": "#9b9b9b", "shared": "#6f6f6f", "code": "#c4c4c4",
    "metadata": "#8a6d3b", "profile": "#d5c7a3",
}  # fmt: skip
WIDTH, HEIGHT, LEFT, BOTTOM = 900, 320, 70, 30
GRID_LINES = 4
BARS = 15
BAR_HEIGHT, BAR_LEFT = 24, 330

STYLE = """
:root { --back: #fff; --text: #1c1c1c; --soft: #666; --line: #ddd; --box: #f4f4f1; }
@media (prefers-color-scheme: dark) {
  :root { --back: #17181a; --text: #e6e6e3; --soft: #a0a09c; --line: #3a3b3e; --box: #232427; }
}
body { background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif;
  max-width: 960px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { background: var(--box); border-left: 5px solid #c23b3b; padding: .8rem 1rem; }
.nothing { border-color: #2f7d4f; } .soft { color: var(--soft); }
svg { width: 100%; height: auto; } svg text { fill: var(--text); font-size: 13px; }
svg .soft { fill: var(--soft); } svg line { stroke: var(--line); }
table { border-collapse: collapse; } td, th { padding: .15rem .8rem .15rem 0; text-align: right; }
td:last-child, th:last-child { text-align: left; } th { font-weight: 600; }
.key { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; }
code { font-size: .92em; overflow-wrap: anywhere; }
"""


def accounts_of(history: History) -> list[tuple[float, Account]]:
    """The accounts of the process over time."""
    return [(one.at_s, one.accounts[history.pid]) for one in history.watch.moments
            if history.pid in one.accounts]  # fmt: skip


def area(history: History) -> Iterator[str]:
    """Resident memory over time, stacked by what it is for."""
    points = accounts_of(history)
    begin, end = points[0][0], max(points[-1][0], points[0][0] + 0.001)
    most = max(one.accounted for _, one in points) * 1.05 or 1.0
    width, height = WIDTH - LEFT, HEIGHT - BOTTOM

    def x(at_s: float) -> float:
        return LEFT + width * (at_s - begin) / (end - begin)

    def y(nbytes: float) -> float:
        return height * (1 - nbytes / most)

    yield f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="resident memory over time">'
    for number in range(GRID_LINES + 1):
        level = most * number / GRID_LINES
        yield (f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y(level):.1f}" y2="{y(level):.1f}"/>'
               f'<text class="soft" x="{LEFT - 8}" y="{max(12.0, y(level)):.1f}" '
               f'text-anchor="end">{level / 2**20:.0f} MiB</text>')  # fmt: skip
    below = [0.0] * len(points)
    for name, title in PARTS.items():
        above = [low + one.parts.get(name, 0.0) for low, (_, one) in zip(below, points)]
        if max(b - a for a, b in zip(below, above)) > 0:
            path = [f"{x(at):.1f},{y(v):.1f}" for (at, _), v in zip(points, above)]
            path += [f"{x(at):.1f},{y(v):.1f}" for (at, _), v in reversed([*zip(points, below)])]
            yield (f'<polygon points="{" ".join(path)}" fill="{FILLS[name]}">'
                   f"<title>{escape(title)}</title></polygon>")  # fmt: skip
        below = above
    at = x(history.moment.at_s)
    yield f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{height}" stroke-dasharray="4 3"/>'
    yield (f'<text class="soft" x="{LEFT}" y="{HEIGHT - 8}">{begin:.1f} s</text>'
           f'<text class="soft" x="{WIDTH}" y="{HEIGHT - 8}" text-anchor="end">{end:.1f} s</text>'
           "</svg>")  # fmt: skip


def bars(courses: list[Course]) -> Iterator[str]:
    """Call sites: their live memory, and the free memory that they pin."""
    most = max(one.site.live + one.site.pinned for one in courses) or 1.0
    width, height = WIDTH - BAR_LEFT - 90, BAR_HEIGHT * len(courses)
    yield f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="call sites">'
    for row, one in enumerate(courses):
        top, site = row * BAR_HEIGHT, one.site
        solid = max(0.0, site.live - site.rounding)
        name = one.name if len(one.name) <= 42 else one.name[:41] + "…"
        yield (f'<text x="{BAR_LEFT - 8}" y="{top + 16}" text-anchor="end">{escape(name)}'
               f"<title>{escape(one.title)}</title></text>")  # fmt: skip
        at = float(BAR_LEFT)
        for part, amount in (("live", solid), ("rounding", site.rounding), ("pinned", site.pinned)):
            length = width * amount / most
            yield (f'<rect x="{at:.1f}" y="{top + 3}" width="{length:.1f}" '
                   f'height="{BAR_HEIGHT - 6}" fill="{FILLS[part]}">'
                   f"<title>{escape(PARTS[part])}: {mib(amount)}</title></rect>")  # fmt: skip
            at += length
        yield (f'<text class="soft" x="{at + 6:.1f}" y="{top + 16}">'
               f"{mib(site.live + site.pinned)}</text>")  # fmt: skip
    yield "</svg>"


def account_table(account: Account) -> Iterator[str]:
    """What the resident memory is for."""
    yield "<table><tr><th>MiB</th><th>%</th><th>resident memory</th></tr>"
    for name, title in PARTS.items():
        amount = account.parts.get(name, 0.0)
        if amount > 0:
            yield (f"<tr><td>{amount / 2**20:.1f}</td><td>{100 * amount / account.rss:.1f}</td>"
                   f'<td><span class="key" style="background:{FILLS[name]}"></span>'
                   f"{escape(title)}</td></tr>")  # fmt: skip
    share = min(account.accounted, account.rss) / account.rss
    yield (f"<tr><th>{account.rss / 2**20:.1f}</th><th>{100 * share:.1f}</th>"
           "<th>accounted for</th></tr></table>")  # fmt: skip


def site_table(courses: list[Course]) -> Iterator[str]:
    """All call sites, in figures."""
    yield ("<table><tr><th>live MiB</th><th>pinned</th><th>rounding</th><th>blocks</th>"
           "<th>call site</th></tr>")  # fmt: skip
    for one in courses:
        site = one.site
        yield (f"<tr><td>{site.live / 2**20:.2f}</td><td>{site.pinned / 2**20:.2f}</td>"
               f"<td>{site.rounding / 2**20:.2f}</td><td>{site.blocks:.0f}</td>"
               f"<td><code>{escape(one.title)}</code></td></tr>")  # fmt: skip
    yield "</table>"


def page(history: History, verdict: Verdict, notes: list[str]) -> Iterator[str]:
    """All of it, in pieces."""
    title = f"Where the memory of {history.name} is"
    yield '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
    yield f'<h1>{escape(title)}</h1><p class="soft">{escape(head_of(history))}</p>'
    kind = "verdict nothing" if verdict.cause in ("nothing", "unknown") else "verdict"
    yield f'<div class="{kind}"><p>{escape(verdict.text)}</p>'
    yield f"<p>{escape(verdict.advice)}</p></div>"
    yield "<h2>Over time</h2>"
    yield from area(history)
    yield '<p class="soft">The dashed line is the moment that the rest describes.</p>'
    yield "<h2>What it is for</h2>"
    yield from account_table(history.account)
    courses = [one for one in history.courses if one.site.live + one.site.pinned > 0]
    if courses:
        yield "<h2>Call sites</h2>"
        yield from bars(courses[:BARS])
        yield from site_table(courses)
    for note in notes:
        yield f'<p class="soft">{escape(note)}</p>'
    yield "</body></html>\n"


def to_html(history: History, verdict: Verdict, notes: list[str]) -> str:
    """The file."""
    return "".join(page(history, verdict, notes))
