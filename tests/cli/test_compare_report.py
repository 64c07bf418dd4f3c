# SPDX-License-Identifier: MIT
"""The HTML report: complete, self-contained, and as a real browser shows it.

    scripts/test tests/cli/test_compare_report.py

With KEEP_SCREENSHOTS=<folder> the pictures of the pages, and the PDF, are stored there.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import Browser, Page, find_browser
from compare_lab import made_up
from conftest import ROOT
from table import each_row

pytest.importorskip("jinja2", reason="jinja2 is not installed: run scripts/setup")

from poolshim_cli.compare import pictures, report  # noqa: E402
from poolshim_cli.compare import results as keeping  # noqa: E402
from poolshim_cli.compare.summary import METRICS, summarise  # noqa: E402

RESULTS = ROOT / "tests" / "cli" / "golden" / "compare.json"
VOID = {"meta", "br"}
NASTY = "<script>alert(1)</script>\"'&" + "x" * 300

OVERFLOW = """[...document.querySelectorAll('body *')].filter(e => !e.closest('svg')
  && e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.tagName + ':' + e.textContent
  .slice(0, 40))"""
CLIPPED = """[...document.querySelectorAll('figure svg text')].filter(t => { const b = t.getBBox(),
  v = t.ownerSVGElement.viewBox.baseVal; return b.x < -1 || b.y < -1 || b.x + b.width > v.width + 1
  || b.y + b.height > v.height + 1 }).map(t => t.textContent)"""
COVERED = """[...document.querySelectorAll('figure svg')].flatMap(s => { const boxes =
  [...s.querySelectorAll('text:not(.tick)')].map(t => [t.textContent, t.getBBox()]); return boxes
  .flatMap(([n, a], i) => boxes.slice(i + 1).filter(([m, b]) => a.x < b.x + b.width - 1 && b.x <
  a.x + a.width - 1 && a.y < b.y + b.height - 4 && b.y < a.y + a.height - 4).map(([m]) => n + '/' +
  m)) })"""
SMALLEST = """Math.min(...[...document.querySelectorAll('figure svg text')].map(t => parseFloat(
  getComputedStyle(t).fontSize) * t.ownerSVGElement.getBoundingClientRect().width / 400))"""
COLOURS = """(names => { const p = document.createElement('p'); document.body.append(p); const c =
  names.map(n => { p.style.color = 'var(--' + n + ')'; return getComputedStyle(p).color });
  p.remove(); return c })(%s)"""


def html_of(results: keeping.Results) -> str:
    return report.to_html(results, summarise(results))


def nasty() -> keeping.Results:
    """Long names, many columns, words longer than a line, markup everywhere."""
    names = ["glibc", *(f"allocator-number-{at}-of-many" for at in range(9)), "glibc again"]
    made = made_up({name: 1 + 0.002 * at for at, name in enumerate(names)}, rounds=30)
    made.about["command"] = ["sh", "-c", NASTY]
    made.about["reproduce"] = "poolshim compare -- sh -c " + NASTY
    made.warnings.append(NASTY)
    made.columns[1].note, made.columns[2].env = NASTY, {"X": NASTY}
    made.columns[3].failure, made.columns[3].runs = NASTY, []
    made.missing.append(("other", NASTY))
    return made


class Outline(HTMLParser):
    """Checks that tags close, and collects what the tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(text)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attributes]

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def values(self, name: str) -> list[str]:
        return [value for _, found, value in self.attributes if found == name]


@each_row("make", [nasty, lambda: keeping.read(RESULTS)])
def test_report_is_one_whole_file(make: object) -> None:
    assert callable(make)
    text = html_of(make())
    outline = Outline(text)
    assert text.startswith("<!doctype html>")
    assert not {"script", "link", "img", "iframe", "object"} & set(outline.tags)
    assert not outline.values("href") and not outline.values("src")
    assert not re.search(r"url\(|@import|\bon\w+=", text.replace("&#34;", ""))
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    for named in outline.values("aria-labelledby"):
        assert set(named.split()) <= set(ids)
    assert outline.tags["title"] == 1 + outline.values("role").count("img")
    assert outline.tags["desc"] == outline.values("role").count("img") >= 5


def test_every_figure_of_the_table_is_in_the_report() -> None:
    results = keeping.read(RESULTS)
    text = html_of(results)
    for row in report.table.shown_rows(summarise(results)):
        for metric in METRICS:
            assert report.table.value_cell(row, metric) in text
    for word in ("ended by signal 11: Segmentation fault", "POOLSHIM_HARDEN=3", "Some CPU 9000",
                 "20140513", "not found: libsnmalloc.so", "hyperfine 1.15.0"):  # fmt: skip
        assert word in text
    assert "poolshim compare --runs 8 -- jq &#39;.[] | select(.size &gt; 10)&#39;" in text


def test_markup_in_names_stays_text() -> None:
    text = html_of(nasty())
    assert "<script>" not in text and "&lt;script&gt;alert(1)" in text


def test_report_without_curves_or_intervals() -> None:
    made = made_up({"glibc": 1.0, "poolshim": 0.9}, rounds=1)
    for column in made.columns:
        column.runs = [keeping.Run(1, 0, 0.5, None, 0.4, 1000)]
    text = html_of(made)
    assert "Memory over time" not in text and "Too few rounds" in text


def test_points_lie_inside_and_in_the_right_order() -> None:
    results = made_up({"glibc": 1.0, "slow": 1.5, "fast": 0.5}, memory=1.4)
    picture = pictures.scatter(results, summarise(results))
    x = {one.name: one.x for one in picture.marks}
    y = {one.name: one.y for one in picture.marks}
    assert x["fast"] < x["glibc"] < x["slow"] and y["slow"] < y["glibc"]
    for one in picture.marks:
        for across, down in ((one.x, one.y), *one.dots):
            assert 62 <= across <= pictures.WIDTH - pictures.RIGHT and 12 <= down <= 266
    forest = pictures.forest(results, summarise(results), "time")
    assert forest.one is not None
    for one in forest.marks:
        assert one.low <= one.x <= one.high
        assert (one.x < forest.one) == (one.name == "fast")


def test_labels_do_not_cover_one_another() -> None:
    placed = pictures.spread_labels([50, 50, 51, 250, 10], 16, 260)
    ordered = sorted(placed)
    assert all(b - a >= pictures.LABEL for a, b in zip(ordered, ordered[1:]))
    assert ordered[0] >= 16 and ordered[-1] <= 260
    assert placed[4] < placed[0] < placed[2] < placed[3]


@each_row(
    ("low", "high", "base", "expected"),
    [
        (0.98, 1.11, 10, [1.0, 1.05, 1.1]),
        (0, 2.2, 10, [0, 0.5, 1.0, 1.5, 2.0]),
        (0, 40 << 20, 2, [0, 8 << 20, 16 << 20, 24 << 20, 32 << 20, 40 << 20]),
        (1, 1, 10, [1]),
    ],
)
def test_ticks_are_round(low: float, high: float, base: int, expected: list[float]) -> None:
    assert pictures.round_values(low, high, 4, base) == pytest.approx(expected)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if find_browser() is None:
        pytest.skip("no Chromium is installed: run scripts/setup")
    with Browser() as found:
        yield found


@pytest.fixture(params=["usual", "nasty"])
def page_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    results = keeping.read(RESULTS) if request.param == "usual" else nasty()
    path = tmp_path / f"{request.param}.html"
    path.write_text(html_of(results))
    return path


def keep(page: Page, name: str, folder: Path) -> Path:
    path = Path(os.environ.get("KEEP_SCREENSHOTS", folder)) / f"{name}.png"
    page.screenshot(path)
    return path


@pytest.mark.parametrize("width", [320, 375, 768, 1280])
def test_browser_shows_it_at_every_width(
    browser: Browser, page_file: Path, width: int, tmp_path: Path
) -> None:
    page = browser.open(page_file, width, 812)
    shown = keep(page, f"{page_file.stem}-{width}", tmp_path)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(OVERFLOW) == []
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate(COVERED) == []
    assert page.evaluate(SMALLEST) >= (8 if width == 320 else 9)
    assert page.requests() == [page_file.as_uri()] and page.complaints() == []
    assert shown.stat().st_size > 50_000


def luminance(colour: str) -> float:
    """The luminance that WCAG defines, of a colour "rgb(r, g, b)"."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@each_row("scheme", ["light", "dark"])
def test_colours_are_told_from_the_ground(browser: Browser, scheme: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html_of(keeping.read(RESULTS)))
    page = browser.open(path, 1280, 900)
    page.prefer(scheme)
    keep(page, f"usual-{scheme}", tmp_path)
    names = ["ground", "panel", "text", "faint", "less", "more", *(f"c{n}" for n in range(8))]
    values = page.evaluate(COLOURS % names)
    colours = dict(zip(names, values))
    assert (luminance(colours["ground"]) < 0.2) == (scheme == "dark")
    for name in names[2:]:
        for ground in ("ground", "panel"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)


def test_paper_holds_it(browser: Browser, page_file: Path, tmp_path: Path) -> None:
    page = browser.open(page_file, 794, 1123)
    page.prefer("dark", "print")
    assert luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) > 0.9
    assert page.evaluate("document.documentElement.scrollWidth") == 794
    pdf = page.pdf()
    (Path(os.environ.get("KEEP_SCREENSHOTS", tmp_path)) / f"{page_file.stem}.pdf").write_bytes(pdf)
    assert pdf.startswith(b"%PDF-")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 1 <= pages <= (3 if page_file.stem == "usual" else 8), pages
